"""The state of a run: the numbers of its events, its one start and one end."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from treering.errors import InvalidInput, OutcomeUnknown, RunClosed, RunInterrupted, TreeringError
from treering.locks import Lock
from treering.model.events import Header, NewEvent
from treering.model.fields import check_name
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.parts import RunEnded, RunStarted
from treering.model.scopes import parse_scope
from treering.model.views import start_id, taken_number
from treering.spine.ports import Occasion, Preparation
from treering.spine.run_events import KERNEL, interrupt_mark, make_event, run_end, without_words
from treering.spine.tools import Tools
from treering.spine.words import describe, new_id

if TYPE_CHECKING:
    from treering.ledger.engine import Engine
    from treering.ledger.sessions import Session
    from treering.model.tools import Reason

LOOK_S: Final = 1.0
"""How often a run that only carries deltas checks whether it was closed elsewhere."""
State = Literal["new", "open", "ended", "failed", "interrupted"]
Note = Callable[["Sequence[Header]"], None]
"""Notes the recorded events."""
Opening = Callable[["NewEvent"], "Sequence[NewEvent] | None"]
"""Makes what is recorded as a run begins from the run's template; None if it is not to begin."""
_CLOSING: Final[dict[str, Reason]] = {"ended": "missing_result", "failed": "aborted"}
"""Why calls that are open when a run is over get a synthetic result."""


class RunState:
    """What a run is and has done. Safe to share between threads."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        started: RunStarted,
        *,
        agent: str | None = None,
        turn_id: str | None = None,
        wait_s: float | None = None,
        prompt: str | None = None,
    ) -> None:
        if wait_s is not None:
            check_wait(wait_s)
        self.engine = engine
        self.session = session
        self.template = NewEvent(
            scope=session.scope,
            session_id=session.session_id,
            kind="",
            agent_id=session.agent if agent is None else check_name(agent, "agent"),
            summary="",
            run_id=new_id(),
            turn_id=new_id() if turn_id is None else check_name(turn_id, "turn_id"),
            user_id=session.user,
        )
        """The fields that all events of the run share."""
        self._lock = Lock()
        self.tools = Tools(self)
        self.state: State = "new"
        self.preparation: Preparation | None = None
        """What gates added to the run."""
        self.boundary: Header | None = None
        """The boundary that an interrupt left for the next turn."""
        self._started = started
        self._prompt = prompt
        self._wait_s = wait_s
        self._is_unreported = False
        """Whether it was closed from outside, and its author does not know yet."""
        self.is_doubtful = False
        """Whether something may have been recorded without its author learning of it."""
        self._terminal: Header | None = None
        self._run_seq = 0
        self._last_seq = 0
        """The seq of its last event."""
        self._clock = self._looked = 0.0
        self._pid = os.getpid()
        self._run: weakref.ref[object] | None = None
        self._is_ending = False
        """Whether its author has begun to end it."""
        self._ending = Lock()
        """Held while it is being ended, to show that it is."""

    def belong_to(self, run: object) -> None:
        """Note the author's handle; once that is gone, nobody can end the run."""
        self._run = weakref.ref(run)

    @property
    def author(self) -> object | None:
        """Return the author's handle, unless it is gone."""
        return None if self._run is None else self._run()

    @property
    def is_left(self) -> bool:
        """Whether its author was interrupted, and nobody is going to end it.

        Its author has dropped it, or was interrupted when it began or ended.
        """
        if self._is_over or not self.is_here:
            return False
        if self.is_open and self._run is not None and self.author is None:
            return True
        if self.is_open and not self._is_ending:
            return False
        at_work = self._ending if self.is_open else self._lock
        if at_work.is_held_here() or not at_work.take(0):
            return False
        at_work.drop()
        return True

    @property
    def _is_over(self) -> bool:
        return self.state not in {"new", "open"}

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.template.run_id or ""

    @property
    def model(self) -> str | None:
        """Return the model that it was begun with."""
        return self._started.model

    @property
    def occasion(self) -> Occasion:
        """Return the run as gates see it."""
        return Occasion(
            scope=self.session.scope,
            session_id=self.session.session_id,
            session_key=self.session.key,
            agent_id=self.template.agent_id,
            run_id=self.run_id,
        )

    @property
    def is_open(self) -> bool:
        """Whether it has begun and, as far as this process knows, not ended."""
        return self.state == "open"

    @property
    def is_here(self) -> bool:
        """Whether this process began it: a forked child leaves its parent's runs alone."""
        return self._pid == os.getpid()

    @property
    def lock(self) -> Lock:
        """Return the lock that is held while events are numbered and recorded.

        Raises RunClosed in a forked child, where a thread that is not there may hold it for ever.
        """
        if self._pid != os.getpid():
            raise RunClosed(
                f"run {self.run_id} belongs to the process that began it",
                hint="begin a new run in the forked process",
            )
        return self._lock

    @property
    def needs_end(self) -> bool:
        """Whether its author has yet to end it, or to learn that it was ended elsewhere."""
        return self.is_here and (self.is_open or self._is_unreported)

    def look(self) -> None:
        """See whether another process has closed it."""
        if self.is_open and self._is_closed_elsewhere():
            self._note_cut()

    def headers(self) -> Iterable[Header]:
        """Return what the ledger holds of the run, in order."""
        session = self.session
        return self.engine.store.reader.by_run(
            Header, session.scope, session.session_id, self.run_id
        )

    def _is_closed_elsewhere(self) -> bool:
        """Whether it is closed in the ledger, by any process."""
        open_runs = self.engine.store.reader.open_runs(self.session.scope, self.session.session_id)
        return all(run.run_id != self.run_id for run in open_runs)

    # Start and end.

    def begin(self, more: Opening) -> list[Header] | None:
        """Record that the run begins, and ``more`` at the same moment; None if ``more`` is None.

        Raises RunActive if the session is busy with another.
        """
        lock = self.lock
        with lock.guard, lock:
            if self.state != "new":
                raise RunClosed("a run starts once", hint="begin another")
            self.session.open()
            if self.template.user_id != self.session.user:
                # Whose session it is may be known only now.
                self.template = replace(self.template, user_id=self.session.user)
            wait_s = self.session.turn_wait_s if self._wait_s is None else self._wait_s
            try:
                headers = self.engine.begin(self, more, wait_s=wait_s)
                if headers is None:
                    return None
                self._clock = self._looked = time.monotonic()
                self._last_seq = headers[-1].seq
                self.state = "open"
                return headers  # noqa: TRY300  (an interrupt on the way out counts, too)
            except BaseException as error:
                self.withdraw(error)
                raise

    def close(
        self,
        state: Literal["ended", "failed", "interrupted"],
        reason: str | None = None,
        error: BaseException | str | None = None,
        *,
        boundary: str | None = None,
    ) -> Header:
        """Close the open calls and record how the run ended, unless it has ended already."""
        with self._ending.guard, self._ending.guard:
            self._is_ending = True
            self._ending.take(0)
            header = self._close(state, reason, error, boundary)
            if header is None:
                raise AssertionError
            return header

    def interrupt_from_outside(self, reason: str, *, boundary: str | None = None) -> bool:
        """Abort the run from outside; its author learns of it at the next step.

        Return False if it was over.
        """
        try:
            header = self._close("interrupted", reason, boundary, boundary, outside=True)
        except RunClosed:
            return False
        return header is not None

    def _close(
        self,
        state: Literal["ended", "failed", "interrupted"],
        reason: str | None,
        error: BaseException | str | None,
        boundary: str | None,
        *,
        outside: bool = False,
    ) -> Header | None:
        """Record how the run ended; None if ``outside`` asks for a run that is over."""
        prepared: dict[str, NewEvent] = {}
        why = _CLOSING.get(state) or "interrupted"
        while True:
            self.tools.reconcile()
            # Gates are asked without the lock: they may take their time, and record things.
            self.tools.prepare(why, prepared)
            lock = self.lock
            with lock.guard, lock:
                if outside and not self.is_open:
                    return None
                if self._terminal is not None and not self._is_unreported:
                    return self._terminal
                self._check_open()
                calls = self.tools.open_calls()
                if all(call.call_id in prepared for call in calls):
                    results = [prepared[call.call_id] for call in calls]
                    try:
                        return self._finish(state, reason, _cause(error), boundary, results)
                    finally:
                        self._is_unreported = outside and not self.is_open

    def _finish(
        self,
        state: Literal["ended", "failed", "interrupted"],
        reason: str | None,
        cause: dict[str, str] | None,
        boundary: str | None,
        results: list[NewEvent],
    ) -> Header:
        """Record the end, with results for the open calls. The caller holds the lock."""
        part = RunEnded(
            duration_ms=int((time.monotonic() - self._clock) * 1_000),
            tool_calls=self.tools.count,
            reason=reason,
            error_class=None if cause is None else cause.get("class"),
        )
        events = [*results, run_end(self.template, state, part, cause)]
        marks = [] if boundary is None else [interrupt_mark(self.template, boundary)]

        def note(headers: Sequence[Header]) -> None:
            self.tools.settle(headers[: len(results)])
            self.state, self._terminal = state, headers[len(results)]
            self.boundary = headers[-1] if marks else None
            self.engine.forget(self)

        try:
            headers = self.record([*events, *marks], note)
        except InvalidInput:
            # The guard refuses what an error or a result says. The run has an end all the same.
            headers = self.record([*map(without_words, events), *marks], note)
        return headers[len(results)]

    def note_end(self, header: Header) -> None:
        """Note the end that the ledger has, if ``header`` is one that its author recorded."""
        state = RUN_ENDS.get(header.kind)
        if state is not None and state != "interrupted":
            self.state, self._terminal = state, header
            self.engine.forget(self)

    # Recording.

    def record(
        self,
        events: Sequence[NewEvent],
        note: Note | None = None,
        *,
        expected_seq: int | None = None,
    ) -> list[Header]:
        """Record ``events``, all or none; those with the run's id get its next numbers.

        ``note`` takes note of what was recorded; if it is interrupted, the run is in doubt. Raises
        RunClosed if the run is over, and Conflict if the session is not at ``expected_seq``.
        """
        lock = self.lock
        with lock.guard, lock:
            if self.state != "open":
                raise self.closed_error()
            # From before they are recorded until that is noted. An interrupt leaves it so, and the
            # numbers of the events are not given again.
            was_doubtful, self.is_doubtful = self.is_doubtful, True
            before = self._run_seq
            try:
                headers = self.engine.write(
                    events, numbers=self.number(events), expected_seq=expected_seq, fits=True
                )
            except RunClosed:
                self.is_doubtful = was_doubtful
                self._note_cut()
                raise self.closed_error() from None
            except TreeringError as error:
                if not isinstance(error, OutcomeUnknown):
                    self.is_doubtful, self._run_seq = was_doubtful, before
                raise
            own = [header for header in headers if header.run_id == self.run_id]
            self.note_numbers(own, self._run_seq)
            if note is not None:
                note(headers)
            self.is_doubtful = was_doubtful
            return headers

    def number(self, events: Sequence[NewEvent]) -> list[int | None]:
        """Return the next numbers for the events of the run. The caller holds the lock."""
        numbers: list[int | None] = []
        for event in events:
            if event.run_id is None:
                numbers.append(None)
            else:
                self._run_seq += 1
                numbers.append(self._run_seq)
        return numbers

    def adopt(
        self, events: Sequence[NewEvent], *, outside_kind: str, expected_seq: int
    ) -> list[Header]:
        """Record events of the session as part of the run, except those of ``outside_kind``.

        Raises Conflict if the session is not at ``expected_seq``, and RunClosed if the run is over.
        """
        own = self.template
        return self.record(
            [
                replace(
                    event, agent_id=own.agent_id, user_id=own.user_id, turn_id=own.turn_id,
                    run_id=None if event.kind == outside_kind else own.run_id,
                )
                for event in events
            ],
            expected_seq=expected_seq,
        )  # fmt: skip

    def record_if_open(self, event: NewEvent, note: Note) -> Header | None:
        """Record ``event`` as part of the run, for ``note`` to note; None if the run is over."""
        lock = self.lock
        with lock.guard, lock:
            if not self.is_open:
                return None
            try:
                return self.record([event], note)[0]
            except RunClosed:
                self._is_unreported = True
                return None

    def record_apart(self, event: NewEvent) -> Header:
        """Record what came too late to be part of the run."""
        return self.engine.write([replace(event, run_id=None)], fits=True)[0]

    def carry(self, event: NewEvent) -> None:
        """Carry an event to the sinks that is counted and not stored."""
        lock = self.lock
        with lock.guard, lock:
            if time.monotonic() - self._looked > LOOK_S:
                self._looked = time.monotonic()
                self.look()
            self._check_open()
            before = self._run_seq
            try:
                [number] = self.number([event])
                self.engine.dispatcher.carry_transient(replace(event, run_seq=number))
            except BaseException:
                self._run_seq = before
                raise

    def closed_error(self) -> RunClosed:
        """Return what to raise to the author, when the run takes no more."""
        if self.state == "interrupted":
            self._is_unreported = False
            return RunInterrupted(
                f"run {self.run_id} was interrupted", hint="stop here; begin another turn"
            )
        if self.state == "new":
            return RunClosed("the run has not started", hint="use `with` or run.start()")
        return RunClosed(
            f"run {self.run_id} has ended and takes no more events", hint="begin another turn"
        )

    def opening(self, more: Sequence[NewEvent]) -> list[NewEvent]:
        """Return what to record as the run begins. Gates are asked once."""
        if self.preparation is None:
            self.preparation = self.engine.gates.before_run(self.occasion, self._prompt)
        self._run_seq = 0
        first = make_event(
            self.template,
            "run.started",
            "run started",
            refs=self._started.as_refs() or None,
            origin=KERNEL,
            event_id=start_id(self.run_id, self.engine.store.leases.owner()),
        )
        return [first, *more]

    def withdraw(self, error: BaseException) -> None:
        """End the run if ``error`` may have kept its author from hearing that it began or ended."""
        if not _is_doubtful(error):
            self._forget_if_new()
        elif self.is_here:
            self.abandon()

    def abandon(self) -> None:
        """End a run that nobody else is going to end, if the ledger has it."""
        with contextlib.suppress(TreeringError):
            if not self._is_closed_elsewhere():
                if self.state == "new":
                    self.state, self._clock = "open", time.monotonic()
                self.close("interrupted", "interrupted")
            self._forget_if_new()

    def _forget_if_new(self) -> None:
        """Take note that the run has not begun."""
        if self.state == "new":
            self.engine.forget(self)

    def check_open(self) -> None:
        """Raise RunClosed if it takes no more events, to the knowledge of this process."""
        lock = self.lock
        with lock.guard, lock:
            self._check_open()

    def _check_open(self) -> None:
        """Do the same for a caller who holds the lock."""
        if self.state != "open":
            raise self.closed_error()

    @property
    def last_run_seq(self) -> int:
        """Return the last number that it has given to an event."""
        return self._run_seq

    def reserve(self, number: int) -> None:
        """Give no number up to ``number`` from now on. The caller holds the lock."""
        self._run_seq = max(self._run_seq, number)

    def note_numbers(self, headers: Sequence[Header], before: int) -> None:
        """Continue after the run's recorded events, or after ``before``. The lock is held."""
        number, seq = before, self._last_seq
        for header in headers:
            number, seq = max(number, header.run_seq or 0), max(seq, header.seq)
        self._run_seq, self._last_seq = number, seq

    def _note_cut(self) -> None:
        """Take note that the run was closed elsewhere."""
        self.state, self._is_unreported = "interrupted", True
        self.engine.forget(self)
        rest = self._recorded_elsewhere()
        self.engine.dispatcher.announce(rest)
        end = next((header for header in rest if header.kind in RUN_ENDS), None)
        if end is not None and end.kind != "run.interrupted":
            # It was ended by hand, as it would have ended: that is not an interruption.
            self.state, self._is_unreported, self._terminal = RUN_ENDS[end.kind], False, end

    def _recorded_elsewhere(self) -> list[Header]:
        """Return the events of the run that others recorded; none if they cannot be read."""
        try:
            return [header for header in self.headers() if header.seq > self._last_seq]
        except TreeringError:
            return []


def check_wait(seconds: float) -> None:
    """Raise InvalidInput if ``seconds`` is not a valid waiting time."""
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidInput(f"wait_s is {seconds!r}", hint="give a number of seconds, 0 or more")


def _is_doubtful(error: BaseException) -> bool:
    """Whether the events may be recorded all the same: a Ctrl-C can come after the commit."""
    return isinstance(error, OutcomeUnknown) or not isinstance(error, TreeringError)


def _cause(error: BaseException | str | None) -> dict[str, str] | None:
    if error is None:
        return None
    described = describe(error)
    return described if isinstance(error, BaseException) else {"reason": described["message"]}


class RunNumbers:
    """Gives one append its numbers in runs that are carried out here. Their locks are held.

    Such a run numbers all its events, also those that others append to it: some are handed to
    sinks and not kept, so the store does not know how far it has come. Events of all other runs are
    numbered by the store.
    """

    def __init__(self, engine: Engine, run_states: Sequence[RunState]) -> None:
        self._engine = engine
        self._runs = {run.run_id: run for run in run_states if run.is_open}
        self._before = {run_id: run.last_run_seq for run_id, run in self._runs.items()}

    def next(self, event: NewEvent) -> int | None:
        """Return the number that ``event`` is given; None if it states its own, or is of no run.

        Raises InvalidInput if it states one that is taken, or would end the run.
        """
        run_state = self._runs.get(event.run_id) if type(event.run_id) is str else None
        if run_state is None:
            return None
        if parse_kind(event.kind).name in RUN_ENDS:
            raise InvalidInput(
                f"run {event.run_id} is open here, and ends only once",
                hint="use run.end(), run.fail() or session.interrupt()",
            )
        last, stated = run_state.last_run_seq, event.run_seq
        if stated is None:
            # No number is given twice, even if nobody learns that the events were recorded.
            run_state.reserve(last + 1)
            return last + 1
        if type(stated) is not int:
            return None
        if stated > last:
            run_state.reserve(stated)
        elif not self._is_repeat(event):
            raise taken_number(stated, run_state.run_id, last)
        return None

    def take_back(self) -> None:
        """Give the same numbers to the next events: these were not recorded."""
        for run_id, run_state in self._runs.items():
            run_state.note_numbers((), self._before[run_id])

    def note(self, headers: Sequence[Header]) -> None:
        """Continue after the recorded events."""
        for run_id, run_state in self._runs.items():
            own = [header for header in headers if header.run_id == run_id]
            run_state.note_numbers(own, self._before[run_id])

    def _is_repeat(self, event: NewEvent) -> bool:
        """Whether an event is appended again: then it keeps its number, whatever came since."""
        if event.event_id is None:
            return False
        return bool(self._engine.store.reader.find_ids(parse_scope(event.scope), [event.event_id]))
