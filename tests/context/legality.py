"""The rules of each provider, read strictly and without a look at how requests are made.

They are what the providers answer with status 400 to, and a little more: nothing is blank, no key
is unknown, and parallel calls stay together.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")

TOLD: Final = frozenset({"system", "developer"})
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
DOCUMENTS: Final = frozenset({"application/pdf"})
REQUEST_BYTES_MAX: Final = {
    "openai-chat": 50_000_000, "openai-responses": 50_000_000, "anthropic": 32 * 2**20,
    "gemini": 20 * 2**20,
}  # fmt: skip
PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")


def check_legal(dialect: str, request: dict[str, Any]) -> None:
    """Raise AssertionError, with the reason, unless the provider would take ``request``."""
    try:
        sent = json.dumps(request, allow_nan=False, ensure_ascii=False, default=_base64).encode()
    except (TypeError, ValueError) as error:
        raise AssertionError(f"not JSON: {error}") from error
    assert len(sent) <= REQUEST_BYTES_MAX.get(dialect, len(sent)), "the request is too large"
    _CHECKS[dialect](request)


def _base64(value: Any) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"a {type(value).__name__} is no JSON")
    return base64.b64encode(value).decode()


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
        assert role in {"user", "assistant", *TOLD}, f"{where} has the role {role!r}"
        if role != "assistant" or "tool_calls" not in message:
            _keys(message, "role", "content")
            if role == "user" and isinstance(message["content"], list):
                _chat_parts(message["content"], where)
            else:
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
    assert len(_parts(request, "image_url")) <= 500, "too many pictures"


def _chat_parts(parts: Any, where: str) -> None:
    for part in _filled(parts, where):
        match part.get("type"):
            case "text":
                _keys(part, "type", "text")
                _text(part["text"], where)
            case "image_url":
                _keys(part, "type", "image_url")
                _address(part["image_url"]["url"], PICTURES)
            case "input_audio":
                _keys(part["input_audio"], "data", "format")
                assert part["input_audio"]["format"] in {"wav", "mp3"}, f"{where}: format"
                _bytes_of(part["input_audio"]["data"])
            case "file":
                _keys(part["file"], "filename", "file_data")
                _address(part["file"]["file_data"], DOCUMENTS)
            case sort:
                raise AssertionError(f"{where} has a {sort!r}")


# OpenAI, responses.


def _check_responses(request: dict[str, Any]) -> None:
    _keys(request, "input", optional=("instructions", "tools"))
    functions = [tool for tool in request.get("tools", ()) if tool["type"] == "function"]
    for tool in functions:
        _keys(tool, "type", "name", "parameters", "strict", optional=("description",))
        if tool["strict"]:
            _strict(tool["parameters"])
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
            _response_content(item["output"], where)
        elif sort == "function_call":
            _keys(item, "type", "call_id", "name", "arguments")
            apart = bool(waiting) and before not in {"function_call", "reasoning"}
            assert not apart, f"{where}: parallel calls are apart"
            _name(item["name"], NAME)
            _arguments(item["arguments"])
            _new_id(item["call_id"], ids)
            waiting.add(item["call_id"])
        else:
            if sort == "reasoning":
                _keys(item, "type", "summary", "encrypted_content", optional=("id",))
                _text(item["encrypted_content"], where)
                follows = (request["input"][at + 1 :] or [{}])[0]
                speaks = follows.get("role") == "assistant" or follows.get("type") in {
                    "function_call",
                    "reasoning",
                }
                assert speaks, f"{where}: reasoning is not followed by what it led to"
                before = sort
                continue
            assert sort == "message", f"{where} is a {sort!r}"
            assert not waiting, f"{where} comes before the results of {sorted(waiting)}"
            _keys(item, "type", "role", "content")
            legal = {"user", "assistant", *TOLD}
            assert item["role"] in legal, f"{where} has the role {item['role']!r}"
            if item["role"] == "user":
                _response_content(item["content"], where)
            else:
                _text(item["content"], where)
        before = sort
    assert not waiting, f"no results of {sorted(waiting)}"
    assert len(_parts(request, "input_image")) <= 500, "too many pictures"


def _response_content(content: Any, where: str) -> None:
    if isinstance(content, str):
        _text(content, where)
        return
    for part in _filled(content, where):
        match part.get("type"):
            case "input_text":
                _keys(part, "type", "text")
                _text(part["text"], where)
            case "input_image":
                _keys(part, "type", "image_url", "detail")
                _address(part["image_url"], PICTURES)
            case "input_file":
                if "file_url" not in part:
                    _keys(part, "type", "filename", "file_data")
                    _address(part["file_data"], DOCUMENTS)
            case sort:
                raise AssertionError(f"{where} has a {sort!r}")


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
            _anthropic_thoughts(blocks, where)
            calls = [block for block in rest if block.get("type") not in THOUGHTS]
            waiting = [_anthropic_call(block, ids, where) for block in calls]
            continue
        for block in rest:
            if block.get("type") in {"image", "document"}:
                _anthropic_media(block, where)
        rest = [block for block in rest if block.get("type") not in {"image", "document"}]
        assert blocks[: len(rest)] == rest, f"{where}: a result comes behind a text"
        _answers([_anthropic_result(block, where) for block in rest], waiting, where)
        waiting = []
    assert not waiting, f"no results of {waiting}"
    _anthropic_amounts(request)
    last = messages[-1]
    if last["role"] == "assistant":
        text = last["content"] if isinstance(last["content"], str) else last["content"][-1]["text"]
        assert text == text.rstrip(), "the last text of the assistant ends in white space"


def _anthropic_thoughts(blocks: Sequence[dict[str, Any]], where: str) -> None:
    sorts = [block.get("type") for block in blocks]
    if not THOUGHTS & set(sorts):
        return
    assert sorts[0] in THOUGHTS, f"{where} does not begin with its thoughts"
    assert sorts[-1] not in THOUGHTS, f"{where} ends with a thought"
    for block in blocks:
        if block["type"] == "thinking":
            _keys(block, "type", "thinking", "signature")
            _text(block["signature"], where)
        elif block["type"] == "redacted_thinking":
            _keys(block, "type", "data")
            _text(block["data"], where)


def _anthropic_media(block: dict[str, Any], where: str) -> None:
    _keys(block, "type", "source", optional=("title",))
    source = block["source"]
    if source["type"] == "url":
        _keys(source, "type", "url")
        assert source["url"].startswith("https://"), f"{where}: {source['url']}"
        return
    _keys(source, "type", "media_type", "data")
    legal = PICTURES if block["type"] == "image" else DOCUMENTS
    assert source["media_type"] in legal, f"{where} has a {source['media_type']}"
    if block["type"] == "image":
        assert len(source["data"]) <= 5_000_000, f"{where}: too large"
    _bytes_of(source["data"])


def _anthropic_amounts(request: dict[str, Any]) -> None:
    pictures = _parts(request, "image")
    assert len(pictures) <= 100, "too many pictures"
    most = 2_000 if len(pictures) > 20 else 8_000
    for block in pictures:
        assert _edge(block["source"].get("data", "")) <= most, f"a side has more than {most} pixels"
    pages = [
        len(PAGE.findall(base64.b64decode(block["source"].get("data", ""))))
        for block in _parts(request, "document")
    ]
    assert sum(pages) <= 100, "too many pages"


def _anthropic_call(block: dict[str, Any], ids: set[str], where: str) -> str:
    assert block.get("type") == "tool_use", f"{where} has a {block.get('type')!r}"
    _keys(block, "type", "id", "name", "input")
    _name(block["name"], NAME)
    assert isinstance(block["input"], dict), f"{where}: input is not an object"
    return _new_id(block["id"], ids)


def _anthropic_result(block: dict[str, Any], where: str) -> str:
    assert block.get("type") == "tool_result", f"{where} has a {block.get('type')!r}"
    _keys(block, "type", "tool_use_id", "content", optional=("is_error",))
    if isinstance(block["content"], list):
        for part in _filled(block["content"], where):
            if part.get("type") == "text":
                _text(part["text"], where)
            else:
                _anthropic_media(part, where)
    else:
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
            things = part.keys() - {"thought_signature"}
            assert len(things) == 1, f"{where}: a part is {len(things)} things"
            signed = "thought_signature" in part
            assert not signed or content["role"] == "model", f"{where}: the user signs"
            assert not signed or isinstance(part["thought_signature"], bytes), f"{where}: bytes"
            if "text" in part:
                _text(part["text"], where)
            if "inline_data" in part:
                assert content["role"] == "user", f"{where}: the model sends a file"
                _keys(part["inline_data"], "mime_type", "data")
                assert isinstance(part["inline_data"]["data"], bytes), f"{where}: no bytes"
                assert part["inline_data"]["data"], f"{where}: an empty file"
        rest = [part for part in parts if not {"text", "inline_data"} & part.keys()]
        if content["role"] == "model":
            waiting = [_gemini_call(part, ids) for part in rest]
            continue
        assert parts[: len(rest)] == rest, f"{where}: a response comes behind a text"
        given = [_gemini_response(part, where) for part in rest]
        assert given == waiting, f"{where} answers {given}, not {waiting}"
        waiting = []
    assert not waiting, f"no responses of {waiting}"


def _gemini_call(part: dict[str, Any], ids: set[str]) -> tuple[str, str]:
    _keys(part, "function_call", optional=("thought_signature",))
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


def _parts(given: Any, sort: str) -> list[dict[str, Any]]:
    """Return the parts of one type in a request, wherever they stand."""
    if isinstance(given, list):
        return [part for one in given for part in _parts(one, sort)]
    if not isinstance(given, dict):
        return []
    if given.get("type") == sort:
        return [given]
    return [part for one in given.values() for part in _parts(one, sort)]


def _edge(data: str) -> int:
    """Return the longer side of a PNG; 0 if it is none."""
    raw = base64.b64decode(data[:64])
    if not raw.startswith(b"\x89PNG"):
        return 0
    return max(int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big"))


def _strict(schema: dict[str, Any]) -> None:
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        assert schema.get("additionalProperties") is False, "a strict schema takes other fields"
        assert sorted(schema.get("required", [])) == sorted(fields), "a strict field is optional"
        for one in fields.values():
            _strict(one)


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


def _address(given: Any, types: Collection[str]) -> None:
    if given.startswith("https://"):
        return
    head, _, data = given.partition(";base64,")
    assert head.removeprefix("data:") in types, f"{head} is not taken"
    _bytes_of(data)


def _bytes_of(data: str) -> bytes:
    found = base64.b64decode(data, validate=True)
    assert found, "an empty file"
    return found


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
    rest = [one for one in messages if one.get("role") not in TOLD]
    assert rest, "there is nothing but a system message"
    return messages[1:]
