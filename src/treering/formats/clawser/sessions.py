"""A log of Clawser's as a session of a ledger, and a session as a log."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.visible import visible
from treering.formats.clawser.kinds import NOTE, TYPES, content_from, erased_content, rebuild, state
from treering.formats.clawser.log import EventLog
from treering.formats.clawser.text import stringify
from treering.model.codec import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.sessions import Session
    from treering.model.events import Event, Header, NewEvent

ID_PREFIX: Final = "clawser-"
BATCH: Final = 500
"""Events that are recorded at once."""


class ImportedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a log that was taken into a session."""

    events: int
    """How many the log has."""
    added: int
    """How many were not in the session before."""
    changed: int
    """How many are there with another content; the session keeps what it has."""


def to_session(log: EventLog, session: Session) -> ImportedLog:
    """Record the events of ``log`` that the session does not have, in their order.

    Each is known by its own id within the session, so doing it again adds nothing; nor does a log
    that came out of the session itself.
    """
    known: dict[str, bytes | None] = {}
    for recorded in session.events():
        name = _own_id(recorded) if _is_own(recorded) else recorded.event_id
        known[name] = None if recorded.redacted else _digest(recorded.kind, recorded.payload)
    changed = 0
    fresh: list[NewEvent] = []
    for event_id, event in _identified(log.events, session.session_id):
        if isinstance(event, dict) and isinstance(event.get("id"), str) and event["id"] in known:
            continue  # It came out of this session.
        stated = state(event)
        if event_id in known:
            before = known[event_id]
            changed += before is not None and before != _digest(stated.kind, stated.payload)
            continue
        fresh.append(
            session.new_event(
                stated.kind,
                stated.summary,
                payload=stated.payload,
                refs=stated.refs,
                event_id=event_id,
                ts_ms=stated.ts_ms,
                source=stated.source,
                origin=stated.origin,
            )
        )
    for start in range(0, len(fresh), BATCH):
        session.append(fresh[start : start + BATCH])
    return ImportedLog(events=log.size, added=len(fresh), changed=changed)


def from_session(session: Session) -> EventLog:
    """Return a session as a log: what came from one as it was, the rest in Clawser's words.

    Runs that did not end well and turns that were undone are left out, and so are events of kinds
    that Clawser has no word for; those whose content was erased are there, and say so.
    """
    log = EventLog()
    told = visible(list(session.events()))
    log.load(spelt for event in told for spelt in _spelt(event))
    return log


def known_by(event: Any) -> str:
    """Return what tells an event from others of its log: its id, or else that it has none.

    Those without are told by their order, and never by what they say: ids outlast an erasure.
    """
    named = event.get("id") if isinstance(event, dict) else None
    return f"id {named}" if isinstance(named, str) else "line"


def event_id_of(session_id: str, key: str, occurrence: int) -> str:
    """Return the id of an event that is known by ``key``: the same whenever it is brought in."""
    told = stringify([session_id, key, occurrence])
    return ID_PREFIX + sha256(told.encode()).hexdigest()[:40]


def _digest(kind: str, payload: Any) -> bytes:
    return sha256(kind.encode() + b"\0" + canonical(payload, "payload")).digest()


def _identified(events: list[Any], session_id: str) -> Iterator[tuple[str, Any]]:
    """Give each event with an id that is the same whenever the log is taken in."""
    seen: Counter[str] = Counter()
    for event in events:
        key = known_by(event)
        seen[key] += 1
        yield event_id_of(session_id, key, seen[key]), event


def _spelt(event: Event) -> Iterator[Any]:
    if event.kind not in TYPES and not event.event_id.startswith(ID_PREFIX):
        return
    if event.redacted or event.expired:
        content: Any = erased_content(event.kind)
    elif isinstance(event.payload, dict) and NOTE in event.payload:
        yield rebuild(event.kind, event.payload, origin=event.origin, ts_ms=event.ts_ms)
        return
    elif event.kind == "tool.result":
        content = content_from(event.kind, _told_in_clawsers_words(event.payload))
    else:
        content = content_from(event.kind, event.payload if isinstance(event.payload, dict) else {})
    yield {
        "id": _own_id(event),
        "type": TYPES.get(event.kind, event.kind),
        "timestamp": event.ts_ms,
        "data": content,
        "source": "system" if event.source == "tool" else event.source,
    }


def _told_in_clawsers_words(payload: Any) -> dict[str, Any]:
    """Return an outcome in which what stands in for a result is its error."""
    told = payload if isinstance(payload, dict) else {}
    if told.get("status") != "synthetic":
        return told
    rest = {name: value for name, value in told.items() if name != "output"}
    return {**rest, "error": {"message": told.get("output")}}


def _is_own(header: Header) -> bool:
    return header.kind in TYPES and not header.event_id.startswith(ID_PREFIX)


def _own_id(header: Header) -> str:
    """Return the id under which an event of the ledger's own goes out."""
    return f"evt_{header.ts_ms}_{header.seq}"
