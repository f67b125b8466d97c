"""The course of a run: its state, the numbers of its events, its one start and one end."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.errors import InvalidInput, OutcomeUnknown, RunClosed, RunInterrupted, TreeringError
from treering.locks import Lock
from treering.model.fields import check_name
from treering.model.kinds import RUN_ENDS
from treering.model.parts import RunEnded, RunStarted
from treering.model.runs import start_id
from treering.spine.ports import Occasion
from treering.spine.run_entries import (
    KERNEL,
    Author,
    RunEntry,
    interrupt_mark,
    run_end,
    without_words,
)
from treering.spine.tools import Tools
from treering.spine.words import describe, new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.events import Header, NewEvent
    from treering.model.tools import Reason
    from treering.spine.engine import Engine
    from treering.spine.ports import Preparation, Timeline

LOOK_S: Final = 1.0
"""How often a run that only carries deltas looks whether somebody has closed it."""
State = Literal["new", "open", "ended", "failed", "interrupted"]
Note = Callable[["Sequence[Header]"], None]
"""Is told of what was recorded."""
_CLOSING: Final[dict[str, Reason]] = {"ended": "missing_result", "failed": "aborted"}
"""Why calls that are open when a run is over get a synthetic result."""


class RunState:
    """What a run is and has done. Safe to share between threads."""

    def __init__(
        self,
        engine: Engine,
        session: Timeline,
        *,
        agent: str | None = None,
        turn_id: str | None = None,
        wait_s: float | None = None,
        prompt: str | None = None,
        started: RunStarted | None = None,
    ) -> None:
        self.engine = engine
        self.session = session
        self.author = Author(
            scope=session.scope,
            session_id=session.session_id,
            agent_id=session.agent if agent is None else check_name(agent, "agent"),
            user_id=session.user,
            run_id=new_id(),
            turn_id=new_id() if turn_id is None else check_name(turn_id, "turn_id"),
        )
        self._lock = Lock()
        self.tools = Tools(self)
        self.state: State = "new"
        self.preparation: Preparation | None = None
        """What gates added to the run, once they were asked."""
        self.boundary: Header | None = None
        """The mark that an interrupt left for the next turn."""
        self._started = started or RunStarted()
        self._prompt = prompt
        self._wait_s = wait_s
        self._untold = False
        """Whether it was closed from outside, and its author has not heard of it."""
        self.is_doubtful = False
        """Whether something may have been recorded that nobody was told of."""
        self._terminal: Header | None = None
        self._run_seq = 0
        self._last_seq = 0
        """The seq of what it has recorded last."""
        self._clock = self._looked = 0.0
        self._pid = os.getpid()
        self._run: weakref.ref[object] | None = None
        self._is_ending = False
        """Whether its author has begun to end it."""
        self._ending = Lock()
        """Held by whoever ends it, if only to show that somebody does."""

    def belong_to(self, run: object) -> None:
        """Note what the author has in hand; without it, nobody can end the run."""
        self._run = weakref.ref(run)

    @property
    def is_left(self) -> bool:
        """Whether its author was interrupted, and nobody is going to end it.

        Its author has dropped it, or was interrupted when it began or ended.
        """
        if self._is_over or not self.is_here:
            return False
        if self.is_open and self._run is not None and self._run() is None:
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
        return self.author.run_id

    @property
    def model(self) -> str | None:
        """Return the model that it was begun with."""
        return self._started.model

    @property
    def occasion(self) -> Occasion:
        """Return what gates are told of the run."""
        return Occasion(
            scope=self.session.scope,
            session_id=self.session.session_id,
            session_key=self.session.key,
            agent_id=self.author.agent_id,
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
        """Return what is held while events are numbered and recorded.

        Raises RunClosed in a forked child, where a thread that is not there may hold it for ever.
        """
        if self._pid != os.getpid():
            raise RunClosed(
                f"run {self.run_id} belongs to the process that began it",
                hint="begin a run of its own in the forked process",
            )
        return self._lock

    @property
    def needs_end(self) -> bool:
        """Whether its author has yet to end it, or to hear that somebody else did."""
        return self.is_here and (self.is_open or self._untold)

    def look(self) -> None:
        """See whether another process has closed it."""
        if self.is_open and self.engine.is_over(self):
            self._note_cut()

    # Start and end.

    def begin(self, more: Callable[[], Sequence[RunEntry] | None]) -> list[Header] | None:
        """Record that the run begins, with ``more`` in the same moment; or nothing, if it says so.

        Raises RunActive if the session is busy with another.
        """
        lock = self.lock
        with lock.guard, lock:
            if self.state != "new":
                raise RunClosed("a run starts once", hint="begin another")
            self.session.open()
            if self.author.user_id != self.session.user:
                # Whose session it is may be known only now.
                self.author = msgspec.structs.replace(self.author, user_id=self.session.user)
            wait_s = self.session.patience_s if self._wait_s is None else self._wait_s
            try:
                headers = self.engine.begin(self, lambda: self._opening(more), wait_s=wait_s)
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
        """Record how the run ended, its open calls closed before. One that is over stays so."""
        with self._ending.guard, self._ending.guard:
            self._is_ending = True
            self._ending.take(0)
            header = self._close(state, reason, error, boundary)
            if header is None:
                raise AssertionError
            return header

    def interrupt_from_outside(self, reason: str, *, boundary: str | None = None) -> bool:
        """Abort the run on somebody else's behalf; its author hears of it at the next step.

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
        """Record how the run ended; None if somebody outside wants that, and it is over."""
        prepared: dict[str, RunEntry] = {}
        why = _CLOSING.get(state) or "interrupted"
        while True:
            self.tools.reconcile()
            # Gates are asked without the lock: they may take their time, and record things.
            self.tools.prepare(why, prepared)
            lock = self.lock
            with lock.guard, lock:
                if outside and not self.is_open:
                    return None
                if self._terminal is not None and not self._untold:
                    return self._terminal
                self._check_open()
                calls = self.tools.open_calls()
                if all(call.call_id in prepared for call in calls):
                    results = [prepared[call.call_id] for call in calls]
                    try:
                        return self._finish(state, reason, _told(error), boundary, results)
                    finally:
                        self._untold = outside and not self.is_open

    def _finish(
        self,
        state: Literal["ended", "failed", "interrupted"],
        reason: str | None,
        told: dict[str, str] | None,
        boundary: str | None,
        results: list[RunEntry],
    ) -> Header:
        """Record the end, with the results of what was open. The caller holds the lock."""
        part = RunEnded(
            duration_ms=int((time.monotonic() - self._clock) * 1_000),
            tool_calls=self.tools.count,
            reason=reason,
            error_class=None if told is None else told.get("class"),
        )
        last = run_end(state, part, told)
        events = self._events([*results, last])
        if boundary is not None:
            mark = interrupt_mark(boundary, self.run_id)
            events.append(self.author.event(mark, None))

        def note(headers: Sequence[Header]) -> None:
            self.tools.settle(headers[: len(results)])
            self.state, self._terminal = state, headers[len(results)]
            self.boundary = headers[-1] if boundary is not None else None
            self.engine.forget(self)

        try:
            headers = self._append(events, note)
        except InvalidInput:
            # The guard refuses what an error or a result says. The run has an end all the same.
            bare = [without_words(entry) for entry in (*results, last)]
            events[: len(bare)] = self._events(bare)
            headers = self._append(events, note)
        return headers[len(results)]

    def note_end(self, header: Header) -> None:
        """Go by the end that the ledger has, if ``header`` is one that its author recorded."""
        state = RUN_ENDS.get(header.kind)
        if state is not None and state != "interrupted":
            self.state, self._terminal = state, header
            self.engine.forget(self)

    # Recording.

    def record_all(self, entries: Sequence[RunEntry], note: Note | None = None) -> list[Header]:
        """Record ``entries`` as part of the run, all or none. Raises RunClosed if it is over.

        ``note`` is told of what was recorded. If it is interrupted, the run is in doubt.
        """
        lock = self.lock
        with lock.guard, lock:
            self._check_open()
            return self._append(self._events(entries), note)

    def record_behind(self, entries: Sequence[RunEntry], seq: int, *, apart: str) -> list[Header]:
        """Record ``entries`` right behind ``seq``, those of the kind ``apart`` outside of the run.

        Raises Conflict if the session has moved on, and RunClosed if the run is over.
        """
        lock = self.lock
        with lock.guard, lock:
            self._check_open()
            inside = iter(self._events([entry for entry in entries if entry.kind != apart]))
            events = [
                self.author.event(entry, None) if entry.kind == apart else next(inside)
                for entry in entries
            ]
            return self._append(events, expected_seq=seq)

    def record_if_open(self, entry: RunEntry, note: Note) -> Header | None:
        """Record ``entry`` as part of the run and tell ``note``; None if the run is over."""
        lock = self.lock
        with lock.guard, lock:
            if not self.is_open:
                return None
            try:
                return self._append(self._events([entry]), note)[0]
            except RunClosed:
                self._untold = True
                return None

    def record_apart(self, entry: RunEntry) -> Header:
        """Record what came too late to be part of the run."""
        return self.engine.record([self.author.event(entry, None)])[0]

    def carry(self, entry: RunEntry) -> None:
        """Carry to the sinks what is counted and not kept."""
        lock = self.lock
        with lock.guard, lock:
            if time.monotonic() - self._looked > LOOK_S:
                self._looked = time.monotonic()
                self.look()
            self._check_open()
            before = self._run_seq
            try:
                self.engine.carry_transient(self._events([entry])[0])
            except BaseException:
                self._run_seq = before
                raise

    def closed_error(self) -> RunClosed:
        """Return what to raise to the author, when the run takes no more."""
        if self.state == "interrupted":
            self._untold = False
            return RunInterrupted(
                f"run {self.run_id} was interrupted", hint="stop here; begin another turn"
            )
        if self.state == "new":
            return RunClosed("the run has not started", hint="use `with` or run.start()")
        return RunClosed(
            f"run {self.run_id} has ended and takes no more events", hint="begin another turn"
        )

    def _opening(self, more: Callable[[], Sequence[RunEntry] | None]) -> list[NewEvent] | None:
        entries = more()
        if entries is None:
            return None
        if self.preparation is None:  # Gates are asked once, and only when the run can begin.
            self.preparation = self.engine.prepare(self.occasion, self._prompt)
        self._run_seq = 0
        first = RunEntry(
            kind="run.started",
            summary="run started",
            refs=self._started.as_refs() or None,
            origin=KERNEL,
            event_id=start_id(self.run_id, self.engine.owner()),
        )
        return self._events([first, *entries])

    def _events(self, entries: Sequence[RunEntry]) -> list[NewEvent]:
        """Give ``entries`` their numbers. The caller holds the lock."""
        first = self._run_seq + 1
        self._run_seq += len(entries)
        return [self.author.event(entry, first + at) for at, entry in enumerate(entries)]

    def _append(
        self, events: list[NewEvent], note: Note | None = None, *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record numbered events; take the numbers back if they were not recorded."""
        # From before they are recorded until that is noted. An interrupt leaves it so, and the
        # numbers of the events are not given again.
        before, self.is_doubtful = self.is_doubtful, True
        try:
            headers = self.engine.record(events, expected_seq=expected_seq)
        except RunClosed:
            self.is_doubtful = before
            self._note_cut()
            raise self.closed_error() from None
        except TreeringError as error:
            if not isinstance(error, OutcomeUnknown):
                self.is_doubtful = before
                self._run_seq -= sum(event.run_id is not None for event in events)
            raise
        self._last_seq = headers[-1].seq
        if note is not None:
            note(headers)
        self.is_doubtful = before
        return headers

    def withdraw(self, error: BaseException) -> None:
        """End the run if ``error`` may have kept its author from hearing that it began or ended."""
        if not _is_doubtful(error):
            self.engine.forget_new(self)
        elif self.is_here:
            self.abandon()

    def abandon(self) -> None:
        """End a run that nobody else is going to end, if the ledger has it."""
        with contextlib.suppress(TreeringError):
            if not self.engine.is_over(self):
                if self.state == "new":
                    self.state, self._clock = "open", time.monotonic()
                self.close("interrupted", "interrupted")
            self.engine.forget_new(self)

    def check_open(self) -> None:
        """Raise RunClosed if it takes no events from here, as far as this process knows."""
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
        """Go on behind what was recorded of the run, or behind ``before``. The lock is held."""
        self._run_seq = max(before, *(header.run_seq or 0 for header in headers), 0)
        self._last_seq = max(self._last_seq, *(header.seq for header in headers), 0)

    def _note_cut(self) -> None:
        """Take note that somebody else has closed the run."""
        self.state, self._untold = "interrupted", True
        self.engine.forget(self)
        rest = self.engine.rest_of(self, self._last_seq)
        self.engine.dispatcher.tell(rest)
        end = next((header for header in rest if header.kind in RUN_ENDS), None)
        if end is not None and end.kind != "run.interrupted":
            # It was ended by hand, as it would have ended: that is no interruption.
            self.state, self._untold, self._terminal = RUN_ENDS[end.kind], False, end


def _is_doubtful(error: BaseException) -> bool:
    """Whether what was to be recorded may be recorded: a Ctrl-C comes after a commit, too."""
    return isinstance(error, OutcomeUnknown) or not isinstance(error, TreeringError)


def _told(error: BaseException | str | None) -> dict[str, str] | None:
    if error is None:
        return None
    told = describe(error)
    return told if isinstance(error, BaseException) else {"reason": told["message"]}
