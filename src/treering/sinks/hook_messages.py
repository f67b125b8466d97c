"""Messages as hooks know them; a tool's output as such a message, and back again."""

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
    """Return ``output`` as a message: a text as it is, other values as JSON beside ``details``.

    Raises InvalidInput if it is no JSON value.
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
    """Return what is to be kept now that ``message`` is what became of ``before``.

    ``output`` itself if its content and details are the same; changed details if only they are
    another value; else the text of the one text block, or the content as it is.
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
    """Return messages as hooks know them: user, assistant, and a toolResult for each call."""
    found: list[dict[str, Any]] = []
    for message in messages:
        content = _content(message.text or None)
        if not isinstance(message, AssistantMessage):
            found.append({"role": "user", "content": content})
            continue
        content += [
            {"type": "toolCall", "id": one.call_id, "name": one.tool, "arguments": one.arguments}
            for one in message.calls
        ]
        found.append({"role": "assistant", "content": content})
        found += [
            as_message(
                one.tool,
                one.call_id,
                one.output,
                is_error=one.is_error,
                is_synthetic=one.reason is not None,
            )
            for one in message.results
        ]
    return found


def _content(output: Any) -> list[dict[str, Any]]:
    if output is None:
        return []
    text = output if isinstance(output, str) else canonical(output, "output").decode()
    return [{"type": "text", "text": text}]
