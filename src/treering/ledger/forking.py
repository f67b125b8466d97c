"""Forking: where a fork leaves the session that it is made from, and the event that opens it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.ledger.turn_bounds import turn_end
from treering.model.codec import decode, encode
from treering.model.kinds import RUN_ENDS
from treering.model.parts import SessionForked
from treering.spine.words import new_id, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.lineage import Lineage
    from treering.ledger.records import EventLocation
    from treering.ledger.sessions import Session
    from treering.model.events import Event, NewEvent
    from treering.model.sessions import SessionSettings
    from treering.model.views import OpenRun

_NAMED: Final = re.compile(r"(?:-fork-[0-9a-f]{8})+$")
FIRST_CHARACTERS_MAX: Final = 180
LOOKS_MAX: Final = 20
"""How often a fork looks at a session that others write to."""


def fork_name(session_id: str) -> str:
    """Return a fresh name for a fork: that of the first session, however often it was forked."""
    first = _NAMED.sub("", session_id)
    return f"{first[:FIRST_CHARACTERS_MAX]}-fork-{new_id()[-8:]}"


def turn_end_of(
    lineage: Lineage, event: Event | None, *, running: Callable[[], list[OpenRun]]
) -> int | None:
    """Return the last seq of an event's turn; None if the event is not of the lineage."""
    segment = None if event is None else lineage.segment_of(event.seq)
    if event is None or segment is None or segment.session_id != event.session_id:
        return None
    return turn_end(lineage, event, under_way={run.run_id for run in running()})


def seq_of(lineage: Lineage, place: EventLocation | None) -> int | None:
    """Return the seq of an event, whether or not it is erased; None if it is not of the lineage."""
    segment = None if place is None else lineage.segment_of(place.seq)
    same = place is not None and segment is not None and segment.session_id == place.session_id
    return place.seq if place is not None and same else None


def last_end(lineage: Lineage, *, running: Callable[[], list[OpenRun]]) -> int:
    """Return the last seq that is of no turn under way; 0 if there is none."""
    seq = 0
    for _ in range(LOOKS_MAX):
        last = next(iter(lineage.headers_before(None, 1)), None)
        seq = 0 if last is None else last.seq
        # Runs without an owner may never end; what they said does not count in a fork either.
        before = min((run.first_seq - 1 for run in running()), default=seq)
        if before < seq or last is None or last.run_id is None or last.kind in RUN_ENDS:
            return min(before, seq)
        # It was in the midst of a run that has ended since: look again.
    return seq


def forked(
    child: Session,
    settings: SessionSettings,
    *,
    parent: str,
    seq: int,
    at: str | None,
    ts_ms: int | None = None,
) -> NewEvent:
    """Return the event that opens ``child`` with the past of ``parent`` up to ``seq``."""
    part = SessionForked(
        parent=parent, at_seq=seq, at_event=at, channel=settings.channel, mode=settings.mode
    )
    return child.new_event(
        "session.forked",
        shorten(f"forked from {parent} at {seq}"),
        payload=decode(encode(settings)),
        refs=part.as_refs(),
        ts_ms=ts_ms,
    )
