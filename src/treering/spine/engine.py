"""The kernel of the spine: what runs, tools and sessions need of it."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from treering.errors import DuplicateEvent, InvalidInput, SensitiveContent, TreeringError
from treering.locks import Lock
from treering.model.parts import ToolReturned, safe_part
from treering.model.tools import SyntheticPolicy
from treering.spine.closing import close_run
from treering.spine.dispatcher import Dispatcher
from treering.spine.gates import Gates
from treering.spine.lifecycle import active_run, begin
from treering.spine.numbering import Numbering
from treering.spine.ports import Gate
from treering.spine.run_entries import Results, fit
from treering.spine.run_state import RunState
from treering.spine.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from treering.model.events import Header, NewEvent
    from treering.model.runs import Message, OpenRun
    from treering.model.scopes import Scope
    from treering.spine.ports import (
        Journal,
        Occasion,
        Preparation,
        Sink,
        Timeline,
        Verdict,
    )
    from treering.spine.run_entries import RunEntry

_log = logging.getLogger("treering.spine")

CLOSE_S: Final = 5.0
"""How long sinks have, in all, for what waits for them when the ledger is closed."""


class Engine:
    """Begins, carries, interrupts and recovers the runs of one ledger."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.dispatcher = Dispatcher(journal)
        self._gates = Gates()
        self.results = Results(self._gates.persist, SyntheticPolicy())
        """Makes the outcomes of tools."""
        self._run_states: dict[str, RunState] = {}
        self._numbering = Numbering(journal, self._run_states)
        self._recovered: set[Scope] = set()
        self._pid = os.getpid()
        self._locking = Lock()
        self._locks: weakref.WeakValueDictionary[tuple[str, str], Lock]
        self._locks = weakref.WeakValueDictionary()
        self._closed = False
        _open.add(self)

    def add(self, sinks: Sequence[Sink], synthetic: SyntheticPolicy | None = None) -> None:
        """Have ``sinks`` hear of what comes from now on; durable ones of all that they lack.

        Raises InvalidInput if one of them cannot, and then adds none.
        """
        self.dispatcher.check(sinks)
        if synthetic is not None:
            if not isinstance(synthetic, SyntheticPolicy):
                raise InvalidInput(
                    "synthetic is no SyntheticPolicy", hint="write SyntheticPolicy(texts={…})"
                )
            self.results = Results(self._gates.persist, synthetic)
        for sink in sinks:
            self.dispatcher.add(sink)
            if isinstance(sink, Gate):
                self._gates.add(sink)

    def take(
        self,
        session: Timeline,
        next_message: Callable[[], tuple[Message | None, Sequence[RunEntry]]],
    ) -> Run | None:
        """Return a run that has begun with the next message of an inbox; None if there is none.

        Raises RunActive if the session is busy with another.
        """
        run_state = RunState(self, session, wait_s=0.0)
        found: list[Message] = []

        def opening() -> Sequence[RunEntry] | None:
            message, entries = next_message()
            found[:] = [] if message is None else [message]
            return entries if found else None

        return None if run_state.begin(opening) is None else Run(run_state, found[0])

    def interrupt(self, scope: Scope, session_id: str, why: str) -> Header | None:
        """Abort the run of a session, whichever process it belongs to; return the mark it left."""
        active = active_run(self._journal, self.close_gone, scope, session_id)
        if active is None:
            return None
        own = self._run_states.get(active.run_id)
        if own is not None and own.is_here:
            return own.boundary if own.interrupt_from_outside("interrupted", boundary=why) else None
        recorded = close_run(
            self._journal, self.record, self.results, active, reason="interrupted", boundary=why
        )
        return recorded[-1] if recorded else None

    def recover(self, scope: Scope | None = None) -> int:
        """Close the runs of processes that are gone; return how many.

        Those that came here in a copy are left alone: more of them may come.
        """
        closed = 0
        for run in self._journal.open_runs(scope):
            if run.owner is None or self._journal.is_in_copy(run.owner):
                continue
            if not self._journal.is_gone(run.owner, run.seen_ms):
                continue
            try:
                closed += bool(self.close_gone(run))
            except TreeringError as error:
                # Its key is not here, for instance. It is no reason to refuse everything else.
                _log.warning("run %s of a process that is gone stays open: %s", run.run_id, error)
        return closed

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

    # What runs need.

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record ``events``, all or none, and carry them to the sinks in their order.

        Those of runs are numbered, unless they say their number.
        """
        carry = self.dispatcher.append
        if expected_seq is not None:
            carry = partial(carry, expected_seq=expected_seq)
        return self._numbering.append(events, carry, fill=True)

    def record(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record what a run tells as ``append`` does; what cannot be as it is, made to fit.

        An agent does not fail because of what its recorder cannot hold. What the guard refuses is
        refused.
        """
        try:
            return self.dispatcher.append(events, expected_seq=expected_seq)
        except SensitiveContent:
            raise
        except InvalidInput:
            fitting = [fit(event) for event in events]
            if fitting == list(events):
                raise
        return self.dispatcher.append(fitting, expected_seq=expected_seq)

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record as ``append`` does; return those alone that were not there before."""
        new: list[Header] = []
        carry = partial(self.dispatcher.append, tell=lambda kept, _: new.append(kept))
        self._numbering.append(events, carry, fill=False)
        return new

    def append_new(self, event: NewEvent) -> Header:
        """Record one event whose id must be new. Raises DuplicateEvent if it is known already."""
        new = self.append_missing([event])
        if not new:
            raise DuplicateEvent(
                f"event_id already exists: {event.event_id}",
                hint="give another id, or leave it out to have one made",
            )
        return new[0]

    def fork(self, event: NewEvent, *, parent: str, seq: int) -> Header:
        """Record ``event`` as the first of a session that has the past of ``parent`` to ``seq``."""
        header = self._journal.fork(event, parent=parent, seq=seq)
        self.dispatcher.tell([header])
        return header

    def carry_transient(self, event: NewEvent) -> None:
        """Carry to the sinks what is not kept."""
        self.dispatcher.carry_transient(event)

    def begin(
        self, run_state: RunState, make: Callable[[], list[NewEvent] | None], *, wait_s: float
    ) -> list[Header] | None:
        """Record the beginning of a run, when its session has no other."""
        session = run_state.session
        self.dispatcher.follow(session.scope)
        if session.scope not in self._recovered:
            # Once more by scope: whoever is held to scopes sees nothing without naming one.
            self._recovered.add(session.scope)
            self.recover(session.scope)
        # Before it is recorded: if that is interrupted, the next one who begins finds it here.
        self._run_states[run_state.run_id] = run_state
        headers = begin(
            self._journal, self.record, self.close_gone,
            place=(session.scope, session.session_id), make=make, wait_s=wait_s,
            lock=self._lock_of(session.scope, session.session_id), is_left=self._is_left,
        )  # fmt: skip
        if headers is None:
            self.forget(run_state)
        return headers

    def _is_left(self, run: OpenRun) -> bool:
        """Whether a run was begun here, and its author was interrupted and will not end it."""
        own = self._run_states.get(run.run_id)
        if own is None or not own.is_left:
            return False
        self.forget(own)
        return True

    def _lock_of(self, scope: str, session_id: str) -> Lock:
        """Return what those hold who begin a run in a session; it goes when nobody does."""
        if self._pid != os.getpid():
            # A thread that is not here may hold what the parent had.
            self._pid, self._locking = os.getpid(), Lock()
            self._locks = weakref.WeakValueDictionary()
        with self._locking.guard, self._locking:
            lock = self._locks.get((scope, session_id)) or Lock()
            self._locks[scope, session_id] = lock
            return lock

    def forget(self, run_state: RunState) -> None:
        """Take note that a run is over."""
        self._run_states.pop(run_state.run_id, None)

    def forget_new(self, run_state: RunState) -> None:
        """Take note that a run has not begun."""
        if run_state.state == "new":
            self.forget(run_state)

    def run_state_in(self, scope: Scope, session_id: str) -> RunState | None:
        """Return the run that this process carries out in a session, if there is one."""
        for run_state in list(self._run_states.values()):
            session = run_state.session
            here = (session.scope, session.session_id) == (scope, session_id) and run_state.is_here
            if here and run_state.is_open:  # Others may wait for it to end.
                return run_state
        return None

    def is_over(self, run_state: RunState) -> bool:
        """Whether somebody has closed a run, in whichever process."""
        session = run_state.session
        open_runs = self._journal.open_runs(session.scope, session.session_id)
        return all(other.run_id != run_state.run_id for other in open_runs)

    def rest_of(self, run_state: RunState, after_seq: int) -> list[Header]:
        """Return what somebody else recorded of a run of ours; nothing, if it cannot be read."""
        try:
            return [header for header in self.headers_of(run_state) if header.seq > after_seq]
        except TreeringError:
            return []

    def headers_of(self, run_state: RunState) -> Iterable[Header]:
        """Return what the ledger holds of a run, in order."""
        session = run_state.session
        return self._journal.run_headers(session.scope, session.session_id, run_state.run_id)

    def outcome_of(self, run_state: RunState, call_id: str) -> str | None:
        """Return the id of the event that is the outcome of a call of a run."""
        for header in self.headers_of(run_state):
            part = safe_part(header.kind, header.refs)
            if isinstance(part, ToolReturned) and part.call_id == call_id:
                return header.event_id
        return None

    def close_gone(self, run: OpenRun) -> list[Header]:
        """Close the run of a process that is gone, and the calls that it left open."""
        return close_run(self._journal, self.record, self.results, run, reason="crashed")

    def now_ms(self) -> int:
        """Return the time."""
        return self._journal.now_ms()

    def owner(self) -> str:
        """Return the name under which this process carries out its runs."""
        return self._journal.owner()

    def prepare(self, occasion: Occasion, prompt: str | None) -> Preparation:
        """Ask the gates what to add to a run."""
        return self._gates.before_run(occasion, prompt)

    def ask_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any) -> Verdict:  # noqa: A002
        """Ask the gates whether a tool may run."""
        return self._gates.before_tool(occasion, tool, call_id, input)

    def ask_sending(self, occasion: Occasion, text: str, to: str | None) -> Verdict:
        """Ask the gates whether a message may be sent."""
        return self._gates.before_sending(occasion, text, to)


_open: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End what is under way when the interpreter ends."""
    for engine in list(_open):
        engine.close()
