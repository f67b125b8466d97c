"""Contributors add any item to a call: messages, pictures, calls and results, in any shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from builders import HERE
from context.legality import check_legal
from context.provider_types import check_types
from context.test_media import SHAPES, SHOWN, holds
from treering.context.dialects import DIALECTS

if TYPE_CHECKING:
    from treering import Context, Ledger, Session


class Giving:
    """Gives what it is told to."""

    name = "giving"

    def __init__(self, given: Any) -> None:
        self._given = given

    def extend(self, working: Any) -> Any:
        assert working.session_id
        return self._given


TALKS: Final[dict[str, list[Any]]] = {
    "chat": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "see", "arguments": '{"at": 1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a ship"},
    ],
    "responses": [
        {"type": "function_call", "call_id": "c1", "name": "see", "arguments": '{"at": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a ship"},
    ],
    "anthropic": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "see", "input": {"at": 1}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a ship"}],
        },
    ],
    "gemini": [
        {
            "role": "model",
            "parts": [{"functionCall": {"id": "c1", "name": "see", "args": {"at": 1}}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c1", "name": "see", "response": "a ship"}}],
        },
    ],
}


@pytest.fixture
def session(ledger: Ledger) -> Session:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Look.")
        turn.tools.started("look", {}, call_id="c1").finish("seen")
        turn.user("And now?")
    return session


def asked(session: Session, given: Any, dialect: str = "openai-chat", **more: Any) -> Context:
    context = session.context(8_000, dialect=dialect, contributors=[Giving(given)], **more)
    check_legal(dialect, context.request)
    check_types(dialect, context.request)
    return context


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", TALKS)
def test_calls_and_results_of_any_shape_are_shown_under_ids_of_their_own(
    session: Session, shape: str, dialect: str
) -> None:
    context = asked(session, TALKS[shape], dialect)

    assert context.report == []
    assert "a ship" in str(context.messages)
    assert "see" in str(context.messages)
    if dialect == "openai-chat":
        first, second = (one["tool_calls"][0] for one in context.messages if "tool_calls" in one)
        assert first["id"] == "c1" != second["id"]
        assert second["function"] == {"name": "see", "arguments": '{"at":1}'}
        assert context.messages[-1]["content"] == "And now?"


@pytest.mark.parametrize("dialect", SHOWN)
@pytest.mark.parametrize("shape", SHAPES)
def test_pictures_of_any_shape_are_shown(session: Session, shape: str, dialect: str) -> None:
    given = {"role": "user", "content": [{"type": "text", "text": "The screen:"}, SHAPES[shape]]}

    context = asked(session, given, dialect)

    assert holds(context.messages, SHOWN[dialect])
    assert "The screen:" in str(context.messages)


def test_a_picture_that_the_dialect_does_not_take_is_reported(session: Session) -> None:
    context = asked(session, [{"role": "user", "content": [SHAPES["mcp"]]}], "plain")

    assert [one.code for one in context.report] == ["left_out_attachment"]


def test_a_call_without_a_result_had_no_output(session: Session) -> None:
    assert "(no output)" in str(asked(session, TALKS["responses"][:1]).messages)


WRONG: Final[list[Any]] = [
    TALKS["chat"][1:],
    [*TALKS["responses"], *TALKS["responses"]],
    [{"type": "reasoning", "summary": []}],
    [{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}]}],
    [{"type": "function_call", "call_id": "c1", "arguments": "{}"}],
]


@pytest.mark.parametrize("given", WRONG)
def test_what_no_provider_takes_costs_the_contributor_alone(session: Session, given: Any) -> None:
    context = asked(session, given)

    assert [one.detail for one in context.report] == ["giving: InvalidInput"]
