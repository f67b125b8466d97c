"""Tool calls and their results, as Claude Code writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.derive.tool_facts import COUNT_MAX
from treering.formats.claude_code.lines import (
    CALL_ID_CHARACTERS_MAX,
    LineEvent,
    brief,
    name_in,
    text_of,
)
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.formats.claude_code.lines import LogLine

INTERRUPTED: Final = "[Request interrupted by user"
"""How a line begins that says so."""
TASK_TOOLS: Final = frozenset({"Task", "Agent"})
"""Tools that start a subagent."""

REFUSALS: Final = (
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
)
_HINTS: Final = (
    "command", "file_path", "notebook_path", "path", "pattern", "query", "url", "skill",
    "description", "prompt",
)  # fmt: skip
"""Fields of an input that describe a call, the best first."""
_OF_A_RESULT: Final = frozenset({"type", "tool_use_id", "is_error", "cache_control"})
_DURATIONS: Final = ("durationMs", "totalDurationMs", "duration_ms")


def called(block: dict[str, Any], line: LogLine) -> LineEvent:
    """Return a call of a tool."""
    call_id, tool = call_in(block)
    given = block.get("input")
    refs = {"call_id": call_id, "tool": tool, "message_id": name_in(line.message, "id")}
    return LineEvent(
        kind="tool.call",
        summary=brief(call_words(tool or "a tool", given)),
        payload={"call_id": block.get("id"), "name": block.get("name"), "input": given},
        refs=_known(refs),
    )


def call_in(block: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the id of a call and its tool; None for what cannot be a name."""
    return name_in(block, "id", most=CALL_ID_CHARACTERS_MAX), name_in(block, "name")


def returned(
    block: dict[str, Any], line: LogLine, tools: Mapping[str, str], detail: Any
) -> list[LineEvent]:
    """Return the result of a call, and the interrupt beside it if it was refused.

    ``detail`` is what the log says of it besides the block.
    """
    call_id = name_in(block, "tool_use_id", most=CALL_ID_CHARACTERS_MAX)
    tool = tools.get(call_id or "")
    output = block["content"] if "content" in block else _elsewhere(block)
    output, has_failed = _unwrapped(output, detail)
    words = text_of(output)
    denial = _denial(line, words) if block.get("is_error") is not False else None
    failed = block.get("is_error") is True or has_failed or denial is not None
    status = "failed" if failed else "ok"
    duration_ms = duration_of(detail)
    more = more_in(detail, words)
    error = {"class": "Denied" if denial else "ToolError", "message": brief(words)}
    named = {"call_id": block.get("tool_use_id"), **_known({"name": tool})}
    more_fields = _known(
        {"error": error if failed else None, "duration_ms": duration_ms, "detail": more}
    )
    refs = {
        "call_id": call_id,
        "tool": tool,
        "status": status,
        "duration_ms": duration_ms,
        "error_class": error["class"] if failed else None,
        "child": _child(line, detail),
    }
    result = LineEvent(
        kind="tool.result",
        summary=brief(f"{tool or 'a tool'} {'failed' if failed else 'returned'}: {words}"),
        payload={
            **named,
            "status": status,
            "output": "" if output is None else output,
            **more_fields,
        },
        refs=_known(refs),
    )
    return [result] if denial is None else [result, interrupted(denial, words)]


def _unwrapped(output: Any, detail: Any) -> tuple[Any, bool]:
    """Return the output of a tool, and whether it failed: iFlow wraps it as Gemini does."""
    wrapped = output if isinstance(output, dict) else {}
    parts = wrapped.get("responseParts", wrapped)
    part = parts[0] if isinstance(parts, list) and parts else parts
    function = part.get("functionResponse") if isinstance(part, dict) else None
    response = function.get("response") if isinstance(function, dict) else None
    details = detail if isinstance(detail, dict) and "toolName" in detail else {}
    failed = details.get("status") in ("error", "failed")
    if not isinstance(response, dict):
        return output, failed
    if response.get("error"):
        return response["error"], True
    return response.get("output") or wrapped.get("resultDisplay") or output, failed


def interrupted(title: str, words: str) -> LineEvent:
    """Return the event for an interrupt by the user."""
    return LineEvent(
        kind="boundary.interrupt",
        summary=shorten(title),
        payload={"title": title, "content": words},
    )


def _denial(line: LogLine, words: str) -> str | None:
    kind = name_in(line.value, "toolDenialKind")
    if kind is not None:
        return f"tool call denied: {kind}"
    refused = words.startswith(REFUSALS)
    return "tool call denied by the user" if refused else None


def call_words(tool: str, given: Any) -> str:
    """Return a summary of a call: its tool, and the best hint in its input."""
    fields = given if isinstance(given, dict) else {}
    for hint in (*_HINTS, *fields):
        value = fields.get(hint)
        if isinstance(value, str) and value.strip():
            return f"{tool}: {value}"
    return tool


def _child(line: LogLine, detail: Any) -> str | None:
    """Return the session of the subagent whose result it is."""
    agent = name_in(detail, "agentId")
    return None if agent is None else f"{line.session}/agent-{agent}"


def _elsewhere(block: dict[str, Any]) -> Any:
    """Return the other fields of a result without a content; None if it has none."""
    return {name: value for name, value in block.items() if name not in _OF_A_RESULT} or None


def duration_of(detail: Any) -> int | None:
    """Return how many milliseconds a call took, if the log says so."""
    if isinstance(detail, dict):
        for field in _DURATIONS:
            duration = detail.get(field)
            if isinstance(duration, int | float) and 0 <= duration <= COUNT_MAX:
                return round(duration)
    return None


def more_in(detail: Any, words: str) -> Any:
    """Return what ``detail`` adds to the text of the result; None if it only repeats it."""
    if isinstance(detail, str):
        return None if detail.removeprefix("Error: ").strip() == words.strip() else detail
    if isinstance(detail, dict):
        rest = {name: value for name, value in detail.items() if not _repeats(value, words)}
        return rest if any(rest.values()) else None
    return detail


def _repeats(value: Any, words: str) -> bool:
    return isinstance(value, str) and value.strip() == words.strip() != ""


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
