"""Summaries written by a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from effort import PATIENCE_S
from treering import InvalidInput, Ledger, Session
from treering.adapters.endpoints import EndpointSummariser
from treering.errors import Unavailable
from treering.model.messages import UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def endpoint(status: int, answer: bytes) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve one answer to every request, and yield the requests."""
    asked: list[dict[str, Any]] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append({"path": self.path, "key": self.headers["Authorization"],
                          **json.loads(body)})  # fmt: skip
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


def talked(ledger: Ledger, turns: int = 15) -> Session:
    session = ledger.session("s1", scope="here", agent="lyria")
    for number in range(turns):
        with session.turn() as turn:
            turn.user(f"Question {number}?")
            turn.assistant(f"Answer {number}.")
    return session


def test_a_model_writes_the_summary_if_it_is_asked_to(ledger: Ledger) -> None:
    session = talked(ledger)

    with endpoint(200, completion("They talked about numbers.")) as (url, asked):
        session.compact(summariser=EndpointSummariser(url, "small", api_key="k"))

    first = session.context(10_000).messages[0]["content"]
    assert "They talked about numbers." in first
    assert asked[0]["path"] == "/v1/chat/completions"
    assert (asked[0]["model"], asked[0]["key"]) == ("small", "Bearer k")
    assert "[user]: Question 0?" in asked[0]["messages"][1]["content"]


def test_the_next_summary_is_told_the_one_before(ledger: Ledger) -> None:
    session = talked(ledger)

    with endpoint(200, completion("They talked about numbers.")) as (url, asked):
        session.compact(summariser=EndpointSummariser(url, "small"))
        talked(ledger)
        session.compact(summariser=EndpointSummariser(url, "small"))

    assert "They talked about numbers." in asked[1]["messages"][1]["content"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [(500, b"broken"), (200, b"no json"), (200, b'{"choices": []}'), (200, completion("  "))],
)
def test_without_an_answer_the_summary_is_made_by_structure(
    ledger: Ledger, status: int, answer: bytes
) -> None:
    session = talked(ledger)

    with endpoint(status, answer) as (url, _):
        header = session.compact(summariser=EndpointSummariser(url, "small"))

    assert header is not None
    told = ledger.event("here", header.event_id).payload
    assert told["by"] == "structure"
    assert told["failure"]
    assert "Question 0?" in told["summary"]


def test_an_endpoint_that_is_not_there_is_named() -> None:
    summariser = EndpointSummariser("http://127.0.0.1:9/v1", "small", timeout_s=1)

    with pytest.raises(Unavailable, match=r"http://127.0.0.1:9/v1/chat/completions"):
        summariser([UserMessage(text="Hello", seq=1)], None, 100)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="invalid endpoint"):
        EndpointSummariser("localhost:8080", "small")
