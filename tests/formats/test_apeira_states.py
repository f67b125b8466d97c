from __future__ import annotations

import json
from typing import Any

import pytest

from treering.errors import InvalidInput
from treering.formats.apeira import Episodic, SessionState, load_state, save_state, storage_key


def some_log() -> Episodic:
    episodic = Episodic()
    episodic.append_items([{"content": "hé \ud800", "role": "user", "type": "message"}])
    return episodic


def test_a_state_is_the_context_and_the_log_and_comes_back_to_the_byte() -> None:
    stored = save_state(SessionState(context={"b": 1.0, "a": {"x": None}}, episodic=some_log()))

    state = load_state(stored)

    assert list(json.loads(stored)) == ["context", "episodic"]
    assert stored.startswith('{"context":{"b":1,"a":{"x":null}},"episodic":"{\\"meta\\":')
    assert state.episodic == some_log()
    assert save_state(state) == stored


def test_a_state_can_be_given_parsed_and_other_fields_of_it_are_left_out() -> None:
    state = load_state({"context": {}, "episodic": "", "items": [], "version": 3})

    assert save_state(state) == '{"context":{},"episodic":""}'


@pytest.mark.parametrize("stored", ['{"context":{},"items":[]}', {"items": [{"role": "user"}]}])
def test_the_old_array_of_items_is_refused_with_what_to_do(stored: Any) -> None:
    with pytest.raises(InvalidInput, match="old format") as caught:
        load_state(stored)

    assert caught.value.hint is not None
    assert "append_items" in caught.value.hint


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ("{", "not JSON: Expected property name"),
        ("[]", "is an object, not a list"),
        ("null", "is an object, not a NoneType"),
        ("{}", "episodic of a session state is JSONL, not missing"),
        ({"context": {}, "episodic": []}, "is JSONL, not a list"),
        ({"episodic": ""}, "context of a session state is an object, not missing"),
        ({"context": [], "episodic": ""}, "is an object, not a list"),
        ({"context": {"a": {1}}, "episodic": ""}, "a set is not JSON"),
    ],
)
def test_any_other_bad_state_is_refused_with_a_reason(stored: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        load_state(stored)


def test_a_damaged_log_in_a_state_is_told_of_as_in_any_log() -> None:
    state = load_state({"context": {}, "episodic": "{"})

    assert state.episodic.read()[0]["payload"]["event"] == "error.parse"


def test_the_key_of_a_state_names_agent_and_session() -> None:
    assert storage_key("lyria", 'a "b"') == '["lyria","a \\"b\\""]'
