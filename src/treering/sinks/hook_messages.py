"""Conversions between the ledger's messages and outputs and those of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.model.codec import canonical
from treering.model.messages import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.messages import ModelMessage


def as_message(
    tool: str, call_id: str, output: Any, *, is_error: bool, is_synthetic: bool
) -> dict[str, Any]:
    """Return ``output`` as a message: text unchanged, other values as JSON and in ``details``.

    Raises InvalidInput if it is not a JSON value.
    """
    message: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": tool,
        "content": _content(output),
        "isError": is_error,
        "isSynthetic": is_synthetic,
    }
    if output is not None and not isinstance(output, str):
        message["details"] = output
    return message


def as_output(message: dict[str, Any], before: dict[str, Any], output: Any) -> Any:
    """Return the output to store after hooks changed the message ``before`` to ``message``.

    Return ``output`` itself if content and details are unchanged, and changed details if only they
    differ; otherwise the text of a single text block, or the content itself.
    """
    content, details = message.get("content"), message.get("details")
    if content == before["content"]:
        if details == before.get("details"):
            return output
        if details is not None:
            return details
    match content:
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return content


def as_messages(messages: Iterable[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages for hooks: user, assistant, and a toolResult for each call."""
    converted: list[dict[str, Any]] = []
    for message in messages:
        content = _content(message.text or None)
        if not isinstance(message, AssistantMessage):
            converted.append({"role": "user", "content": content})
            continue
        content += [
            {"type": "toolCall", "id": call.call_id, "name": call.tool, "arguments": call.arguments}
            for call in message.calls
        ]
        converted.append({"role": "assistant", "content": content})
        converted += [
            as_message(
                result.tool,
                result.call_id,
                result.output,
                is_error=result.is_error,
                is_synthetic=result.reason is not None,
            )
            for result in message.results
        ]
    return converted


def _content(output: Any) -> list[dict[str, Any]]:
    if output is None:
        return []
    text = output if isinstance(output, str) else canonical(output, "output").decode()
    return [{"type": "text", "text": text}]
