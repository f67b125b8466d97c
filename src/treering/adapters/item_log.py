"""A conversation of another program: its items as they are, and what they say as events.

    item ─► state.value (records of transcripts: the item; also found by the id of its event)
        └─► conversation.user, tool.call, … (searched, shown to models, priced)

Both are recorded in one transaction. Within a turn, what the item says belongs to the turn; if a
recorder has recorded it, it is not recorded again. Erasing the
event erases the item.
"""

from __future__ import annotations

import time
from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from treering.adapters.lenient_writer import RETRY_S, WAITING_MAX
from treering.adapters.message_recorder import Claims, MessageRecorder
from treering.adapters.stored_values import restored, storable
from treering.errors import StorageError
from treering.lazy import lazy_logger
from treering.ledger.erasure import TRANSCRIPTS
from treering.ledger.keyed_records import RecordChange, keys_of
from treering.locks import Lock
from treering.model.codec import encode
from treering.model.fields import fit_name
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.adapters.message_recorder import MessagePart
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event

ITEMS_AT_ONCE: Final = 500
Act = Literal["add", "pop", "clear"]
_log: Final = lazy_logger("treering")


class ItemLog:
    """The items of one session. Safe to share between threads.

    If the ledger fails, changes wait in memory, and reads include them. They are recorded before
    the next change. With ``strict``, errors are raised.
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
        self._waiting: list[tuple[Act, list[Any]]] = []
        self._retry_at = 0.0
        self._known: list[Any] = []
        """The items that were last read."""
        self._taken_out: Counter[tuple[bytes, tuple[str, ...]]] = Counter()
        """Items that were cleared here, with their events: some may be added again."""
        self._claims = Claims()
        self.lost = 0
        """Changes that were given up."""
        self.error: Exception | None = None

    @property
    def waiting(self) -> int:
        """Return how many changes wait for the ledger."""
        return len(self._waiting)

    def items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order, or the last ones."""
        with self._lock.guard, self._lock:
            self._write_waiting()
            last = None if limit is None or limit < 0 else limit
            if last == 0:
                return []
            if last is not None and not self._waiting:
                return self._read(last)
            self._known = self._applied(self._read(None))
            return deepcopy(self._known if last is None else self._known[-last:])

    def add(self, items: Sequence[Any]) -> None:
        """Add items at the end."""
        if items:
            self._change("add", deepcopy(list(items)))

    def pop(self) -> Any:
        """Remove the last item, and hide what it says; return it, or None if the log is empty."""
        with self._lock.guard, self._lock:
            last = self.items(1)
            if last:
                self._change("pop", [])
            return last[0] if last else None

    def clear(self) -> None:
        """Remove all items. What they say stays in the session's past."""
        self._change("clear", [])

    def flush(self) -> bool:
        """Write what waits; return whether all of it was written."""
        with self._lock.guard, self._lock:
            self._retry_at = 0.0
            self._write_waiting()
            return not self._waiting

    # Changes.

    def _change(self, act: Act, items: list[Any]) -> None:
        with self._lock.guard, self._lock:
            if self._strict:
                self._write(act, items)
                return
            if len(self._waiting) >= WAITING_MAX:
                self._waiting.pop(0)
                self._lose(StorageError("too many changes wait for the ledger"))
            self._waiting.append((act, items))
            self._write_waiting()

    def _write_waiting(self) -> None:
        while self._waiting and self._retry_at <= time.monotonic():
            try:
                self._write(*self._waiting[0])
            except StorageError as error:
                self.error, self._retry_at = error, time.monotonic() + RETRY_S
                _log.warning("%s: items wait for the ledger: %s", self._session.session_id, error)
                return
            except Exception as error:  # noqa: BLE001  (a store never breaks the agent)
                self._lose(error)
            self._waiting.pop(0)

    def _lose(self, error: Exception) -> None:
        self.lost += 1
        self.error = error
        _log.warning("%s: items are lost: %s", self._session.session_id, error)

    def _applied(self, items: list[Any]) -> list[Any]:
        """Return ``items`` with the changes that wait."""
        for act, added in self._waiting:
            items = [*items, *added] if act == "add" else items[:-1] if act == "pop" else []
        return items

    def _write(self, act: Act, items: list[Any]) -> None:
        if act == "add":
            for start in range(0, len(items), ITEMS_AT_ONCE):
                self._add(items[start : start + ITEMS_AT_ONCE])
        elif act == "pop":
            for event in self._held.live_events(kinds=["state.value"], last=1):
                self._held.hide([event.event_id])
                if event_ids := _event_ids(event):
                    self._session.hide(event_ids)
        else:
            live = list(self._held.live_events(kinds=["state.value"]))
            self._taken_out.update((encode(_value(one)), _event_ids(one)) for one in live)
            if live:
                self._held.hide([event.event_id for event in live])

    # Adding.

    def _add(self, items: list[Any]) -> None:
        recorder = MessageRecorder(self._session, self._records, self._claims)
        changes: list[RecordChange] = []
        for item in items:
            kept = storable(item)
            ids = self._put_back(kept)
            if ids is None:
                recorded = [recorder.record(part) for part in self._parts_of(item)]
                ids = tuple(dict.fromkeys(filter(None, recorded)))
            changes.append(RecordChange(key=f"{self._group}/{new_id()}", value=kept, also=ids))
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
            return [restored(_value(event)) for event in events]
        except Exception as error:
            if self._strict:
                raise
            self.error = error
            _log.warning("%s: items cannot be read: %s", self._session.session_id, error)
            return self._known if last is None else self._known[-last:]


def _value(event: Event) -> Any:
    return event.payload["value"]


def _event_ids(event: Event) -> tuple[str, ...]:
    """Return the events that say what an item says."""
    return tuple(keys_of(event)[1:])
