"""The checkers of provider rules refuse what a provider would refuse: each rule, broken once."""

from __future__ import annotations

import base64
import struct
from typing import Any, Final

import pytest

from context.legality import check_legal
from context.provider_types import check_types

USER: Final = {"role": "user", "content": "hi"}
SAID: Final = {"role": "assistant", "content": "well"}


def chat_call(*ids: str, name: str = "look", arguments: Any = "{}", **fields: Any) -> Any:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def chat_result(call_id: str, content: Any = "seen") -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def item(role: str, content: Any = "hi") -> Any:
    return {"type": "message", "role": role, "content": content}


def item_call(call_id: str, name: str = "look", arguments: Any = "{}") -> Any:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def item_result(call_id: str, output: Any = "seen") -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def blocks(role: str, *content: Any) -> Any:
    return {"role": role, "content": list(content)}


def text(words: Any = "hi") -> Any:
    return {"type": "text", "text": words}


def use(call_id: str, name: str = "look", given: Any = None) -> Any:
    return {
        "type": "tool_use",
        "id": call_id,
        "name": name,
        "input": {} if given is None else given,
    }


def result(call_id: str, content: Any = "seen", **fields: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


THOUGHT: Final = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
REASONING: Final = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}


def picture(mime: str = "image/png", data: str = "aGk=") -> Any:
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}


def wide(pixels: int) -> str:
    """Return the beginning of a PNG that is so wide."""
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", pixels, 1)
    ).decode()


def document(pages: int) -> Any:
    data = base64.b64encode(b"%PDF-1.4" + b"<< /Type /Page >>" * pages).decode()
    return {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": data},
    }


def chat_picture(url: str) -> Any:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def parts(role: str, *content: Any) -> Any:
    return {"role": role, "parts": list(content)}


def function(call_id: str, name: str = "look", args: Any = None) -> Any:
    return {"function_call": {"id": call_id, "name": name, "args": {} if args is None else args}}


def response(call_id: str, name: str = "look", **told: Any) -> Any:
    answer = told or {"output": "seen"}
    return {"function_response": {"id": call_id, "name": name, "response": answer}}


SPOKEN: Final = parts("user", {"text": "hi"})

LEGAL: Final[dict[str, dict[str, Any]]] = {
    "openai-chat": {
        "messages": [
            {"role": "system", "content": "be kind"},
            USER,
            USER,
            chat_call("a", "b"),
            chat_result("b"),
            chat_result("a"),
            SAID,
        ]
    },
    "openai-responses": {
        "instructions": "be kind",
        "input": [
            item("user"),
            item("assistant"),
            item_call("a"),
            item_call("b"),
            item_result("a"),
            item_result("b"),
            item_call("c"),
            item_result("c"),
        ],
    },
    "anthropic": {
        "system": "be kind",
        "messages": [
            USER,
            blocks("assistant", text(), use("a"), use("b")),
            blocks("user", result("b", is_error=True), result("a"), text()),
            SAID,
        ],
    },
    "gemini": {
        "config": {"system_instruction": "be kind"},
        "contents": [
            SPOKEN,
            parts("model", {"text": "well"}, function("a"), function("b")),
            parts("user", response("a"), response("b", error="no"), {"text": "go on"}),
        ],
    },
    "plain": {"messages": [{"role": "system", "content": "be kind"}, USER, SAID]},
}

ILLEGAL: Final[dict[str, list[tuple[str, Any]]]] = {
    "openai-chat": [
        ("empty", []),
        ("nothing but a system message", [{"role": "system", "content": "be kind"}]),
        ("role 'narrator'", [USER, {"role": "narrator", "content": "it rains"}]),
        ("role 'model'", [{"role": "model", "content": "hi"}]),
        ("blank", [{"role": "system", "content": " "}, USER]),
        ("blank", [{"role": "user", "content": "\n"}]),
        ("for a text", [{"role": "user", "content": None}]),
        ("for a text", [USER, {"role": "assistant", "content": None}]),
        ("missing", [USER, {"role": "assistant"}]),
        ("unknown", [USER | {"seq": 1}]),
        ("empty", [USER, chat_call()]),
        ("blank", [USER, chat_call("a", content=""), chat_result("a")]),
        ("blank", [USER, chat_call("a"), chat_result("a", "")]),
        ("no results", [USER, chat_call("a")]),
        ("no results", [USER, chat_call("a", "b"), chat_result("a")]),
        ("comes before the results", [USER, chat_call("a"), USER, chat_result("a")]),
        ("does not wait", [USER, chat_result("a")]),
        ("does not wait", [USER, chat_call("a"), chat_result("a"), chat_result("a")]),
        ("does not wait", [USER, chat_call("a"), chat_result("b")]),
        ("stands twice", [USER, chat_call("a", "a"), chat_result("a")]),
        (
            "stands twice",
            [USER, chat_call("a"), chat_result("a"), chat_call("a"), chat_result("a")],
        ),
        ("illegal id", [USER, chat_call("a" * 41), chat_result("a" * 41)]),
        ("illegal id", [USER, chat_call("a\n"), chat_result("a\n")]),
        ("illegal name", [USER, chat_call("a", name="a.b"), chat_result("a")]),
        ("illegal name", [USER, chat_call("a", name="n" * 65), chat_result("a")]),
        ("illegal name", [USER, chat_call("a", name=""), chat_result("a")]),
        ("not JSON text", [USER, chat_call("a", arguments={}), chat_result("a")]),
        ("not JSON text", [USER, chat_call("a", arguments="{"), chat_result("a")]),
        ("not an object", [USER, chat_call("a", arguments="[]"), chat_result("a")]),
    ],
    "openai-responses": [
        ("empty", []),
        ("is a 'text'", [text()]),
        ("role 'tool'", [item("tool")]),
        ("blank", [item("user", " ")]),
        ("unknown", [item("user") | {"seq": 1}]),
        ("no results", [item("user"), item_call("a")]),
        ("comes before the results", [item_call("a"), item("user"), item_result("a")]),
        ("does not wait", [item("user"), item_result("a")]),
        ("does not wait", [item_call("a"), item_result("a"), item_result("a")]),
        (
            "parallel calls are apart",
            [item_call("a"), item_call("b"), item_result("a"), item_call("c"), item_result("b")],
        ),
        ("stands twice", [item_call("a"), item_result("a"), item_call("a"), item_result("a")]),
        ("illegal name", [item_call("a", "a b"), item_result("a")]),
        ("illegal id", [item_call(""), item_result("")]),
        ("not an object", [item_call("a", arguments="1"), item_result("a")]),
        ("blank", [item_call("a"), item_result("a", "")]),
    ],
    "anthropic": [
        ("empty", []),
        ("not 'user'", [SAID]),
        ("not 'assistant'", [USER, USER]),
        ("not 'user'", [USER, SAID, SAID]),
        ("not 'user'", [{"role": "system", "content": "be kind"}, USER]),
        ("blank", [{"role": "user", "content": ""}]),
        ("empty", [blocks("user")]),
        ("blank", [blocks("user", text(" "))]),
        ("for a text", [blocks("user", text(None))]),
        ("unknown", [blocks("user", text() | {"seq": 1})]),
        ("white space", [USER, {"role": "assistant", "content": "well "}]),
        ("white space", [USER, blocks("assistant", text("well\n"))]),
        ("no results", [USER, blocks("assistant", use("a"))]),
        ("not ['a']", [USER, blocks("assistant", use("a")), USER]),
        ("not ['a', 'b']", [USER, blocks("assistant", use("a"), use("b")),
                            blocks("user", result("a"))]),
        ("not []", [blocks("user", result("a"))]),
        ("not ['a']", [USER, blocks("assistant", use("a")),
                       blocks("user", result("a"), result("a"))]),
        ("behind a text", [USER, blocks("assistant", use("a")),
                           blocks("user", text(), result("a"))]),
        ("has a 'tool_result'", [USER, blocks("assistant", result("a"))]),
        ("has a 'tool_use'", [blocks("user", use("a"))]),
        ("stands twice", [USER, blocks("assistant", use("a"), use("a")),
                          blocks("user", result("a"))]),
        ("illegal id", [USER, blocks("assistant", use("a.b")), blocks("user", result("a.b"))]),
        ("illegal name", [USER, blocks("assistant", use("a", "é")), blocks("user", result("a"))]),
        ("not an object", [USER, blocks("assistant", use("a", given=[])),
                           blocks("user", result("a"))]),
        ("blank", [USER, blocks("assistant", use("a")), blocks("user", result("a", ""))]),
        ("truth value", [USER, blocks("assistant", use("a")),
                         blocks("user", result("a", is_error="yes"))]),
    ],
    "gemini": [
        ("empty", []),
        ("not 'user'", [parts("model", {"text": "well"})]),
        ("not 'model'", [SPOKEN, SPOKEN]),
        ("not 'model'", [SPOKEN, parts("assistant", {"text": "well"})]),
        ("not 'user'", [SPOKEN, parts("model", function("a")), parts("tool", response("a"))]),
        ("empty", [parts("user")]),
        ("blank", [parts("user", {"text": ""})]),
        ("a part is 2 things", [parts("user", {"text": "hi", "seq": 1})]),
        ("no responses", [SPOKEN, parts("model", function("a"))]),
        ("not [('a', 'look')]", [SPOKEN, parts("model", function("a")), SPOKEN]),
        ("not [('a', 'look'), (", [SPOKEN, parts("model", function("a"), function("b")),
                                   parts("user", response("b"), response("a"))]),
        ("not []", [parts("user", response("a"))]),
        ("not [('a', 'look')]", [SPOKEN, parts("model", function("a")),
                                 parts("user", response("a", "see"))]),
        ("behind a text", [SPOKEN, parts("model", function("a")),
                           parts("user", {"text": "so"}, response("a"))]),
        ("missing", [SPOKEN, parts("model", response("a"))]),
        ("missing", [parts("user", function("a"))]),
        ("stands twice", [SPOKEN, parts("model", function("a"), function("a")),
                          parts("user", response("a"), response("a"))]),
        ("illegal name", [SPOKEN, parts("model", function("a", "1a")),
                          parts("user", response("a", "1a"))]),
        ("not an object", [SPOKEN, parts("model", function("a", args="x")),
                           parts("user", response("a"))]),
        ("blank", [SPOKEN, parts("model", function("a")), parts("user", response("a", output=""))]),
        ("unknown", [SPOKEN, parts("model", function("a")),
                     parts("user", response("a", output="x", error="y"))]),
    ],
    "plain": [
        ("empty", []),
        ("not 'user'", [SAID]),
        ("not 'assistant'", [USER, USER]),
        ("not 'assistant'", [USER, {"role": "system", "content": "be kind"}]),
        ("nothing but a system message", [{"role": "system", "content": "be kind"}]),
        ("blank", [{"role": "user", "content": ""}]),
        ("for a text", [blocks("user", text())]),
        ("unknown", [USER | {"tool_calls": []}]),
    ],
}  # fmt: skip

LISTS: Final = {"openai-responses": "input", "gemini": "contents"}

MISPLACED: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("openai-chat", "unknown", {"messages": [USER], "system": "be kind"}),
    ("openai-responses", "blank", {"input": [item("user")], "instructions": ""}),
    ("openai-responses", "unknown", {"input": [item("user")], "system": "be kind"}),
    ("anthropic", "blank", {"messages": [USER], "system": " "}),
    ("anthropic", "unknown", {"messages": [USER], "instructions": "be kind"}),
    ("gemini", "unknown", {"contents": [SPOKEN], "system_instruction": "be kind"}),
    ("gemini", "blank", {"contents": [SPOKEN], "config": {"system_instruction": ""}}),
    ("gemini", "missing", {"contents": [SPOKEN], "config": {}}),
    ("plain", "unknown", {"messages": [USER], "system": "be kind"}),
    ("plain", "missing", {}),
    ("plain", "not JSON", {"messages": [{"role": "user", "content": "\ud800"}]}),
    ("anthropic", "not JSON", {"messages": [blocks("assistant", use("a", given={"x": {1}}))]}),
]

MISTYPED: Final[list[tuple[str, Any]]] = [
    ("openai-chat", {"messages": [USER | {"seq": 1}]}),
    ("openai-chat", {"messages": [chat_call("a", arguments={})]}),
    ("openai-chat", {"messages": [{"role": "tool", "content": "seen"}]}),
    ("openai-chat", {"messages": [USER], "system": "be kind"}),
    ("openai-responses", {"input": [item("tool")]}),
    ("openai-responses", {"input": [item_call("a") | {"seq": 1}]}),
    ("openai-responses", {"input": [item_call("a", arguments={})]}),
    ("openai-responses", {"messages": [item("user")]}),
    ("anthropic", {"messages": [blocks("user", text() | {"seq": 1})]}),
    ("anthropic", {"messages": [blocks("user", result("a", is_error="yes"))]}),
    ("anthropic", {"messages": [blocks("assistant", use("a", given="x"))]}),
    ("anthropic", {"messages": [USER], "instructions": "be kind"}),
    ("gemini", {"contents": [parts("user", {"text": "hi", "seq": 1})]}),
    ("gemini", {"contents": [parts("model", function("a", args="x"))]}),
    ("gemini", {"contents": [SPOKEN], "config": {"system": "be kind"}}),
    ("gemini", {"contents": [SPOKEN], "system_instruction": "be kind"}),
]


@pytest.mark.parametrize("dialect", LEGAL)
def test_a_legal_request_passes(dialect: str) -> None:
    check_legal(dialect, LEGAL[dialect])
    check_types(dialect, LEGAL[dialect])


@pytest.mark.parametrize(
    ("dialect", "reason", "messages"),
    [(dialect, *broken) for dialect, table in ILLEGAL.items() for broken in table],
)
def test_an_illegal_list_is_refused_with_its_reason(
    dialect: str, reason: str, messages: list[Any]
) -> None:
    with pytest.raises(AssertionError) as refused:
        check_legal(dialect, {LISTS.get(dialect, "messages"): messages})

    assert reason in str(refused.value)


@pytest.mark.parametrize(("dialect", "reason", "request_"), MISPLACED)
def test_a_system_text_out_of_place_is_refused(
    dialect: str, reason: str, request_: dict[str, Any]
) -> None:
    with pytest.raises(AssertionError, match=reason):
        check_legal(dialect, request_)


@pytest.mark.parametrize(("dialect", "request_"), MISTYPED)
def test_what_the_sdk_has_no_type_for_is_refused(dialect: str, request_: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, TypeError, ValueError)):
        check_types(dialect, request_)


LATELY: Final[list[tuple[str, str, dict[str, Any]]]] = [
    (
        "anthropic",
        "begin with its thoughts",
        {"messages": [blocks("user", text()), blocks("assistant", text(), THOUGHT, text())]},
    ),
    (
        "anthropic",
        "ends with a thought",
        {"messages": [blocks("user", text()), blocks("assistant", THOUGHT)]},
    ),
    (
        "anthropic",
        "blank",
        {
            "messages": [
                blocks("user", text()),
                blocks("assistant", {**THOUGHT, "signature": ""}, text()),
            ]
        },
    ),
    ("anthropic", "image/bmp", {"messages": [blocks("user", picture("image/bmp"))]}),
    ("anthropic", "8000 pixels", {"messages": [blocks("user", picture(data=wide(8_001)))]}),
    ("anthropic", "2000 pixels", {"messages": [blocks("user", *[picture(data=wide(2_001))] * 21)]}),
    ("anthropic", "too many pictures", {"messages": [blocks("user", *[picture()] * 101)]}),
    ("anthropic", "too large", {"messages": [blocks("user", picture(data="aGk=" * 1_300_000))]}),
    ("anthropic", "too many pages", {"messages": [blocks("user", document(60), document(41))]}),
    ("anthropic", "request is too large", {"messages": [blocks("user", text("hi" * 2**24))]}),
    ("gemini", "request is too large", {"contents": [parts("user", {"text": "hi" * 11_000_000})]}),
    (
        "openai-chat",
        "too many pictures",
        {"messages": [chat_picture("https://a.example/b.png")] * 501},
    ),
    (
        "openai-responses",
        "strict field is optional",
        {
            "input": [item("user")],
            "tools": [
                {
                    "type": "function",
                    "name": "a",
                    "strict": True,
                    "parameters": {
                        "type": "object",
                        "properties": {"b": {"type": "string"}},
                        "additionalProperties": False,
                    },
                }
            ],
        },
    ),
    ("anthropic", "empty file", {"messages": [blocks("user", picture(data=""))]}),
    ("openai-chat", "not taken", {"messages": [chat_picture("http://a.example/b.png")]}),
    ("openai-chat", "not taken", {"messages": [chat_picture("data:image/tiff;base64,aGk=")]}),
    ("openai-responses", "not followed", {"input": [item("user"), REASONING]}),
    ("openai-responses", "not followed", {"input": [REASONING, item("user")]}),
    (
        "gemini",
        "the user signs",
        {"contents": [parts("user", {"text": "hi", "thought_signature": b"signed"})]},
    ),
    (
        "gemini",
        "no bytes",
        {"contents": [parts("user", {"inline_data": {"mime_type": "image/png", "data": "aGk="}})]},
    ),
    (
        "anthropic",
        "twice",
        {
            "messages": [blocks("user", text())],
            "tools": [{"name": "a", "input_schema": {"type": "object"}}] * 2,
        },
    ),
    (
        "openai-chat",
        "something else",
        {
            "messages": [USER],
            "tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}],
        },
    ),
]


@pytest.mark.parametrize(("dialect", "reason", "request_"), LATELY)
def test_thoughts_files_and_tools_out_of_place_are_refused(
    dialect: str, reason: str, request_: dict[str, Any]
) -> None:
    with pytest.raises(AssertionError, match=reason):
        check_legal(dialect, request_)
