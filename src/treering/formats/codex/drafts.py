"""Events of a log before their session is known: messages, calls, results, observations."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

from treering.formats.loose import storable, without_none
from treering.formats.parsed import content_key
from treering.model.codec import decode, encode
from treering.spine.conversion import plain
from treering.spine.words import shorten

_PREAMBLE: Final = "# Context from my IDE setup:"
_REQUEST: Final = "## My request for Codex:"
"""What editors put before a request: open tabs and files, which are not part of it."""
HINT_CHARACTERS_MAX: Final = 120
KEPT_ID_CHARACTERS_MAX: Final = 120
"""A longer id is replaced by its digest where something is named after it."""
_HINTS: Final = (
    *("command", "cmd", "file_path", "absolute_path", "path", "query", "pattern", "url"),
    *("prompt", "text", "description", "input", "arguments"),
)
"""Fields of an input that say what a call is about, the best first."""


class PendingEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event before its session and its position are known."""

    key: str
    kind: str
    summary: str
    payload: Any
    refs: dict[str, Any]
    first: str | None = None
    ts_ms: int | None = None


def digest(value: Any) -> str:
    """Return a digest of ``value`` in 24 hex digits."""
    return sha256(encode(value)).hexdigest()[:24]


def key_of(value: Any) -> str:
    """Return a key made of the content of what has no id."""
    return content_key(digest(value))


def short_id(named: str) -> str:
    """Return an id that leaves room for a suffix."""
    return named if len(named) <= KEPT_ID_CHARACTERS_MAX else digest(named)


def count_of(value: Any) -> int | None:
    """Return ``value`` if it is a count, None otherwise."""
    return value if type(value) is int and value >= 0 else None


def text_of(content: Any) -> str:
    """Return the text of a content: a string, or parts of which some have one."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    return "\n".join(texts_of(content))


def texts_of(parts: Any) -> list[str]:
    """Return the texts of parts, one by one."""
    texts = []
    for part in parts if isinstance(parts, list) else []:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text:
            texts.append(text)
    return texts


def input_of(stated: Any, field: str) -> dict[str, Any]:
    """Return the input of a call: an object, in JSON or not; else under the name ``field``."""
    if isinstance(stated, str):
        try:
            decoded = decode(stated)
        except (msgspec.DecodeError, RecursionError):
            decoded = None
        return decoded if isinstance(decoded, dict) and storable(decoded) else {field: stated}
    if stated is None:
        return {}
    return stated if isinstance(stated, dict) else {field: stated}


def call_summary(tool: str, stated: dict[str, Any]) -> str:
    """Return a one-line summary of a call: its tool, and its main argument."""
    hints = (stated[field] for field in _HINTS if stated.get(field))
    hint = next(hints, None) or next(
        (value for value in stated.values() if isinstance(value, str)), ""
    )
    if isinstance(hint, list):
        # ["bash", "-lc", "make test"] is about the last of these.
        words = [word for word in hint if isinstance(word, str)]
        hint = words[-1] if len(words) > 2 and words[1].startswith("-") else " ".join(words)
    if not isinstance(hint, str) or not hint.strip():
        return shorten(f"{tool} called")
    return shorten(f"{tool}: {shorten(plain(hint), HINT_CHARACTERS_MAX)}")


def said(role: str, key: str, text: str, /, **more: Any) -> PendingEvent:
    """Return what a user or an assistant said, or an agent thought; None is left out."""
    more = without_none(**more)
    if role == "thinking":
        refs = {"observed": "thinking", **_named(more, "message_id")}
        payload = {**more, "thinking": text}
        return PendingEvent(
            key=key, kind="ops.observation", summary="thinking", payload=payload, refs=refs
        )
    return PendingEvent(
        key=key,
        kind=f"conversation.{role}",
        summary=shorten(_request(text) if role == "user" else text),
        payload={**more, "text": text},
        refs={"characters": len(text), **_named(more, "model", "stop_reason", "message_id")},
    )


def _request(text: str) -> str:
    """Return what a user asked for, without what an editor put before it."""
    if not text.lstrip().startswith(_PREAMBLE):
        return text
    return text.partition(_REQUEST)[2].strip() or text


def called(
    key: str, call_id: str, tool: str, stated: dict[str, Any], /, **more: Any
) -> PendingEvent:
    """Return a call of a tool."""
    return PendingEvent(
        key=key,
        kind="tool.call",
        summary=call_summary(tool, stated),
        payload={**more, "call_id": call_id, "name": tool, "input": stated},
        refs={"call_id": call_id, "tool": tool},
    )


def returned(
    key: str,
    call_id: str,
    tool: str | None,
    output: Any,
    error: dict[str, str] | None,
    /,
    **more: Any,
) -> PendingEvent:
    """Return the outcome of a call: it failed if there is an ``error``; None is left out."""
    more = without_none(**more)
    status = "ok" if error is None else "failed"
    names = {} if tool is None else {"tool": tool}
    failure = {} if error is None else {"error": error}
    duration = _named(more, "duration_ms")
    return PendingEvent(
        key=key,
        kind="tool.result",
        summary=shorten(f"{tool or 'a tool'} {'returned' if error is None else 'failed'}"),
        payload={
            **more,
            **failure,
            "call_id": call_id,
            "name": tool,
            "status": status,
            "output": output,
        },
        refs={
            "call_id": call_id,
            **names,
            "status": status,
            **duration,
            **({} if error is None else {"error_class": error["class"]}),
        },
    )


def observed(key: str, name: str, content: Any, kind: str = "ops.observation") -> PendingEvent:
    """Return a record that is not part of the conversation, whole."""
    plainly = isinstance(content, dict) and "record" not in content
    payload = {**content, "record": name} if plainly else {"record": name, "content": content}
    return PendingEvent(
        key=key, kind=kind, summary=shorten(name), payload=payload, refs={"observed": shorten(name)}
    )


def _named(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}
