"""Appending what was derived from a session only if the session has not changed since."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import Conflict, RunClosed
from treering.ledger import erasure
from treering.model.events import Header, NewEvent
from treering.model.kinds import ERASURE_KINDS, HIDING_KINDS
from treering.model.parts import SessionRedone, SessionUndone
from treering.spine.run_events import make_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.derive.visible import Undone
    from treering.ledger.lineage import Lineage
    from treering.ledger.turn_bounds import Undoing

    Append = Callable[[Sequence[NewEvent], int], list[Header]]
    """Records events right after a seq, or raises Conflict."""

LOOKS_MAX: Final = 20
"""How often to look again at a session that others write to."""
PAGE: Final = 500
_REWRITING: Final = ERASURE_KINDS | HIDING_KINDS
"""What makes a summary wrong that was written without it."""


class ReadPosition(msgspec.Struct, frozen=True):
    """How far a session, and those that it was forked from, had come when they were read."""

    seq: int
    ancestors: dict[str, int]


def read_position(lineage: Lineage) -> ReadPosition:
    """Return how far a session has come. Ask before it is read."""
    return ReadPosition(lineage.head_seq(), lineage.ancestors())


def append_text(
    lineage: Lineage,
    events: Sequence[NewEvent],
    read: ReadPosition,
    *,
    append: Append,
    redact: Callable[[str], object],
) -> Header | None:
    """Record a summary right after what was read; None if some of that is erased by now.

    Raises Conflict if the session has moved on.
    """
    if lineage.erased_since(read.ancestors):
        return None
    headers = append(events, read.seq)
    summary = next(header for header in headers if header.kind in erasure.KINDS)
    if lineage.erased_since(read.ancestors):
        # The erasure may have looked for summaries before this one was there. One that comes
        # later finds it.
        redact(summary.event_id)
        return None
    return summary


def append_text_later(
    lineage: Lineage,
    events: Sequence[NewEvent],
    read: ReadPosition,
    *,
    append: Append,
    redact: Callable[[str], object],
) -> Header | None:
    """Record a summary after all that others said since; None if they undid or erased."""
    for _ in range(LOOKS_MAX):
        while page := lineage.after(Header, read.seq, PAGE):
            if any(header.kind in _REWRITING for header in page):
                return None
            read = msgspec.structs.replace(read, seq=page[-1].seq)
        # The run that it was to be part of may end, or be interrupted from elsewhere, meanwhile.
        with contextlib.suppress(Conflict, RunClosed):
            return append_text(lineage, events, read, append=append, redact=redact)
    return None


def append_at_head(
    lineage: Lineage, make: Callable[[], NewEvent], *, append: Append, check: Callable[[], None]
) -> Header:
    """Record an event that ``make`` derives from the session; if others write meanwhile, again."""
    for look in range(LOOKS_MAX):
        head = lineage.head_seq()
        check()
        try:
            return append([make()], head)[0]
        except Conflict:
            if look == LOOKS_MAX - 1:
                raise
    raise AssertionError


def undone(template: NewEvent, undoing: Undoing) -> NewEvent:
    """Return the event that hides turns."""
    part = SessionUndone(from_seq=undoing.from_seq, turns=undoing.turns)
    return _turning(template, "undone", undoing.turns, part)


def redone(template: NewEvent, undone: Undone) -> NewEvent:
    """Return the event that shows them again."""
    part = SessionRedone(undone_seq=undone.seq, turns=undone.turns)
    return _turning(template, "redone", undone.turns, part)


def _turning(
    template: NewEvent, verb: str, turns: int, part: SessionUndone | SessionRedone
) -> NewEvent:
    noun = "turn" if turns == 1 else "turns"
    return make_event(
        template, f"session.{verb}", f"{turns} {noun} {verb}", refs=part.as_refs(), origin=None
    )
