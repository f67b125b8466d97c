"""An endpoint on this machine that gives one answer to whoever asks."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def endpoint(status: int, answer: bytes) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve ``answer``; give the address, and what was asked so far."""
    asked: list[dict[str, Any]] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def completion(text: str, **usage: int) -> bytes:
    """Return what a model says, as OpenAI's chat completions spell it."""
    told: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    return json.dumps(told | ({"usage": usage} if usage else {})).encode()
