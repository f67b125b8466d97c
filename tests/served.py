"""Servers for tests: in this process without a socket, or as a real process."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import uvicorn

import treering
from effort import PATIENCE_S
from treering.clock import now_ms
from treering.surfaces.server.access import ServerAddress
from treering.surfaces.server.application import Application
from treering.surfaces.server.grants import TokenFile, TokenSet, new_token
from treering.surfaces.server.serving import bind, make_server
from treering.surfaces.viewer.site import ViewerSite

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from treering import Ledger
    from treering.surfaces.server.problems import Limits

PROGRAM: Final = str(Path(sys.executable).with_name("treering"))
TOKEN: Final = "trt_of-the-test"
ADDRESS: Final = ServerAddress(host="127.0.0.1", port=8720)


class Answer(msgspec.Struct, frozen=True):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body, which is JSON."""
        return json.loads(self.body)


def at(*names: str, **query: Any) -> str:
    """Return the path of ``names``, each encoded."""
    path = "/v1/" + "/".join(quote(name, safe="") for name in names)
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


class InProcess:
    """An application that is called without a socket."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        file: TokenFile | None = None,
        limits: Limits | None = None,
        address: ServerAddress = ADDRESS,
        is_read_only: bool = False,
    ) -> None:
        self.application = Application(
            ledger,
            tokens=TokenSet(now_ms, file=file, token=TOKEN),
            address=address,
            limits=limits,
            is_read_only=is_read_only,
        )

    def get(self, path: str, *, token: str | None = TOKEN, **headers: str) -> Answer:
        """Ask for a path."""
        return self.ask("GET", path, b"", token=token, **headers)

    def post(
        self, path: str, body: Any = None, *, token: str | None = TOKEN, **headers: str
    ) -> Answer:
        """Send JSON to a path."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body or {})
        given = {"content_type": "application/json"} | headers
        return self.ask("POST", path, content, token=token, **given)

    def ask(
        self, method: str, path: str, body: bytes, *, token: str | None, **headers: str
    ) -> Answer:
        """Return what is answered to a request; names of headers have ``_`` for ``-``."""
        given = {"host": "127.0.0.1:8720"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        if token is not None:
            given["authorization"] = f"Bearer {token}"
        return asyncio.run(self._ask(method, path, body, given))

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        parts = urlsplit(path)
        scope = {
            "type": "http",
            "method": method,
            "path": http.client.urlsplit(path).path,  # type: ignore[attr-defined]
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        coming = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if coming:
                return coming.pop(0)
            await asyncio.sleep(PATIENCE_S)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(self.application(scope, receive, send), PATIENCE_S)
        return Answer(
            sent[0]["status"],
            {name.decode(): value.decode() for name, value in sent[0]["headers"]},
            b"".join(message.get("body", b"") for message in sent[1:]),
        )


class Caller:
    """Asks a real server."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.url = url
        self.token = token
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for a path."""
        return self._answer("GET", path, None, headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """Send JSON to a path."""
        given = {"content-type": "application/json"} | headers
        return self._answer("POST", path, msgspec.json.encode(body or {}), given)

    def _answer(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        self.connection.request(method, path, body, self._headers(headers))
        answer = self.connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, named, answer.read())

    def stream(self, path: str, **headers: str) -> Iterator[dict[str, str]]:
        """Begin a stream; give its messages, until it ends or is closed."""
        other = Caller(self.url, self.token)
        other.connection.request("GET", path, headers=self._headers(headers))
        answer = other.connection.getresponse()
        assert answer.status == 200, answer.read()
        return other.messages(answer)

    def messages(self, answer: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
        """Give the messages of a stream that has begun."""
        message: dict[str, str] = {}
        with self:
            for line in iter(answer.readline, b""):
                text = line.decode().rstrip("\n")
                if not text:
                    if "data" in message:
                        yield message
                    message = {}
                elif not text.startswith(":"):
                    name, _, value = text.partition(": ")
                    message[name] = value

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return given if self.token is None else {"authorization": f"Bearer {self.token}"} | given


class ServerProcess:
    """The real program, serving a ledger."""

    def __init__(self, database: Path | str, *arguments: str, within: Sequence[str] = ()) -> None:
        """Start it; ``within`` is a command that starts the one that follows it."""
        self._command = [*within, PROGRAM, "--db", str(database), "serve", "--json", *arguments]
        self._start(0)

    def _start(self, port: int) -> None:
        self.process = subprocess.Popen(
            [*self._command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        assert self.process.stdout is not None
        self.receipt = json.loads(self.process.stdout.readline())
        assert self.receipt["ok"], self.receipt
        self.url: str = self.receipt["url"]
        self.port: int = self.receipt["port"]
        self.token: str | None = self.receipt["token"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def caller(self, token: str | None = None) -> Caller:
        """Return somebody who asks it."""
        return Caller(self.url, token or self.token)

    def restart(self, number: signal.Signals) -> None:
        """End it by a signal, and start it again at the same port."""
        self.stop(number)
        self._start(self.port)

    @staticmethod
    def at(port: int, token: str) -> Caller:
        """Return somebody who asks whichever server is at a port."""
        return Caller(f"http://127.0.0.1:{port}", token)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End it; return its status, and what it printed to standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors


class ThreadServer:
    """A real server in a thread of this process, with limits of the test, and with the viewer."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        limits: Limits | None = None,
        file: TokenFile | None = None,
        port: int = 0,
        is_read_only: bool = False,
    ) -> None:
        self.listener = bind("127.0.0.1", port)
        address = ServerAddress(host="127.0.0.1", port=self.listener.getsockname()[1])
        self.url = address.url
        self.port = address.port
        self.token = TOKEN
        self.application = Application(
            ledger,
            tokens=TokenSet(now_ms, file=file, token=TOKEN),
            address=address,
            limits=limits,
            is_read_only=is_read_only,
            more=[ViewerSite(ledger, now_ms, is_read_only=is_read_only).route],
        )
        self._started = threading.Event()
        self.server = make_server(self.application, started=self._started.set)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def caller(self, token: str | None = None) -> Caller:
        """Return somebody who asks it."""
        return Caller(self.url, token or self.token)


async def follow(
    port: int, token: str, path: str, *, last_event_id: str | None = None, pause_s: float = 0.0
) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Give cursor and event of each message of a stream, until it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    resumed = "" if last_event_id is None else f"Last-Event-ID: {last_event_id}\r\n"
    # HTTP/1.0 has no chunks: the body is the lines of the stream.
    writer.write(
        f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"{resumed}\r\n".encode()
    )
    try:
        status = await reader.readline()
        if b" 200 " not in status:
            raise ConnectionError(status)
        while (await reader.readline()).strip():
            pass
        cursor = ""
        while line := await reader.readline():
            if line.startswith(b"id: "):
                cursor = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                yield cursor, json.loads(line[6:])
                if pause_s:
                    await asyncio.sleep(pause_s)
    finally:
        writer.close()


async def follow_until(port: int, token: str, path: str, count: int) -> list[str]:
    """Return the ids of that many events; resume whenever the stream ends or cannot begin."""
    ids: list[str] = []
    cursor: str | None = None
    while len(ids) < count:
        with contextlib.suppress(OSError):
            async with contextlib.aclosing(
                follow(port, token, path, last_event_id=cursor)
            ) as stream:
                async for place, event in stream:
                    cursor = place
                    ids.append(sys.intern(event["event_id"]))
                    if len(ids) == count:
                        break
        await asyncio.sleep(0.02)
    return ids


class Switchboard:
    """One server for many ledgers, which it knows apart by their tokens."""

    def __init__(self) -> None:
        self._applications: dict[str, Application] = {}
        self._listener = bind("127.0.0.1", 0)
        self._address = ServerAddress(host="127.0.0.1", port=self._listener.getsockname()[1])
        self._started = threading.Event()
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            log_config=None,
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for application in self._applications.values():
            application.end_streams()
            application.pool.shutdown()
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)

    def connect(self, ledger: Ledger) -> Ledger:
        """Serve a ledger; return it as a client has it."""
        token = new_token()
        tokens = TokenSet(now_ms, token=token)
        self._applications[token] = Application(ledger, tokens=tokens, address=self._address)
        return treering.open(self._address.url, token=token)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer ")
        await self._applications[token](scope, receive, send)
