"""The guard: what looking for secrets adds to an append, and how well and fast it looks."""

import random
import statistics
from pathlib import Path
from typing import Any, Final

import treering
from report import Row, Section, at_least, at_most
from workload import SEED, Effort, Workload, settled_heap, timed

MODES: Final = ("off", "safe", "mask")


def run(effort: Effort, folder: Path) -> Section:
    """Measure the guard at append, then against its own corpus."""
    us = _append_us(effort, folder)
    extra = us["mask"] - us["off"]
    return Section(
        title="The secrets guard",
        rows=[
            at_most(
                "`mask` at append, extra CPU an event without a hit",
                extra,
                8,
                f"{extra:.1f} µs ({us['mask']:.1f} - {us['off']:.1f} µs)",
                unit="µs",
            ),
            Row(
                what="`safe` (the default) at append, the same",
                measured=f"{us['safe'] - us['off']:.1f} µs",
            ),
            *_corpus_rows(),
        ],
        notes=["At append: batches of 100 without waiting for the disk, the same events in turns."],
    )


def _append_us(effort: Effort, folder: Path) -> dict[str, float]:
    """Return the processor time of one event in a batch, by guard mode."""
    dice, workload = random.Random(SEED), Workload()
    ledgers: dict[str, Any] = {
        mode: treering.open(folder / f"{mode}.db", guard=mode, durability="normal")
        for mode in MODES
    }
    taken: dict[str, list[float]] = {mode: [] for mode in MODES}
    for at in range(effort.rounds * 2 + 1):
        batch = workload.batch(at)
        with settled_heap():
            for mode in dice.sample(MODES, k=len(MODES)):
                with timed() as spent:
                    ledgers[mode].append(batch)
                if at:  # The first batch opens sessions and warms the caches.
                    taken[mode].append(spent.cpu_s / len(batch) * 1e6)
    for ledger in ledgers.values():
        ledger.close()
    return {mode: statistics.median(values) for mode, values in taken.items()}


def _corpus_rows() -> list[Row]:
    import bench_secrets

    found = bench_secrets.run()
    recall, false = found["recall"], found["false_positive_rate"] * 100
    mended, held_out = found["unseen_recall"], found["held_out_recall"]
    unseen_false = found["unseen_false_rate"] * 100
    blind, blind_false = found["blind_recall"], found["blind_false_rate"] * 100
    speed, clean = found["mb_per_s"], found["clean_500_us"]
    return [
        at_least("secrets found in the corpus", recall, 0.97, f"{recall:.3f}", unit=""),
        at_most("false positives in the corpus", false, 0.1, f"{false:.2f} %", unit="%"),
        at_least(
            "secrets found in lines older than the rules",
            min(mended, held_out),
            0.95,
            f"{mended:.3f} of those the rules were mended with, {held_out:.3f} of the others",
            unit="",
        ),
        at_most(
            "false positives beside them", unseen_false, 0.1, f"{unseen_false:.2f} %", unit="%"
        ),
        at_least("secrets found in sets written blind", blind, 0.95, f"{blind:.3f}", unit=""),
        at_most(
            "false positives in a set written blind",
            blind_false,
            0.1,
            f"{blind_false:.2f} %",
            unit="%",
        ),
        at_least("masking mixed text", speed, 3, f"{speed:.1f} MB/s", unit="MB/s"),
        at_most("500 bytes of clean text", clean, 5, f"{clean:.1f} µs", unit="µs"),
    ]
