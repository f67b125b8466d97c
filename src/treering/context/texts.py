"""The text of an event: what was said, asked of a tool, or returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.context.media import attachments_of, split_media
from treering.model.codec import decode, encode
from treering.model.events import REDACTED, Event

if TYPE_CHECKING:
    from treering.model.messages import Media

UNNAMED: Final = "unknown_tool"
"""The name of a tool that nobody named."""

_ENVELOPE: Final = frozenset({
    "apeira", "call_id", "clawser", "content", "duration_ms", "error", "is_synthetic", "name",
    "output", "reason", "result", "status", "text", "tool", "withheld",
})  # fmt: skip
"""Fields of a result besides the tool's output."""


def message_text(event: Event) -> str:
    """Return what was said; the summary, if there is nothing else."""
    if event.redacted:
        return REDACTED
    payload = event.payload
    if isinstance(payload, dict):
        for name in ("text", "content"):
            if name in payload:
                return _words(payload[name])
        return "" if attachments_of(payload) else event.summary
    return event.summary if payload is None else _words(payload)


def message_media(event: Event) -> list[Media]:
    """Return the pictures, files and sounds attached to a message."""
    return [] if event.redacted else attachments_of(event.payload)


def boundary_text(event: Event) -> str:
    """Return the content of a boundary, else its title."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    content = payload.get("content")
    content = payload.get("title") if content is None else content
    return event.summary if content is None else text_of(content)


def message_role(event: Event) -> str | None:
    """Return the role of the message that an observation holds, such as system or developer.

    Importers record messages of neither the user nor the model this way.
    """
    payload = event.payload
    if event.kind != "ops.observation" or not isinstance(payload, dict):
        return None
    message = _message_in(payload)
    if message is not None:
        return str(message["role"])
    # A tape has system entries, which need no role.
    return "system" if payload.get("record") == payload.get("kind") == "system" else None


def instruction_text(event: Event) -> str:
    """Return the text of the message that an observation holds."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    for holder in (_message_in(payload), payload, payload.get("payload")):
        for name in ("content", "text"):
            if isinstance(holder, dict) and holder.get(name):
                return _words(holder[name])
    return ""


def _message_in(payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the message with a role that an observation holds, at any level."""
    for message in (payload, payload.get("payload"), _item_of_line(payload)):
        role = message.get("role") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(role, str) and role:
            return message
    return None


def _item_of_line(payload: dict[str, Any]) -> Any:
    """Return the item of an Apeira episode, which is stored as its line."""
    own = payload.get("apeira")
    line = own.get("line") if isinstance(own, dict) and "item" in payload else None
    episode = _parsed(line) if isinstance(line, str) else None
    content = episode.get("payload") if isinstance(episode, dict) else None
    return content.get("item") if isinstance(content, dict) else None


def call_names(event: Event) -> tuple[str, str]:
    """Return call id and tool of a tool event; empty and unknown if it has none."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    refs = event.refs if isinstance(event.refs, dict) else {}
    call_id = payload.get("call_id") or refs.get("call_id") or ""
    tool = payload.get("name") or payload.get("tool") or refs.get("tool") or UNNAMED
    return str(call_id), str(tool)


def call_arguments(payload: Any) -> dict[str, Any]:
    """Return the arguments of a tool call as an object."""
    given = payload
    if isinstance(payload, dict):
        given = payload.get("input", payload.get("arguments"))
    if isinstance(given, str):
        given = _parsed(given)
    if given is None:
        return {}
    return given if isinstance(given, dict) else {"input": given}


def tool_output(event: Event) -> tuple[str, list[Media]]:
    """Return a tool's output as text, and the pictures, files and sounds in it."""
    rest, media = split_media(_output(event))
    return "" if media and not rest else text_of(rest), [] if event.redacted else media


def tool_output_text(event: Event) -> str:
    """Return a tool's output as text."""
    return tool_output(event)[0]


def _output(event: Event) -> Any:
    """Return a tool's output as it was stored."""
    payload = event.payload
    if not isinstance(payload, dict):
        return event.summary if payload is None else payload
    for name in ("output", "error", "result", "content", "text"):
        if payload.get(name) is not None:
            return _error(payload[name]) if name == "error" else payload[name]
    rest = {name: value for name, value in payload.items() if name not in _ENVELOPE}
    return rest or ""


def _words(said: Any) -> str:
    """Return what was said; of a list of parts, the texts."""
    if isinstance(said, str):
        return said
    rest, media = split_media(said)
    # An empty list says nothing; as tool output it would be an answer.
    return "" if rest == [] or (media and not rest) else text_of(rest)


def text_of(value: Any) -> str:
    """Return a value as text: the texts of its parts if all have one, else JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        texts = [_part(part) for part in value]
        if texts and all(text is not None for text in texts):
            return "\n".join(text for text in texts if text)
    return encode(value).decode()


def _part(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else None


def _error(value: Any) -> str:
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        error_class = value.get("class")
        return (
            f"{error_class}: {value['message']}"
            if isinstance(error_class, str)
            else str(value["message"])
        )
    return text_of(value)


def _parsed(text: str) -> Any:
    try:
        value = decode(text.encode())
    except (ValueError, RecursionError):
        return {"input": text}
    return value if isinstance(value, dict) else {"input": text}
