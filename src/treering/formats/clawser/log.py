"""Clawser's EventLog: append, query, serialize, derive; recorded in a session and exported."""

from __future__ import annotations

import contextlib
import copy
import re
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from treering.clock import now_ms
from treering.derive.visible import visible
from treering.errors import InvalidInput
from treering.formats.clawser import views
from treering.formats.clawser.kinds import NOTE, TYPES, content_from, erased_content, rebuild, state
from treering.formats.clawser.text import UnreadLine, parse, parse_lines, stringify
from treering.model.codec import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.ledger.sessions import Session
    from treering.model.events import Event, Header, NewEvent

_SEQUENCE: Final = re.compile(r"_([0-9]{1,18})\Z")


class EventLog:
    """The events of one conversation, in order. Events passed in and returned are copies."""

    def __init__(
        self,
        max_size: int | None = None,
        on_append: Callable[[dict[str, Any]], None] | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._events: list[Any] = []
        self._next = 0
        self._max_size = max_size or 0
        self._on_append = on_append
        self._clock = clock

    def __repr__(self) -> str:
        return f"EventLog({self.size} events)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventLog) and self._events == other._events

    __hash__ = None  # type: ignore[assignment]  # It is mutable.

    # Writing.

    def append(
        self,
        type: str,  # noqa: A002  (the format's own name)
        data: Any = None,
        source: str = "system",
    ) -> str:
        """Add an event and return its id; above ``max_size`` the oldest is removed.

        Errors of ``on_append`` are ignored. Raises InvalidInput if ``data`` is not JSON.
        """
        if not isinstance(type, str) or not isinstance(source, str):
            raise InvalidInput("type and source must be text", hint="see the table of types")
        content = parse(stringify({} if data is None else data))
        now_ms = self._clock()
        event = {
            "id": f"evt_{now_ms}_{self._next}",
            "type": type,
            "timestamp": now_ms,
            "data": content,
            "source": source,
        }
        self._next += 1
        self._events.append(event)
        if self._max_size > 0:
            del self._events[: -self._max_size]
        if self._on_append is not None:
            with contextlib.suppress(Exception):
                self._on_append(copy.deepcopy(event))
        return str(event["id"])

    def load(self, events: Iterable[Any]) -> None:
        """Replace all events with ``events``; new ids continue after theirs."""
        self._replace([parse(stringify(event)) for event in events])

    def _replace(self, events: list[Any]) -> None:
        self._events = events
        ids = (event.get("id") for event in self._events if isinstance(event, dict))
        matches = (_SEQUENCE.search(id_) for id_ in ids if isinstance(id_, str))
        used = [int(match[1]) + 1 for match in matches if match]
        self._next = max([self.size, *used])

    def clear(self) -> None:
        """Remove all events and restart the numbering at 0."""
        self._events = []
        self._next = 0

    # Reading.

    @property
    def events(self) -> list[Any]:
        """Return a copy of all events."""
        return copy.deepcopy(self._events)

    @property
    def size(self) -> int:
        """Return the number of events."""
        return len(self._events)

    def query(
        self,
        *,
        type: str | None = None,  # noqa: A002  (the format's own name)
        source: str | None = None,
        limit: int | None = None,
    ) -> list[Any]:
        """Return the matching events; with a ``limit`` above 0, only the last of them."""
        events = [
            event
            for event in self._events
            if (not type or views.type_of(event) == type)
            and (not source or (isinstance(event, dict) and event.get("source") == source))
        ]
        return copy.deepcopy(events[-limit:] if limit and limit > 0 else events)

    def summary(self) -> dict[str, int]:
        """Return the number of events of each type."""
        return dict(Counter(_counted_as(event) for event in self._events))

    # Lines.

    @classmethod
    def from_jsonl(cls, text: str | bytes | None) -> Self:
        """Return the log in ``text``; bad lines are skipped, see ``read_jsonl``."""
        log = cls()
        log._replace(parse_lines(text or "").values)
        return log

    def to_jsonl(self) -> str:
        """Return one line per event, without a final newline."""
        return "\n".join(stringify(event) for event in self._events)

    # Deriving.

    def derive_session_history(self, system_prompt: str | None = None) -> list[dict[str, Any]]:
        """Return the messages for a model call; see ``session_history``."""
        return copy.deepcopy(views.session_history(self._events, system_prompt))

    def derive_tool_call_log(self, *, time_zone: str = "UTC") -> list[dict[str, Any]]:
        """Return the finished tool calls, latest first, with the time of day in ``time_zone``."""
        return copy.deepcopy(views.tool_call_log(self._events, time_zone=time_zone))

    def derive_goals(self) -> list[dict[str, Any]]:
        """Return the goals in their latest state."""
        return copy.deepcopy(views.goals(self._events))

    def slice_to_turn_end(self, event_id: str) -> list[Any] | None:
        """Return all events up to the end of an event's turn; None if the event does not exist."""
        end = views.turn_end(self._events, event_id)
        return None if end is None else copy.deepcopy(self._events[:end])


class ParsedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log and the lines that could not be read."""

    log: EventLog
    lines: int
    bad: int
    bad_lines: tuple[UnreadLine, ...]
    """The first of these lines."""


def read_jsonl(text: str | bytes) -> ParsedLog:
    """Return the log in ``text``, and the lines that are not events."""
    parsed = parse_lines(text)
    log = EventLog()
    log._replace(parsed.values)  # The values are not shared, so no copy is needed.
    return ParsedLog(log=log, lines=parsed.lines, bad=parsed.bad, bad_lines=parsed.bad_lines)


def _counted_as(event: Any) -> str:
    # A browser shows a missing name like this.
    named = event.get("type", "undefined") if isinstance(event, dict) else "undefined"
    return named if isinstance(named, str) else stringify(named)


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
        name = _exported_id(recorded) if _is_own(recorded) else recorded.event_id
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


def _exported_id(event: Event) -> str:
    """Return the id that ``from_session`` gives an event without an id of ``to_session``."""
    if event.redacted or not isinstance(event.payload, dict) or NOTE not in event.payload:
        return _own_id(event)
    # It was imported from an older version, and is identified by its content.
    exported = rebuild(event.kind, event.payload, origin=event.origin, ts_ms=event.ts_ms)
    named = exported.get("id") if isinstance(exported, dict) else None
    return named if isinstance(named, str) else _own_id(event)


def _own_id(header: Header) -> str:
    """Return the exported id of an event that the ledger recorded itself."""
    return f"evt_{header.ts_ms}_{header.seq}"
