"""Record a Clawser log in a session of a ledger, and export a session as a log."""

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
"""Events per append."""


class ImportedLog(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing a log into a session."""

    events: int
    """The number of events in the log."""
    added: int
    """The number of events that were new to the session."""
    changed: int
    """The number of recorded events with other content; the session keeps its own."""


def to_session(log: EventLog, session: Session) -> ImportedLog:
    """Record the events of ``log`` that the session does not have, in order.

    Each event is identified by its id within the session, so importing again adds nothing; neither
    does a log that was exported from the session.
    """
    digests: dict[str, bytes | None] = {}
    for recorded in session.events():
        name = _own_id(recorded) if _is_own(recorded) else recorded.event_id
        digests[name] = None if recorded.redacted else _digest(recorded.kind, recorded.payload)
    changed = 0
    fresh: list[NewEvent] = []
    for event_id, event in _identified(log.events, session.session_id):
        if isinstance(event, dict) and isinstance(event.get("id"), str) and event["id"] in digests:
            continue  # It was exported from this session.
        stated = state(event)
        if event_id in digests:
            before = digests[event_id]
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
    """Return a session as a log; imported events are unchanged.

    Failed runs, undone turns and events of kinds that Clawser does not have are left out; erased
    events are marked as such.
    """
    log = EventLog()
    events = visible(list(session.events()))
    log.load(converted for event in events for converted in _converted(event))
    return log


def identity_of(event: Any) -> str:
    """Return the identity of an event in its log: its id, or a constant if it has none.

    Events without ids are distinguished by their order, never by their content: ids outlive an
    erasure.
    """
    named = event.get("id") if isinstance(event, dict) else None
    return f"id {named}" if isinstance(named, str) else "line"


def event_id_of(session_id: str, key: str, occurrence: int) -> str:
    """Return the id of the event identified by ``key``, the same for every import."""
    identity = stringify([session_id, key, occurrence])
    return ID_PREFIX + sha256(identity.encode()).hexdigest()[:40]


def _digest(kind: str, payload: Any) -> bytes:
    return sha256(kind.encode() + b"\0" + canonical(payload, "payload")).digest()


def _identified(events: list[Any], session_id: str) -> Iterator[tuple[str, Any]]:
    """Yield each event with an id that is the same for every import."""
    seen: Counter[str] = Counter()
    for event in events:
        key = identity_of(event)
        seen[key] += 1
        yield event_id_of(session_id, key, seen[key]), event


def _converted(event: Event) -> Iterator[Any]:
    if event.kind not in TYPES and not event.event_id.startswith(ID_PREFIX):
        return
    if event.redacted or event.expired:
        content: Any = erased_content(event.kind)
    elif isinstance(event.payload, dict) and NOTE in event.payload:
        yield rebuild(event.kind, event.payload, origin=event.origin, ts_ms=event.ts_ms)
        return
    elif event.kind == "tool.result":
        content = content_from(event.kind, _with_error(event.payload))
    else:
        content = content_from(event.kind, event.payload if isinstance(event.payload, dict) else {})
    yield {
        "id": _own_id(event),
        "type": TYPES.get(event.kind, event.kind),
        "timestamp": event.ts_ms,
        "data": content,
        "source": "system" if event.source == "tool" else event.source,
    }


def _with_error(payload: Any) -> dict[str, Any]:
    """Return a tool result in which a synthetic output becomes the error."""
    fields = payload if isinstance(payload, dict) else {}
    if fields.get("status") != "synthetic":
        return fields
    rest = {name: value for name, value in fields.items() if name != "output"}
    return {**rest, "error": {"message": fields.get("output")}}


def _is_own(header: Header) -> bool:
    return header.kind in TYPES and not header.event_id.startswith(ID_PREFIX)


def _own_id(header: Header) -> str:
    """Return the exported id of an event that the ledger recorded itself."""
    return f"evt_{header.ts_ms}_{header.seq}"
