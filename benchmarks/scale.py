"""Scale: the last hundred headers of a large ledger, against a small one, and its verification."""

import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import treering
from large import fill, large_ledger
from report import Row, Section, at_most
from workload import AGENT, SCOPE, SEED, Effort, session_name, timed

SMALL: Final = 1_000
CALLS: Final = 20
VERIFY_US: Final = 5.0


def run(effort: Effort, folder: Path) -> Section:
    """Measure the tail of a session and of a scope, small and large in turns."""
    fill(folder / "small.db", SMALL)
    large = large_ledger(folder.parent, effort.large)
    rows = []
    with (
        treering.open(folder / "small.db", guard="off") as few,
        treering.open(large, guard="off") as many,
    ):
        for what, tail in (("of a session", _session_tail), ("of a scope", _scope_tail)):
            small_us, large_us = _compare(tail, few, many, effort.repeats * 4)
            rows.append(
                at_most(
                    f"last 100 headers {what}, {effort.large:,} events against {SMALL:,}",
                    large_us / small_us,
                    1.3,
                    f"{large_us / small_us:.2f} x ({large_us:.0f} : {small_us:.0f} µs)",
                )
            )
        rows.append(_verifying(many))
    return Section(title="Scale", rows=rows)


def _verifying(ledger: treering.Ledger) -> Row:
    with timed() as spent:
        proved = ledger.admin.verify()
    if not proved.intact:
        raise AssertionError(f"the ledger is broken: {proved.first_broken}")
    wall_us, cpu_us = (one / proved.events * 1e6 for one in (spent.wall_s, spent.cpu_s))
    cores = len(os.sched_getaffinity(0))
    shown = f"{wall_us:.1f} µs an event on {cores} cores (CPU {cpu_us:.1f} µs)"
    return at_most(f"verify of {proved.events:,} events", wall_us, VERIFY_US, shown, "µs")


def _session_tail(ledger: treering.Ledger) -> list[Any]:
    session = ledger.session(session_name(3), scope=SCOPE, agent=AGENT)
    return list(session.headers(last=100))


def _scope_tail(ledger: treering.Ledger) -> list[Any]:
    return ledger.headers(SCOPE, last=100).items


def _compare(
    tail: Callable[[treering.Ledger], list[Any]],
    few: treering.Ledger,
    many: treering.Ledger,
    rounds: int,
) -> tuple[float, float]:
    """Return the median microseconds on both."""
    dice = random.Random(SEED)
    taken: dict[int, list[float]] = {0: [], 1: []}
    for at in range(rounds + 1):
        for which in dice.sample((0, 1), k=2):
            ledger = (few, many)[which]
            for _ in range(CALLS):
                spent = _time(tail, ledger)
                if at:  # The first round warms the caches.
                    taken[which].append(spent * 1e6)
    return statistics.median(taken[0]), statistics.median(taken[1])


def _time(tail: Callable[[treering.Ledger], list[Any]], ledger: treering.Ledger) -> float:
    before = time.perf_counter()
    found = tail(ledger)
    spent = time.perf_counter() - before
    if len(found) != 100:
        raise AssertionError(f"read {len(found)} headers, not 100")
    return spent
