"""The engine of a ledger: it drafts events, stores them, hands them to sinks, and begins runs.

    run.user("hi") ─► RunState.record ─► Engine.write ─► Drafter.draft
                                              │        ─► EventStore.append
    ledger.append ─► Engine.append ───────────┘        ─► Dispatcher.offer, if there are sinks

It is the one place that knows all of these; runs, sessions and the memory know the engine.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Final

from treering.errors import (
    Conflict,
    InvalidInput,
    OutcomeUnknown,
    RunActive,
    SensitiveContent,
    TreeringError,
)
from treering.lazy import LazyModule, lazy_logger
from treering.ledger.following import Follower, cursor_at
from treering.ledger.records import SealedMeanwhile
from treering.ledger.session_settings import read_settings
from treering.ledger.sink_history import PrivateSinkHistory, SinkHistory
from treering.locks import Lock, LockSet
from treering.model.events import Event, Header
from treering.model.fields import bounded_clock
from treering.model.parts import RunStarted
from treering.model.scopes import Scope
from treering.model.tools import SyntheticPolicy
from treering.spine.dispatcher import Dispatcher
from treering.spine.gates import Gates
from treering.spine.ports import Gate

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from treering.context.summaries import Summariser
    from treering.ledger import erasure
    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import Clock, EventStore
    from treering.ledger.records import Draft
    from treering.ledger.sessions import Session
    from treering.model import receipts
    from treering.model.events import NewEvent
    from treering.model.views import Message, OpenRun
    from treering.spine import closing, run_events, run_state, runs
    from treering.spine.ports import Sink
    from treering.spine.run_events import Results
    from treering.spine.run_state import Opening, RunState
    from treering.spine.runs import Run
else:
    erasure = LazyModule("treering.ledger.erasure")
    receipts = LazyModule("treering.model.receipts")
    closing = LazyModule("treering.spine.closing")
    run_state = LazyModule("treering.spine.run_state")
    run_events = LazyModule("treering.spine.run_events")
    runs = LazyModule("treering.spine.runs")

_log = lazy_logger("treering.spine")

CLOSE_S: Final = 5.0
"""How long all sinks together have for what still waits for them when the ledger is closed."""
PAUSE_S: Final = 0.01
PAUSE_S_MAX: Final = 0.2
CONFLICTS_MAX: Final = 2
"""How often a run that begins gives way to others who write to its session."""
BEGINNING_S: Final = 5.0
"""How long to wait for another that is just beginning a run, whatever ``wait_s`` is."""
KEYS_MAX: Final = 10_000
"""The most sessions whose other name is cached; a full cache is emptied."""


class Engine:
    """Records the events of one ledger; begins, interrupts and recovers its runs."""

    def __init__(
        self,
        store: EventStore,
        drafter: Drafter,
        clock: Clock,
        summariser: Summariser | None = None,
    ) -> None:
        self.store = store
        self.drafter = drafter
        self.now_ms = bounded_clock(clock)
        self.summariser = summariser
        """What writes summaries and episodes by default."""
        self.dispatcher = Dispatcher(self)
        self.gates = Gates()
        self._synthetic = SyntheticPolicy()
        self._run_states: dict[str, RunState] = {}
        self._recovered: set[Scope] = set()
        self._session_keys: dict[tuple[str, str], str | None] = {}
        self._pid = os.getpid()
        self._locking = Lock()
        self._locks: weakref.WeakValueDictionary[tuple[str, str], Lock]
        self._locks = weakref.WeakValueDictionary()
        self._closed = False
        _open.add(self)

    def add(self, sinks: Sequence[Sink], synthetic: SyntheticPolicy | None = None) -> None:
        """Hand to ``sinks`` what comes from now on; to durable ones, also all that they lack.

        Raises InvalidInput if one of them cannot be served, and then adds none.
        """
        self.dispatcher.check(sinks)
        if synthetic is not None:
            if not isinstance(synthetic, SyntheticPolicy):
                raise InvalidInput(
                    "synthetic is not a SyntheticPolicy", hint="write SyntheticPolicy(texts={…})"
                )
            self._synthetic = synthetic
        for sink in sinks:
            self.dispatcher.add(sink)
            if isinstance(sink, Gate):
                self.gates.add(sink)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Interrupt what still runs, let the sinks have what waits, and stop."""
        if self._closed:
            return
        for run_state in list(self._run_states.values()):
            if run_state.is_here:
                try:
                    if not run_state.interrupt_from_outside("closed") and run_state.is_left:
                        run_state.abandon()
                except Exception as error:  # noqa: BLE001  (the others are to be closed as well)
                    # The next one who opens the ledger closes it then.
                    _log.warning("run %s stays open: %s", run_state.run_id, error)
        self.dispatcher.close(timeout_s)
        self._closed = True

    @property
    def results(self) -> Results:
        """Return what makes the outcomes of tools."""
        return run_events.Results(self.gates, self._synthetic)

    # Recording.

    def append(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        new: list[Header] | None = None,
    ) -> list[Header]:
        """Record ``events``, all or none; those of runs get a number unless they state one.

        The headers of events that were not there before go to ``new``. Raises InvalidInput if a
        number is not above those that its run has, or if an event would end a run that is under
        way here.
        """
        if not self._run_states:
            return self.write(events, expected_seq=expected_seq, counted=True, new=new)
        return self._append(events, expected_seq=expected_seq, counted=True, new=new)

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record ``events`` as ``append`` does; return only those that were not there before."""
        new: list[Header] = []
        self._append(events, new=new)
        return new

    def _append(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        counted: bool = False,
        new: list[Header] | None = None,
    ) -> list[Header]:
        """Record ``events``. A run that is carried out here gives them their numbers."""
        runs = self._runs_here(events) if self._run_states else ()
        if not runs:
            return self.write(events, expected_seq=expected_seq, counted=counted, new=new)
        held = LockSet([run_state.lock for run_state in runs])
        with held, held:
            held.take()
            numbers = run_state.RunNumbers(self, runs)
            try:
                headers = self.write(
                    events, expected_seq=expected_seq, counted=counted, new=new,
                    numbers=[numbers.next(event) for event in events],
                )  # fmt: skip
            except TreeringError as error:
                if not isinstance(error, OutcomeUnknown):
                    numbers.take_back()
                raise
            numbers.note(headers)
            return headers

    def _runs_here(self, events: Sequence[NewEvent]) -> list[RunState]:
        """Return the runs of ``events`` that are carried out here, in one order."""
        run_ids = {event.run_id for event in events if type(event.run_id) is str}
        states = (self._run_states.get(run_id) for run_id in run_ids)
        here = [run_state for run_state in states if run_state is not None and run_state.is_here]
        return sorted(here, key=lambda run_state: run_state.run_id)

    def write(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        numbers: Sequence[int | None] | None = None,
        counted: bool = False,
        fits: bool = False,
        new: list[Header] | None = None,
        is_ordered: bool = False,
    ) -> list[Header]:
        """Draft and store ``events``, all or none, and hand the new ones to the sinks in order.

        ``numbers`` are those in runs of events that state none; if ``counted``, the store gives
        all others theirs. ``fits`` makes fit what cannot be recorded as it is: an agent does not
        fail because of what its recorder cannot hold. The headers of new events go to ``new``.
        """
        drafter, dispatcher = self.drafter, self.dispatcher
        if dispatcher.queues and not is_ordered:
            order = dispatcher.order_of(events)
            with order, order:
                order.take()
                return self.write(
                    events, expected_seq=expected_seq, numbers=numbers, counted=counted,
                    fits=fits, new=new, is_ordered=True,
                )  # fmt: skip
        while True:
            try:
                drafts = drafter.draft(events, numbers, counted=counted)
                headers = self.store.append(drafts, expected_seq=expected_seq)
                break
            except SealedMeanwhile as error:  # Again, once for each scope.
                drafter.note_sealed(error.scope)
            except InvalidInput as error:
                if not fits:
                    raise
                events, fits = _fitted(events, error), False
        if is_ordered:
            for header, draft in _recorded_now(headers, drafts):
                dispatcher.offer(header, draft.payload)
        if new is not None:
            new += [header for header, _ in _recorded_now(headers, drafts)]
        return headers

    def fork(self, event: NewEvent, *, parent: str, seq: int) -> Header:
        """Record ``event`` as the first of a session that has the past of ``parent`` to ``seq``."""
        try:
            header = self.store.fork(self.drafter.draft([event])[0], parent=parent, seq=seq)
        except SealedMeanwhile as error:
            self.drafter.note_sealed(error.scope)
            header = self.store.fork(self.drafter.draft([event])[0], parent=parent, seq=seq)
        self.dispatcher.announce([header])
        return header

    def redact(self, scope: Scope, event_id: str) -> None:
        """Erase the content of an event, and the summaries that repeat it."""
        target = receipts.Target(scope=scope, event_id=event_id, session_id=None)
        erasure.redact(self.store, self.drafter, target, replacement="placeholder")

    # Runs.

    def take(
        self,
        session: Session,
        next_message: Callable[[NewEvent], tuple[Message | None, Sequence[NewEvent]]],
    ) -> Run | None:
        """Return a run that has begun with the next message of an inbox; None if there is none.

        Raises RunActive if the session is busy with another.
        """
        state = run_state.RunState(self, session, RunStarted(), wait_s=0.0)
        taken: list[Message] = []

        def opening(template: NewEvent) -> Sequence[NewEvent] | None:
            message, events = next_message(template)
            taken[:] = [] if message is None else [message]
            return events if taken else None

        return None if state.begin(opening) is None else runs.Run(state, taken[0])

    def begin(self, run_state: RunState, more: Opening, *, wait_s: float) -> list[Header] | None:
        """Record the start of a run once its session has no other, with ``more`` beside it.

        ``more`` is asked when nothing else runs; if it gives None, nothing begins. Raises RunActive
        if another run is still under way after ``wait_s``.
        """
        scope, session_id = run_state.session.scope, run_state.session.session_id
        self.dispatcher.follow(scope)
        if scope not in self._recovered:
            # Once more by scope: a user who may see only some scopes sees nothing unnamed.
            self._recovered.add(scope)
            self.recover(scope)
        # Before it is recorded: if that is interrupted, the next one who begins finds it here.
        self._run_states[run_state.run_id] = run_state
        lock = self._lock_of(scope, session_id)
        started, pause_s, conflicts = time.monotonic(), PAUSE_S, 0
        while True:
            # One at a time looks and begins: among threads by the lock, among processes by a hold.
            hold = _Hold(self.store, f"beginning in {session_id} of {scope}")
            with lock.guard, lock, hold, hold:
                is_held = hold.take()
                # What others record if they get the hold of a lost connection moves the session on.
                # Where they write all the time anyway, it is not waited for: the hold has to do.
                may_lose = is_held and self.store.leases.can_be_lost and conflicts < CONFLICTS_MAX
                head = self.head_seq(scope, session_id) if may_lose else None
                active = (
                    self._active_run(scope, session_id, is_left=self._is_left) if is_held else None
                )
                if is_held and active is None:
                    added = more(run_state.template)
                    if added is None:
                        self.forget(run_state)
                        return None
                    events = run_state.opening(added)
                    numbers = run_state.number(events)
                    try:
                        return self.write(events, expected_seq=head, numbers=numbers, fits=True)
                    except Conflict:
                        if head is None:
                            raise
                        conflicts += 1
                        continue
            patience_s = wait_s if is_held else max(wait_s, BEGINNING_S)
            left_s = patience_s - (time.monotonic() - started)
            if left_s <= 0:
                raise _busy(session_id, active)
            if is_held and _is_in_event_loop():
                raise RunActive(
                    f"session {session_id} is busy, and waiting here would stop the event loop",
                    hint="begin the run in a thread: await asyncio.to_thread(run.start)",
                )
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def interrupt(self, scope: Scope, session_id: str, why: str) -> Header | None:
        """Abort the run of a session, whichever process it belongs to; return the mark it left."""
        active = self._active_run(scope, session_id)
        if active is None:
            return None
        own = self._run_states.get(active.run_id)
        if own is not None and own.is_here:
            return own.boundary if own.interrupt_from_outside("interrupted", boundary=why) else None
        recorded = closing.close_run(self, active, reason="interrupted", boundary=why)
        return recorded[-1] if recorded else None

    def recover(self, scope: Scope | None = None) -> int:
        """Close the runs of processes that are gone; return how many.

        Those that came here in a copy are left alone: more of them may come.
        """
        closed = 0
        for run in self.store.reader.open_runs(scope, owned=True):
            if run.owner is None or self.store.leases.is_in_copy(run.owner):
                continue
            if not self.store.leases.is_gone(run.owner, run.seen_ms):
                continue
            try:
                closed += bool(closing.close_run(self, run, reason="crashed"))
            except TreeringError as error:
                # Its key is not here, for instance. That must not keep everything else from going.
                _log.warning("run %s of a process that is gone stays open: %s", run.run_id, error)
        return closed

    def close_silent(self, scope: Scope | None, *, prefix: str, silent_ms: int) -> set[str]:
        """Close runs of no process whose sessions nobody writes to; return those that stay open.

        Both are runs whose ids begin with ``prefix``: others may belong to somebody else.
        """
        left: set[str] = set()
        for run in self.store.reader.open_runs(scope):
            if run.owner is not None or not run.run_id.startswith(prefix):
                continue
            if self.now_ms() - run.seen_ms > silent_ms:
                closing.close_run(self, run, reason="interrupted")
            else:
                left.add(run.run_id)
        return left

    def _active_run(
        self,
        scope: Scope,
        session_id: str,
        *,
        is_left: Callable[[OpenRun], bool] = lambda _: False,
    ) -> OpenRun | None:
        """Return the run that a live process carries out in a session; close all others.

        Those are the runs of processes that are gone, runs that came here in a copy while they were
        open, and runs that ``is_left`` says will not be ended. A run without an owner, such as an
        imported one, does not block another.
        """
        for run in self.store.reader.open_runs(scope, session_id, owned=True):
            if run.owner is None:
                continue
            if (
                not self.store.leases.is_in_copy(run.owner)
                and not self.store.leases.is_gone(run.owner, run.seen_ms)
                and not is_left(run)
            ):
                return run
            closing.close_run(self, run, reason="crashed")
        return None

    def _is_left(self, run: OpenRun) -> bool:
        """Whether a run was begun here, and its author was interrupted and will not end it."""
        own = self._run_states.get(run.run_id)
        if own is None or not own.is_left:
            return False
        self.forget(own)
        return True

    def _lock_of(self, scope: str, session_id: str) -> Lock:
        """Return the lock of those who begin a run in a session; it goes when it is unused."""
        if self._pid != os.getpid():
            # A thread that is not here may hold what the parent had.
            self._pid, self._locking = os.getpid(), Lock()
            self._locks = weakref.WeakValueDictionary()
        with self._locking.guard, self._locking:
            lock = self._locks.get((scope, session_id)) or Lock()
            self._locks[scope, session_id] = lock
            return lock

    def forget(self, run_state: RunState) -> None:
        """Note that a run has ended."""
        self._run_states.pop(run_state.run_id, None)

    def run_state_in(self, scope: Scope, session_id: str) -> RunState | None:
        """Return the run that this process carries out in a session, if there is one."""
        for run_state in list(self._run_states.values()):
            session = run_state.session
            here = (session.scope, session.session_id) == (scope, session_id) and run_state.is_here
            if here and run_state.is_open:  # Others may wait for it to end.
                return run_state
        return None

    # What sinks and gates ask about a session.

    def head_seq(self, scope: Scope, session_id: str) -> int:
        """Return the last seq of a session; 0 if it has no past."""
        last = self.store.reader.last_by_seq(Header, scope, session_id, before_seq=None, limit=1)
        return last[0].seq if last else 0

    def session_key(self, scope: str, session_id: str) -> str | None:
        """Return the name that another system knows a session by, as it was opened."""
        key = (scope, session_id)
        if key not in self._session_keys:
            if len(self._session_keys) >= KEYS_MAX:
                self._session_keys.clear()
            try:
                settings = read_settings(self.store, Scope(scope), session_id)
            except TreeringError:
                return None  # An event is worth handing over without it.
            self._session_keys[key] = None if settings is None else settings.key
        return self._session_keys.get(key)

    def history(self, *, private: bool) -> SinkHistory:
        """Return what a sink may ask about the past of an event: texts as well, if ``private``."""
        return PrivateSinkHistory(self.store) if private else SinkHistory(self.store)

    def skip_past(self, scope: Scope, name: str) -> None:
        """Have a sink that never followed a scope follow it from now on."""
        if self.store.cursors.find(scope, name) is None:
            self.store.cursors.set(scope, name, cursor_at(scope, self.store.reader.end(scope)))

    def follow(
        self,
        scope: Scope,
        *,
        after: str | None,
        idle_s: float,
        stop: threading.Event,
        private: bool,
    ) -> Follower[Header]:
        """Return what comes after a cursor, until nothing has come for a while.

        Payloads are read only if ``private``: one that is sealed may not be readable here.
        """
        return Follower(
            self.store, scope, Event if private else Header,
            after=after, committed=False, idle_s=idle_s, stop=stop,
        )  # fmt: skip


def _fitted(events: Sequence[NewEvent], error: InvalidInput) -> list[NewEvent]:
    """Return ``events`` made fit to be recorded. Raises ``error`` if that does not help."""
    fitting = [run_events.fit(event) for event in events]
    if isinstance(error, SensitiveContent) or fitting == list(events):
        raise error
    return fitting


def _recorded_now(
    headers: Sequence[Header], drafts: Sequence[Draft]
) -> Iterator[tuple[Header, Draft]]:
    """Return the events that were not there before, with their drafts."""
    for header, draft in zip(headers, drafts, strict=True):
        # Each draft has a salt of its own: another digest is that of an event known before.
        if header.content_digest == draft.content_digest:
            yield header, draft


class _Hold:
    """A name that one process at a time has. ``with hold, hold:`` releases it in any case."""

    def __init__(self, store: EventStore, name: str) -> None:
        self._store = store
        self._name = name
        self._is_released = False

    def take(self) -> bool:
        """Return whether this process has the name now."""
        return self._store.leases.hold(self._name)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if not self._is_released:
            self._store.leases.release(self._name)
            self._is_released = True


def _is_in_event_loop() -> bool:
    """Whether to wait here would stop a whole event loop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _busy(session_id: str, active: OpenRun | None) -> RunActive:
    by = "another run that begins" if active is None else f"run {active.run_id}"
    return RunActive(
        f"session {session_id} is busy with {by}",
        hint="wait for it with wait_s=30, stop it with session.interrupt(),"
        " or give a subagent its own session",
    )


_open: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End what is under way when the interpreter ends."""
    for engine in list(_open):
        engine.close()
