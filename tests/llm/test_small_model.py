"""A real model of 135 million weights: what it says is poor, what becomes of it must be sound."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

import pytest

import treering
from builders import exchange
from llama_server import LlamaServer
from treering.adapters.endpoints import EndpointSummariser
from treering.adapters.extractors import EndpointExtractor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Event, Ledger

pytestmark = pytest.mark.llm

SCOPE: Final = "acme/app"
SAID: Final = (
    "Hello, I'm Nora. I live in Lisbon with my dog Pixel.",
    "I prefer dark mode, and I work at Acme Corp as a database engineer.",
    "Could you tell me how to list the indexes of a table?",
    "My standup is every Tuesday at 2pm.",
)


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    with LlamaServer() as running:
        yield running


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    """Return a ledger with one conversation in it."""
    with treering.open(tmp_path / "agents.db") as opened:
        session = opened.session("s1", scope=SCOPE, agent="lyria", user="nora")
        for text in SAID:
            exchange(session, text, "I see. Tell me more about it.")
        yield opened


def extractor(server: LlamaServer) -> EndpointExtractor:
    return EndpointExtractor(server.url, server.model, timeout_s=240)


def of_kind(book: Ledger, kind: str) -> list[Event]:
    return book.events(SCOPE, kinds=[kind], first=200).items


def said_ids(book: Ledger) -> set[str]:
    return {event.event_id for event in of_kind(book, "conversation.user")}


def test_the_model_is_there(server: LlamaServer) -> None:
    with urlopen(f"{server.url}/models") as answer:
        assert [one["id"] for one in json.load(answer)["data"]] == [server.model]


def test_an_episode_that_the_model_writes_cites_the_conversation(
    server: LlamaServer, book: Ledger
) -> None:
    summariser = EndpointSummariser(server.url, server.model, timeout_s=240)
    session = book.session("s1", scope=SCOPE, agent="lyria", user="nora")

    header = session.write_episode(summariser=summariser)

    assert header is not None
    told = book.event(SCOPE, header.event_id).payload
    conversation = said_ids(book) | {
        event.event_id for event in of_kind(book, "conversation.assistant")
    }
    assert told["by"] in {server.model, "structure"}
    assert told["summary"].strip()
    assert {one for line in told["evidence"] for one in line["event_ids"]} <= conversation


def test_what_the_model_finds_is_paid_for_and_cites_the_conversation(
    server: LlamaServer, book: Ledger
) -> None:
    memory = book.memory(SCOPE)

    receipt = memory.extract(model=extractor(server))

    usage = of_kind(book, "usage.reported")
    assert of_kind(book, "ops.warning") == []
    assert receipt.calls == len(usage) > 0
    assert {event.origin for event in usage} == {"memory"}
    assert all(event.refs["input_tokens"] > 0 < event.refs["output_tokens"] for event in usage)
    assert receipt.spent_tokens == sum(
        event.refs["input_tokens"] + event.refs["output_tokens"] for event in usage
    )
    learned = [memory.fact(one.fact_id) for one in receipt.learned]
    assert all(fact.evidence and set(fact.evidence) <= said_ids(book) for fact in learned)
    assert all(fact.user == "nora" for fact in learned)
    assert all(event.position > usage[0].position for event in of_kind(book, "memory.stored"))
    assert memory.extract(model=extractor(server)).calls == 0


def test_rules_find_what_the_model_missed_and_it_is_recalled(
    server: LlamaServer, book: Ledger
) -> None:
    memory = book.memory(SCOPE)
    memory.extract(model=extractor(server))

    memory.extract(again=True)

    found = memory.recall("Does she live in Lisbon?", user="nora").fact_hits
    assert any("Lisbon" in one.fact.text for one in found)
    assert all(set(one.evidence) <= said_ids(book) for one in found)


def test_without_a_budget_the_model_is_not_asked(server: LlamaServer, book: Ledger) -> None:
    receipt = book.memory(SCOPE).extract(model=extractor(server), budget_tokens=0)

    assert (receipt.stopped, receipt.calls, receipt.messages) == ("budget", 0, 0)
    assert of_kind(book, "usage.reported") == []


def test_what_a_call_is_expected_to_use_is_no_less_than_it_uses(
    server: LlamaServer, book: Ledger
) -> None:
    memory = book.memory(SCOPE)
    used = memory.extract(model=extractor(server)).spent_tokens

    # Had the budget been what was used, the call would not have been made.
    again = memory.extract(model=extractor(server), budget_tokens=2 * used, again=True)

    assert again.stopped == "budget"
