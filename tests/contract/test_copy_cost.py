"""What a copy takes: memory for its sessions, not for its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import treering
from builders import said
from copying import measured

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS: Final = 20
FEW: Final = 3_000
MANY: Final = 18_000
PAYLOAD: Final = {"text": "what was said " * 70}
"""A thousand bytes: the contents of the events that there are more of would take 15 MB."""
MEGABYTES_MAX: Final = 8


def test_the_memory_of_a_copy_does_not_grow_with_its_events(tmp_path: Path) -> None:
    few, many = (peak_of_copying(tmp_path / f"{count}.db", count) for count in (FEW, MANY))

    assert many - few < MEGABYTES_MAX


def peak_of_copying(path: Path, events: int) -> float:
    """Return the peak memory, in megabytes, of a process that copies so many events."""
    with treering.open(path, durability="normal", guard="off") as ledger:
        for start in range(0, events, 1_000):
            ledger.append(
                [
                    said(f"event {n}", session_id=f"s{n % SESSIONS}", payload=PAYLOAD)
                    for n in range(start, start + 1_000)
                ]
            )
    outcome = measured("copy", path, path.with_suffix(".copy"))
    assert outcome["events"] == events
    peak: float = outcome["peak_mb"]
    return peak
