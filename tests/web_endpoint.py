"""An endpoint on this machine that gives one answer to whoever asks."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Quiet(BaseHTTPRequestHandler):
    """Answers requests and logs none."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def served(answering: type[Quiet]) -> Iterator[str]:
    """Serve with ``answering`` on this machine; give the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


@contextmanager
def endpoint(
    status: int, answer: bytes | Callable[[dict[str, Any]], bytes]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve ``answer``, or what it makes of requests; give the address, and what was asked."""
    asked: list[dict[str, Any]] = []

    class Answering(Quiet):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else answer(body))

    with served(Answering) as url:
        yield f"{url}/v1/", asked


def completion(text: str, **usage: int) -> bytes:
    """Return what a model says, as OpenAI's chat completions spell it."""
    told: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    return json.dumps(told | ({"usage": usage} if usage else {})).encode()
