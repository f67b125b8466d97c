"""What a request tells, read back from any provider's spelling."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.context.dialects import Dialect

Told = tuple[Any, ...]
"""A speaker and a text, a call with its arguments, or a result with its output."""


def told_system(dialect: Dialect, request: dict[str, Any]) -> str | None:
    """Return the system text of ``request``, wherever it stands."""
    found: str | None
    match dialect:
        case "openai-responses":
            found = request.get("instructions")
        case "anthropic":
            found = request.get("system")
        case "gemini":
            found = request.get("config", {}).get("system_instruction")
        case _:
            first = request["messages"][0]
            found = first["content"] if first["role"] == "system" else None
    return found


def told(dialect: Dialect, request: dict[str, Any]) -> list[Told]:
    """Return all that ``request`` tells but the system text, in order."""
    match dialect:
        case "openai-chat":
            return [one for message in request["messages"] for one in _told_in_chat(message)]
        case "openai-responses":
            return [_told_by_item(item) for item in request["input"]]
        case "anthropic":
            return [
                _told_by_block(message["role"], block)
                for message in request["messages"]
                for block in message["content"]
            ]
        case "gemini":
            return [
                _told_by_part("user" if content["role"] == "user" else "assistant", part)
                for content in request["contents"]
                for part in content["parts"]
            ]
        case "plain":
            spoken = (one for one in request["messages"] if one["role"] != "system")
            return [(message["role"], message["content"]) for message in spoken]


def _told_in_chat(message: dict[str, Any]) -> list[Told]:
    role, content = message["role"], message["content"]
    if role == "system":
        return []
    if role == "tool":
        return [("result", message["tool_call_id"], content, False)]
    said: list[Told] = [] if content is None else [(role, content)]
    return said + [
        ("call", call["id"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", ())
    ]


def _told_by_item(item: dict[str, Any]) -> Told:
    match item["type"]:
        case "function_call":
            return ("call", item["call_id"], json.loads(item["arguments"]))
        case "function_call_output":
            return ("result", item["call_id"], item["output"], False)
        case _:
            return (item["role"], item["content"])


def _told_by_block(role: str, block: dict[str, Any]) -> Told:
    match block["type"]:
        case "tool_use":
            return ("call", block["id"], block["input"])
        case "tool_result":
            is_error = block.get("is_error", False)
            return ("result", block["tool_use_id"], block["content"], is_error)
        case _:
            return (role, block["text"])


def _told_by_part(role: str, part: dict[str, Any]) -> Told:
    match part:
        case {"function_call": call}:
            return ("call", call["id"], call["args"])
        case {"function_response": answer}:
            [(sort, output)] = answer["response"].items()
            return ("result", answer["id"], output, sort == "error")
        case _:
            return (role, part["text"])
