"""A conversation of another program: its items as they are, and what they say as events.

    item ─► state.value (records of transcripts: the item; also found by the id of its event)
        └─► conversation.user, tool.call, … (searched, shown to models, priced)

Both are recorded in one transaction. Within a turn, what the item says belongs to the turn; if a
recorder has recorded it, it is not recorded again. Erasing the
event erases the item.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from treering.adapters.backlog import Backlog, BacklogStatus, Spool
from treering.adapters.message_recorder import Claims, MessageRecorder
from treering.errors import InvalidInput, StorageError, TreeringError
from treering.lazy import lazy_logger
from treering.ledger.erasure import TRANSCRIPTS
from treering.ledger.keyed_records import RecordChange, keys_of
from treering.locks import Lock
from treering.model.codec import decode, encode
from treering.model.fields import fit_name
from treering.spine.conversion import to_json
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.adapters.message_recorder import MessagePart
    from treering.ledger.keyed_records import KeyedRecord, KeyedRecords
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event


ITEMS_AT_ONCE: Final = 500
_log: Final = lazy_logger("treering")


class ItemChange(NamedTuple):
    """What happens to the items of a session."""

    act: Literal["add", "pop", "clear"]
    items: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    """What is added, by the ids that it is stored under."""

    def applied_to(self, items: list[Any]) -> list[Any]:
        """Return ``items`` after the change."""
        left = {"add": items, "pop": items[:-1], "clear": []}[self.act]
        return [*left, *self.items.values()]


class ItemLog(BacklogStatus):
    """The items of one session. Safe to share between threads.

    If the ledger fails, changes wait in memory and in the spool, and reads include them. They are
    recorded before the next change, or by the next process. With ``strict``, errors are raised.
    """

    def __init__(
        self,
        ledger: Ledger,
        session: Session,
        parts_of: Callable[[Any], Sequence[MessagePart]],
        *,
        name: str = "items",
        strict: bool = False,
    ) -> None:
        self._session = session
        self._parts_of = parts_of
        self._strict = strict
        held_in, _ = fit_name(f"{name}:{session.session_id}", "session_id")
        self._held = ledger.session(
            held_in, scope=session.scope, agent=session.agent, spawned_by=session.session_id
        )
        """The session that holds the items; lists of sessions leave it out."""
        self._records = ledger.records(
            session.scope, TRANSCRIPTS, session_id=held_in, agent=session.agent
        )
        self._group = quote(held_in, safe="")
        self._lock = Lock()
        lines = None if strict else _ChangeLines(ledger, self._held)
        self._backlog = Backlog(self._write, self._report, lines=lines)
        self._known: list[Any] = []
        """The items that were last read or written: for the time when they cannot be read."""
        self._taken_out: Counter[tuple[bytes, tuple[str, ...]]] = Counter()
        """Items that were cleared here, with their events: some may be added again."""
        self._claims = Claims()

    def items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order, or the last ones."""
        with self._lock.guard, self._lock:
            if self._backlog.is_due:
                self._backlog.drain()
            last = None if limit is None or limit < 0 else limit
            if last == 0:
                return []
            if last is not None and not self._backlog.waiting:
                return self._read(last)
            items = self._read(None)
            for change in self._backlog.waiting:
                items = change.applied_to(items)
            return deepcopy(items if last is None else items[-last:])

    def add(self, items: Sequence[Any]) -> None:
        """Add items at the end."""
        if items:
            self._change(ItemChange("add", {new_id(): item for item in deepcopy(list(items))}))

    def pop(self) -> Any:
        """Remove the last item, and hide what it says; return it, or None if the log is empty."""
        with self._lock.guard, self._lock:
            last = self.items(1)
            if last:
                self._change(ItemChange("pop"))
            return last[0] if last else None

    def clear(self) -> None:
        """Remove all items. What they say stays in the session's past."""
        self._change(ItemChange("clear"))

    def flush(self) -> bool:
        """Write what waits; return whether all of it was written."""
        with self._lock.guard, self._lock:
            return self._backlog.drain()

    # Changes.

    def _change(self, change: ItemChange) -> None:
        with self._lock.guard, self._lock:
            if self._strict:
                self._write(change)
            else:
                self._backlog.add(change)

    def _report(self, summary: str, payload: dict[str, Any]) -> None:
        refs = {name: payload[name] for name in ("code", "error_class") if name in payload}
        self._session.record("ops.warning", summary, payload=payload, refs=refs, origin="runtime")

    def _write(self, change: ItemChange) -> None:
        self._write_once(change)
        self._known = change.applied_to(self._known)

    def _write_once(self, change: ItemChange) -> None:
        if change.act == "add":
            keys = {f"{self._group}/{name}": item for name, item in change.items.items()}
            for start in range(0, len(keys), ITEMS_AT_ONCE):
                self._add(dict(islice(keys.items(), start, start + ITEMS_AT_ONCE)))
        elif self._is_done_before():
            return
        elif change.act == "pop":
            for event in self._held.live_events(kinds=["state.value"], last=1):
                self._held.hide([event.event_id])
                if event_ids := _event_ids(event):
                    self._session.hide(event_ids)
        else:
            live = list(self._held.live_events(kinds=["state.value"]))
            self._taken_out.update((encode(_value(event)), _event_ids(event)) for event in live)
            if live:
                self._held.hide([event.event_id for event in live])

    def _is_done_before(self) -> bool:
        """Whether what waits after this change is recorded: by a process that ended meanwhile."""
        keys = [f"{self._group}/{name}" for _, items in self._backlog.waiting for name in items]
        return bool(keys) and bool(self._records.versions(keys))

    # Adding.

    def _add(self, items: dict[str, Any]) -> None:
        recorder = MessageRecorder(self._session, self._records, self._claims)
        changes: list[RecordChange] = []
        recorded_before = self._records.versions(list(items))
        for key, item in items.items():
            if key in recorded_before:
                continue  # By a process that ended before it could note that.
            value = storable(item)
            ids = self._put_back(value)
            if ids is None:
                recorded = [recorder.record(part) for part in self._parts_of(item)]
                ids = tuple(dict.fromkeys(filter(None, recorded)))
            changes.append(RecordChange(key=key, value=value, also=ids))
        self._held.open()
        if recorder.beside:
            self._session.open()
        self._records.put_all(changes, beside=recorder.beside)

    def _put_back(self, kept: Any) -> tuple[str, ...] | None:
        """Return the events of an item that was cleared before, and is added again."""
        digest = encode(kept) if self._taken_out else b""
        for key, count in self._taken_out.items():
            if key[0] == digest and count > 0:
                self._taken_out[key] -= 1
                return key[1]
        return None

    # Reading.

    def _read(self, last: int | None) -> list[Any]:
        try:
            events = self._held.live_events(kinds=["state.value"], last=last)
            items = [restored(_value(event)) for event in events]
        except Exception as error:
            if self._strict:
                raise
            self._backlog.error = error
            _log.warning("%s: items cannot be read: %s", self._session.session_id, error)
            return self._known if last is None else deepcopy(self._known[-last:])
        if last is None:
            self._known = items
        return items


class _ChangeLines:
    """Changes in a spool, without what a guard would not let into the ledger."""

    def __init__(self, ledger: Ledger, held: Session) -> None:
        self._access = ledger.record_access
        self._held = held
        self._spool = Spool(f"{self._access.ledger_id()}\n{held.scope}\n{held.session_id}")

    def add(self, item: ItemChange) -> None:
        events = [
            self._held.new_event("state.value", "item", payload={"value": storable(value)})
            for value in item.items.values()
        ]
        try:
            guarded = self._access.guarded(events)
        except (InvalidInput, StorageError):
            return
        if guarded is not None:
            values = [event.payload["value"] for event in guarded]
            self._spool.add([item.act, dict(zip(item.items, values, strict=True))])

    def take_over(self) -> list[ItemChange]:
        return [
            ItemChange(act, {name: restored(value) for name, value in items.items()})
            for act, items in self._spool.take_over()
        ]

    def clear(self) -> None:
        self._spool.clear()


def _value(event: Event) -> Any:
    return event.payload["value"]


def _event_ids(event: Event) -> tuple[str, ...]:
    """Return the events that say what an item says."""
    return tuple(keys_of(event)[1:])


RECORDS_AT_ONCE: Final = 500
_ESCAPED: Final = "escaped"


def all_records(records: KeyedRecords, prefix: str) -> list[KeyedRecord]:
    """Return all records whose keys begin with ``prefix``."""
    matching: list[KeyedRecord] = []
    after = ""
    while keys := records.keys(prefix, limit=RECORDS_AT_ONCE, after=after):
        matching += records.get_many(keys).values()
        after = keys[-1]
    return matching


def storable(value: Any) -> Any:
    """Return ``value`` as a ledger can store it: as it is, or else as text.

    Lone surrogates and numbers that are too large, for example, are stored as text. What is not
    JSON at all is converted, and comes back as that.
    """
    try:
        if decode(encode(value)) == value and not _is_escaped(value):
            return value
    except (TreeringError, TypeError, ValueError, RecursionError):
        pass
    try:
        return {_ESCAPED: json.dumps(value)}
    except (TypeError, ValueError, RecursionError):
        return to_json(value)[0]


def restored(value: Any) -> Any:
    """Return what ``storable`` was given."""
    return json.loads(value[_ESCAPED]) if _is_escaped(value) else value


def _is_escaped(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_ESCAPED} and isinstance(value[_ESCAPED], str)
