"""Events of pi, shaped as pi-agent-core emits them."""

from __future__ import annotations

import json
from typing import Any

Event = dict[str, Any]
Call = tuple[str, str, dict[str, Any]]
"""Its id, its tool and its input."""


def started() -> list[Event]:
    return [{"type": "agent_start"}, {"type": "turn_start"}]


def ended(*messages: Event) -> list[Event]:
    return [{"type": "agent_end", "messages": list(messages)}]


def user(text: str) -> list[Event]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    return [
        {"type": "message_start", "message": message},
        {"type": "message_end", "message": message},
    ]


def assistant(
    text: str = "",
    calls: tuple[Call, ...] = (),
    *,
    stop_reason: str | None = None,
    error: str | None = None,
    tokens: tuple[int, int] = (0, 0),
) -> Event:
    content: list[Event] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "toolCall", "id": call_id, "name": tool, "arguments": given}
        for call_id, tool, given in calls
    ]
    message = {
        "role": "assistant",
        "content": content,
        "api": "scripted",
        "provider": "scripted",
        "model": "scripted-1",
        "usage": {
            "input": tokens[0],
            "output": tokens[1],
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": sum(tokens),
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": stop_reason or ("toolUse" if calls else "stop"),
        "timestamp": 2,
    }
    return message if error is None else message | {"errorMessage": error}


def answer(*pieces: str, **message: Any) -> list[Event]:
    """Return a streamed answer: its deltas, then the whole text."""
    whole = assistant("".join(pieces), **message)
    events: list[Event] = [{"type": "message_start", "message": whole | {"content": []}}]
    for number, piece in enumerate(pieces):
        partial = whole | {"content": [{"type": "text", "text": "".join(pieces[: number + 1])}]}
        told = {"type": "text_delta", "contentIndex": 0, "delta": piece, "partial": partial}
        events.append({"type": "message_update", "assistantMessageEvent": told, "message": partial})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "toolCall":
            ready = {
                "type": "toolcall_end",
                "contentIndex": index,
                "toolCall": block,
                "partial": whole,
            }
            events.append(
                {"type": "message_update", "assistantMessageEvent": ready, "message": whole}
            )
    return [*events, {"type": "message_end", "message": whole}]


def tool_started(call: Call) -> Event:
    call_id, tool, given = call
    return {"type": "tool_execution_start", "toolCallId": call_id, "toolName": tool, "args": given}


def tool_ended(call: Call, text: str, *, is_error: bool = False) -> Event:
    return {
        "type": "tool_execution_end",
        "toolCallId": call[0],
        "toolName": call[1],
        "result": {"content": [{"type": "text", "text": text}], "details": {}},
        "isError": is_error,
    }


def result_message(call: Call, text: str, *, is_error: bool = False) -> list[Event]:
    message = {
        "role": "toolResult",
        "toolCallId": call[0],
        "toolName": call[1],
        "content": [{"type": "text", "text": text}],
        "details": {},
        "isError": is_error,
        "timestamp": 3,
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "message_end", "message": message},
    ]


def turn_ended(message: Event) -> list[Event]:
    return [{"type": "turn_end", "message": message, "toolResults": []}]


def lines(*events: Event) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]
