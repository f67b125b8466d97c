"""pi's messages as events: texts, thoughts, tool calls, results and usage."""

from __future__ import annotations

from typing import Any, Final

from treering.formats.event_content import EventContent, observation, outcome
from treering.formats.loose import (
    blocks_of,
    count,
    fields_of,
    hint_of,
    name,
    says_beyond,
    text_of,
    without_none,
    word,
)
from treering.model.views import INTERRUPT_TITLE
from treering.spine.words import shorten

BASH: Final = "bash"
"""A command that the user ran counts as a call of this tool."""
PYTHON: Final = "python"
"""So does code."""
_UNNAMED: Final = "tool"
_FAILED: Final = frozenset({"error", "failed", "forbidden", "timeout"})
"""Statuses that OpenClaw's tools return for a failed call."""
_ENVELOPE: Final = frozenset({
    "api", "content", "model", "provider", "responseId", "responseModel", "role", "stopReason",
    "timestamp", "usage",
})  # fmt: skip
"""Fields of a message that mean nothing without its content."""
_OF_A_RESULT: Final = frozenset({
    "details", "isError", "role", "timestamp", "toolCallId", "toolName", "toolUseId",
})  # fmt: skip
_STOP_REASONS: Final = {"toolUse": "tool_use"}
"""Values that pi spells in its own way."""


def message_contents(message: dict[str, Any], key: str) -> list[EventContent]:
    """Return the events of a message; ``key`` is the key of its entry."""
    match message.get("role"):
        case "user":
            return _user(message)
        case "assistant":
            return _assistant(message, key)
        case "toolResult":
            return [_result(message)]
        case "bashExecution":
            return _command(message, key, BASH, "command")
        case "pythonExecution":
            return _command(message, key, PYTHON, "code")
        case role:
            observed = f"message: {role}" if name(role) else "message"
            return [observation(observed, message)]


def usage_content(report: dict[str, Any], key: str) -> EventContent | None:
    """Return the usage that a message or entry reports, or None if it is zero."""
    usage = fields_of(report.get("usage"))
    cached, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    # pi counts tokens read from or written to a cache apart from other input.
    sent = count(usage.get("input")) + cached + written
    received = count(usage.get("output"))
    total = count(usage.get("totalTokens")) or sent + received
    if not total:
        return None
    counts = without_none(
        model=name(report.get("model")),
        provider=name(report.get("provider")),
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=cached,
        cache_creation_tokens=written,
        total_tokens=total,
        message_id=name(report.get("responseId")) or key,
    )
    cost = usage.get("cost")
    return EventContent(
        kind="usage.reported",
        summary="usage reported",
        payload={**counts, "cost": cost} if cost else counts,
        refs=counts,
    )


def _user(message: dict[str, Any]) -> list[EventContent]:
    blocks = blocks_of(message.get("content"))
    text = text_of(blocks)
    others = [block for block in blocks if block.get("type") != "text"]
    if not text.strip() and not others:
        return _unknown_content(message)
    return [
        EventContent(
            kind="conversation.user",
            summary=shorten(text) if text.strip() else f"{len(others)} attached",
            payload={"text": text, **({"attached": others} if others else {})},
            refs={"characters": len(text)},
        )
    ]


def _assistant(message: dict[str, Any], key: str) -> list[EventContent]:
    stop = word(message.get("stopReason"))
    common = without_none(
        model=name(message.get("model")),
        stop_reason=_STOP_REASONS.get(stop or "", stop),
        message_id=name(message.get("responseId")) or key,
    )
    maker = without_none(
        model=name(message.get("model")),
        provider=name(message.get("provider")),
        api=name(message.get("api")),
    )
    contents = [
        content
        for at, block in enumerate(blocks_of(message.get("content")))
        if (content := _block(block, common, maker, f"{key}:{at}")) is not None
    ]
    if ending := _ending(stop, word(message.get("errorMessage"))):
        contents.append(ending)
    if used := usage_content(message, key):
        contents.append(used)
    return contents or _unknown_content(message)


def _unknown_content(message: dict[str, Any]) -> list[EventContent]:
    """Return nothing for an empty message; one of an unknown shape is kept whole."""
    content = message.get("content")
    is_known = isinstance(content, str | list) or ("content" in message and content is None)
    is_empty = is_known and not says_beyond(message, _ENVELOPE)
    return [] if is_empty else [observation(f"message: {message['role']}", message)]


def _block(
    block: dict[str, Any], common: dict[str, Any], maker: dict[str, Any], call_id: str
) -> EventContent | None:
    rest = {at: value for at, value in block.items() if at not in {"type", "text"}}
    match block.get("type"):
        case "text":
            text = text_of([block])
            if not text.strip():
                return None
            stated = {at: value for at, value in common.items() if at != "message_id"}
            return EventContent(
                kind="conversation.assistant",
                summary=shorten(text),
                payload={**rest, "text": text, **stated},
                refs={"characters": len(text), **common},
            )
        case "thinking":
            refs = {"observed": "thinking", "message_id": common["message_id"], **maker}
            return EventContent(
                kind="ops.observation", summary="thinking", payload=rest, refs=refs, source="agent"
            )
        case "toolCall":
            return _call(rest, call_id)
        case block_type:
            return observation(f"block: {block_type}" if name(block_type) else "block", block)


def _call(block: dict[str, Any], call_id: str) -> EventContent:
    call_id = name(block.get("id")) or call_id
    tool = name(block.get("name")) or _UNNAMED
    given = block.get("arguments")
    rest = {at: value for at, value in block.items() if at not in {"id", "name", "arguments"}}
    return EventContent(
        kind="tool.call",
        summary=hint_of(tool, given),
        payload={**rest, "call_id": call_id, "name": tool, "input": given},
        refs={"call_id": call_id, "tool": tool},
    )


def _ending(stop: str | None, error: str | None) -> EventContent | None:
    """Return the event of an interruption or an error that ended the answer."""
    if stop == "aborted":
        return EventContent(
            kind="boundary.interrupt",
            summary=INTERRUPT_TITLE,
            payload=without_none(title=INTERRUPT_TITLE, content=error),
        )
    if stop == "error" or error:
        message = error or "the model gave an error"
        return EventContent(
            kind="ops.error",
            summary=shorten(message),
            payload={"message": message, "code": "model_error"},
            refs={"code": "model_error"},
        )
    return None


def _result(message: dict[str, Any]) -> EventContent:
    call_id = name(message.get("toolCallId")) or name(message.get("toolUseId"))
    details = fields_of(message.get("details"))
    content = message.get("content")
    if not isinstance(content, str | list | None):
        output: Any = content
    elif "content" in message:
        output = output_of(content)
    else:
        output = {at: value for at, value in message.items() if at not in _OF_A_RESULT} or ""
    return outcome(
        call_id,
        name(message.get("toolName")),
        output,
        failed=message.get("isError") is True or _reports_failure(details),
        duration_ms=details.get("durationMs"),
        # Some tools repeat their output in the details.
        details={at: value for at, value in details.items() if value != output},
    )


def _reports_failure(details: dict[str, Any]) -> bool:
    """Return whether a tool reports a failure that its result is not marked with."""
    code, status = details.get("exitCode"), word(details.get("status"))
    return (
        (type(code) is int and code != 0)
        or status in _FAILED
        or (status is None and word(details.get("error")) is not None)
    )


def output_of(content: Any) -> str | list[Any]:
    """Return a tool's output: its text if it has only text, else its parts."""
    blocks = blocks_of(content)
    if not blocks:
        return ""
    one_text = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    return text_of(blocks) if one_text else blocks


def _command(message: dict[str, Any], key: str, tool: str, field: str) -> list[EventContent]:
    """Return what the user ran, which ``field`` holds, as a call and its result."""
    call_id = f"{tool}-{key}"
    output, given = text_of(message.get("output")), {field: message.get(field)}
    code = message.get("exitCode")
    own_fields = {"role", field, "output", "timestamp"}
    called = EventContent(
        kind="tool.call",
        summary=hint_of(tool, given),
        payload={"call_id": call_id, "name": tool, "input": given},
        refs={"call_id": call_id, "tool": tool},
        source="user",
    )
    failed = message.get("cancelled") is True or (type(code) is int and code != 0)
    details = {at: value for at, value in message.items() if at not in own_fields}
    return [called, outcome(call_id, tool, output, failed=failed, details=details)]
