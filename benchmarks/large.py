"""The large ledger: a million events, built once and shared by the subjects that need it."""

import hashlib
import sys
from pathlib import Path
from typing import Final

import treering
from workload import Workload

BATCH: Final = 1_000
_PROGRESS_EVENTS: Final = 100_000


def large_ledger(folder: Path, events: int) -> Path:
    """Return a ledger of so many events in ten sessions, built on first use."""
    path = folder / f"large-{events}-{layout()}.db"
    if not path.exists():
        draft = folder / "draft.db"
        fill(draft, events)
        draft.rename(path)
        Path(f"{draft}.lock").unlink(missing_ok=True)
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


def layout() -> str:
    """Return a mark that changes with the schema, so that a ledger that was kept still fits."""
    sources = Path(treering.__file__).parent.rglob("*.sql")
    text = b"".join(source.read_bytes() for source in sorted(sources))
    return hashlib.sha256(text).hexdigest()[:8]
