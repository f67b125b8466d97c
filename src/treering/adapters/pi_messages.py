"""Conversions of pi's events and messages, read defensively: any part may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.adapters.replies import Reply
from treering.errors import InvalidInput
from treering.model.parts import UsageReported

if TYPE_CHECKING:
    from collections.abc import Mapping

_STOP_REASONS: Final = {"toolUse": "tool_use"}
"""Values that pi spells in its own way."""


def call_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the call id and the tool of a tool event. Raises InvalidInput if one is missing."""
    call_id, tool = event.get("toolCallId"), event.get("toolName")
    if not (isinstance(call_id, str) and isinstance(tool, str)):
        raise InvalidInput(
            "a tool event of pi has a toolCallId and a toolName", hint="pass events unchanged"
        )
    return call_id, tool


def rest_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without its type."""
    return {name: value for name, value in event.items() if name != "type"}


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or blocks with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(_texts(content, "text", "text"))


def images_in(content: Any) -> list[dict[str, Any]]:
    """Return the images in a message's content."""
    return [block for block in _blocks(content) if block.get("type") == "image"]


def reply_of(message: dict[str, Any]) -> Reply:
    """Return the reply in an assistant's message."""
    content = message.get("content")
    stop_reason = _word(message.get("stopReason"))
    return Reply(
        text=text_of(content),
        thinking="\n".join(_texts(content, "thinking", "thinking")) or None,
        sealed=tuple(
            {name: value for name, value in block.items() if name != "type"}
            for block in _blocks(content)
            if block.get("type") == "thinking" and _word(block.get("thinkingSignature"))
        ),
        model=_word(message.get("model")),
        provider=_word(message.get("provider")),
        stop_reason=_STOP_REASONS.get(stop_reason or "", stop_reason),
        usage=_usage_of(message),
    )


def output_of(result: Any) -> Any:
    """Return a tool's result: its text if it has only text, otherwise its parts."""
    if not isinstance(result, dict):
        return result
    blocks = _blocks(result.get("content"))
    details = result.get("details")
    if all(block.get("type") == "text" for block in blocks) and not details:
        return text_of(blocks)
    return {"content": blocks, "details": details} if details else {"content": blocks}


def error_of(output: Any) -> str:
    """Return the text of a failed tool's output."""
    if isinstance(output, dict):
        return text_of(output.get("content")) or "failed"
    return output if isinstance(output, str) and output else "failed"


def without_images(value: Any) -> Any:
    """Return ``value`` with the bytes of every image replaced by their count."""
    if isinstance(value, list):
        return [without_images(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image":
        return _without_bytes(value)
    return {name: without_images(part) for name, part in value.items()}


def _usage_of(message: dict[str, Any]) -> UsageReported | None:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    cached = _count(usage.get("cacheRead"))
    # pi counts tokens read from or written to a cache apart from other input.
    sent = _count(usage.get("input")) + cached + _count(usage.get("cacheWrite"))
    received = _count(usage.get("output"))
    if not sent + received:
        return None
    return UsageReported(
        model=_word(message.get("model")),
        provider=_word(message.get("provider")),
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=cached,
        total_tokens=_count(usage.get("totalTokens")) or sent + received,
    )


def _without_bytes(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "image":
        return block
    encoded = block.get("data")
    image = {"type": "image", "mimeType": block.get("mimeType")}
    return image | {"characters": len(encoded) if isinstance(encoded, str) else 0}


def _blocks(content: Any) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]


def _texts(content: Any, kind: str, field: str) -> list[str]:
    texts = (block.get(field) for block in _blocks(content) if block.get("type") == kind)
    return [text for text in texts if isinstance(text, str) and text]


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
