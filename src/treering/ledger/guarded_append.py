"""Amending: what is said of a session's past holds for the past as it was read, or is not said."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import Conflict
from treering.ledger import derived_texts
from treering.model.kinds import ERASURE_KINDS
from treering.model.parts import SessionRedone, SessionUndone
from treering.spine.run_entries import RunEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.derive.visible import Undone
    from treering.ledger.lineage import Lineage
    from treering.ledger.turn_bounds import Undoing
    from treering.model.events import Header

    Append = Callable[[Sequence[RunEntry], int], list[Header]]
    """Records entries behind a seq, or raises Conflict."""

LOOKS_MAX: Final = 20
"""How often an amendment looks at a session that others write to."""
PAGE: Final = 500
_REWRITING: Final = ERASURE_KINDS | {"session.undone", "session.redone"}
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
    entries: Sequence[RunEntry],
    read: ReadPosition,
    *,
    append: Append,
    redact: Callable[[str], object],
) -> Header | None:
    """Record a retelling right behind what was read; None if some of that is erased by now.

    Raises Conflict if the session has moved on.
    """
    if lineage.erased_since(read.ancestors):
        return None
    headers = append(entries, read.seq)
    told = next(header for header in headers if header.kind in derived_texts.KINDS)
    if lineage.erased_since(read.ancestors):
        # The erasure may have looked for retellings before this one was there. One that comes
        # later finds it.
        redact(told.event_id)
        return None
    return told


def append_text_later(
    lineage: Lineage,
    entries: Sequence[RunEntry],
    read: ReadPosition,
    *,
    append: Append,
    redact: Callable[[str], object],
) -> Header | None:
    """Record a retelling behind all that others said since; None if they undid or erased."""
    for _ in range(LOOKS_MAX):
        while page := lineage.headers_after(read.seq, PAGE):
            if any(header.kind in _REWRITING for header in page):
                return None
            read = msgspec.structs.replace(read, seq=page[-1].seq)
        with contextlib.suppress(Conflict):
            return append_text(lineage, entries, read, append=append, redact=redact)
    return None


def append_at_head(
    lineage: Lineage, make: Callable[[], RunEntry], *, append: Append, check: Callable[[], None]
) -> Header:
    """Record what is made of a session as it stands; if others write meanwhile, again."""
    for look in range(LOOKS_MAX):
        head = lineage.head_seq()
        check()
        try:
            return append([make()], head)[0]
        except Conflict:
            if look == LOOKS_MAX - 1:
                raise
    raise AssertionError


def undone(undoing: Undoing) -> RunEntry:
    """Return the event that hides turns."""
    part = SessionUndone(from_seq=undoing.from_seq, turns=undoing.turns)
    return _turning("undone", undoing.turns, part)


def redone(undone: Undone) -> RunEntry:
    """Return the event that shows them again."""
    part = SessionRedone(undone_seq=undone.seq, turns=undone.turns)
    return _turning("redone", undone.turns, part)


def _turning(verb: str, turns: int, part: SessionUndone | SessionRedone) -> RunEntry:
    noun = "turn" if turns == 1 else "turns"
    return RunEntry(
        kind=f"session.{verb}",
        summary=f"{turns} {noun} {verb}",
        refs=part.as_refs(),
        origin=None,
    )
