"""What counts of a timeline: runs that ended well, and nothing that was undone.

Events without a run count. Those of a run count from its end on, if it ended well; those of the
run that asks always do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.model.events import Event, Header


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What one session.undone event hides: from ``from_seq`` up to itself."""

    seq: int
    from_seq: int
    turns: int = 0


def undone_by(event: Header) -> Undone | None:
    """Return what an event hides, if it is an undo that can be read."""
    if event.kind != "session.undone" or event.redacted:
        return None
    told = _numbers(event.refs, "from_seq", "turns")
    start = told.get("from_seq")
    if start is None or not 0 < start <= event.seq:
        return None
    return Undone(seq=event.seq, from_seq=start, turns=told.get("turns", 0))


def redone_by(event: Header) -> int | None:
    """Return the seq of the undo that an event takes back, if it is a redo that can be read."""
    if event.kind != "session.redone" or event.redacted:
        return None
    return _numbers(event.refs, "undone_seq").get("undone_seq")


class Hidden:
    """The stretches that are undone, found on the way back from the end of a timeline."""

    def __init__(self) -> None:
        self._cancelled: set[int] = set()
        self._below: int | None = None

    def passes(self, event: Header) -> bool:
        """Whether ``event`` counts. Ask for every event, from the last to the first."""
        if self._below is not None:
            if event.seq >= self._below:
                return False
            self._below = None
        taken_back = redone_by(event)
        if taken_back is not None:
            self._cancelled.add(taken_back)
        undone = undone_by(event)
        if undone is not None and undone.seq not in self._cancelled:
            self._below = undone.from_seq
        return True

    @property
    def before(self) -> int | None:
        """Return the seq from which on everything is hidden just now, if anything is."""
        return self._below


def visible(events: Sequence[Event], *, run_id: str | None = None) -> list[Event]:
    """Return those of a whole timeline that count, in order."""
    ended = ended_runs(events)
    hidden = Hidden()
    found = [
        event
        for event in reversed(events)
        if (event.run_id is None or event.run_id == run_id or event.run_id in ended)
        and hidden.passes(event)
    ]
    found.reverse()
    return found


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
