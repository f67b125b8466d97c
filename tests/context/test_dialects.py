"""Messages in each provider's spelling, example by example."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from context.model_messages import assistant, called, user
from context.told import told
from treering.context.dialects import CONTINUED, DIALECTS, Dialect, check_dialect, render
from treering.context.dialects.turns import COMMON, GEMINI, spell_names
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.messages import ModelMessage

TALK: Final[list[ModelMessage]] = [
    user("what is here?"),
    assistant("I look.", called("c1", "a.txt", arguments={"path": "."}), called("c2", "")),
    user("and there?"),
    assistant("", called("c3", "not found", tool="web.look", arguments=7, is_error=True)),
    assistant("nothing "),
]


def test_chat_completions_keep_every_message_of_its_own() -> None:
    first = {"name": "look", "arguments": '{"path":"."}'}

    assert render(TALK, system="be kind", dialect="openai-chat").request() == {
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "what is here?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": first},
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
            {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
            {"role": "user", "content": "and there?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c3",
                        "type": "function",
                        "function": {"name": "web_look", "arguments": '{"input":7}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c3", "content": "Error: not found"},
            {"role": "assistant", "content": "nothing "},
        ]
    }


def test_responses_are_items_with_instructions_beside_them() -> None:
    assert render(TALK, system="be kind", dialect="openai-responses").request() == {
        "instructions": "be kind",
        "input": [
            {"type": "message", "role": "user", "content": "what is here?"},
            {"type": "message", "role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"path":"."}'},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
            {"type": "function_call_output", "call_id": "c2", "output": "(no output)"},
            {"type": "message", "role": "user", "content": "and there?"},
            {
                "type": "function_call",
                "call_id": "c3",
                "name": "web_look",
                "arguments": '{"input":7}',
            },
            {"type": "function_call_output", "call_id": "c3", "output": "Error: not found"},
            {"type": "message", "role": "assistant", "content": "nothing "},
        ],
    }


def test_anthropic_hears_results_before_what_the_user_says_next() -> None:
    assert render(TALK, system="be kind", dialect="anthropic").request() == {
        "system": "be kind",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "what is here?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "."}},
                    {"type": "tool_use", "id": "c2", "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "(no output)"},
                    {"type": "text", "text": "and there?"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c3", "name": "web_look", "input": {"input": 7}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c3",
                        "content": "not found",
                        "is_error": True,
                    }
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "nothing"}]},
        ],
    }


def test_gemini_has_its_responses_in_the_content_behind_the_calls() -> None:
    seen = {"id": "c1", "name": "look", "response": {"output": "a.txt"}}
    unseen = {"id": "c2", "name": "look", "response": {"output": "(no output)"}}
    failed = {"id": "c3", "name": "web.look", "response": {"error": "not found"}}

    assert render(TALK, system="be kind", dialect="gemini").request() == {
        "config": {"system_instruction": "be kind"},
        "contents": [
            {"role": "user", "parts": [{"text": "what is here?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look."},
                    {"function_call": {"id": "c1", "name": "look", "args": {"path": "."}}},
                    {"function_call": {"id": "c2", "name": "look", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"function_response": seen},
                    {"function_response": unseen},
                    {"text": "and there?"},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"function_call": {"id": "c3", "name": "web.look", "args": {"input": 7}}}
                ],
            },
            {"role": "user", "parts": [{"function_response": failed}]},
            {"role": "model", "parts": [{"text": "nothing "}]},
        ],
    }


def test_plain_tells_calls_and_results_in_words() -> None:
    assert render(TALK, system="be kind", dialect="plain").request() == {
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "what is here?"},
            {
                "role": "assistant",
                "content": 'I look.\n\n[tool call c1] look {"path":"."}\n\n[tool call c2] look {}',
            },
            {
                "role": "user",
                "content": "[tool result c1] look\na.txt\n\n[tool result c2] look\n(no output)\n\n"
                "and there?",
            },
            {"role": "assistant", "content": '[tool call c3] web.look {"input":7}'},
            {"role": "user", "content": "[tool error c3] web.look\nnot found"},
            {"role": "assistant", "content": "nothing "},
        ]
    }


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("messages", [[], [user(" \n")], [assistant("\t")], [user(""), user(" ")]])
def test_where_nothing_is_said_the_user_says_that_it_goes_on(
    messages: Sequence[ModelMessage], dialect: Dialect
) -> None:
    request = render(messages, system="  ", dialect=dialect).request()

    assert told(dialect, request) == [("user", CONTINUED)]
    assert len(request) == 1


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "plain"])
def test_the_user_speaks_first_where_that_is_a_rule(dialect: Dialect) -> None:
    request = render([assistant("well"), user("hi")], dialect=dialect).request()

    assert told(dialect, request) == [("user", CONTINUED), ("assistant", "well"), ("user", "hi")]


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
def test_the_assistant_may_speak_first_elsewhere(dialect: Dialect) -> None:
    request = render([assistant("well")], dialect=dialect).request()

    assert told(dialect, request) == [("assistant", "well")]


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("boom", "Error: boom"),
        ("Error: boom", "Error: boom"),
        ("ERROR 7", "ERROR 7"),
        (" error", " error"),
        ("", "Error: (no output)"),
    ],
)
def test_openai_reads_in_the_output_that_a_tool_failed(output: str, shown: str) -> None:
    messages = [assistant("", called("c1", output, is_error=True))]

    assert render(messages, dialect="openai-chat").messages[1]["content"] == shown
    assert render(messages, dialect="openai-responses").messages[1]["output"] == shown


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_is_found_by_its_name(dialect: Dialect) -> None:
    assert check_dialect(f" {dialect.upper()} ") == dialect


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("openai", "did you mean openai-chat or openai-responses?"),
        ("antropic", "did you mean anthropic?"),
        ("klingon", "use one of openai-chat, openai-responses, anthropic, gemini, plain"),
        ("", "use one of openai-chat, openai-responses, anthropic, gemini, plain"),
    ],
)
def test_what_is_no_dialect_is_refused_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_dialect(text)

    assert refused.value.hint == hint


def test_names_are_changed_only_as_far_as_they_must_be() -> None:
    tools = ["look", "web.look", "1st", "", "n" * 70, "größe"]

    assert spell_names(tools, COMMON) == {
        "look": "look",
        "web.look": "web_look",
        "1st": "1st",
        "": "_",
        "n" * 70: "n" * 64,
        "größe": "gr__e",
    }
    assert spell_names(tools, GEMINI)["web.look"] == "web.look"
    assert spell_names(tools, GEMINI)["1st"] == "_1st"


def test_names_that_would_become_one_end_in_a_digest() -> None:
    names = spell_names(["a_b", "a.b", "a b", "n" * 65, "n" * 66], COMMON)

    assert names["a_b"] == "a_b"
    assert len(set(names.values())) == 5
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", names["a.b"])
    assert re.fullmatch(r"n{55}_[0-9a-f]{8}", names["n" * 65])


def test_a_digest_that_another_tool_is_named_for_is_not_taken() -> None:
    spelled = spell_names(["a_b", "a.b"], COMMON)["a.b"]

    assert spell_names(["a_b", "a.b", spelled], COMMON)["a.b"] != spelled
