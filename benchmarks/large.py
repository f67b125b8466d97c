"""The large ledger: a million events, built once and shared by the subjects that need it."""

import sys
from pathlib import Path
from typing import Final

import treering
from workload import Workload

BATCH: Final = 1_000
_PROGRESS_EVENTS: Final = 100_000


def large_ledger(folder: Path, events: int) -> Path:
    """Return a ledger of so many events in ten sessions, built on first use."""
    path = folder / f"large-{events}.db"
    if path.exists():
        return path
    draft = folder / "large-draft.db"
    fill(draft, events)
    for suffix in ("", "-wal", "-shm"):
        if Path(f"{draft}{suffix}").exists():
            Path(f"{draft}{suffix}").rename(f"{path}{suffix}")
    return path


def fill(path: Path, events: int) -> None:
    """Make a ledger of so many events, in batches, without waiting for the disk."""
    workload = Workload()
    size = min(BATCH, events // 10)
    with treering.open(path, durability="normal", guard="off") as ledger:
        for number in range(events // size):
            ledger.append(workload.batch(number, size))
            made = (number + 1) * size
            if made % _PROGRESS_EVENTS == 0:
                print(f"  building: {made:,} of {events:,} events", file=sys.stderr, flush=True)
