"""OpenAI's two spellings: chat completions, and the items of the Responses API.

Both take speakers in any order, so every message stays one of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.context.dialects.turns import (
    CONTINUED,
    answered,
    arguments_of,
    is_blank,
    output_of,
)
from treering.model.codec import encode
from treering.model.messages import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.messages import Call, ModelMessage, Result


def chat_messages(
    messages: Sequence[ModelMessage], system: str | None, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` for chat completions, the system text first."""
    spelled: list[dict[str, Any]] = []
    for message in messages:
        text = None if is_blank(message.text) else message.text
        if not isinstance(message, AssistantMessage):
            if text is not None:
                spelled.append({"role": "user", "content": text})
        elif message.calls:
            spelled.append(
                {
                    "role": "assistant",
                    "content": text,
                    "tool_calls": [
                        {
                            "id": call.call_id,
                            "type": "function",
                            "function": {
                                "name": names[call.tool],
                                "arguments": _arguments_text(call),
                            },
                        }
                        for call in message.calls
                    ],
                }
            )
            spelled.extend(
                {"role": "tool", "tool_call_id": call.call_id, "content": _output_text(result)}
                for call, result in answered(message)
            )
        elif text is not None:
            spelled.append({"role": "assistant", "content": text})
    if not spelled:
        spelled.append({"role": "user", "content": CONTINUED})
    if system is not None:
        spelled.insert(0, {"role": "system", "content": system})
    return spelled


def response_items(
    messages: Sequence[ModelMessage], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return ``messages`` as input items of the Responses API."""
    items: list[dict[str, Any]] = []
    for message in messages:
        speaks = isinstance(message, AssistantMessage)
        if not is_blank(message.text):
            items.append(_said("assistant" if speaks else "user", message.text))
        if not isinstance(message, AssistantMessage):
            continue
        items.extend(
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": names[call.tool],
                "arguments": _arguments_text(call),
            }
            for call in message.calls
        )
        items.extend(
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": _output_text(result),
            }
            for call, result in answered(message)
        )
    return items or [_said("user", CONTINUED)]


def _said(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


def _arguments_text(call: Call) -> str:
    return encode(arguments_of(call)).decode()


def _output_text(result: Result) -> str:
    """Return what a tool gave; there is no other place here to say that it failed."""
    output = output_of(result)
    if not result.is_error or output.lstrip()[:5].lower() == "error":
        return output
    return f"Error: {output}"
