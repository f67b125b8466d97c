"""Keyed records for an agent that must continue when the ledger fails.

    put ─► the ledger ─► (fails) memory and spool ─► later, in order, once ─► the ledger
    get ─► what waits ─► the ledger ─► (fails) what was last seen

Within the process, records are what they would be with a ledger that works: versions are compared,
and what was put is read. Erasing never waits: it raises, so that nothing seems to be erased.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from treering.adapters.backlog import Backlog, BacklogStatus, Spool
from treering.clock import now_ms
from treering.errors import (
    Closed,
    Conflict,
    DuplicateEvent,
    InvalidInput,
    StorageError,
    TreeringError,
)
from treering.lazy import lazy_logger
from treering.ledger.drafts import without_bytes
from treering.locks import Lock
from treering.model.events import SCHEMA_VERSION, Event, Header, KeyedEvent, NewEvent
from treering.model.scopes import Scope, parse_scope
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from treering.ledger.keyed_records import KeyedRecords, LedgerRecords
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.receipts import RedactReceipt

SEEN_BYTES_MAX: Final = 32 * 1024 * 1024
"""Records that are kept in memory, for the time when the ledger cannot be read."""
UNSTORABLE_MAX: Final = 100
"""The last changes that cannot be stored, which are kept in memory."""
_WAITING: Final = 2**62
"""Positions of events that wait: after all that are recorded."""
_Key = tuple[str, str, str]
_log: Final = lazy_logger("treering")


class RecordBuffer(BacklogStatus):
    """A buffer between the records of an adapter and the ledger. Safe to share between threads.

    With ``strict`` it does nothing, and every error is raised.
    """

    def __init__(self, ledger: Ledger, name: str, *, strict: bool) -> None:
        """Take the ledger, and the name of the adapter."""
        self._ledger = ledger
        self._access: LedgerRecords = ledger.record_access
        self._strict = strict
        self._overlay: dict[_Key, list[Event]] = {}
        """Events that are not recorded, by key."""
        self._unstorable: deque[list[NewEvent]] = deque()
        """Changes that the ledger can never store."""
        self._unopened: dict[tuple[str, str], Session] = {}
        """Sessions whose opening could not be recorded."""
        self._position = _WAITING
        self._seen = RecentValues[_Key, Event](SEEN_BYTES_MAX, lambda event: event.payload_bytes)
        self._reported_in: NewEvent | None = None
        self._lock = Lock()
        lines = None if strict else _BatchLines(self._access, name)
        self._backlog = Backlog[list[NewEvent]](self._record, self._report, lines=lines)
        for batch in self._backlog.waiting:
            self._overlay_events(batch)
            self._reported_in = batch[-1]

    def records(
        self, scope: str, name: str, *, session_id: str | None = None, agent: str
    ) -> KeyedRecords:
        """Return records as ``ledger.records`` does, which go through this buffer."""
        access = self._access if self._strict else self
        return self._ledger.records(scope, name, session_id=session_id, agent=agent, access=access)

    def open(self, session: Session) -> None:
        """Record the opening of a session, now or before its first change."""
        try:
            session.open()
        except StorageError as error:
            if self._strict or isinstance(error, Closed):
                raise
            with self._lock.guard, self._lock:
                self._backlog.postpone(error)
                self._unopened[session.scope, session.session_id] = session

    def events(self, session: Session, *, kinds: Sequence[str], last: int | None) -> list[Event]:
        """Return the events of a session as ``session.events`` does, with those that wait."""
        try:
            stored = list(session.events(kinds=kinds, last=last))
        except StorageError as error:
            if self._strict:
                raise
            self._note_unread(error)
            stored = [event for key in self._seen.all_keys() if (event := self._seen.get(key))]
        with self._lock.guard, self._lock:
            waiting = [event for events in self._overlay.values() for event in events]
        session_key = (session.scope, session.session_id)
        unique = {
            event.event_id: event
            for event in [*stored, *waiting]
            if (event.scope, event.session_id) == session_key and event.kind in kinds
        }
        return sorted(unique.values(), key=lambda event: event.position)

    def redact(self, scope: str, **selected: Any) -> RedactReceipt:
        """Erase events as ``ledger.redact`` does, after what waits is recorded."""
        with self._lock.guard, self._lock:
            if not self._backlog.drain() and self.error is not None:
                raise self.error
            self._overlay.clear()
            self._seen.drop(lambda _: True)
        return self._access.redact(scope, **selected)

    # Writing.

    @property
    def store(self) -> RecordBuffer:
        """Return what finds the events of keys: this."""
        return self

    def append(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record events, all or none, or keep them until that works."""
        self._write_due()
        with self._lock.guard, self._lock:
            if self._backlog.waiting:
                return self._keep(events, None)
            if self._unstorable:
                self._check_expected(events)
        try:
            rebased = [self._rebased(event) for event in events]
            headers = self._access.append(rebased)
        except (Closed, Conflict, DuplicateEvent):
            raise
        except TreeringError as error:
            with self._lock.guard, self._lock:
                return self._keep(events, error)
        for event, header in zip(rebased, headers, strict=True):
            self._see(event, header)
        if self._overlay:
            with self._lock.guard, self._lock:
                self._drop_overlay(rebased)
        return headers

    def _keep(self, events: Sequence[NewEvent], error: TreeringError | None) -> list[Header]:
        """Keep events that could not be recorded, or that come after others that could not."""
        at_ms = now_ms()
        batch = [
            msgspec.structs.replace(
                without_bytes(event),
                event_id=event.event_id or new_id(),
                ts_ms=event.ts_ms or at_ms,
            )
            for event in events
        ]
        self._check_expected(batch)
        self._reported_in = batch[-1]
        headers: list[Header] = [*self._overlay_events(batch)]
        if error is not None and not isinstance(error, StorageError):
            self._set_aside(batch, error)
            return headers
        if error is not None:
            self._backlog.postpone(error)
        self._backlog.add(batch)
        return headers

    def _record(self, batch: list[NewEvent]) -> None:
        """Record a batch that has waited; the last one of its events tells whether it is there."""
        try:
            if not self._access.is_recorded(batch[-1]):
                for event in batch:
                    session_key = (event.scope, event.session_id)
                    if session_key in self._unopened:
                        self._unopened[session_key].open()
                        del self._unopened[session_key]
                self._access.append([self._rebased(event) for event in batch])
        except InvalidInput as error:
            self._set_aside(batch, error)
            return
        except (Conflict, DuplicateEvent):
            self._drop_overlay(batch)
            raise
        self._drop_overlay(batch)

    def _rebased(self, event: NewEvent) -> NewEvent:
        """Return an event that expects what is in the ledger, where it expects what cannot be."""
        if not isinstance(event, KeyedEvent) or not self._unstorable:
            return event
        stale = [key for key, version in event.expected.items() if self._is_unstorable(version)]
        if not stale:
            return event
        name = event.refs["records"]
        if not set(event.refs["at"]).issuperset(stale):
            raise InvalidInput("it was derived from a record that could not be stored")
        current = self._access.store.versions(parse_scope(event.scope), name, stale)
        return msgspec.structs.replace(event, expected=event.expected | current)

    def _set_aside(self, batch: list[NewEvent], error: TreeringError) -> None:
        """Give up a batch that cannot be stored; it can still be read here for a while."""
        self._unstorable.append(batch)
        if len(self._unstorable) > UNSTORABLE_MAX:
            self._drop_overlay(self._unstorable.popleft())
        self._backlog.lose(error)
        self._backlog.report()

    def _is_unstorable(self, version: str) -> bool:
        return any(event.event_id == version for batch in self._unstorable for event in batch)

    def _check_expected(self, batch: Iterable[NewEvent]) -> None:
        """Raise Conflict if a key does not have the version that is expected, as far as known."""
        for event in batch:
            if isinstance(event, KeyedEvent) and event.expected:
                scope, name = parse_scope(event.scope), event.refs["records"]
                current = self.versions(scope, name, list(event.expected))
                for key, version in event.expected.items():
                    if current[key] != version:
                        raise Conflict(
                            f"the record {key} was changed by another",
                            current_seq=0,
                            hint="get it again, then put the new value",
                        )

    def _write_due(self) -> None:
        if self._backlog.is_due:
            with self._lock.guard, self._lock:
                if self._backlog.is_due:
                    self._backlog.drain()

    def _report(self, summary: str, payload: dict[str, Any]) -> None:
        """Note what came late or was lost, where the last change was recorded."""
        event = self._reported_in
        if event is not None:
            refs = {name: payload[name] for name in ("code", "error_class") if name in payload}
            self._access.append([
                NewEvent(
                    scope=event.scope, session_id=event.session_id, agent_id=event.agent_id,
                    kind="ops.warning", summary=summary, payload=payload, refs=refs,
                    origin="runtime",
                )
            ])  # fmt: skip

    # What waits.

    def _overlay_events(self, batch: Iterable[NewEvent]) -> list[Event]:
        events: list[Event] = []
        for new in batch:
            self._position += 1
            event = _event(new, self._position)
            events.append(event)
            for key in _keys(new):
                self._overlay.setdefault(key, []).append(event)
        return events

    def _drop_overlay(self, batch: Iterable[NewEvent]) -> None:
        """Read the keys of events from the ledger again, unless more of them wait."""
        for event in batch:
            for key in _keys(event):
                waiting = self._overlay.get(key, [])
                left = [other for other in waiting if other.event_id != event.event_id]
                # What could not be stored gives way to what was stored after it.
                if all(self._is_unstorable(other.event_id) for other in left):
                    self._overlay.pop(key, None)
                else:
                    self._overlay[key] = left

    def _see(self, new: NewEvent, header: Header) -> None:
        for key in _keys(new):
            self._seen.add(key, _event(new, header.position, header))

    # Reading, as a store does.

    def latest(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, Event]:
        """Return the newest event of each key; keys without one are left out."""
        self._write_due()
        with self._lock.guard, self._lock:
            waiting = {
                key: events[-1] for key in keys if (events := self._overlay.get((scope, name, key)))
            }
        asked = [key for key in keys if key not in waiting]
        try:
            stored = self._access.store.latest(scope, name, asked) if asked else {}
        except StorageError as error:
            self._note_unread(error)
            return waiting | {
                key: event for key in asked if (event := self._seen.get((scope, name, key)))
            }
        for key, event in stored.items():
            self._seen.add((scope, name, key), event)
        return waiting | stored

    def versions(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest event of each key; "" if it has none, or was removed."""
        with self._lock.guard, self._lock:
            waiting = {
                key: "" if events[-1].kind == "state.removed" else events[-1].event_id
                for key in keys
                if (events := self._overlay.get((scope, name, key)))
            }
        asked = [key for key in keys if key not in waiting]
        try:
            stored = self._access.store.versions(scope, name, asked) if asked else {}
        except StorageError as error:
            self._note_unread(error)
            seen = {key: self._seen.get((scope, name, key)) for key in asked}
            stored = {key: "" if event is None else event.event_id for key, event in seen.items()}
        return waiting | stored

    def history(self, scope: Scope, name: str, key: str, *, after: int, limit: int) -> list[Event]:
        """Return events of a key after a position, the oldest first."""
        self._write_due()
        stored: list[Event] = []
        if after < _WAITING:
            try:
                stored = self._access.store.history(scope, name, key, after=after, limit=limit)
            except StorageError as error:
                self._note_unread(error)
                seen = self._seen.get((scope, name, key))
                stored = [] if seen is None or seen.position <= after else [seen]
        with self._lock.guard, self._lock:
            waiting = [
                event
                for event in self._overlay.get((scope, name, key), ())
                if event.position > after
            ]
        return [*stored, *waiting][:limit]

    def keys(self, scope: Scope, name: str, prefix: str, *, after: str, limit: int) -> list[str]:
        """Return the first keys with a record that begin with ``prefix``, after another."""
        self._write_due()
        with self._lock.guard, self._lock:
            waiting = {
                key: events[-1].kind != "state.removed"
                for (a_scope, a_name, key), events in self._overlay.items()
                if (a_scope, a_name) == (scope, name) and key.startswith(prefix) and key > after
            }
        try:
            stored = self._access.store.keys(
                scope, name, prefix, after=after, limit=limit + len(waiting)
            )
        except StorageError as error:
            self._note_unread(error)
            stored = [
                key
                for a_scope, a_name, key in self._seen.all_keys()
                if (a_scope, a_name) == (scope, name) and key.startswith(prefix) and key > after
            ]
        shown = {key for key in stored if waiting.get(key, True)}
        return sorted(shown | {key for key, is_there in waiting.items() if is_there})[:limit]

    def _note_unread(self, error: StorageError) -> None:
        if isinstance(error, Closed):
            raise error
        self._backlog.error = error
        _log.warning("records cannot be read: %s", error)


class _BatchLines:
    """Batches of events in a spool, as a ledger would store them; encrypted scopes are left out."""

    def __init__(self, access: LedgerRecords, name: str) -> None:
        self._access = access
        self._spool = Spool(f"{access.ledger_id()}\n{name}")

    def add(self, item: list[NewEvent]) -> None:
        try:
            events = self._access.guarded(item)
        except (InvalidInput, StorageError):
            return
        if events is not None:
            self._spool.add([msgspec.structs.asdict(event) for event in events])

    def take_over(self) -> list[list[NewEvent]]:
        return [
            [KeyedEvent(**data) if "expected" in data else NewEvent(**data) for data in line]
            for line in self._spool.take_over()
        ]

    def clear(self) -> None:
        self._spool.clear()


def _keys(event: NewEvent) -> list[_Key]:
    if not isinstance(event, KeyedEvent):
        return []
    return [(event.scope, event.refs["records"], key) for key in event.refs["at"]]


def _event(new: NewEvent, position: int, header: Header | None = None) -> Event:
    """Return an event as the ledger will store it, as far as that is known yet."""
    if header is not None:
        stated = {name: getattr(header, name) for name in header.__struct_fields__}
        return Event(**stated, payload=without_bytes(new).payload)
    return Event(
        position=position, seq=position, event_id=new.event_id or "", scope=new.scope,
        session_id=new.session_id, kind=new.kind, source=new.source or "", origin=new.origin,
        run_id=new.run_id, run_seq=new.run_seq, turn_id=new.turn_id, agent_id=new.agent_id,
        user_id=new.user_id, ts_ms=new.ts_ms or 0, recorded_ms=new.ts_ms or 0,
        visibility=new.visibility or "private", summary=new.summary, refs=new.refs,
        payload_bytes=0, redacted=False, expired=False, schema_version=SCHEMA_VERSION,
        content_digest=b"", link=b"", payload=new.payload,
    )  # fmt: skip


Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


class RecentValues(Generic[Key, Value]):
    """A least-recently-used cache of values by key.

    Safe to share between threads.
    """

    def __init__(self, size_max: int, size_of: Callable[[Value], int] = lambda _: 1) -> None:
        self._size_max = size_max
        self._size_of = size_of
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, None if it is not here."""
        with self._lock.guard, self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def all_keys(self) -> list[Key]:
        """Return all keys that are here."""
        with self._lock.guard, self._lock:
            return list(self._values)

    def add(self, key: Key, value: Value) -> None:
        """Keep a value, unless it is too large to leave room for others."""
        with self._lock.guard, self._lock:
            self._drop(key)
            if self._size_of(value) * 4 <= self._size_max:
                self._values[key] = value
                self._size += self._size_of(value)
            while self._size > self._size_max:
                self._drop(next(iter(self._values)))

    def drop(self, is_gone: Callable[[Key], bool]) -> None:
        """Forget the values of all keys that ``is_gone`` names."""
        with self._lock.guard, self._lock:
            for key in [key for key in self._values if is_gone(key)]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        if key in self._values:
            self._size -= self._size_of(self._values.pop(key))
