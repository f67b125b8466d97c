"""A tool's output as the message that ``tool_result_persist`` hooks know, and back again."""

from __future__ import annotations

from typing import Any

from treering.model.codec import canonical


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


def _content(output: Any) -> list[dict[str, Any]]:
    if output is None:
        return []
    text = output if isinstance(output, str) else canonical(output, "output").decode()
    return [{"type": "text", "text": text}]
