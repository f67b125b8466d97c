"""Receivers of what sinks send: an HTTP server that answers as it is told, and a NATS server."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from children import Child
from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Post(NamedTuple):
    """A request that was received."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def ids(self) -> list[str]:
        """Return the ids of the CloudEvents in it."""
        return [one["id"] for one in msgspec.json.decode(self.body)]


class Receiver:
    """An HTTP server on this machine. ``answer`` decides; what it answers with 200 is taken."""

    def __init__(self, port: int = 0) -> None:
        self.answer: Callable[[Post], int] = lambda _: 200
        self.posts: list[Post] = []
        self.taken: list[Post] = []
        self.arrived = threading.Condition()
        receiver = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                post = Post(self.path, headers, body)
                with receiver.arrived:
                    receiver.posts.append(post)
                    receiver.arrived.notify_all()
                status = receiver.answer(post)
                if status == 200:
                    receiver.taken.append(post)
                with suppress(OSError):  # Nobody waits for it any more.
                    self.send_response(status)
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Answering)
        self._server.daemon_threads = True
        self.port: int = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()

    @property
    def ids(self) -> list[str]:
        """Return the ids of all CloudEvents that were taken, in order."""
        return [one for post in self.taken for one in post.ids]

    def wait(self, posts: int) -> None:
        """Wait until so many requests have come."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.posts) >= posts, PATIENCE_S)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    """Give a receiver, and stop it."""
    made = Receiver(port)
    try:
        yield made
    finally:
        made.close()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class NatsServer:
    """A NATS server with JetStream; what it stores is kept when it is stopped and started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: Child | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = str(Path(sys.executable).with_name("nats-server"))
        self._process = Child(
            [program, "-js", "-sd", str(self._folder), "-a", "127.0.0.1", "-p", str(self.port)],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return
            time.sleep(0.01)
        raise TimeoutError("the NATS server does not answer")

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.end()
        self._process = None


@contextmanager
def nats_server(folder: Path) -> Iterator[NatsServer]:
    """Give a server that runs, and stop it."""
    server = NatsServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
