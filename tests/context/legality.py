"""The rules of each provider, read strictly and without a look at how requests are made.

They are what the providers answer with status 400 to, and a little more: nothing is blank, no key
is unknown, and parallel calls stay together.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


def check_legal(dialect: str, request: dict[str, Any]) -> None:
    """Raise AssertionError, with the reason, unless the provider would take ``request``."""
    try:
        json.dumps(request, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise AssertionError(f"not JSON: {error}") from error
    _CHECKS[dialect](request)


# OpenAI, chat completions.


def _check_chat(request: dict[str, Any]) -> None:
    _keys(request, "messages", optional=("tools",))
    for tool in request.get("tools", ()):
        _keys(tool, "type", "function")
        _keys(tool["function"], "name", "parameters", optional=("description", "strict"))
    _declared([tool["function"] for tool in request.get("tools", ())], NAME, "parameters")
    messages = _filled(request["messages"], "messages")
    messages = _without_system(messages)
    ids: set[str] = set()
    waiting: set[str] = set()
    for at, message in enumerate(messages):
        where, role = f"message {at}", message.get("role")
        if role == "tool":
            _keys(message, "role", "tool_call_id", "content")
            answers = message["tool_call_id"]
            assert answers in waiting, f"{where} answers {answers}, which does not wait here"
            waiting.remove(answers)
            _text(message["content"], where)
            continue
        assert not waiting, f"{where} comes before the results of {sorted(waiting)}"
        assert role in {"user", "assistant"}, f"{where} has the role {role!r}"
        if role == "user" or "tool_calls" not in message:
            _keys(message, "role", "content")
            _text(message["content"], where)
            continue
        _keys(message, "role", "tool_calls", optional=("content",))
        if message.get("content") is not None:
            _text(message["content"], where)
        for call in _filled(message["tool_calls"], f"{where}, tool_calls"):
            _keys(call, "id", "type", "function")
            assert call["type"] == "function", f"{where} calls a {call['type']!r}"
            _keys(call["function"], "name", "arguments")
            _name(call["function"]["name"], NAME)
            _arguments(call["function"]["arguments"])
            _new_id(call["id"], ids)
            waiting.add(call["id"])
    assert not waiting, f"no results of {sorted(waiting)}"


# OpenAI, responses.


def _check_responses(request: dict[str, Any]) -> None:
    _keys(request, "input", optional=("instructions", "tools"))
    functions = [tool for tool in request.get("tools", ()) if tool["type"] == "function"]
    for tool in functions:
        _keys(tool, "type", "name", "parameters", "strict", optional=("description",))
    _declared(functions, NAME, "parameters")
    if "instructions" in request:
        _text(request["instructions"], "instructions")
    ids: set[str] = set()
    waiting: set[str] = set()
    before = ""
    for at, item in enumerate(_filled(request["input"], "input")):
        where, sort = f"item {at}", item.get("type")
        if sort == "function_call_output":
            _keys(item, "type", "call_id", "output")
            assert item["call_id"] in waiting, f"{where} answers what does not wait here"
            waiting.remove(item["call_id"])
            _text(item["output"], where)
        elif sort == "function_call":
            _keys(item, "type", "call_id", "name", "arguments")
            assert before == sort or not waiting, f"{where}: parallel calls are apart"
            _name(item["name"], NAME)
            _arguments(item["arguments"])
            _new_id(item["call_id"], ids)
            waiting.add(item["call_id"])
        else:
            assert sort == "message", f"{where} is a {sort!r}"
            assert not waiting, f"{where} comes before the results of {sorted(waiting)}"
            _keys(item, "type", "role", "content")
            assert item["role"] in {"user", "assistant"}, f"{where} has the role {item['role']!r}"
            _text(item["content"], where)
        before = sort
    assert not waiting, f"no results of {sorted(waiting)}"


# Anthropic.


def _check_anthropic(request: dict[str, Any]) -> None:
    _keys(request, "messages", optional=("system", "tools"))
    own = [tool for tool in request.get("tools", ()) if "type" not in tool]
    for tool in own:
        _keys(tool, "name", "input_schema", optional=("description",))
    _declared(own, NAME, "input_schema")
    if "system" in request:
        _text(request["system"], "system")
    messages = _filled(request["messages"], "messages")
    _alternate(messages, "user", "assistant")
    ids: set[str] = set()
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"message {at}"
        _keys(message, "role", "content")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = _filled(blocks, where)
        for block in blocks:
            if block.get("type") == "text":
                _keys(block, "type", "text")
                _text(block["text"], where)
        rest = [block for block in blocks if block.get("type") != "text"]
        if message["role"] == "assistant":
            waiting = [_anthropic_call(block, ids, where) for block in rest]
            continue
        assert blocks[: len(rest)] == rest, f"{where}: a result comes behind a text"
        _answers([_anthropic_result(block, where) for block in rest], waiting, where)
        waiting = []
    assert not waiting, f"no results of {waiting}"
    last = messages[-1]
    if last["role"] == "assistant":
        text = last["content"] if isinstance(last["content"], str) else last["content"][-1]["text"]
        assert text == text.rstrip(), "the last text of the assistant ends in white space"


def _anthropic_call(block: dict[str, Any], ids: set[str], where: str) -> str:
    assert block.get("type") == "tool_use", f"{where} has a {block.get('type')!r}"
    _keys(block, "type", "id", "name", "input")
    _name(block["name"], NAME)
    assert isinstance(block["input"], dict), f"{where}: input is not an object"
    return _new_id(block["id"], ids)


def _anthropic_result(block: dict[str, Any], where: str) -> str:
    assert block.get("type") == "tool_result", f"{where} has a {block.get('type')!r}"
    _keys(block, "type", "tool_use_id", "content", optional=("is_error",))
    _text(block["content"], where)
    assert isinstance(block.get("is_error", False), bool), f"{where}: is_error is no truth value"
    return str(block["tool_use_id"])


# Gemini.


def _check_gemini(request: dict[str, Any]) -> None:
    _keys(request, "contents", optional=("config",))
    if "config" in request:
        assert request["config"], "config is there, and everything in it is missing"
        _keys(request["config"], optional=("system_instruction", "tools"))
        _text(request["config"].get("system_instruction", "-"), "system_instruction")
        for tool in request["config"].get("tools", ()):
            functions = tool.get("function_declarations", [])
            for one in functions:
                _keys(one, "name", "description", "parameters_json_schema")
            _declared(functions, GEMINI_NAME, "parameters_json_schema")
    contents = _filled(request["contents"], "contents")
    _alternate(contents, "user", "model")
    ids: set[str] = set()
    waiting: list[tuple[str, str]] = []
    for at, content in enumerate(contents):
        where = f"content {at}"
        _keys(content, "role", "parts")
        parts = _filled(content["parts"], where)
        for part in parts:
            assert len(part) == 1, f"{where}: a part is {len(part)} things"
            if "text" in part:
                _text(part["text"], where)
        rest = [part for part in parts if "text" not in part]
        if content["role"] == "model":
            waiting = [_gemini_call(part, ids) for part in rest]
            continue
        assert parts[: len(rest)] == rest, f"{where}: a response comes behind a text"
        given = [_gemini_response(part, where) for part in rest]
        assert given == waiting, f"{where} answers {given}, not {waiting}"
        waiting = []
    assert not waiting, f"no responses of {waiting}"


def _gemini_call(part: dict[str, Any], ids: set[str]) -> tuple[str, str]:
    _keys(part, "function_call")
    call = part["function_call"]
    _keys(call, "id", "name", "args")
    assert isinstance(call["args"], dict), "args is not an object"
    return _new_id(call["id"], ids), _name(call["name"], GEMINI_NAME)


def _gemini_response(part: dict[str, Any], where: str) -> tuple[str, str]:
    _keys(part, "function_response")
    response = part["function_response"]
    _keys(response, "id", "name", "response")
    _keys(response["response"], *(("error",) if "error" in response["response"] else ("output",)))
    for text in response["response"].values():
        _text(text, where)
    return str(response["id"]), _name(response["name"], GEMINI_NAME)


# Plain.


def _check_plain(request: dict[str, Any]) -> None:
    _keys(request, "messages")
    messages = _without_system(_filled(request["messages"], "messages"))
    _alternate(messages, "user", "assistant")
    for at, message in enumerate(messages):
        _keys(message, "role", "content")
        _text(message["content"], f"message {at}")


_CHECKS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "openai-chat": _check_chat,
    "openai-responses": _check_responses,
    "anthropic": _check_anthropic,
    "gemini": _check_gemini,
    "plain": _check_plain,
}


# What several of them ask for.


def _keys(given: Any, *required: str, optional: Collection[str] = ()) -> None:
    assert isinstance(given, dict), f"{given!r} is not an object"
    missing = set(required) - given.keys()
    unknown = given.keys() - {*required, *optional}
    assert not missing, f"{sorted(missing)} missing in {sorted(given)}"
    assert not unknown, f"{sorted(unknown)} unknown in {sorted(given)}"


def _filled(given: Any, where: str) -> list[Any]:
    assert isinstance(given, list), f"{where} is not a list"
    assert given, f"{where} is empty"
    assert all(isinstance(one, dict) for one in given), f"{where} holds something else than objects"
    return given


def _text(given: Any, where: str) -> None:
    assert isinstance(given, str), f"{where} has {type(given).__name__} for a text"
    assert given.strip(), f"{where} has a blank text"


def _name(given: Any, pattern: re.Pattern[str]) -> str:
    assert isinstance(given, str), f"{given!r} is no name"
    assert pattern.fullmatch(given), f"{given!r} is an illegal name"
    return given


def _declared(tools: Sequence[dict[str, Any]], pattern: re.Pattern[str], schema: str) -> None:
    names = [_name(tool["name"], pattern) for tool in tools]
    assert len(names) == len(set(names)), f"a tool is declared twice: {names}"
    for tool in tools:
        assert tool[schema].get("type") == "object", f"{tool['name']} takes something else"
        _text(tool.get("description", "-"), f"the description of {tool['name']}")


def _new_id(given: Any, ids: set[str]) -> str:
    assert isinstance(given, str), f"{given!r} is no id"
    assert ID.fullmatch(given), f"{given!r} is an illegal id"
    assert given not in ids, f"the id {given} stands twice"
    ids.add(given)
    return given


def _arguments(given: Any) -> None:
    assert isinstance(given, str), "arguments are not JSON text"
    try:
        value = json.loads(given)
    except ValueError as error:
        raise AssertionError(f"arguments are not JSON text: {error}") from error
    assert isinstance(value, dict), "arguments are not an object"


def _answers(given: Sequence[str], waiting: Sequence[str], where: str) -> None:
    assert sorted(given) == sorted(waiting), f"{where} answers {given}, not {waiting}"


def _alternate(messages: Sequence[dict[str, Any]], *roles: str) -> None:
    for at, message in enumerate(messages):
        wanted, role = roles[at % 2], message.get("role")
        assert role == wanted, f"message {at} has the role {role!r}, not {wanted!r}"


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if messages[0].get("role") != "system":
        return messages
    _keys(messages[0], "role", "content")
    _text(messages[0]["content"], "the system message")
    assert messages[1:], "there is nothing but a system message"
    return messages[1:]
