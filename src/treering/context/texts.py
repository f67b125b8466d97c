"""The words of an event, as far as they can be found: what was said, asked of a tool, returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.context.media import beside, separated
from treering.model.codec import decode, encode
from treering.model.events import REDACTED

if TYPE_CHECKING:
    from treering.model.events import Event
    from treering.model.media import Media


UNNAMED: Final = "unknown_tool"
"""A tool that nobody named."""

_ENVELOPE: Final = frozenset({
    "apeira", "call_id", "clawser", "content", "duration_ms", "error", "is_synthetic", "name",
    "output", "reason", "result", "status", "text", "tool", "withheld",
})  # fmt: skip
"""What a result says beside what the tool gave."""


def said_in(event: Event) -> str:
    """Return what was said; the summary, if nothing else tells it."""
    if event.redacted:
        return REDACTED
    payload = event.payload
    if isinstance(payload, dict):
        for name in ("text", "content"):
            if name in payload:
                return _words(payload[name])
        return "" if beside(payload) else event.summary
    return event.summary if payload is None else _words(payload)


def shown_in(event: Event) -> list[Media]:
    """Return the pictures, files and sounds that go with what was said."""
    return [] if event.redacted else beside(event.payload)


def marked_in(event: Event) -> str:
    """Return what a boundary says: its content, or its title."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    told = payload.get("content")
    told = payload.get("title") if told is None else told
    return event.summary if told is None else text_of(told)


def role_in(event: Event) -> str | None:
    """Return the role of the message that an observation holds, such as system or developer.

    Readers of logs keep messages this way that neither the user nor the model said.
    """
    payload = event.payload
    if event.kind != "ops.observation" or not isinstance(payload, dict):
        return None
    message = _message_in(payload)
    if message is not None:
        return str(message["role"])
    # A tape has system entries, which need no role.
    return "system" if payload.get("record") == payload.get("kind") == "system" else None


def instruction_in(event: Event) -> str:
    """Return the words of the message that an observation holds."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    for held in (_message_in(payload), payload, payload.get("payload")):
        for name in ("content", "text"):
            if isinstance(held, dict) and held.get(name):
                return _words(held[name])
    return ""


def _message_in(payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the message with a role that an observation holds, wherever it does."""
    for message in (payload, payload.get("payload"), _item_of_line(payload)):
        role = message.get("role") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(role, str) and role:
            return message
    return None


def _item_of_line(payload: dict[str, Any]) -> Any:
    """Return the item of an episode of Apeira's, which is kept as its line."""
    own = payload.get("apeira")
    line = own.get("line") if isinstance(own, dict) and "item" in payload else None
    episode = _parsed(line) if isinstance(line, str) else None
    content = episode.get("payload") if isinstance(episode, dict) else None
    return content.get("item") if isinstance(content, dict) else None


def names_in(event: Event) -> tuple[str, str]:
    """Return the call id and the tool that a tool event names; empty and unknown if it does not."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    refs = event.refs if isinstance(event.refs, dict) else {}
    call_id = payload.get("call_id") or refs.get("call_id") or ""
    tool = payload.get("name") or payload.get("tool") or refs.get("tool") or UNNAMED
    return str(call_id), str(tool)


def arguments_in(payload: Any) -> dict[str, Any]:
    """Return what a tool was called with, as an object."""
    given = payload
    if isinstance(payload, dict):
        given = payload.get("input", payload.get("arguments"))
    if isinstance(given, str):
        given = _parsed(given)
    if given is None:
        return {}
    return given if isinstance(given, dict) else {"input": given}


def returned_in(event: Event) -> tuple[str, list[Media]]:
    """Return what a tool gave, as text, and the pictures, files and sounds in it."""
    rest, media = separated(_output(event))
    return "" if media and not rest else text_of(rest), [] if event.redacted else media


def output_in(event: Event) -> str:
    """Return what a tool gave, as text."""
    return returned_in(event)[0]


def _output(event: Event) -> Any:
    """Return what a tool gave, as it was kept."""
    payload = event.payload
    if not isinstance(payload, dict):
        return event.summary if payload is None else payload
    for name in ("output", "error", "result", "content", "text"):
        if payload.get(name) is not None:
            return _error(payload[name]) if name == "error" else payload[name]
    rest = {name: value for name, value in payload.items() if name not in _ENVELOPE}
    return rest or ""


def _words(said: Any) -> str:
    """Return what was said; of a list of parts, those that are texts."""
    if isinstance(said, str):
        return said
    rest, media = separated(said)
    # A list of no parts says nothing; as the output of a tool it would be an answer.
    return "" if rest == [] or (media and not rest) else text_of(rest)


def text_of(value: Any) -> str:
    """Return a value as text: the texts of its parts, if it has such, else JSON."""
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
        sort = value.get("class")
        return f"{sort}: {value['message']}" if isinstance(sort, str) else str(value["message"])
    return text_of(value)


def _parsed(text: str) -> Any:
    try:
        found = decode(text.encode())
    except (ValueError, RecursionError):
        return {"input": text}
    return found if isinstance(found, dict) else {"input": text}
