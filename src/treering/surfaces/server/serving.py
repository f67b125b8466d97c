"""A server process: a socket, uvicorn, and a shutdown that loses nothing acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from typing import TYPE_CHECKING, Any, Final

import h11
import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from treering.errors import InvalidInput, StorageError, TreeringError
from treering.surfaces.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from treering.ledger.ledger import Ledger
    from treering.surfaces.server.application import Application

BACKLOG: Final = 1_024
KEEP_ALIVE_S: Final = 30
HEAD_S: Final = 15.0
"""How long a client may take to send the head of a request."""
FILES_MAX: Final = 10_000
"""Open files that a server asks for: a connection is one."""
HEADER_BYTES_MAX: Final = 64 * 1024


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raise StorageError if the port is taken."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise InvalidInput(f"no host {host}", hint="name an address of this machine") from error
    listener = socket.socket(family, kind, number)
    # A restart may reuse the port at once; a port in use stays refused.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StorageError(
                f"port {port} of {host} is taken: a server runs there already",
                hint="use that one, or another --port",
            ) from error
        raise StorageError(
            f"cannot listen on port {port} of {host}: {error.strerror}",
            hint="choose another --host or --port",
        ) from error
    listener.setblocking(False)
    return listener


def make_server(application: Application, *, started: Callable[[], None]) -> uvicorn.Server:
    """Return a server; ``run(sockets=[…])`` serves until the process is asked to stop.

    It then answers open requests, ends live streams, and returns. ``started`` is called when it
    begins to answer.
    """
    _allow_open_files()
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        http=_Connection,
        ws="none",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=application.limits.graceful_s,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        proxy_headers=False,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return _Server(config, application, started)


def _allow_open_files() -> None:
    """Allow many connections at once; 1,024 files are a common default."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if most == resource.RLIM_INFINITY else min(FILES_MAX, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


class _Connection(H11Protocol):
    """Closes a connection that does not send a request in time; refuses nonsense in JSON."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def handle_events(self) -> None:
        """Read what has arrived of a request; its head has to arrive in time."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None and self.timeout_keep_alive_task is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the format of all refusals."""
        problem = Problem(code="invalid", message=msg.rstrip("."), hint="send HTTP/1.1")
        body = msgspec.json.encode(problem)
        headers: Any = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class _Server(uvicorn.Server):
    """Reports when it answers, and ends live streams when it is asked to stop."""

    def __init__(
        self, config: uvicorn.Config, application: Application, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._application = application
        self._on_start = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: streams first, since they never end by themselves."""
        self._application.end_streams()
        await super().shutdown(sockets)


CHECK_S: Final = 900
"""How often a server looks for them: they are closed after an hour without a span."""

_log: Final = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def closing_lost_runs(ledger: Ledger) -> AsyncIterator[None]:
    """Close such runs when the server starts, from time to time, and when it ends."""
    checks = asyncio.create_task(_check(ledger))
    try:
        yield
    finally:
        checks.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await checks
        await asyncio.to_thread(_close, ledger)


async def _check(ledger: Ledger) -> None:
    while True:
        await asyncio.to_thread(_close, ledger)
        await asyncio.sleep(CHECK_S)


def _close(ledger: Ledger) -> None:
    from treering.capture.otel_intake import close_lost_runs  # noqa: PLC0415  (not for the start)

    try:
        close_lost_runs(ledger)
    except TreeringError as error:
        # The key of a scope is not here, or the disk is full: the server serves the others.
        _log.warning("runs without an end stay open: %s", error)
