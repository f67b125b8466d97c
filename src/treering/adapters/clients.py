"""Records what passes through the clients of OpenAI and Anthropic.

    client = treering.record(OpenAI(), session)
    client.chat.completions.create(model="gpt-5", messages=[...])

A recorded client is a copy of the client that was given: same class, same connections. The recorder
reads the bytes of requests and answers as they pass, so the caller gets exactly what the client
makes of them.
"""

from __future__ import annotations

import contextlib
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.adapters.lenient_writer import LenientWriter, Reply, record_reply
from treering.adapters.wire import ModelAnswer, api_of
from treering.errors import InvalidInput, RunClosed, ToolDenied
from treering.ledger.sessions import Session
from treering.locks import Lock
from treering.spine.off_loop import off_loop
from treering.spine.words import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from treering.adapters.wire import AnswerStream, Asked, Json, ModelCall, ToolOutput, WireApi
    from treering.spine.runs import Run, ToolCall

Client = TypeVar("Client")
EVENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest event of a stream that is read."""

_sending: Final[ContextVar[Sent | None]] = ContextVar("treering_sending", default=None)
"""The request of the SDK's current call, through all its attempts."""


def record(client: Client, session: Session, *, strict: bool = False) -> Client:
    """Return a copy of a client of ``openai`` or ``anthropic`` that records in ``session``.

    Chat completions, responses and messages are recorded, streamed or not, with tool calls and
    usage: in the current turn, or else in turns of their own. The caller gets what the client
    gives. If the ledger fails, the call still succeeds: ``client.treering`` counts what was lost.
    With ``strict`` the call fails instead.
    """
    if not isinstance(session, Session):
        raise InvalidInput(
            f"a client is recorded in a session, not in a {type(session).__name__}",
            hint="pass ledger.session(…)",
        )
    http: Any = getattr(client, "_client", None)
    if not callable(getattr(client, "copy", None)) or not callable(getattr(http, "send", None)):
        raise InvalidInput(
            f"a {type(client).__name__} cannot be recorded",
            hint="pass a client of openai or anthropic, such as OpenAI()",
        )
    recorder = ClientRecorder(session, strict=strict)
    copied: Any = client.copy()  # type: ignore[attr-defined]
    if type(http) in {RecordedHttp, RecordedAsyncHttp}:  # It was recorded in another session.
        http = http.inner
    is_async = inspect.iscoroutinefunction(http.send)
    copied.__class__ = _recorded_class(copied.__class__, is_async=is_async)
    copied._client = (RecordedAsyncHttp if is_async else RecordedHttp)(http, recorder)  # noqa: SLF001
    recorded: Client = copied
    return recorded


@cache
def _recorded_class(kind: type, *, is_async: bool) -> type:
    """Return a subclass that notices when a call has finally failed."""
    if getattr(kind, "_is_recorded_by_treering", False):
        return kind

    def request(self: Any, *args: Any, **named: Any) -> Any:
        token = _sending.set(sent := Sent())
        try:
            return kind.request(self, *args, **named)  # type: ignore[attr-defined]
        except BaseException as error:
            sent.fail(error)
            raise
        finally:
            _sending.reset(token)

    async def request_async(self: Any, *args: Any, **named: Any) -> Any:
        token = _sending.set(sent := Sent())
        try:
            return await kind.request(self, *args, **named)  # type: ignore[attr-defined]
        except BaseException as error:
            if sent.exchange is not None:
                await off_loop(self.treering_thread, sent.fail, error)
            raise
        finally:
            _sending.reset(token)

    return type(
        kind.__name__,
        (kind,),
        {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "_is_recorded_by_treering": True,
            "request": request_async if is_async else request,
            "treering": property(lambda self: self._client.recorder.writer),
            "treering_thread": property(lambda self: self._client.thread),
        },
    )


class StreamError(Exception):
    """The provider broke off a stream."""


class Sent:
    """A call of the SDK: one request, sent until it succeeds or is given up."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None

    def fail(self, error: BaseException) -> None:
        """Record that the call failed."""
        if self.exchange is not None:
            self.exchange.fail(error)


class RecordedHttp:
    """An HTTP client that wraps another one, and pretends to be it."""

    def __init__(self, inner: Any, recorder: ClientRecorder) -> None:
        self.inner = inner
        self.recorder = recorder

    @property  # type: ignore[misc]  # SDKs only read it.
    def __class__(self) -> Any:
        """Return the class of the wrapped client: SDKs check it."""
        return type(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def send(self, request: Any, **named: Any) -> Any:
        """Send a request, and record it and its answer."""
        passing = _passing(request, self.recorder)
        if passing is None:
            return self.inner.send(request, **named)
        passing.begin()
        response = self.inner.send(request, **named)
        if not named.get("stream"):
            passing.read(response.status_code, response.content)
        elif response.status_code >= 400:
            passing.read(response.status_code)
        else:
            response.iter_bytes = partial(_followed, response.iter_bytes, passing)
        return response


class RecordedAsyncHttp(RecordedHttp):
    """The same for an asynchronous client; it records in its own thread, in order."""

    def __init__(self, inner: Any, recorder: ClientRecorder) -> None:
        super().__init__(inner, recorder)
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="treering")

    async def send(self, request: Any, **named: Any) -> Any:
        """Send a request, and record it and its answer."""
        passing = _passing(request, self.recorder)
        if passing is None:
            return await self.inner.send(request, **named)
        await off_loop(self.thread, passing.begin)
        response = await self.inner.send(request, **named)
        if not named.get("stream"):
            await off_loop(self.thread, passing.read, response.status_code, response.content)
        elif response.status_code >= 400:
            await off_loop(self.thread, passing.read, response.status_code)
        else:
            response.aiter_bytes = partial(
                _followed_async, response.aiter_bytes, passing, self.thread
            )
        return response


def _passing(request: Any, recorder: ClientRecorder) -> Passing | None:
    """Return the recording of a request; None if it is not part of a conversation."""
    api = api_of(str(request.method), str(request.url.path))
    if api is None:
        return None
    try:
        body = msgspec.json.decode(request.content)
    except Exception:  # noqa: BLE001  (a body that is a stream, or not JSON)
        return None
    if not isinstance(body, dict):
        return None
    return Passing(api, body, recorder, _sending.get() or Sent())


class Passing:
    """One attempt to get an answer, as it passes. Nothing here raises, unless it is strict."""

    def __init__(self, api: WireApi, body: Json, recorder: ClientRecorder, sent: Sent) -> None:
        self._api = api
        self._body = body
        self._recorder = recorder
        self._sent = sent
        self._stream: AnswerStream = api.stream()
        self._rest = bytearray()
        """The bytes after the last whole line."""
        self._whole: bytearray | None = None
        """The bytes of an answer that is not a stream, though it could have been."""
        self._error: str | None = None
        """The error that the provider reported within a stream."""
        self._has_begun = self._is_over = False

    def begin(self) -> None:
        """Record the request, unless an earlier attempt did."""
        if self._sent.exchange is None:
            self._recorder.writer.attempt(self._begin)

    def read(self, status: int, content: bytes = b"") -> None:
        """Record a whole answer, or the failure of an attempt."""
        self._end(partial(self._read, status, content))

    def take(self, chunk: bytes) -> list[str]:
        """Take bytes of an answer; return the pieces of text in them."""
        return list(self._take(chunk))

    @property
    def is_complete(self) -> bool:
        """Whether the stream is complete, and not recorded yet."""
        return self._stream.is_complete and not self._is_over

    def carry(self, pieces: list[str]) -> None:
        """Pass pieces of text on to the sinks, and record an answer that is complete."""
        for piece in pieces:
            if self._sent.exchange is not None:
                self._sent.exchange.delta(piece)
        if self.is_complete:
            self.end()

    def end(self) -> None:
        """Record the answer after its last byte."""
        if self._whole is not None:
            self.read(200, bytes(self._whole))
        elif self._error is not None:
            self.leave(StreamError(self._error))
        else:
            self._end(lambda exchange: exchange.finish(self._answer(self._stream.body())))

    def leave(self, error: BaseException) -> None:
        """Record that the stream broke off, or that its reader left."""
        cause = error if self._error is None else StreamError(self._error)
        self._end(lambda exchange: exchange.fail(cause, self._partial()))

    def _begin(self) -> None:
        asked = self._api.asked(self._body)
        self._sent.exchange = self._recorder.begin(asked)

    def _end(self, act: Callable[[Exchange], None]) -> None:
        exchange = self._sent.exchange
        if not self._is_over and exchange is not None:
            self._is_over = True
            self._recorder.writer.attempt(lambda: act(exchange))

    def _read(self, status: int, content: bytes, exchange: Exchange) -> None:
        body = _event(content)
        if status < 400 and not body.get("error"):
            exchange.finish(self._answer(body))
        else:
            exchange.warn("model_error", f"HTTP {status} {body.get('error', '')!s:.1000}".strip())

    def _take(self, chunk: bytes) -> Iterator[str]:
        if self._whole is not None or (not self._has_begun and chunk.lstrip()[:1] == b"{"):
            self._whole = bytearray() if self._whole is None else self._whole
            self._whole += chunk
            return
        self._has_begun = True
        if len(self._rest) > EVENT_BYTES_MAX:
            self._rest.clear()
        self._rest += chunk
        if b"\n" not in chunk:  # An image comes as one line, in very many chunks.
            return
        *lines, self._rest = self._rest.replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                event = _event(line[5:].strip())
                if event.get("error") or event.get("type") == "error":
                    self._error = f"{event.get('error') or event.get('message')!s:.1000}"
                elif piece := self._recorder.writer.attempt(self._stream.take, event):
                    yield piece

    def _answer(self, body: Json) -> ModelAnswer:
        """Return what an answer says: nothing, counted as lost, if it cannot be read."""
        answer = self._recorder.writer.attempt(self._api.answer, body)
        return answer or ModelAnswer(reply=Reply())

    def _partial(self) -> ModelAnswer:
        answer = self._answer(self._stream.body())
        reply = msgspec.structs.replace(answer.reply, stop_reason="aborted")
        return msgspec.structs.replace(answer, reply=reply)


def _event(data: bytes | bytearray) -> Json:
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"data": data.decode(errors="replace")}
    return event if isinstance(event, dict) else {}


def _followed(
    iter_bytes: Callable[..., Iterator[bytes]], passing: Passing, *args: Any, **named: Any
) -> Iterator[bytes]:
    """Yield the bytes of an answer, and record it on the way."""
    try:
        for chunk in iter_bytes(*args, **named):
            passing.carry(passing.take(chunk))
            yield chunk
    except BaseException as error:
        passing.leave(error)
        raise
    passing.end()


async def _followed_async(
    aiter_bytes: Callable[..., AsyncIterator[bytes]],
    passing: Passing,
    thread: ThreadPoolExecutor,
    *args: Any,
    **named: Any,
) -> AsyncIterator[bytes]:
    """Do the same for an asynchronous answer."""
    try:
        async for chunk in aiter_bytes(*args, **named):
            pieces = passing.take(chunk)
            if pieces or passing.is_complete:
                await off_loop(thread, passing.carry, pieces)
            yield chunk
    except GeneratorExit as error:
        # The garbage collector may be the caller: nobody waits for the record.
        thread.submit(passing.leave, error)
        raise
    except BaseException as error:
        await off_loop(thread, passing.leave, error)
        raise
    await off_loop(thread, passing.end)


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
