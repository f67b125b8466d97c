"""The conversation that passes through a client of a model, recorded turn by turn."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from treering.adapters.lenient_writer import LenientWriter, record_reply
from treering.errors import InvalidInput, RunClosed, ToolDenied
from treering.locks import Lock
from treering.spine.words import describe

if TYPE_CHECKING:
    from treering.adapters.wire import Asked, ModelAnswer, ModelCall, ToolOutput
    from treering.ledger.sessions import Session
    from treering.spine.runs import Run, ToolCall


class ClientRecorder:
    """Records requests and answers in the current turn, or else in turns of its own.

    A turn of its own begins with what the user says, continues while the model calls tools, and
    ends with the answer that calls none. In a turn of the caller, what the user says is recorded
    unless the caller has recorded it.
    """

    def __init__(self, session: Session, *, strict: bool = False) -> None:
        self.session = session
        self.writer = LenientWriter(session, strict=strict)
        self._lock = Lock()
        self._own: Run | None = None
        """The turn that this recorder began."""
        self._busy = 0
        """Requests in it without an answer yet."""
        self.calls: dict[str, ToolCall] = {}
        """Calls that the model asked for, by its ids, until their results come."""
        self._authored: tuple[str | None, bool] = (None, False)
        """The last turn of a caller, and whether they recorded what the user said."""

    def begin(self, asked: Asked) -> Exchange:
        """Record what is new in a request that is about to be sent."""
        exchange = Exchange(self, asked)
        with self._lock.guard, self._lock:
            self.writer.write(exchange.open)
            for output in asked.outputs:
                self.writer.write(partial(exchange.take_output, output))
            for text, attached in asked.users:
                self.writer.write(partial(exchange.say, text, attached))
        return exchange

    # Called by exchanges.

    def run_for(self, exchange: Exchange) -> Run:
        """Return the turn that a request belongs to; begin one if necessary."""
        run = self.session.running
        if run is not None and run is not self._own:
            return run
        own = self._own
        if own is not None and own.is_open:
            answered = {output.call_id for output in exchange.asked.outputs}
            if self._busy or not exchange.asked.users or answered & self.calls.keys():
                self._busy += 1
                return own
            # The user continues without the results that the model waits for.
            own.end()
        self.calls.clear()
        self._own = begun = self.session.turn(entry_point="client", model=exchange.asked.model)
        begun.start()
        self._busy = 1
        return begun

    def wants_user(self, run: Run) -> bool:
        """Whether to record what the user says: the caller may have done so."""
        if run is self._own:
            return True
        if self._authored[0] != run.run_id:
            users = self.session.headers(kinds=["conversation.user"], turn_id=run.turn_id, last=1)
            self._authored = (run.run_id, next(iter(users), None) is not None)
        return not self._authored[1]

    def await_call(self, run: Run, call: ModelCall) -> ToolCall | None:
        """Record that a model calls a tool, which the caller will run."""
        started = start_call(run, call)
        if started is not None:
            started.is_awaited = True
            self.calls[call.call_id] = started
        return started

    def leave(self, run: Run, *, is_over: bool) -> None:
        """Note that a request has its answer; end a turn of its own that ``is_over``."""
        if run is self._own:
            self._busy -= 1
            if is_over and self._busy <= 0 and run.is_open:
                run.end()

    def abandon(self, run: Run, error: BaseException) -> None:
        """End a turn of its own by an error, or note the error in that of the caller."""
        if run is self._own:
            self._busy = 0
            if run.is_open:
                run.__exit__(type(error), error, error.__traceback__)
        elif run.is_open:
            cause = describe(error)
            notes = {"code": "model_error", "error_class": cause["class"]}
            run.emit("ops.warning", {**notes, **cause})


class Exchange:
    """One request and its answer. Its methods are called in order; each writes once."""

    def __init__(self, recorder: ClientRecorder, asked: Asked) -> None:
        self._recorder = recorder
        self.asked = asked
        self._run: Run | None = None
        self._is_over = False

    # At the request.

    def open(self) -> None:
        """Find or begin the turn."""
        self._run = self._recorder.run_for(self)

    def take_output(self, output: ToolOutput) -> None:
        """Record the output of a tool, unless the tool has recorded it."""
        run = self._run
        if run is None:
            return
        call = self._recorder.calls.pop(output.call_id, None)
        if call is None:
            # Of a call made before this recorder existed: it is in the request.
            asked = next((c for c in self.asked.calls if c.call_id == output.call_id), None)
            is_recorded = any(
                record.call_id == output.call_id for record in run.session.tool_calls(last=50)
            )
            if asked is None or is_recorded:
                return
            call = start_call(run, asked)
        if call is not None and call.outcome is None:
            _conclude(call, output)

    def say(self, text: str, attached: list[Any]) -> None:
        """Record what the user says."""
        if self._run is not None and self._recorder.wants_user(self._run):
            self._run.user(text, **({"attachments": attached} if attached else {}))

    # At the answer.

    def delta(self, text: str) -> None:
        """Carry a piece of the answer to the sinks."""
        if self._run is not None and self._run.is_open:
            with contextlib.suppress(Exception):  # Pieces are not stored: nothing is lost.
                self._run.delta(text)

    def finish(self, answer: ModelAnswer) -> None:
        """Record the answer."""
        if self._is_over:
            return
        self._is_over = True
        write = self._recorder.writer.write
        write(partial(self._reply, answer))
        for text in answer.others:
            write(partial(self._emit, "ops.observation", {"text": text}, "another answer"))
        for call, output in answer.ran:
            write(partial(self._ran, call, output))
        for call in answer.calls:
            write(partial(self._ask, call))
        write(partial(self._leave, is_over=not answer.calls))

    def fail(self, error: BaseException, answer: ModelAnswer | None = None) -> None:
        """Record that no answer came, or only the beginning of one."""
        if self._is_over:
            return
        self._is_over = True
        if answer is not None and (answer.reply.text or answer.reply.usage):
            self._recorder.writer.write(partial(self._reply, answer))
        self._recorder.writer.write(partial(self._abandon, error))

    def warn(self, code: str, message: str) -> None:
        """Record an attempt that failed, after which another one follows."""
        content = {"code": code, "message": message}
        self._recorder.writer.write(partial(self._emit, "ops.warning", content, None))

    def _reply(self, answer: ModelAnswer) -> None:
        if self._run is not None:
            record_reply(self._run, answer.reply, usage_extra=answer.usage_extra)

    def _emit(self, kind: str, content: dict[str, Any], summary: str | None) -> None:
        if self._run is not None and self._run.is_open:
            self._run.emit(kind, content, summary=summary)

    def _ran(self, call: ModelCall, output: ToolOutput) -> None:
        if self._run is not None and (started := start_call(self._run, call)) is not None:
            _conclude(started, output)

    def _ask(self, call: ModelCall) -> None:
        if self._run is not None:
            self._recorder.await_call(self._run, call)

    def _leave(self, *, is_over: bool) -> None:
        if self._run is not None:
            self._recorder.leave(self._run, is_over=is_over)

    def _abandon(self, error: BaseException) -> None:
        if self._run is not None:
            self._recorder.abandon(self._run, error)


def start_call(run: Run, call: ModelCall) -> ToolCall | None:
    """Record that a tool is called; None if it is denied, which is recorded as well."""
    try:
        return run.tools.started(call.tool, call.input, call_id=call.call_id or None)
    except ToolDenied:
        return None
    except InvalidInput:
        # Some models restart their ids in every answer; the ledger needs unique ones.
        with contextlib.suppress(ToolDenied):
            return run.tools.started(call.tool, call.input)
        return None


def _conclude(call: ToolCall, output: ToolOutput) -> None:
    with contextlib.suppress(RunClosed):  # Its function has recorded the outcome meanwhile.
        if output.is_error:
            call.fail(output.output if isinstance(output.output, str) else str(output.output))
        else:
            call.finish(output.output)
