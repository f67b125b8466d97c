"""Power cuts by the thousand: the simulator of the tests, on every workload."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

CUTS: Final = 2_000
"""For each workload."""
CUTS_A_STORY: Final = 250
"""Then the workload is run again, with another seed."""


def run(cuts: int = CUTS) -> dict[str, dict[str, int]]:
    """Cut the power ``cuts`` times in each workload; count the cuts that did harm, by workload.

    Lost: an acknowledged event is gone. Broken: the file or its chain is, half of a batch is
    there, or so is a byte that was erased.
    """
    from broken.stories import WORKLOADS

    tasks = [
        (workload, seed, min(CUTS_A_STORY, cuts - done))
        for workload in WORKLOADS
        for seed, done in enumerate(range(0, cuts, CUTS_A_STORY))
    ]
    total = {workload: {"cuts": 0, "lost": 0, "broken": 0} for workload in WORKLOADS}
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for workload, outcome in pool.map(_cut_story, tasks):
            for name, count in outcome.items():
                total[workload][name] += count
    return total


def _cut_story(task: tuple[str, int, int]) -> tuple[str, dict[str, int]]:
    from broken.stories import cut_power, told

    workload, seed, cuts = task
    with told(workload, seed=seed) as story:
        aftermaths = [cut_power(story, 1_000_000 * (seed + 1) + number) for number in range(cuts)]
    return workload, {
        "cuts": cuts,
        "lost": sum(bool(aftermath.lost) for aftermath in aftermaths),
        "broken": sum(
            bool(aftermath.broken or aftermath.torn or aftermath.remaining)
            for aftermath in aftermaths
        ),
    }


if __name__ == "__main__":
    import json

    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    print(json.dumps(run(), indent=2))
