"""A conversation of another program: its items as they are, and what they say as events.

    item ─► state.value (records of transcripts: the item; also found by the id of its event)
        └─► conversation.user, tool.call, … (searched, shown to models, priced)

Both are recorded in one transaction. Within a turn, what the item says belongs to the turn; if a
recorder has recorded it, it is not recorded again. Erasing the
event erases the item.

A framework keeps its messages in its own form, in keyed records. What they say is recorded beside
them, unless a recorder has recorded it: then the message is linked to that event.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from treering.adapters.backlog import Backlog, BacklogStatus, Spool, report_in
from treering.clock import now_ms
from treering.errors import InvalidInput, NotFound, RunClosed, StorageError, ToolDenied
from treering.formats.event_content import outcome
from treering.lazy import lazy_logger
from treering.ledger.erasure import TRANSCRIPTS
from treering.ledger.keyed_records import KeyedRecord, KeyedRecords, RecordChange, keys_of
from treering.locks import Lock
from treering.model.codec import canonical, encode
from treering.model.fields import fit_name
from treering.model.parts import ToolCalled
from treering.spine.conversion import STOPS, to_json
from treering.spine.run_events import said
from treering.spine.words import describe, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event, Header, NewEvent
    from treering.spine.runs import Run

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
        self._backlog = Backlog(self._write, report_in(session), lines=lines)
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
            self._change(ItemChange("add", {new_id(): _copied(item) for item in items}))

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

    # Changes.

    def _change(self, change: ItemChange) -> None:
        with self._lock.guard, self._lock:
            if self._strict:
                self._write(change)
            else:
                self._backlog.add(change)

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
                recorded = [recorder.record(part) for part in self._said_in(item)]
                ids = tuple(dict.fromkeys(filter(None, recorded)))
            changes.append(RecordChange(key=key, value=value, also=ids))
        self._held.open()
        if recorder.beside:
            self._session.open()
        self._records.put_all(changes, beside=recorder.beside)

    def _said_in(self, item: Any) -> Sequence[MessagePart]:
        """Return what an item says; nothing if it is not in the form of its framework."""
        try:
            return self._parts_of(item)
        except STOPS:
            raise
        except BaseException as error:  # noqa: BLE001  (an item may hold anything; it is kept)
            cause = describe(error)
            _log.warning("not understood: %s: %s", cause["class"], cause["message"])
            return []

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


def _copied(item: Any) -> Any:
    """Return a copy of an item: its framework may still change it."""
    try:
        return deepcopy(item)
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (foreign code may raise anything)
        return to_json(item)[0]


def storable(value: Any) -> Any:
    """Return ``value`` as a ledger can store it: as it is, or else as text.

    Lone surrogates, large numbers and what is nested deep, for example, are stored as text. What
    is not JSON at all is converted, and comes back as that.
    """
    try:
        canonical({"value": value}, "payload")
        if not _is_escaped(value):
            return value
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001, S110  (not JSON: foreign code may raise anything)
        pass
    try:
        return {_ESCAPED: json.dumps(value)}
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001
        return to_json(value, "/value")[0]


def restored(value: Any) -> Any:
    """Return what ``storable`` was given."""
    return json.loads(value[_ESCAPED]) if _is_escaped(value) else value


def _is_escaped(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_ESCAPED} and isinstance(value[_ESCAPED], str)


EVENTS_LOOKED_AT: Final = 200
"""How many of the latest events are searched for those of a recorder."""
EVENTS_PROBED: Final = 8
CLAIMED_MAX: Final = 10_000
_KINDS: Final = {
    "user": "conversation.user",
    "assistant": "conversation.assistant",
    "call": "tool.call",
    "output": "tool.result",
}
_SAID: Final = frozenset(_KINDS.values())


class MessagePart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message, in the same form for every framework."""

    sort: Literal["user", "assistant", "call", "output"]
    text: str = ""
    call_id: str | None = None
    tool: str | None = None
    value: Any = None
    """The input of a call, or the output of a tool."""
    is_error: bool = False
    extra: dict[str, Any] = {}
    """Kept beside the text."""


class Claims:
    """Which events of a session are known to belong to a message already."""

    def __init__(self, since_ms: int | None = None) -> None:
        """Treat events from ``since_ms`` on, by default from now, as possibly new messages."""
        self._since_ms = now_ms() if since_ms is None else since_ms
        self._ids: dict[str, None] = {}
        self.tools: dict[str | None, str | None] = {}
        """Tools by the ids of their calls: outputs do not name them."""

    def add(self, event_id: str) -> None:
        """Note that an event belongs to a message."""
        self._ids[event_id] = None
        if len(self._ids) > CLAIMED_MAX:
            del self._ids[next(iter(self._ids))]

    def is_free(self, header: Header, run: Run | None) -> bool:
        """Whether an event may belong to a new message: it is recent, and belongs to no other."""
        is_recent = header.recorded_ms >= self._since_ms
        in_run = run is not None and header.run_id == run.run_id
        return header.event_id not in self._ids and not header.redacted and (is_recent or in_run)


class MessageRecorder:
    """Records what new messages of a session say: in the current turn, if it has one."""

    def __init__(self, session: Session, records: KeyedRecords, claims: Claims) -> None:
        self._session = session
        self._claims = claims
        self._run = session.running
        self.beside: list[NewEvent] = []
        """Events that are to be recorded together with the messages."""
        self._found: dict[tuple[str, Any], list[str]] = {}
        try:
            self._find(records)
        except StorageError:
            self._found.clear()  # Whoever records what follows hears of it, or keeps it.

    def _find(self, records: KeyedRecords) -> None:
        """Find what a recorder has recorded that belongs to no message."""
        # The events of an active recorder are among the last few.
        if self._free(EVENTS_PROBED):
            free = self._free(EVENTS_LOOKED_AT)
            wanted = set(free) - records.get_many(free).keys()
            for event in self._session.events(last=EVENTS_LOOKED_AT):
                if event.event_id in wanted:
                    self._found.setdefault(_what(event), []).append(event.event_id)

    def _free(self, last: int) -> list[str]:
        return [
            header.event_id
            for header in self._session.headers(last=last)
            if header.kind in _SAID and self._claims.is_free(header, self._run)
        ]

    def record(self, part: MessagePart) -> str | None:
        """Return the id of the event of a part, which is recorded now or with the messages."""
        if part.call_id:
            call_id, _ = fit_name(part.call_id, "call_id")
            part = msgspec.structs.replace(part, call_id=call_id)
        if part.sort == "call":
            self._claims.tools[part.call_id] = part.tool
        elif part.sort == "output" and part.tool is None:
            part = msgspec.structs.replace(part, tool=self._claims.tools.get(part.call_id))
        is_said = part.sort in {"user", "assistant"}
        event_ids = self._found.get((_KINDS[part.sort], part.text if is_said else part.call_id))
        if event_ids:
            event_id: str | None = event_ids.pop(0)
        else:
            event_id = self._record(part)
        if event_id is not None:
            self._claims.add(event_id)
        return event_id

    def _record(self, part: MessagePart) -> str | None:
        if self._run is not None:
            with contextlib.suppress(StorageError):  # Then it is recorded, or kept, beside.
                return _record(self._run, part)
        event_id = new_id()
        self.beside.append(_event(self._session, part, event_id))
        return event_id


def _what(event: Event) -> tuple[str, Any]:
    payload = event.payload if isinstance(event.payload, dict) else {}
    is_said = event.kind.startswith("conversation.")
    return event.kind, payload.get("text" if is_said else "call_id")


def _record(run: Run, part: MessagePart) -> str | None:
    """Record a part in the current turn; return the id of the event."""
    if part.sort == "user":
        return run.user(part.text, **part.extra).event_id
    if part.sort == "assistant":
        return run.assistant(part.text, **part.extra).event_id
    try:
        if part.sort == "call":
            intent = run.tools.started(part.tool or "tool", part.value, call_id=part.call_id).intent
            return None if intent is None else intent.event_id
        call = run.tools.find(part.call_id or "")
        ended = call.fail(str(part.value)) if part.is_error else call.finish(part.value)
    except (InvalidInput, NotFound, RunClosed, ToolDenied):
        return None  # A call that the turn knows under another id, or an output without a call.
    return ended.event_id


def _event(session: Session, part: MessagePart, event_id: str) -> NewEvent:
    """Return a part as an event of a session."""
    if part.sort in {"user", "assistant"}:
        event = said(session.template, _KINDS[part.sort], part.text, dict(part.extra))
        return msgspec.structs.replace(event, event_id=event_id)
    value, _ = to_json(part.value)
    name, _ = fit_name(part.tool or "tool", "tool")
    if part.sort == "output":
        content = outcome(part.call_id, name, value, failed=part.is_error)
        kind, summary, payload, refs = content.kind, content.summary, content.payload, content.refs
    else:
        kind, summary = "tool.call", f"{name} called"
        payload = {"call_id": part.call_id, "name": name, "input": value}
        refs = ToolCalled(call_id=part.call_id, tool=name).as_refs()
    return session.new_event(kind, summary, payload=payload, refs=refs, event_id=event_id)
