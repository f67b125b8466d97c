"""Durable sinks: followers of the ledger, each with a cursor that the ledger keeps.

One process at a time serves a sink in a scope. It hands over at least once: what a crash cut short
comes again.
"""

from __future__ import annotations

import contextlib
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from treering.errors import DuplicateEvent, InvalidInput, ReadOnly, TreeringError
from treering.lazy import lazy_logger
from treering.model.events import NAME_CHARACTERS_MAX, Event, Header, NewEvent
from treering.model.parts import Noted
from treering.spine.sink_queue import (
    HUNG_CALLS_MAX,
    RETRY_PAUSE_S_MAX,
    BoundedCaller,
    Overtime,
    SinkCaller,
    SinkCounts,
    delivery_of,
    in_words,
    is_notable,
    private_event,
    safe_event,
    wants_private,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.engine import Engine
    from treering.locks import Lock
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.scopes import Scope
    from treering.spine.ports import Sink, SinkStatus, Undeliverable

SAVE_EVENTS: Final = 100
"""The cursor is saved after this many events, and whenever there is nothing to do."""
IDLE_S: Final = 5.0
"""How long to wait for new events before looking at the ledger again."""
HELD_PAUSE_S: Final = 0.5
"""How often to see whether the process that serves the sink now is still there."""

_log = lazy_logger("treering.spine")


def check_durable(sink: Sink) -> None:
    """Raise InvalidInput if ``sink`` asks to miss nothing and to skip errors."""
    delivery = delivery_of(sink)
    if delivery.durable and delivery.on_error == "skip":
        raise InvalidInput(
            f"sink {sink.name} is durable and skips errors, so it would miss events",
            hint='give it Delivery(durable=True, on_error="retry") or "fail"',
        )


def origin_of(name: str) -> str:
    """Return the origin of the events that are recorded about a sink."""
    return f"sink:{name}"[:NAME_CHARACTERS_MAX]


class DurableQueue:
    """Serves one durable sink in one scope."""

    def __init__(self, sink: Sink, scope: Scope, engine: Engine, *, turn: Lock) -> None:
        self.sink = sink
        self.scope = scope
        self._engine = engine
        self._turn = turn
        """Held while the sink has an event: it is served in other scopes, too, and one by one."""
        self._lease = f"sink {sink.name} of {scope}"
        self._delivery = delivery_of(sink)
        self._private = wants_private(sink)
        self._caller = SinkCaller(sink, self._delivery.timeout_s)
        self._calls = BoundedCaller(f"treering-sink-{sink.name}")
        self._counts = SinkCounts()
        self._stop = threading.Event()
        self._nudge = threading.Event()
        """Set to make it look at once."""
        self._changed = threading.Condition()
        self._rounds = self._finished = self._wanted = 0
        """How often the ledger was looked through, from the cursor to where nothing comes."""
        self._cursor: str | None = None
        self._kept: str | None = None
        """The cursor as it was last read or saved here."""
        self._unsaved = 0
        """How many events were handed over after the saved cursor."""
        self._faults = 0
        self._stopped = False
        name = f"treering-follow-{sink.name}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hand over no more than the event under way."""
        self._stop.set()
        self._nudge.set()

    def close(self, timeout_s: float) -> None:
        """Stop after the event under way; the rest comes when the ledger is opened again."""
        self.stop()
        if not self._calls.is_here():
            self._thread.join(min(timeout_s, threading.TIMEOUT_MAX))

    def flush(self, timeout_s: float) -> bool:
        """Wait until the sink has all events recorded so far; return False if that took too long.

        The sink itself, if it asks, is not kept waiting for itself.
        """
        if self._calls.is_here():
            return False
        with self._changed:
            # The round under way may have looked before; the next one has not begun.
            self._wanted = wanted = self._rounds + 1
            self._nudge.set()
            return self._changed.wait_for(
                lambda: self._finished >= wanted or self._stopped,
                min(timeout_s, threading.TIMEOUT_MAX),
            )

    def status(self) -> SinkStatus:
        """Return how the sink is doing in this scope."""
        return self._counts.status(self.sink, scope=self.scope, waiting=0, stopped=self._stopped)

    def note(self, text: str) -> None:
        """Have ``text`` be what the status says went wrong last."""
        self._counts.last_error = text

    # The thread.

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    if self._engine.store.leases.hold(self._lease):
                        self._serve()
                    else:
                        self._stand_by()
                except ReadOnly as error:
                    self._halt(in_words(error))
                except TreeringError as error:
                    # The database is away, for instance; the cursor says where to continue.
                    if not self._stop.is_set():
                        self._note(in_words(error))
                        self._stop.wait(RETRY_PAUSE_S_MAX)
        except Exception as error:  # noqa: BLE001  (what fails here is our own, and must be reported)
            self._halt(in_words(error))
            _log.exception("sink %s: following %s has failed", self.sink.name, self.scope)
        finally:
            self._calls.close()
            self._release(self._lease)

    def _serve(self) -> None:
        """Hand over what there is, and wait a while for more."""
        number = self._begin_round()
        self._cursor = self._kept = self._engine.store.cursors.find(self.scope, self.sink.name)
        self._nudge.clear()
        idle_s = 0.0 if self._wanted > self._finished or self._stop.is_set() else IDLE_S
        following = self._engine.follow(
            self.scope, after=self._cursor, idle_s=idle_s, stop=self._nudge, private=self._private
        )
        try:
            batch: list[Header] = []
            for event in following:
                batch.append(event)
                # What there is goes at once; a batch never waits for more to come.
                if following.left and len(batch) < self._delivery.batch_events_max:
                    continue
                if self._stop.is_set() or not self._hand_over(batch):
                    return
                self._cursor = following.cursor
                self._unsaved += len(batch)
                # The cursor follows each batch: no more than one is handed over again.
                if (self._unsaved >= SAVE_EVENTS or len(batch) > 1) and not self._save():
                    return
                batch = []
        finally:
            self._save()
        if not self._stop.is_set():
            self._end_round(number)

    def _stand_by(self) -> None:
        """See whether the process that serves the sink has served it all; wait a while."""
        number = self._begin_round()
        if self._wanted > self._finished:
            after = self._engine.store.cursors.find(self.scope, self.sink.name)
            rest = self._engine.follow(
                self.scope, after=after, idle_s=0, stop=self._stop, private=False
            )
            if next(iter(rest), None) is None:
                self._end_round(number)
        self._nudge.wait(HELD_PAUSE_S)
        self._nudge.clear()

    def _begin_round(self) -> int:
        with self._changed:
            self._rounds += 1
            return self._rounds

    def _end_round(self, number: int) -> None:
        with self._changed:
            self._finished = number
            self._changed.notify_all()

    def _hand_over(self, batch: Sequence[Header]) -> bool:
        """Hand events over, again and again if need be; False if the sink gets no more."""
        pause_s = 0.05
        carried = [self._wrap(event) for event in batch]
        while (error := self._give(carried)) is not None:
            if self._stop.is_set():
                return False
            # It may take long to continue, and a crash would bring back what it has taken.
            if not self._save():
                return False
            self._counts.retried += 1
            if self._stop.wait(max(pause_s, getattr(error, "retry_after_s", 0.0))):
                return False
            if not isinstance(error, Overtime):
                pause_s = min(pause_s * 2, RETRY_PAUSE_S_MAX)
        return True

    def _give(self, carried: Sequence[SafeEvent | PrivateEvent]) -> BaseException | None:
        """Hand events over once; return what went wrong."""
        try:
            with self._turn.guard, self._turn:
                taken, refused = self._calls.call(
                    self._caller.give_batch, carried, timeout_s=self._caller.allowed_s
                )
            if refused is not None:
                self._bury(refused)
            count = 0 if refused is None else len(refused.events)
            self._counts.add_batch(len(carried), taken=taken, refused=count)
        except BaseException as error:  # noqa: BLE001  (a sink may raise anything)
            if isinstance(error, Overtime):
                error = Overtime(self._delivery.timeout_s)  # As its author set it, without grace.
            self._counts.note_fault(error)
            self._note(in_words(error))
            if self._delivery.on_error == "fail" or self._calls.hung >= HUNG_CALLS_MAX:
                self._counts.failed += 1
                self._halt(in_words(error))
            return error
        return None

    def _bury(self, refused: Undeliverable) -> None:
        """Record an alert for each event that the sink will never take."""
        self._note(refused.reason)
        origin = origin_of(self.sink.name)
        for event in refused.events:
            if event.origin == origin:
                continue  # It reported an alert of its own, which is recorded already.
            digest = sha256(f"{self.sink.name}\0{event.event_id}".encode()).hexdigest()
            refs = Noted(code="not_delivered").as_refs()
            alert = NewEvent(
                scope=event.scope,
                session_id=event.session_id,
                kind="ops.alert",
                agent_id=event.agent_id,
                summary=f"sink {self.sink.name} did not take event {event.event_id}",
                payload={"reason": refused.reason},
                refs={**refs, "sink": self.sink.name, "event": event.event_id},
                event_id=f"dead-letter-{digest[:32]}",
                origin=origin,
            )
            with contextlib.suppress(DuplicateEvent):  # It was recorded before a crash.
                self._engine.append_missing([alert])

    def _wrap(self, event: Header) -> SafeEvent | PrivateEvent:
        """Return the event as the sink may see it."""
        key = self._engine.session_key(event.scope, event.session_id)
        return private_event(event, key) if isinstance(event, Event) else safe_event(event, key)

    def _save(self) -> bool:
        """Keep the cursor, if it has moved; False if another process has had the sink since.

        The cursor that is kept then says how far that one has come, and where to go on.
        """
        cursor = self._cursor if self._unsaved else None
        self._unsaved = 0
        if cursor is None:
            return True
        leases, cursors = self._engine.store.leases, self._engine.store.cursors
        if leases.can_be_lost and not (
            leases.hold(self._lease) and cursors.find(self.scope, self.sink.name) == self._kept
        ):
            return False
        cursors.set(self.scope, self.sink.name, cursor)
        self._kept = cursor
        return True

    def _halt(self, error: str) -> None:
        """Serve the sink no more; it continues with this event when the ledger is opened again."""
        self._counts.last_error = error
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._stop.set()
        _log.error("sink %s is stopped: %s", self.sink.name, error)

    def _note(self, error: str) -> None:
        self._counts.last_error = error
        self._faults += 1
        if is_notable(self._faults, 1):
            _log.warning("sink %s: %s (%d times)", self.sink.name, error, self._faults)

    def _release(self, name: str) -> None:
        try:
            self._engine.store.leases.release(name)
        except TreeringError as error:
            self._note(in_words(error))
