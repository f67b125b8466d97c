"""Logs of unsupported agents that resemble supported ones.

Each has an envelope, an id or a block in common with a format that is read.
"""

from __future__ import annotations

from typing import Any, Final

QWEN_SESSION: Final = "0190b000-0000-7000-8000-00000000000a"


def _qwen(n: int, sort: str, **fields: Any) -> dict[str, Any]:
    uuid = f"0190b000-0000-7000-8000-{n:012d}"
    parent = f"0190b000-0000-7000-8000-{n - 1:012d}" if n > 1 else None
    envelope = {"uuid": uuid, "parentUuid": parent, "sessionId": QWEN_SESSION, "type": sort}
    place = {"timestamp": f"2026-10-01T10:00:{n:02d}.000Z", "cwd": "/srv/harbour", "version": "0.2"}
    return {**envelope, **place, **fields}


def _parts(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def qwen() -> list[dict[str, Any]]:
    """Return a log like Qwen Code's: Claude's envelope around Gemini's parts."""
    asked = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "tide.py"}}}
    given = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "high"}}}
    return [
        _qwen(1, "system", subtype="ui_telemetry", systemPayload={"uiEvent": {"name": "start"}}),
        _qwen(2, "user", message=_parts("user", {"text": "When is high tide?"})),
        _qwen(3, "assistant", message=_parts("model", asked)),
        _qwen(4, "tool_result", message=_parts("user", given), toolCallResult={"callId": "c1"}),
        _qwen(5, "assistant", message=_parts("model", {"text": "At noon."})),
    ]


def droid_store() -> list[dict[str, Any]]:
    """Return a stored session like Droid's: pi's entries around Anthropic's blocks."""
    use = {"type": "tool_use", "id": "t1", "name": "Execute", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "tide.py"}
    talk = [
        ("user", [{"type": "text", "text": "Look around."}]),
        ("assistant", [use]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": "One file."}]),
    ]
    entries = [
        {"type": "message", "id": f"m{n}", "parentId": f"m{n - 1}" if n > 1 else "droid-1",
         "timestamp": f"2026-10-01T10:00:{n:02d}.000Z",
         "message": {"role": role, "content": content}}
        for n, (role, content) in enumerate(talk, start=1)
    ]  # fmt: skip
    return [{"type": "session_start", "id": "droid-1", "title": "Tides", "cwd": "/srv"}, *entries]


def droid_stream() -> list[dict[str, Any]]:
    """Return a stream like Droid's: its first line is one that Claude Code may write."""
    shared = {"session_id": "droid-2", "timestamp": "2026-10-01T10:00:00.000Z"}
    return [
        {"type": "system", "subtype": "init", "cwd": "/srv", "id": "s1", **shared},
        {"type": "message", "role": "user", "text": "Look around.", "id": "m1", **shared},
        {"type": "tool_call", "toolCallId": "c1", "toolName": "Shell", "parameters": {}, **shared},
        {"type": "tool_result", "toolCallId": "c1", "value": {"exitCode": 0}, **shared},
        {"type": "completion", "finalText": "One file.", "id": "e1", **shared},
    ]


def grok() -> list[dict[str, Any]]:
    """Return a history like Grok's: roles as types, and reasoning as Codex keeps it."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "?"}],
    }
    call = {"id": "c1", "name": "read_file", "arguments": '{"path":"tide.py"}'}
    return [
        {"type": "system", "content": "You are a helper."},
        {"type": "user", "content": [{"type": "text", "text": "When is high tide?"}]},
        thought,
        {"type": "assistant", "content": "", "tool_calls": [call], "model_id": "grok-test"},
        {"type": "tool_result", "tool_call_id": "c1", "content": "noon"},
        {"type": "assistant", "content": "At noon.", "model_id": "grok-test"},
    ]


def cursor_stream() -> list[dict[str, Any]]:
    """Return a stream like Cursor's: messages as Claude Code streams them, calls on their own."""
    shared = {"session_id": "5b0c7f1e-0000-4000-8000-000000000003"}

    def said(role: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"type": role, "message": {"role": role, "content": content}, **shared}

    call = {"type": "tool_call", "call_id": "c1", "tool_call": {"readToolCall": {}}, **shared}
    return [
        {"type": "system", "subtype": "init", "cwd": "/srv", "model": "test", **shared},
        said("user", "When is high tide?"),
        said("assistant", "I will look."),
        {**call, "subtype": "started"},
        {**call, "subtype": "completed"},
        said("assistant", "At noon."),
        {"type": "result", "subtype": "success", "result": "At noon.", **shared},
    ]


STRANGERS: Final = {
    "cursor stream": cursor_stream(),
    "qwen": qwen(),
    "droid store": droid_store(),
    "droid stream": droid_stream(),
    "grok": grok(),
}
