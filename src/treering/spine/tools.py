"""The tool ledger of a run: every call's intent before it runs, and exactly one outcome."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn, Self

import msgspec

from treering.errors import InvalidInput, NotFound, RunClosed, ToolDenied
from treering.model.codec import canonical
from treering.model.fields import check_name
from treering.model.parts import Blocked, ToolCalled, ToolReturned
from treering.model.tools import check_reason, shape_hash
from treering.spine.entries import TOOL_LEDGER, Entry
from treering.spine.words import describe, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from treering.model.events import Header
    from treering.model.tools import Reason
    from treering.spine.courses import Course


class ToolCall:
    """One tool call: an intent, and exactly one outcome. A context manager."""

    def __init__(self, tools: Tools, name: str, input: Any, call_id: str | None) -> None:  # noqa: A002
        self._tools = tools
        self.name = check_name(name, "tool name")
        self.call_id = check_name(new_id() if call_id is None else call_id, "call_id")
        self.input = input
        """What the tool is called with: as given, or as a gate has changed it."""
        self.intent: Header | None = None
        """What was recorded before the tool runs."""
        self.outcome: Header | None = None
        """What counts as the result, once there is one."""
        self.lock = threading.RLock()
        """Held while its outcome is made and recorded; never asked for with the run's lock held."""
        self.is_settled = False
        """Whether the tool itself has had its say, be it late."""
        self.started_at = 0.0
        """When its intent was recorded, by the monotonic clock."""

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, call_id={self.call_id!r})"

    def __enter__(self) -> Self:
        self._tools.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.outcome is not None or not self._tools.is_here:
            return
        if error is None:
            self.give_up("missing_result")
            return
        # If the run was closed meanwhile, that is no reason to hide what went wrong here.
        with contextlib.suppress(RunClosed):
            if isinstance(error, TimeoutError):
                self.give_up("timeout")
            elif isinstance(error, Exception):
                self.fail(error)
            else:
                # What is no Exception came from outside: Ctrl-C, a task cancelled, a generator
                # closed.
                self.give_up("interrupted")

    def finish(self, output: Any = None) -> Header:
        """Record that the tool returned ``output``.

        One that comes after a synthetic outcome is kept as late, and linked to that.
        """
        return self._tools.conclude(self, self._tools.results.returned, output)

    def fail(self, error: BaseException | str) -> Header:
        """Record that the tool failed; late, as ``finish`` may be."""
        return self._tools.conclude(self, self._tools.results.failed, describe(error))

    def give_up(self, reason: Reason) -> Header:
        """Record that the tool gives no result: a synthetic one stands in, with the reason.

        A call that has its outcome keeps it.
        """
        return self._tools.replace(self, check_reason(reason))

    @property
    def duration_ms(self) -> int:
        """Return how long it has run."""
        return int((time.monotonic() - self.started_at) * 1_000)


class Tools:
    """The tool calls of one run, by their ids."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self.results = course.spine.results
        self._open: dict[str, ToolCall] = {}
        self._replaced: dict[str, ToolCall] = {}
        """Calls with a synthetic outcome: the tool itself may still come."""
        self._settled: set[str] = set()

    @property
    def is_here(self) -> bool:
        """Whether this process began the run: a forked child leaves its parent's calls alone."""
        return self._course.is_here

    @property
    def count(self) -> int:
        """Return how many calls the run has made."""
        return len(self._open) + len(self._replaced) + len(self._settled)

    def started(self, name: str, input: Any = None, *, call_id: str | None = None) -> ToolCall:  # noqa: A002
        """Record that a tool is about to run; return its call. Raises ToolDenied if it may not."""
        call = ToolCall(self, name, input, call_id)
        self.begin(call)
        return call

    def finished(self, call_id: str, output: Any = None) -> Header:
        """Record that a tool returned ``output``."""
        return self.find(call_id).finish(output)

    def failed(self, call_id: str, error: BaseException | str) -> Header:
        """Record that a tool failed."""
        return self.find(call_id).fail(error)

    def gave_up(self, call_id: str, reason: Reason) -> Header:
        """Record that a tool gives no result, and why."""
        return self.find(call_id).give_up(reason)

    def find(self, call_id: str) -> ToolCall:
        """Return the call with this id that the tool has not answered yet.

        Raises RunClosed if it has, and NotFound if the run has made no such call.
        """
        check_name(call_id, "call_id")
        call = self._open.get(call_id) or self._replaced.get(call_id)
        if call_id in self._settled:
            raise _has_outcome(call_id)
        if call is None:
            raise NotFound(
                f"run {self._course.run_id} has made no call {call_id}",
                hint="record the start of a call before its result",
            )
        return call

    def open_calls(self) -> list[ToolCall]:
        """Return the calls without an outcome, in order."""
        return list(self._open.values())

    def prepare(self, reason: Reason, entries: dict[str, Entry]) -> None:
        """Add to ``entries`` what closes each open call that they lack.

        Gates are asked: the caller does not hold the run's lock.
        """
        for call in self.open_calls():
            if call.call_id not in entries:
                entries[call.call_id] = self.results.synthetic(
                    self._course.occasion, call.name, call.call_id, call.duration_ms, reason
                )

    def settle(self, headers: Sequence[Header]) -> None:
        """Note that every open call has its synthetic outcome. The caller holds the run's lock."""
        for call, header in zip(list(self._open.values()), headers, strict=True):
            self._close(call, header, synthetic=True)

    # Starting.

    def begin(self, call: ToolCall) -> None:
        """Record the intent of ``call``. Raises ToolDenied if it may not run."""
        code, why = self._check(call)
        encoded = canonical(call.input, "input")
        part = ToolCalled(
            call_id=call.call_id,
            tool=call.name,
            input_shape=shape_hash(call.input),
            input_bytes=len(encoded),
        )
        intent = Entry(
            kind="tool.call",
            summary=f"{call.name} called",
            payload={"call_id": call.call_id, "name": call.name, "input": call.input},
            refs=part.as_refs(),
            origin=TOOL_LEDGER,
        )
        if code is not None:
            self._deny(call, intent, code, why)
        with self._course.lock:
            self._check_fresh(call)
            call.intent = self._course.record_all([intent])[0]
            call.started_at = time.monotonic()
            self._open[call.call_id] = call

    def _check(self, call: ToolCall) -> tuple[str | None, str | None]:
        """Return why a call may not run: a code, and words for it. Gates may change its input."""
        course = self._course
        if not course.session.permits(call.name):
            return "not_permitted", None
        canonical(call.input, "input")
        verdict = course.spine.ask_tool(course.occasion, call.name, call.call_id, call.input)
        if verdict.blocked:
            return "hook", verdict.reason
        if verdict.content is not None:
            call.input = verdict.content
        return None, None

    def _check_fresh(self, call: ToolCall) -> None:
        if any(call.call_id in known for known in (self._open, self._replaced, self._settled)):
            raise InvalidInput(
                f"the run has made a call {call.call_id} before",
                hint="give each call an id of its own, or leave it out",
            )

    def _deny(self, call: ToolCall, intent: Entry, code: str, why: str | None) -> NoReturn:
        """Record a call that may not run, with its outcome, and refuse it."""
        refusal = Entry(
            kind="ops.blocked",
            summary=f"{call.name} not allowed: {code}",
            payload={"reason": why} if why else None,
            refs=Blocked(tool=call.name, call_id=call.call_id, code=code).as_refs(),
            origin=TOOL_LEDGER,
        )
        outcome = self.results.synthetic(
            self._course.occasion, call.name, call.call_id, 0, "denied"
        )
        with self._course.lock:
            self._check_fresh(call)
            headers = self._course.record_all([intent, refusal, outcome])
            call.intent, call.started_at = headers[0], time.monotonic()
            self._close(call, headers[-1], synthetic=True)
        reason = f": {why}" if why else ""
        raise ToolDenied(
            f"{call.name} may not run in session {self._course.session.session_id}{reason}",
            hint="use another tool, or allow it when the session is opened"
            if code == "not_permitted"
            else "a before_tool_call hook blocks it",
        )

    # Concluding.

    def conclude(self, call: ToolCall, make: Callable[..., Entry], told: Any) -> Header:
        """Record a real outcome, once."""
        with self._claimed(call):
            if call.is_settled:
                raise _has_outcome(call.call_id)
            # Gates are asked without the run's lock: they may take their time, and record things.
            duration_ms = call.duration_ms
            entry = make(self._course.occasion, call.name, call.call_id, duration_ms, told)
            with self._course.lock:
                if call.is_settled:  # By a gate.
                    raise _has_outcome(call.call_id)
                header = self._record(call, entry)
                self._close(call, call.outcome or header, synthetic=False)
                return header

    def replace(self, call: ToolCall, reason: Reason) -> Header:
        """Record a synthetic outcome, unless there is one."""
        with self._claimed(call):
            if call.outcome is not None:
                return call.outcome
            entry = self.results.synthetic(
                self._course.occasion, call.name, call.call_id, call.duration_ms, reason
            )
            with self._course.lock:
                # The run may have ended meanwhile, and the call with it.
                header = call.outcome
                if header is None:
                    header = self._course.record_all([entry])[0]
                    self._close(call, header, synthetic=True)
                return header

    def _record(self, call: ToolCall, entry: Entry) -> Header:
        """Record an outcome in its run or, if that takes no more, as late."""
        if call.outcome is None:
            # Somebody else may have closed the run, and the call with it.
            header = self._course.record_if_open(entry)
            if header is not None:
                return header
        counts = call.outcome.event_id if call.outcome else self._outcome_of(call)
        late = ToolReturned(late=True, run=self._course.run_id, outcome=counts).as_refs()
        return self._course.record_apart(
            msgspec.structs.replace(
                entry, summary=f"{entry.summary}, late", refs={**entry.refs, **late}
            )
        )

    def _outcome_of(self, call: ToolCall) -> str | None:
        """Return the id of the event that is the outcome of a call, as the ledger has it."""
        return self._course.spine.outcome_of(self._course, call.call_id)

    @contextlib.contextmanager
    def _claimed(self, call: ToolCall) -> Iterator[None]:
        """Let others who conclude the same call wait. Raises RunClosed if it has not started."""
        with self._course.lock:
            if call.intent is None:
                raise RunClosed(
                    f"the call {call.call_id} has not started", hint="use it as a context manager"
                )
        with call.lock:
            yield

    def _close(self, call: ToolCall, header: Header, *, synthetic: bool) -> None:
        self._open.pop(call.call_id, None)
        self._replaced.pop(call.call_id, None)
        if synthetic:
            self._replaced[call.call_id] = call
        else:
            self._settled.add(call.call_id)
        call.outcome, call.is_settled = header, not synthetic


def _has_outcome(call_id: str) -> RunClosed:
    return RunClosed(f"the call {call_id} has its outcome", hint="finish a call once")
