"""The tool with which an agent asks what happened: bounded, masked, limited to a scope."""

from __future__ import annotations

import json
from typing import Any

import pytest

import treering
from builders import ELSEWHERE, HERE, NOON, called, said
from treering import Ledger, tools
from treering.tools import MEMORY_EPISODES_QUERY, memory_episodes_query

TOKEN = "ghp_" + "k7Qz3mXw9RtB2vLn8JdY5sHc1FgP6aEu4WiO"


@pytest.fixture
def told() -> Ledger:
    """Return a ledger with three events here and one elsewhere."""
    ledger = treering.open(":memory:", guard="off")
    ledger.append(
        [
            said("hello", ts_ms=NOON, refs={"file": "a.md"}, event_id="e1"),
            called(ts_ms=NOON + 1, event_id="e2"),
            said("again", session_id="s2", ts_ms=NOON + 2, event_id="e3"),
            said("not for you", scope=ELSEWHERE),
        ]
    )
    return ledger


def ids(answer: dict[str, Any]) -> list[str]:
    return [item["event_id"] for item in answer["items"]]


def test_an_answer_has_summaries_and_refs_and_no_payloads(told: Ledger) -> None:
    answer = memory_episodes_query(told, {"scope": HERE, "sessionId": "s1", "limit": 1})

    assert answer["items"] == [
        {
            "event_id": "e1",
            "ts_ms": NOON,
            "session_id": "s1",
            "type": "conversation.user",
            "summary": "hello",
            "refs": {"file": "a.md"},
        }
    ]
    assert (answer["ok"], answer["count"], answer["has_more"]) == (True, 1, True)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["e1", "e2", "e3"]),
        ({"types": ["tool.call"]}, ["e2"]),
        ({"types": "tool_call, conversation.user", "sessionId": "s1"}, ["e1", "e2"]),
        ({"fromTs": NOON + 1, "toTs": str(NOON + 1)}, ["e2"]),
        ({"fromTs": "2026-09-21T14:13:20.002Z"}, ["e3"]),
        ({"limit": 500}, ["e1", "e2", "e3"]),
        ({"limit": -3}, ["e1"]),
        ({"sessionId": "nobody"}, []),
    ],
)
def test_filters_narrow_what_is_found(
    told: Ledger, filters: dict[str, Any], found: list[str]
) -> None:
    as_object = memory_episodes_query(told, {"scope": HERE, **filters})
    by_name = memory_episodes_query(told, scope=HERE, **filters)
    as_text = memory_episodes_query(told, json.dumps({"scope": HERE, **filters}))

    assert ids(as_object) == found
    assert as_object == by_name == as_text


def test_a_cursor_goes_on_behind_the_last_item(told: Ledger) -> None:
    asked: dict[str, Any] = {"scope": HERE, "limit": 2}
    first = memory_episodes_query(told, asked)
    second = memory_episodes_query(told, {**asked, "cursor": first["next"]["cursor"]})

    assert (ids(first), ids(second)) == (["e1", "e2"], ["e3"])
    assert (second["has_more"], second["next"]) == (False, None)


def test_the_newest_come_first_on_request_and_a_cursor_goes_towards_the_past(told: Ledger) -> None:
    asked: dict[str, Any] = {"scope": HERE, "limit": 2, "newestFirst": True}
    first = memory_episodes_query(told, asked)
    second = memory_episodes_query(told, {**asked, "cursor": first["next"]["cursor"]})

    assert (ids(first), ids(second)) == (["e3", "e2"], ["e1"])
    assert second["has_more"] is False
    turned = memory_episodes_query(told, scope=HERE, limit=2, cursor=first["next"]["cursor"])
    assert turned["error"]["code"] == "invalid_cursor"


def test_payloads_are_given_when_asked_for_with_their_secrets_masked(told: Ledger) -> None:
    told.append([said(f"key {TOKEN}", session_id="s3", refs={"token": TOKEN})])

    answer = memory_episodes_query(told, scope=HERE, sessionId="s3", includePayload=True)

    assert TOKEN not in json.dumps(answer)
    assert answer["items"][0]["payload"]["text"].startswith("key [redacted:")


def test_an_answer_stays_within_its_bound_and_loses_nothing(told: Ledger) -> None:
    texts = ['"' * 30_000, "x" * 3_500, "y" * 3_900, "\x01" * 3_000, "z" * 3_999, "w" * 3_990]
    told.append(
        [
            said("s" * 999, session_id="big", payload={"t": text}, refs={"r": ['"' * 1_900, at]})
            for at, text in enumerate(texts)
        ]
    )
    seen: list[str] = []
    asked: dict[str, Any] = {"scope": HERE, "sessionId": "big", "includePayload": True}
    while True:
        answer = memory_episodes_query(told, asked)
        assert len(json.dumps(answer, ensure_ascii=False)) <= tools.ANSWER_CHARACTERS_MAX
        seen += ids(answer)
        if not answer["has_more"]:
            break
        asked = {**asked, **answer["next"]}

    assert len(seen) == len(set(seen)) == len(texts)
    first = memory_episodes_query(told, {**asked, "cursor": None})["items"][0]
    assert (first["payload"]["_truncated"], first["refs"]["_truncated"]) == (True, True)
    assert first["payload"]["characters"] > 60_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "a scope is required"),
        ({"scope": "a@b"}, "is not a scope"),
        ({"scope": 7}, "scope is not text"),
        ({"scope": HERE, "types": ["tool.cal"]}, "invalid kind"),
        ({"scope": HERE, "types": {"a": 1}}, "types is not a list"),
        ({"scope": HERE, "session_id": "s1"}, "unknown argument session_id"),
        ({"scope": HERE, "fromTs": "yesterday"}, "fromTs is not a time"),
        ({"scope": HERE, "fromTs": 2, "toTs": 1}, "the time range is empty"),
        ({"scope": HERE, "limit": float("nan")}, "limit is not a number"),
        ({"scope": HERE, "limit": True}, "limit is not a number"),
        ({"scope": HERE, "includePayload": "yes"}, "includePayload must be true or false"),
        ({"scope": HERE, "cursor": "?"}, "the cursor is damaged"),
        ("[1]", "the arguments are not an object"),
        ("{broken", "invalid arguments JSON"),
    ],
)
def test_what_is_amiss_is_an_answer_that_says_what_to_do(
    told: Ledger, arguments: Any, message: str
) -> None:
    answer = memory_episodes_query(told, arguments)

    assert answer["ok"] is False
    assert message in answer["error"]["message"]
    assert answer["error"]["hint"]
    assert answer["error"]["code"]


def test_a_bound_tool_knows_one_scope_only(told: Ledger) -> None:
    ask = tools.bind(told, ELSEWHERE)

    assert [item["summary"] for item in ask()["items"]] == ["not for you"]
    assert ask({"scope": HERE})["error"]["code"] == "invalid_scope"
    assert ask('{"scope": "acme/app"}')["error"]["code"] == "invalid_scope"
    assert ask(limit="many")["error"]["message"] == "limit is not a number"
    assert "scope" not in ask.definition["parameters"]["properties"]
    assert "scope" in MEMORY_EPISODES_QUERY["parameters"]["properties"]
    with pytest.raises(treering.errors.InvalidScope):
        tools.bind(told, "a@b")


def test_the_definition_is_a_schema_that_providers_take() -> None:
    parameters = MEMORY_EPISODES_QUERY["parameters"]

    assert (parameters["required"], parameters["additionalProperties"]) == (["scope"], False)
    assert {name: one["type"] for name, one in parameters["properties"].items()} == {
        "scope": "string",
        "sessionId": "string",
        "fromTs": "integer",
        "toTs": "integer",
        "types": "array",
        "limit": "integer",
        "includePayload": "boolean",
        "newestFirst": "boolean",
        "cursor": "string",
    }
    assert json.loads(json.dumps(MEMORY_EPISODES_QUERY)) == MEMORY_EPISODES_QUERY
    assert tools.for_openai() == {"type": "function", "function": MEMORY_EPISODES_QUERY}
    assert tools.for_anthropic()["input_schema"] is parameters


def test_asking_writes_nothing(told: Ledger) -> None:
    before = [header.event_id for header in told.headers(HERE).items]

    memory_episodes_query(told, scope=HERE, includePayload=True)

    assert [header.event_id for header in told.headers(HERE).items] == before
