"""Summaries written by a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import pytest

from builders import exchange
from treering import InvalidInput, Ledger, Session
from treering.adapters.endpoints import EndpointSummariser
from treering.errors import Unavailable
from treering.model.messages import UserMessage
from web_endpoint import completion, endpoint


def talked(ledger: Ledger, turns: int = 15) -> Session:
    session = ledger.session("s1", scope="here", agent="lyria")
    for number in range(turns):
        exchange(session, f"Question {number}?", f"Answer {number}.")
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
