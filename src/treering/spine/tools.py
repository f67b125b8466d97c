"""The tool calls of a run: each is recorded before it runs, and gets exactly one outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from treering.errors import InvalidInput, NotFound, RunClosed, ToolDenied
from treering.model.codec import encode
from treering.model.fields import fit_name
from treering.model.parts import Blocked, ToolCalled, ToolReturned, safe_part
from treering.model.tools import Reason, shape_hash
from treering.spine.conversion import to_json
from treering.spine.run_events import TOOL_LEDGER, CalledTool, make_event
from treering.spine.runs import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.model.events import Header, NewEvent
    from treering.spine.run_state import RunState


class Tools:
    """The tool calls of one run, by their ids."""

    def __init__(self, run_state: RunState) -> None:
        self._run_state = run_state
        self.results = run_state.engine.results
        self._open: dict[str, ToolCall] = {}
        self._replaced: dict[str, ToolCall] = {}
        """Calls with a synthetic outcome: the tool itself may still return."""
        self._settled: set[str] = set()

    @property
    def is_here(self) -> bool:
        """Whether this process began the run: a forked child must not touch its parent's calls."""
        return self._run_state.is_here

    @property
    def count(self) -> int:
        """Return the number of calls of the run."""
        return len(self._open) + len(self._replaced) + len(self._settled)

    def started(self, name: str, input: Any = None, *, call_id: str | None = None) -> ToolCall:  # noqa: A002
        """Record that a tool is about to run; return its call. Raises ToolDenied if it may not."""
        call = ToolCall(self, name, input, call_id)
        self.begin(call)
        return call

    def take_up(self, name: str, input: Any) -> ToolCall | None:  # noqa: A002
        """Return the open call that a model asked for, if nothing runs it yet."""
        lock = self._run_state.lock
        with lock.guard, lock:
            asked = [c for c in self._open.values() if c.is_awaited and c.name == name]
            if not asked:
                return None
            call = next((c for c in asked if c.input == input), asked[0])
            call.is_awaited, call.started_at = False, time.monotonic()
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
        """Return the open call with this id.

        Raises RunClosed if it has its outcome, and NotFound if the run has no such call.
        """
        call_id, _ = fit_name(call_id, "call_id")
        call = self._open.get(call_id) or self._replaced.get(call_id)
        if call_id in self._settled:
            raise _has_outcome(call_id)
        if call is None:
            raise NotFound(
                f"run {self._run_state.run_id} has no call {call_id}",
                hint="record the start of a call before its result",
            )
        return call

    def open_calls(self) -> list[ToolCall]:
        """Return the calls without an outcome, in order."""
        return list(self._open.values())

    def prepare(self, reason: Reason, results: dict[str, NewEvent]) -> None:
        """Add to ``results`` an event that closes each open call that they lack.

        Gates are asked: the caller does not hold the run's lock.
        """
        for call in self.open_calls():
            if call.call_id not in results:
                results[call.call_id] = self.results.synthetic(self._called(call), reason)

    def reconcile(self) -> None:
        """Adopt what the ledger holds, after a recording whose outcome is unknown."""
        run_state = self._run_state
        if not run_state.is_doubtful:
            return
        lock = run_state.lock
        with lock.guard, lock:
            for header in run_state.headers():
                part = safe_part(header.kind, header.refs)
                if isinstance(part, ToolCalled) and part.call_id and not self._knows(part.call_id):
                    call = ToolCall(self, part.tool or "tool", None, part.call_id)
                    call.intent, call.started_at = header, time.monotonic()
                    self._open[call.call_id] = call
                elif isinstance(part, ToolReturned) and part.call_id in self._open:
                    call = self._open[part.call_id]
                    self._close(call, header, synthetic=part.status == "synthetic")
                run_state.note_end(header)
            run_state.is_doubtful = False

    def settle(self, headers: Sequence[Header]) -> None:
        """Note that every open call has its synthetic outcome. The caller holds the run's lock."""
        for call, header in zip(list(self._open.values()), headers, strict=True):
            self._close(call, header, synthetic=True)

    # Starting.

    def begin(self, call: ToolCall) -> None:
        """Record the intent of ``call``. Raises ToolDenied if it may not run."""
        given, marks = to_json(call.input, "/input")
        code, why, changed = self._check(call, given)
        if changed is not None:
            call.input = given = changed
            marks = []
        part = ToolCalled(
            call_id=call.call_id,
            tool=call.name,
            input_shape=shape_hash(given),
            input_bytes=len(encode(given)),
        )
        stated = {"call_id": call.call_id, "name": call.name, "input": given}
        if call.given_name is not None:
            stated["given_name"] = call.given_name
            marks = [*marks, {"at": "/name", "type": "str", "as": "shortened"}]
        intent = make_event(
            self._run_state.template,
            "tool.call",
            f"{call.name} called",
            payload=stated,
            refs=part.as_refs(),
            origin=TOOL_LEDGER,
            marks=marks,
        )
        if code is not None:
            self._deny(call, intent, code, why)

        def note(headers: Sequence[Header]) -> None:
            call.intent, call.started_at = headers[0], time.monotonic()
            self._open[call.call_id] = call

        lock = self._run_state.lock
        with lock.guard, lock:
            self._check_fresh(call)
            self._run_state.record([intent], note)

    def _check(self, call: ToolCall, given: Any) -> tuple[str | None, str | None, Any]:
        """Return why a call may not run: a code, and words for it; or what a gate made of it."""
        run_state = self._run_state
        if not run_state.session.permits(call.name):
            return "not_permitted", None, None
        gates = run_state.engine.gates
        verdict = gates.before_tool(run_state.occasion, call.name, call.call_id, given)
        if verdict.blocked:
            return "gate", verdict.reason, None
        return None, None, verdict.content

    def _check_fresh(self, call: ToolCall) -> None:
        if self._knows(call.call_id):
            raise InvalidInput(
                f"the run already has a call {call.call_id}",
                hint="give each call its own id, or leave it out",
            )

    def _knows(self, call_id: str) -> bool:
        return any(call_id in calls for calls in (self._open, self._replaced, self._settled))

    def _deny(self, call: ToolCall, intent: NewEvent, code: str, why: str | None) -> NoReturn:
        """Record a call that may not run, with its outcome, and refuse it."""
        refusal = make_event(
            self._run_state.template,
            "ops.blocked",
            f"{call.name} not allowed: {code}",
            payload={"reason": why} if why else None,
            refs=Blocked(tool=call.name, call_id=call.call_id, code=code).as_refs(),
            origin=TOOL_LEDGER,
        )
        outcome = self.results.synthetic(self._called(call, duration_ms=0), "denied")

        def note(headers: Sequence[Header]) -> None:
            call.intent, call.started_at = headers[0], time.monotonic()
            self._close(call, headers[-1], synthetic=True)

        lock = self._run_state.lock
        with lock.guard, lock:
            self._check_fresh(call)
            self._run_state.record([intent, refusal, outcome], note)
        reason = f": {why}" if why else ""
        raise ToolDenied(
            f"{call.name} may not run in session {self._run_state.session.session_id}{reason}",
            hint="use another tool, or allow it when the session is opened"
            if code == "not_permitted"
            else "a gate of this ledger refused it, for the reason above",
        )

    # Concluding.

    def conclude(
        self, call: ToolCall, make: Callable[[CalledTool, Any], NewEvent], result: Any
    ) -> Header:
        """Record a real outcome, once."""
        self._check_started(call)
        with call.lock.guard, call.lock:
            self.reconcile()
            if call.is_settled:
                raise _has_outcome(call.call_id)
            # Gates are asked without the run's lock: they may take their time, and record things.
            event = make(self._called(call), result)
            lock = self._run_state.lock
            with lock.guard, lock:
                if call.is_settled:  # By a gate.
                    raise _has_outcome(call.call_id)
                return self._record(call, event)

    def replace(self, call: ToolCall, reason: Reason) -> Header:
        """Record a synthetic outcome, unless there is one."""
        self._check_started(call)
        with call.lock.guard, call.lock:
            self.reconcile()
            if call.outcome is not None:
                return call.outcome
            event = self.results.synthetic(self._called(call), reason)
            lock = self._run_state.lock
            with lock.guard, lock:
                # The run may have ended meanwhile, and the call with it.
                header = call.outcome
                if header is None:
                    header = self._run_state.record(
                        [event], lambda headers: self._close(call, headers[0], synthetic=True)
                    )[0]
                return header

    def _called(self, call: ToolCall, duration_ms: int | None = None) -> CalledTool:
        return CalledTool(
            self._run_state.occasion,
            self._run_state.template,
            call.name,
            call.call_id,
            call.duration_ms if duration_ms is None else duration_ms,
        )

    def _record(self, call: ToolCall, event: NewEvent) -> Header:
        """Record an outcome in its run or, if that takes no more, as late."""
        if call.outcome is None:
            # Somebody else may have closed the run, and the call with it.
            header = self._run_state.record_if_open(
                event, lambda headers: self._close(call, headers[0], synthetic=False)
            )
            if header is not None:
                return header
        counts = call.outcome.event_id if call.outcome else self._outcome_id(call.call_id)
        late = ToolReturned(late=True, run=self._run_state.run_id, outcome=counts).as_refs()
        header = self._run_state.record_apart(
            msgspec.structs.replace(
                event, summary=f"{event.summary}, late", refs={**event.refs, **late}
            )
        )
        self._close(call, call.outcome or header, synthetic=False)
        return header

    def _outcome_id(self, call_id: str) -> str | None:
        """Return the id of the event that is the outcome of a call, as the ledger has it."""
        for header in self._run_state.headers():
            part = safe_part(header.kind, header.refs)
            if isinstance(part, ToolReturned) and part.call_id == call_id:
                return header.event_id
        return None

    def _check_started(self, call: ToolCall) -> None:
        lock = self._run_state.lock
        with lock.guard, lock:
            if call.intent is None:
                raise RunClosed(
                    f"the call {call.call_id} has not started", hint="use it as a context manager"
                )

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
