"""What later events change about earlier ones: they were undone or erased.

Found by reading a timeline backwards, as far as needed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from treering.derive.visible import hidden_by, redone_by, undone_by
from treering.model.kinds import ERASURE_KINDS, HIDING_KINDS

if TYPE_CHECKING:
    from treering.model.events import Header

CHANGING_KINDS: Final = ERASURE_KINDS | HIDING_KINDS
"""The kinds of events that change earlier ones."""


class LaterChanges:
    """What the last events of a timeline change about those before them.

    Query only what was added.
    """

    def __init__(self) -> None:
        self._below: int | None = None
        self._cancelled: set[int] = set()
        self._hidden: list[tuple[int, int]] = []
        """Undone ranges as (-end, first), ascending; ``end`` is exclusive."""
        self._hidden_seqs: set[int] = set()
        self._reaches: list[tuple[int, int]] = []
        """Events that change earlier ones, and the first seq they change; newest first."""

    def add(self, header: Header) -> None:
        """Add an event. Those of CHANGING_KINDS must be added newest first, without gaps."""
        if header.kind in ERASURE_KINDS:
            # A state computed before an erasure may count erased events.
            self._reaches.append((header.seq, 1))
        if self._below is not None:
            if header.seq >= self._below:
                return
            self._below = None
        redone = redone_by(header)
        if redone is not None:
            self._cancelled.add(redone)
            self._reaches.append((header.seq, redone))
        if seqs := hidden_by(header):
            self._hidden_seqs |= seqs
            self._reaches.append((header.seq, min(seqs)))
        undone = undone_by(header)
        if undone is not None and undone.seq not in self._cancelled:
            self._below = undone.from_seq
            self._hidden.append((-undone.seq, undone.from_seq))
            self._reaches.append((undone.seq, undone.from_seq))

    def is_undone(self, seq: int) -> bool:
        """Return whether the event at ``seq`` is undone or hidden."""
        if seq in self._hidden_seqs:
            return True
        # Ranges are disjoint: check the one that ends first after ``seq``.
        at = bisect_right(self._hidden, (-seq - 1, seq + 1)) - 1
        return at >= 0 and self._hidden[at][1] <= seq < -self._hidden[at][0]

    def invalid_from(self, seq: int) -> int | None:
        """Return the first seq that later events change in a state at ``seq``; None if none do."""
        starts = [start for marked, start in self._reaches if start <= seq < marked]
        return min(starts, default=None)
