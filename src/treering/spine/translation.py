"""Tool events as other runtimes spell them, led through the tool ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.errors import InvalidInput
from treering.model.tools import REASONS
from treering.spine.conversion import to_text

if TYPE_CHECKING:
    from treering.model.events import Header
    from treering.spine.tools import Tools

_CALL_IDS = ("call_id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "id")
_NAMES = ("name", "tool", "toolName", "tool_name")
_INPUTS = ("input", "args", "arguments", "params")
_OUTPUTS = ("output", "result", "content")
_FAILED = ("failed", "error")


def tool_event(tools: Tools, spelling: str, content: dict[str, Any]) -> Header | None:
    """Record a tool event by its ``spelling``. Raises InvalidInput if it names no call."""
    spelling = spelling.strip().lower()
    call_id = _first(content, _CALL_IDS)
    if spelling in {"tool.call", "tool_call", "tool.call.started"}:
        name = _first(content, _NAMES)
        if name is None:
            raise InvalidInput("a tool call needs a name", hint='give {"name": …}')
        return tools.started(str(name), _first(content, _INPUTS), call_id=call_id).intent
    if call_id is None:
        raise InvalidInput("a tool result needs the id of its call", hint='give {"call_id": …}')
    if content.get("isSynthetic") or content.get("is_synthetic"):
        reason = content.get("reason")
        return tools.gave_up(call_id, reason if reason in REASONS else "missing_result")
    error = content.get("error")
    is_error = content.get("isError") or content.get("is_error") or content.get("status") in _FAILED
    if spelling == "tool.call.failed" or error is not None or is_error:
        return tools.failed(call_id, _error_text(error or _first(content, _OUTPUTS)))
    return tools.finished(call_id, _first(content, _OUTPUTS))


def _first(content: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((content[name] for name in names if content.get(name) is not None), None)


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message") or error
    return "failed" if error is None else to_text(error)[0]
