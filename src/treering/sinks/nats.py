"""The NATS sink: events on a JetStream stream, each once.

A message has the subject ``treering.SCOPE.SESSION.KIND`` and the id of its event as Nats-Msg-Id, so
the server drops what comes again within its duplicate window. Before it publishes to a session for
the first time, and after every failure, the sink asks the stream for the session's last message:
what the stream has already, however long ago, is not published again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.errors import InvalidInput, Unavailable
from treering.lazy import lazy_logger
from treering.model.arguments import check_arguments
from treering.sinks.webhook import cloud_event
from treering.spine.ports import Delivery, Undeliverable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence

    from nats.aio.client import Client
    from nats.js import JetStreamContext

STREAM: Final = "TREERING"
PREFIX: Final = "treering"
BATCH_EVENTS_MAX: Final = 256
SEQ_HEADER: Final = "Treering-Seq"
SESSIONS_MAX: Final = 10_000
"""How many sessions' last seqs are cached; a full cache is cleared."""
_PLAIN: Final = re.compile(r"[^A-Za-z0-9_/:@+=-]")
_HEADROOM_BYTES: Final = 4_096
"""Bytes of the largest message that are reserved for headers and subject."""
_log = lazy_logger("treering.sinks")


class NatsSink:
    """Publishes every event to JetStream; durable, so none is missed, and none comes twice.

    The stream is created if it does not exist. ``accepts`` names kinds; all if left out. An event
    that is too large for the server is published without its payload.
    """

    visibility: Literal["safe", "private"] = "safe"

    @check_arguments
    def __init__(
        self,
        url: str,
        *,
        stream: str = STREAM,
        prefix: str = PREFIX,
        accepts: Collection[str] | None = None,
        timeout_s: float = 10.0,
        credentials: str | None = None,
        name: str = "nats",
    ) -> None:
        self.name = name
        self.accepts: Callable[[Any], bool] | Collection[str] = (
            (lambda _: True) if accepts is None else accepts
        )
        self.delivery = Delivery(
            durable=True,
            on_error="retry",
            timeout_s=4 * timeout_s,
            batch_events_max=BATCH_EVENTS_MAX,
        )
        self._publisher = _Publisher(
            url, stream=stream, prefix=prefix, timeout_s=timeout_s, credentials=credentials
        )

    def handle(self, event: Any, /) -> None:
        """Publish one event."""
        self.handle_batch([event])

    def handle_batch(self, events: Sequence[Any], /) -> None:
        """Publish events in order. Raise Unavailable if they must be delivered again."""
        self._publisher.publish(events)

    def close(self) -> None:
        """Close the connection."""
        self._publisher.close()


class PrivateNatsSink(NatsSink):
    """Publishes every event with its private content."""

    visibility = "private"


def subject_of(prefix: str, *names: str) -> str:
    """Return a subject; special characters of NATS are written as %XX."""
    return ".".join([prefix, *(_token(name) for name in names)])


class _Publisher:
    """A connection to NATS, in a thread with an event loop of its own."""

    def __init__(
        self, url: str, *, stream: str, prefix: str, timeout_s: float, credentials: str | None
    ) -> None:
        self._url = url
        self._stream = stream
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._credentials = credentials
        self._last: dict[tuple[str, str], int] = {}
        """The last seq of each session that the stream has, if known."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Client | None = None
        _nats()

    def publish(self, events: Sequence[Any]) -> None:
        try:
            self._run(self._publish(events), 3 * self._timeout_s)
        except Undeliverable:
            raise
        except Exception as error:
            # Ask again what was published: an answer may have been lost.
            self._last.clear()
            raise Unavailable(
                f"NATS did not accept events: {str(error) or type(error).__name__}",
                hint="they will be published again",
            ) from error

    def close(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with contextlib.suppress(Exception):
            self._run(self._disconnect(), self._timeout_s)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(self._timeout_s)
        if not thread.is_alive():
            loop.close()
        self._loop = self._thread = None

    def _run(self, work: Coroutine[Any, Any, None], timeout_s: float) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="treering-nats", daemon=True
            )
            self._thread.start()
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            running.result(timeout_s)
        except TimeoutError:
            running.cancel()
            raise

    async def _publish(self, events: Sequence[Any]) -> None:
        client = await self._connected()
        stream = client.jetstream(timeout=self._timeout_s)
        too_large = []
        for event in events:
            session_key = (event.scope, event.session_id)
            if session_key not in self._last:
                self._last[session_key] = await self._last_seq(stream, *session_key)
            if event.seq <= self._last[session_key]:
                continue
            headers = {"Nats-Msg-Id": event.event_id, SEQ_HEADER: str(event.seq)}
            subject = subject_of(self._prefix, *session_key, event.kind)
            body = _body(event, client.max_payload - _HEADROOM_BYTES)
            if body is None:
                too_large.append(event)
                continue
            # One by one: of several in flight, one could be refused and a later one stored.
            await stream.publish(subject, body, headers=headers)
            self._last[session_key] = event.seq
        if len(self._last) > SESSIONS_MAX:
            self._last.clear()
        if too_large:
            raise Undeliverable(too_large, f"NATS accepts {client.max_payload} bytes a message")

    async def _last_seq(self, stream: JetStreamContext, scope: str, session_id: str) -> int:
        """Return the last seq of a session that the stream has; 0 if it has none."""
        subject = f"{subject_of(self._prefix, scope, session_id)}.>"
        try:
            message = await stream.get_last_msg(self._stream, subject)
        except _nats().js.errors.NotFoundError:
            return 0
        return int((message.headers or {}).get(SEQ_HEADER, 0))

    async def _connected(self) -> Client:
        if self._client is not None and self._client.is_connected:
            return self._client
        await self._disconnect()
        nats = _nats()
        client: Client = await nats.connect(
            self._url,
            connect_timeout=self._timeout_s,
            # The next batch replaces a lost connection: the sink is retried.
            allow_reconnect=False,
            max_reconnect_attempts=0,
            user_credentials=self._credentials,
            error_cb=_ignore,
        )
        self._client = client
        stream = client.jetstream(timeout=self._timeout_s)
        try:
            await stream.stream_info(self._stream)
        except nats.js.errors.NotFoundError:
            await stream.add_stream(name=self._stream, subjects=[f"{self._prefix}.>"])
            _log.info("made the stream %s", self._stream)
        return client

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._last.clear()
        if client is not None and not client.is_closed:
            with contextlib.suppress(Exception):
                await client.close()


def _body(event: Any, bytes_max: int) -> bytes | None:
    """Return the body of a message, without content if it is too large; None if it still is."""
    written = cloud_event(event)
    body = msgspec.json.encode(written)
    if len(body) > bytes_max:
        for name in ("payload", "refs", "summary"):
            written["data"].pop(name, None)
        written["data"]["truncated"] = True
        body = msgspec.json.encode(written)
    return body if len(body) <= bytes_max else None


async def _ignore(_: Exception) -> None:
    """Ignore errors: the caller that waits for the answer gets them."""


def _token(name: str) -> str:
    return _PLAIN.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), name)


def _nats() -> Any:
    try:
        import nats  # noqa: PLC0415  (an extra)
        import nats.js.errors  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInput(
            "the NATS client is not installed", hint="pip install 'treering[nats]'"
        ) from error
    return nats
