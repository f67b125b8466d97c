"""Facts found by a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import exchange
from treering import InvalidInput, Ledger
from treering.adapters.extractors import (
    CUE,
    EXAMPLE,
    EXAMPLE_ANSWER,
    EXTRACTION_PROMPT,
    EndpointExtractor,
    read_candidates,
)
from treering.context.budgets import MESSAGE_TOKENS
from treering.context.tokens import estimate
from treering.errors import Unavailable
from treering.memory.model_extraction import is_supported
from treering.memory.monthly_budget import ANSWER_TOKENS_MAX, PROMPT_TOKENS
from treering.rules.fact_extraction import Utterance
from web_endpoint import completion, endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

IDS = ["e1", "e2", "e3"]
LINE: dict[str, Any] = {
    "text": "Lives in Boston",
    "category": "personal",
    "importance": 7,
    "confidence": 0.9,
    "messages": [1],
}


@pytest.fixture
def book() -> Iterator[Ledger]:
    with treering.open(":memory:") as opened:
        session = opened.session("s1", scope="here", agent="lyria", user="ann")
        exchange(session, "I live in Boston.\nIt rains.", "Nice.")
        yield opened


def line(**fields: Any) -> str:
    return json.dumps(LINE | fields)


def test_a_model_finds_facts_if_it_is_asked_to(book: Ledger) -> None:
    with endpoint(200, completion(line(), prompt_tokens=321, completion_tokens=45)) as (url, asked):
        model = EndpointExtractor(url, "small", api_key="k")
        receipt = book.memory("here").extract(model=model)

    assert [one.text for one in receipt.learned] == ["Lives in Boston"]
    assert (receipt.by, receipt.spent_tokens) == ("small", 366)
    assert asked[0]["path"] == "/v1/chat/completions"
    assert (asked[0]["model"], asked[0]["key"]) == ("small", "Bearer k")
    assert asked[0]["max_tokens"] == ANSWER_TOKENS_MAX
    told = [one["content"] for one in asked[0]["messages"]]
    assert told[:-1] == [EXTRACTION_PROMPT, EXAMPLE + CUE, EXAMPLE_ANSWER]
    assert told[-1] == "[1] user: I live in Boston. It rains.\n[2] assistant: Nice." + CUE


def test_the_example_is_answered_as_answers_are_read() -> None:
    found = read_candidates(EXAMPLE_ANSWER, ["e1", "e2", "e3", "e4", "e5"])

    said = dict(zip(["e1", "e2", "e3", "e4", "e5"], EXAMPLE.splitlines(), strict=True))
    assert len(found) == 3
    assert all(is_supported(one.text, [said[one.evidence[0]]]) for one in found)


def test_tokens_that_nobody_reports_are_estimated() -> None:
    with endpoint(200, completion(line())) as (url, _):
        found = EndpointExtractor(url, "small")(
            [Utterance(event_id="e1", role="user", text="I live in Boston.", ts_ms=1)]
        )

    assert found.input_tokens > estimate(EXTRACTION_PROMPT)
    assert found.output_tokens == estimate(line())


def test_the_prompt_costs_no_more_than_a_budget_allows_for_it() -> None:
    told = (EXTRACTION_PROMPT, EXAMPLE, CUE, EXAMPLE_ANSWER, CUE)

    assert sum(map(estimate, told)) + len(told) * MESSAGE_TOKENS < PROMPT_TOKENS


@pytest.mark.parametrize(("status", "answer"), [(500, b"broken"), (200, b"no json")])
def test_without_an_answer_rules_find_the_facts(book: Ledger, status: int, answer: bytes) -> None:
    with endpoint(status, answer) as (url, _):
        receipt = book.memory("here").extract(model=EndpointExtractor(url, "small"))

    assert [one.text for one in receipt.learned] == ["Lives in Boston"]
    [warning] = book.events("here", kinds=["ops.warning"]).items
    assert warning.refs == {"code": "model_not_heard", "error_class": "Unavailable"}
    assert url in warning.payload["message"]


@pytest.mark.parametrize(
    "answer",
    [
        line(),
        f"Sure! Here are the facts:\n```json\n{line()}\n```\nLet me know.",
        f"[{line()}]",
        f'{{"facts": [{line()}]}}',
        f'{{"text": "cut short {line()}',
        f"1. {line(category='Personal ')}",
        line(importance="7/10", confidence="0.9", messages="[1]"),
        line(confidence="90%", messages=1),
        line(confidence=90, messages=["1", 1, 99]),
        line(text="The user lives in Boston."),
        line(text="User lives\n in Boston"),
    ],
)
def test_facts_are_read_whatever_a_model_writes_around_them(answer: str) -> None:
    [found] = read_candidates(answer, IDS)

    assert found.text == "Lives in Boston"
    assert (found.category, found.importance, found.confidence) == ("personal", 7, 0.9)
    assert found.evidence == ("e1",)


def test_a_category_that_there_is_not_is_told_from_the_text() -> None:
    [found] = read_candidates(line(text="Prefers dark mode", category="ui"), IDS)

    assert found.category == "preference"


@pytest.mark.parametrize("messages", [[], [0], [4], None, "the first", {}])
def test_what_names_no_message_that_exists_has_no_evidence(messages: Any) -> None:
    [found] = read_candidates(line(messages=messages), IDS)

    assert found.evidence == ()


@pytest.mark.parametrize(
    "answer", ["", "{}", "{" * 10_000, '{"a":' * 5_000, line(text=""), line(text=7), "[1, 2]"]
)
def test_an_answer_without_facts_gives_none(answer: str) -> None:
    assert read_candidates(answer, IDS) == []


@given(st.recursive(st.none() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_no_value_in_an_answer_does_harm(value: Any) -> None:
    answer = json.dumps(LINE | dict.fromkeys(("category", "importance", "confidence"), value))

    [found] = read_candidates(answer, IDS)

    assert 1 <= found.importance <= 10
    assert 0 <= found.confidence <= 1


def test_an_endpoint_that_is_not_there_is_named() -> None:
    extractor = EndpointExtractor("http://127.0.0.1:9/v1", "small", timeout_s=1)

    with pytest.raises(Unavailable, match=r"http://127.0.0.1:9/v1/chat/completions"):
        extractor([])


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="invalid endpoint"):
        EndpointExtractor("localhost:8080", "small")
