"""Records what passes through the clients of OpenAI and Anthropic.

    client = treering.record(OpenAI(), session)
    client.chat.completions.create(model="gpt-5", messages=[...])

A recorded client is a copy of the client that was given: same class, same connections. The recorder
reads the bytes of requests and answers as they pass, so the caller gets exactly what the client
makes of them.
"""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.adapters.client_recorder import ClientRecorder
from treering.adapters.wire import api_of
from treering.errors import InvalidInput
from treering.ledger.sessions import Session
from treering.spine.off_loop import off_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from treering.adapters.client_recorder import Exchange
    from treering.adapters.wire import AnswerStream, Json, ModelAnswer, WireApi

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
        self._rest = b""
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
        pieces: list[str] = []
        self._recorder.writer.attempt(lambda: pieces.extend(self._take(chunk)))
        return pieces

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
            self._end(lambda exchange: exchange.finish(self._api.answer(self._stream.body())))

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
            exchange.finish(self._api.answer(body))
        else:
            exchange.warn("model_error", f"HTTP {status} {body.get('error', '')!s:.1000}".strip())

    def _take(self, chunk: bytes) -> Iterator[str]:
        if self._whole is not None or (not self._has_begun and chunk.lstrip()[:1] == b"{"):
            self._whole = (self._whole or bytearray()) + chunk
            return
        self._has_begun = True
        if len(self._rest) > EVENT_BYTES_MAX:
            self._rest = b""
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                event = _event(line[5:].strip())
                if event.get("error") or event.get("type") == "error":
                    self._error = f"{event.get('error') or event.get('message')!s:.1000}"
                elif piece := self._stream.take(event):
                    yield piece

    def _partial(self) -> ModelAnswer:
        answer = self._api.answer(self._stream.body())
        reply = msgspec.structs.replace(answer.reply, stop_reason="aborted")
        return msgspec.structs.replace(answer, reply=reply)


def _event(data: bytes) -> Json:
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
