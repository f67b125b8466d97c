"""What later events say of earlier ones: that they were undone, or erased.

It is found on the way back from the end of a timeline, as far as one cares to go.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from treering.derive.visible import redone_by, undone_by
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from treering.model.events import Header


class LaterChanges:
    """What the events of a tail say of those before them. Ask only for what was looked at."""

    def __init__(self) -> None:
        self._below: int | None = None
        self._cancelled: set[int] = set()
        self._hidden: list[tuple[int, int]] = []
        """Stretches that are undone: minus the seq behind the last, and the first. Rising."""
        self._reaches: list[tuple[int, int]] = []
        """Events that change what is before them, and from where on. The last one first."""

    def add(self, header: Header) -> None:
        """Take in an event. Come with every one, from the last to the first."""
        if header.kind in ERASURE_KINDS:
            # A state that was found before an erasure may count what is gone.
            self._reaches.append((header.seq, 1))
        if self._below is not None:
            if header.seq >= self._below:
                return
            self._below = None
        taken_back = redone_by(header)
        if taken_back is not None:
            self._cancelled.add(taken_back)
            self._reaches.append((header.seq, taken_back))
        undone = undone_by(header)
        if undone is not None and undone.seq not in self._cancelled:
            self._below = undone.from_seq
            self._hidden.append((-undone.seq, undone.from_seq))
            self._reaches.append((undone.seq, undone.from_seq))

    def is_undone(self, seq: int) -> bool:
        """Whether the event at ``seq`` is undone."""
        # Of the stretches that end behind it, the one that ends first: none lies in another.
        at = bisect_right(self._hidden, (-seq - 1, seq + 1)) - 1
        return at >= 0 and self._hidden[at][1] <= seq < -self._hidden[at][0]

    def invalid_from(self, seq: int) -> int | None:
        """Return from where on a state at ``seq`` is not what it was; None if it is."""
        starts = [start for marked, start in self._reaches if start <= seq < marked]
        return min(starts, default=None)
