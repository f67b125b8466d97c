"""Keyed records: the latest value of each key counts, and every change is an event.

    put ─► state.value (refs: records, at) ─► one row for each key, in the same transaction
    get ─► the newest row of a key ─► its event ─► value

So records have a history, erasing an event erases its value, and an erased key is free again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from treering.errors import InvalidInput
from treering.ledger.drafts import without_bytes
from treering.model.arguments import checks_arguments
from treering.model.codec import decode, unpacked
from treering.model.events import Event, Header, KeyedEvent, NewEvent
from treering.model.fields import check_count, check_events, check_list, check_name, check_text
from treering.model.queries import PAGE_ITEMS_DEFAULT
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.engine import Engine
    from treering.ledger.ports import KeyReader
    from treering.model.receipts import RedactReceipt

KEY_CHARACTERS_MAX: Final = 500
NAME_CHARACTERS_MAX: Final = 100
CHANGES_MAX: Final = 2_000
"""Changes of one transaction: others wait meanwhile."""
PAGE: Final = 500


class KeyedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A value as it was put."""

    key: str
    value: Any
    version: str
    """The id of its event: pass it as ``expected`` to change the record only if nobody else has."""
    session_id: str
    seq: int
    recorded_ms: int


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A value to put."""

    key: str
    value: Any
    kind: str = "state.value"
    also: tuple[str, ...] = ()
    """Further keys by which the same value is found from then on."""
    expected: str | None = None
    """The version that the key must have; "" if it must have no record."""
    requires: dict[str, str] = {}
    """Versions that other keys must have."""
    refs: dict[str, Any] = {}
    """Further refs of the event."""
    session_id: str | None = None
    """The session of the event, if it is not that of the records."""


class RecordAccess(Protocol):
    """What records are read from and written to: a ledger, or a buffer before it."""

    @property
    def store(self) -> KeyReader:
        """Return what finds the events of keys."""

    def append(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record events, all or none."""

    def redact(self, scope: str, *, event_ids: Sequence[str]) -> RedactReceipt:
        """Erase events."""


class LedgerRecords:
    """The records of a ledger, for buffers: ``ledger.record_access``."""

    def __init__(self, engine: Engine, redact: Callable[..., RedactReceipt]) -> None:
        self._engine = engine
        self.store: KeyReader = engine.store.record_keys
        self.append = engine.append
        self.redact = redact

    def ledger_id(self) -> str:
        """Return the name that the ledger was given when it was made."""
        return self._engine.store.vault.ledger_id()

    def is_recorded(self, event: NewEvent) -> bool:
        """Whether the ledger has an event of the same id."""
        name = event.event_id or ""
        return name in self._engine.store.reader.find_ids(parse_scope(event.scope), [name])

    def guarded(self, events: Sequence[NewEvent]) -> list[NewEvent] | None:
        """Return events as they would be stored, without secrets; None if they are encrypted.

        Raise InvalidInput if one cannot be stored.
        """
        drafts = self._engine.drafter.draft(events)
        if any(draft.wordless for draft in drafts):
            return None
        return [
            msgspec.structs.replace(
                event,
                summary=draft.summary,
                refs=draft.refs,
                payload=None if draft.payload is None else decode(draft.payload),
            )
            for event, draft in zip(events, drafts, strict=True)
        ]


@checks_arguments
class KeyedRecords:
    """The records of one name in a scope. Safe to share between threads and processes.

    A key is a name, as a session id is: it is not encrypted. Keys with slashes are listed quickly
    by the part before the first one. All events of a key belong to one session.
    """

    ABSENT: Final = ""
    """As ``expected``: there must not be a record."""

    def __init__(
        self, access: RecordAccess, scope: Scope, name: str, *, session_id: str | None, agent: str
    ) -> None:
        self._access = access
        self._store = access.store
        self.scope = scope
        self.name: str = check_name(name, "name")
        if len(name) > NAME_CHARACTERS_MAX:
            raise InvalidInput(
                f"the name of records is longer than {NAME_CHARACTERS_MAX} characters",
                hint="shorten it",
            )
        self.session_id: str = (
            f"records:{name}" if session_id is None else check_name(session_id, "session_id")
        )
        self._agent = check_name(agent, "agent")

    # Reading.

    def get(self, key: str) -> KeyedRecord | None:
        """Return the record of a key, None if it has none. It is never an older one."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, KeyedRecord]:
        """Return the records of those of ``keys`` that have one."""
        listed = _check_keys(keys)
        events = self._store.latest(self.scope, self.name, listed)
        return {
            key: record
            for key in listed
            if key in events and (record := _record(key, events[key])) is not None
        }

    def versions(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the versions of those of ``keys`` that have a record, without their values."""
        versions = self._store.versions(self.scope, self.name, _check_keys(keys))
        return {key: version for key, version in versions.items() if version}

    def keys(
        self, prefix: str = "", *, limit: int = PAGE_ITEMS_DEFAULT, after: str = ""
    ) -> list[str]:
        """Return the first keys that begin with ``prefix``, in order, after the key ``after``."""
        return self._store.keys(
            self.scope,
            self.name,
            check_text(prefix, "prefix"),
            after=check_text(after, "after"),
            limit=check_count(limit, "limit"),
        )

    def history(self, key: str) -> Iterator[KeyedRecord]:
        """Return all values that a key had, the oldest first, without erased ones."""
        (key,) = _check_keys([key])
        return (
            record for event in self._events(key) if (record := _record(key, event)) is not None
        )

    def _events(self, key: str) -> Iterator[Event]:
        after = 0
        while page := self._store.history(self.scope, self.name, key, after=after, limit=PAGE):
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].position

    # Writing.

    def put(self, key: str, value: Any, *, expected: str | None = None) -> KeyedRecord:
        """Record ``value``, any JSON or bytes, as the latest of ``key``.

        ``expected`` is the version that the key must have, "" if it must have none: of two who
        expect the same, one wins. Raise Conflict if it has another.
        """
        return self.put_all([RecordChange(key=key, value=value, expected=expected)])[0]

    def put_all(
        self, changes: Sequence[RecordChange], *, beside: Sequence[NewEvent] = ()
    ) -> list[KeyedRecord]:
        """Record several changes, all or none, each as ``put`` does.

        ``beside`` are events that are recorded with them, or not at all.
        """
        listed = [_checked(change) for change in check_list(changes, "changes")]
        if not listed:
            return []
        if len(listed) > CHANGES_MAX:
            raise InvalidInput(
                f"{len(listed):,} changes are more than {CHANGES_MAX:,}", hint="put them in parts"
            )
        if len({change.key for change in listed}) < len(listed):
            raise InvalidInput("two changes have the same key", hint="put only the last of them")
        others = check_events(beside)
        events = [*others, *(self._event(change) for change in listed)]
        headers = self._access.append(events)[len(others) :]
        return [
            KeyedRecord(
                key=change.key,
                value=change.value,
                version=header.event_id,
                session_id=header.session_id,
                seq=header.seq,
                recorded_ms=header.recorded_ms,
            )
            for change, header in zip(listed, headers, strict=True)
        ]

    def remove(self, keys: Sequence[str]) -> int:
        """Remove the records of ``keys``; return how many there were.

        That is recorded, and history keeps their values. See ``erase``.
        """
        present = list(self.get_many(keys))
        for start in range(0, len(present), PAGE):
            self._access.append([
                KeyedEvent(
                    scope=self.scope, session_id=self.session_id, agent_id=self._agent,
                    kind="state.removed", summary="record removed",
                    refs={"records": self.name, "at": [key], "removed": True},
                )
                for key in present[start : start + PAGE]
            ])  # fmt: skip
        return len(present)

    def erase(self, keys: Sequence[str]) -> RedactReceipt | None:
        """Erase all values that ``keys`` ever had, physically; None if they had none.

        The keys are free again.
        """
        ids = [event.event_id for key in _check_keys(keys) for event in self._events(key)]
        return self._access.redact(self.scope, event_ids=list(dict.fromkeys(ids))) if ids else None

    def _event(self, change: RecordChange) -> NewEvent:
        event = KeyedEvent(
            scope=self.scope,
            session_id=change.session_id or self.session_id,
            agent_id=self._agent,
            kind=change.kind,
            summary="record put",
            refs={**change.refs, "records": self.name, "at": [change.key, *change.also]},
            payload={"value": change.value},
            expected=change.requires
            if change.expected is None
            else {**change.requires, change.key: change.expected},
        )
        return without_bytes(event)


def keys_of(event: Event) -> list[str]:
    """Return the keys that the event of a record has, its own first."""
    return list(event.refs.get("at") or [])


def _record(key: str, event: Event) -> KeyedRecord | None:
    """Return the record of a key in an event; None if the event has none."""
    if event.kind == "state.removed" or not isinstance(event.payload, dict):
        return None
    payload = unpacked(event.payload) if event.refs.get("opaque") else event.payload
    return KeyedRecord(
        key=key,
        value=payload.get("value"),
        version=event.event_id,
        session_id=event.session_id,
        seq=event.seq,
        recorded_ms=event.recorded_ms,
    )


def _checked(change: RecordChange) -> RecordChange:
    if not isinstance(change, RecordChange):
        raise InvalidInput(
            f"a change is a {type(change).__name__}", hint="give a list of RecordChange"
        )
    _check_keys([change.key, *change.also])
    if not isinstance(change.expected, str | None):
        raise InvalidInput(
            "expected is not a version", hint='give the version of a record, or "" for none'
        )
    return change


def _check_keys(keys: Sequence[str]) -> tuple[str, ...]:
    listed = check_list(keys, "keys")
    for key in listed:
        if check_text(key, "key") == "" or len(key) > KEY_CHARACTERS_MAX:
            raise InvalidInput(
                f"a key has 1 to {KEY_CHARACTERS_MAX} characters", hint="hash a longer one"
            )
    return listed
