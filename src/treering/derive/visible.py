"""The visible part of a timeline: runs that ended well, without what was undone or hidden.

Events without a run are visible. Events of a run become visible when it ends well; a run always
sees its own.

``LaterChanges`` finds what was undone or erased by reading a timeline backwards, as far as needed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.kinds import ERASURE_KINDS, HIDING_KINDS, RUN_ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.model.events import Event, Header


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What one session.undone event hides: from ``from_seq`` up to itself."""

    seq: int
    from_seq: int
    turns: int = 0


def undone_by(event: Header) -> Undone | None:
    """Return what an event hides if it is a readable undo, else None."""
    if event.kind != "session.undone" or event.redacted:
        return None
    refs = _numbers(event.refs, "from_seq", "turns")
    start = refs.get("from_seq")
    if start is None or not 0 < start <= event.seq:
        return None
    return Undone(seq=event.seq, from_seq=start, turns=refs.get("turns", 0))


def redone_by(event: Header) -> int | None:
    """Return the seq of the undo that an event reverts if it is a readable redo, else None."""
    if event.kind != "session.redone" or event.redacted:
        return None
    return _numbers(event.refs, "undone_seq").get("undone_seq")


def hidden_by(event: Header) -> frozenset[int]:
    """Return the seqs of the single events that an event hides: none unless it is a hiding."""
    if event.kind != "session.hidden" or event.redacted or not isinstance(event.refs, dict):
        return frozenset()
    seqs = event.refs.get("seqs")
    return frozenset(
        seq
        for seq in (seqs if isinstance(seqs, list) else ())
        if type(seq) is int and 0 < seq < event.seq
    )


class UndoFilter:
    """Finds undone ranges and hidden events while reading a timeline backwards."""

    def __init__(self) -> None:
        self._hidden: set[int] = set()
        self._cancelled: set[int] = set()
        self._below: int | None = None

    def is_visible(self, event: Header) -> bool:
        """Return whether ``event`` is visible. Must be called for every event, newest first."""
        if self._below is not None:
            if event.seq >= self._below:
                return False
            self._below = None
        if event.seq in self._hidden:
            return False
        if event.kind in HIDING_KINDS:
            self._hidden |= hidden_by(event)
            redone = redone_by(event)
            if redone is not None:
                self._cancelled.add(redone)
            undone = undone_by(event)
            if undone is not None and undone.seq not in self._cancelled:
                self._below = undone.from_seq
        return True

    @property
    def before(self) -> int | None:
        """Return the seq from which everything is currently hidden, if anything is."""
        return self._below


def visible(events: Sequence[Event], *, run_id: str | None = None) -> list[Event]:
    """Return the visible events of a whole timeline, in order."""
    ended = ended_runs(events)
    hidden = UndoFilter()
    shown = [
        event
        for event in reversed(events)
        if (event.run_id is None or event.run_id == run_id or event.run_id in ended)
        and hidden.is_visible(event)
    ]
    shown.reverse()
    return shown


def ended_runs(events: Iterable[Header]) -> set[str]:
    """Return the runs that ended well."""
    return {
        event.run_id
        for event in events
        if event.run_id is not None and RUN_ENDS.get(event.kind) == "ended"
    }


def _numbers(refs: Any, *names: str) -> dict[str, int]:
    if not isinstance(refs, dict):
        return {}
    return {name: refs[name] for name in names if type(refs.get(name)) is int}


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
