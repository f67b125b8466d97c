"""Logs of other agents, made up: the same turns in the lines of each."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agent_logs import Maker

Step = tuple[str, str, Any]
"""user, thought, text, call or result; the id of its call; what is said or given."""


def write_other(path: Path, form: str, size: int) -> Path:
    """Write a log of about ``size`` bytes in the format ``form``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head, line_of = FORMS[form]
    with path.open("wb") as file:
        written = 0
        for line in head:
            file.write(json.dumps(line).encode() + b"\n")
        for number, step in enumerate(Maker(17).steps()):
            line = json.dumps(line_of(number, step)).encode() + b"\n"
            file.write(line)
            written += len(line)
            if written >= size:
                break
    return path


def _time(number: int) -> str:
    moment = datetime.fromtimestamp(1_790_000_000 + number / 10, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _copilot(number: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    lines: dict[str, tuple[str, dict[str, Any]]] = {
        "user": ("user.message", {"content": told}),
        "thought": ("assistant.reasoning", {"content": told}),
        "text": ("assistant.message", {"content": told, "toolRequests": [], "outputTokens": 20}),
        "call": (
            "tool.execution_start",
            {"toolCallId": call, "toolName": "bash", "arguments": told},
        ),
        "result": (
            "tool.execution_complete",
            {"toolCallId": call, "success": True, "result": {"content": told}},
        ),
    }
    kind, content = lines[sort]
    return {
        "type": kind,
        "data": content,
        "id": f"e{number}",
        "parentId": f"e{number - 1}",
        "timestamp": _time(number),
    }


def _qwen(number: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    parts = {
        "user": {"text": told},
        "thought": {"text": told, "thought": True},
        "text": {"text": told},
        "call": {"functionCall": {"id": call, "name": "shell", "args": told}},
        "result": {"functionResponse": {"id": call, "name": "shell", "response": {"output": told}}},
    }
    kind = {"user": "user", "result": "tool_result"}.get(sort, "assistant")
    return {
        "uuid": f"0190b000-0000-7000-8000-{number:012d}",
        "parentUuid": None,
        "sessionId": "0190b000-0000-7000-8000-00000000000a",
        "timestamp": _time(number),
        "type": kind,
        "cwd": "/home/dev/app",
        "version": "0.2",
        "message": {"role": "user", "parts": [parts[sort]]},
    }


def _droid(number: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    blocks = {
        "user": {"type": "text", "text": told},
        "thought": {"type": "thinking", "thinking": told},
        "text": {"type": "text", "text": told},
        "call": {"type": "tool_use", "id": call, "name": "Execute", "input": told},
        "result": {"type": "tool_result", "tool_use_id": call, "content": told},
    }
    role = "user" if sort in {"user", "result"} else "assistant"
    return {
        "type": "message",
        "id": f"m{number}",
        "timestamp": _time(number),
        "message": {"role": role, "content": [blocks[sort]]},
    }


def _grok(_: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    match sort:
        case "user":
            return {"type": "user", "content": [{"type": "text", "text": told}], "prompt_index": 0}
        case "thought":
            return {"type": "reasoning", "summary": [{"type": "summary_text", "text": told}]}
        case "result":
            return {"type": "tool_result", "tool_call_id": call, "content": told}
    called = [{"id": call, "name": "shell", "arguments": json.dumps(told)}] if call else []
    text = told if sort == "text" else ""
    return {"type": "assistant", "content": text, "tool_calls": called, "model_id": "grok"}


def _kimi(number: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    at = {"time": 1_790_000_000_000 + number}
    if sort == "user":
        return {"type": "turn.prompt", "input": [{"type": "text", "text": told}], **at}
    event: dict[str, Any] = {
        "thought": {
            "type": "content.part",
            "uuid": f"u{number}",
            "part": {"type": "think", "think": told},
        },
        "text": {
            "type": "content.part",
            "uuid": f"u{number}",
            "part": {"type": "text", "text": told},
        },
        "call": {
            "type": "tool.call",
            "uuid": call,
            "toolCallId": call,
            "name": "Bash",
            "args": told,
        },
        "result": {"type": "tool.result", "toolCallId": call, "result": {"output": told}},
    }[sort]
    return {"type": "context.append_loop_event", "event": event, **at}


def _antigravity(number: int, step: Step) -> dict[str, Any]:
    sort, _, told = step
    kinds: dict[str, tuple[str, str, dict[str, Any]]] = {
        "user": ("USER_EXPLICIT", "USER_INPUT", {"content": told}),
        "thought": ("MODEL", "PLANNER_RESPONSE", {"thinking": told}),
        "text": ("MODEL", "PLANNER_RESPONSE", {"content": told}),
        "call": ("MODEL", "PLANNER_RESPONSE", {"tool_calls": [{"name": "run", "args": told}]}),
        "result": ("MODEL", "RUN_COMMAND", {"content": told}),
    }
    source, kind, fields = kinds[sort]
    return {
        "step_index": number,
        "source": source,
        "type": kind,
        "status": "DONE",
        "created_at": _time(number),
        **fields,
    }


def _codex_exec(number: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    if sort == "user":
        return {"type": "turn.started"}
    run = {"id": call, "type": "command_execution", "command": "make"}
    items: dict[str, tuple[str, dict[str, Any]]] = {
        "thought": ("completed", {"id": f"i{number}", "type": "reasoning", "text": told}),
        "text": ("completed", {"id": f"i{number}", "type": "agent_message", "text": told}),
        "call": ("started", {**run, "status": "in_progress"}),
        "result": ("completed", {**run, "aggregated_output": told, "exit_code": 0}),
    }
    state, item = items[sort]
    return {"type": f"item.{state}", "item": item}


_Head = list[dict[str, Any]]
FORMS: Final[dict[str, tuple[_Head, Callable[[int, Step], dict[str, Any]]]]] = {
    "GitHub Copilot CLI": ([], _copilot),
    "Qwen Code": ([], _qwen),
    "Factory Droid": ([{"type": "session_start", "id": "d1", "title": "t", "cwd": "/srv"}], _droid),
    "Grok Build": ([], _grok),
    "Kimi CLI": ([{"type": "metadata", "protocol_version": "1.4"}], _kimi),
    "Antigravity": ([], _antigravity),
    "codex exec": ([{"type": "thread.started", "thread_id": "t1"}], _codex_exec),
}
"""Of each agent: the first lines of a log, and the line of a step."""
