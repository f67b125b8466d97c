"""The text of messages, without a gateway's additions: envelopes, recalled memories, markers."""

from __future__ import annotations

import re
from typing import Any, Final

from treering.model.codec import encode

SUMMARY_CHARACTERS: Final = 220
SUMMARY_CHARACTERS_MIN: Final = 40
SUMMARY_CHARACTERS_MAX: Final = 400
DUMP: Final = "[REDACTED_TOOL_DUMP]"
"""Replaces a message that is really the output of a tool."""

_ENVELOPES: Final = r"Conversation info|Sender|Replied message|System \(untrusted\)"
_LEFT_OUT: Final = (
    re.compile(r"<relevant-memories>.*?</relevant-memories>", re.DOTALL),
    re.compile(
        r"<<<BEGIN_(OPENCLAW_INTERNAL_CONTEXT|UNTRUSTED_CHILD_RESULT)>>>.*?<<<END_\1>>>", re.DOTALL
    ),
    re.compile(
        rf"^(?:{_ENVELOPES})[^\n]*:[ \t]*\n```json\n.*?\n```[ \t]*$", re.DOTALL | re.MULTILINE
    ),
    re.compile(
        r"^\[Subagent Context\][^\n]*(?:\n```json\n.*?\n```[ \t]*)?$", re.DOTALL | re.MULTILINE
    ),
    re.compile(r"^[ \t]*(?:System \(untrusted\)|memory-policy):[^\n]*$", re.MULTILINE),
    re.compile(r"^[ \t]*\[?transcript-recall\b[^\n]*$", re.MULTILINE | re.IGNORECASE),
    re.compile(r"<\|[a-z_]{1,32}\|>|\[/?INST\]|<</?SYS>>|<<<(?:BEGIN|END)_[A-Z_]{1,64}>>>"),
    re.compile(r"^[ \t]*(?:NO_REPLY|AUDIO_AS_VOICE|MEDIA:[^\n]*)[ \t]*$", re.MULTILINE),
)
_BLANKS: Final = re.compile(r"[ \t]+$", re.MULTILINE)
_GAPS: Final = re.compile(r"\n{3,}")


def message_in(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return the role and the text of a transcript's row, or None if it is not a message."""
    message = row.get("message")
    fields = message if isinstance(message, dict) else row
    role = fields.get("role")
    if role not in ("user", "assistant") or fields.get("model") == "delivery-mirror":
        return None
    content = fields.get("content")
    if isinstance(content, str):
        return (role, content) if content.strip() else None
    if not isinstance(content, list):
        return None
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]
    return (role, "\n".join(texts)) if any(text.strip() for text in texts) else None


def cleaned(text: str) -> str:
    """Return ``text`` without additions; empty if nothing remains."""
    plain = text.replace("\r\n", "\n")
    for pattern in _LEFT_OUT:
        plain = pattern.sub("", plain)
    return _GAPS.sub("\n\n", _BLANKS.sub("", plain)).strip()


def summary_of(kind: str, text: str, characters: int) -> str:
    """Return ``text`` on one line after its kind, cut to ``characters``."""
    line = " ".join(text.split())
    most = min(max(SUMMARY_CHARACTERS_MIN, characters), SUMMARY_CHARACTERS_MAX)
    return f"{kind}: {line if len(line) <= most else line[: most - 1].rstrip() + '…'}"


def payload_of(text: str, cap: int) -> tuple[dict[str, Any], bool]:
    """Return ``text`` as a payload within ``cap`` bytes, and whether it was cut."""
    whole: dict[str, Any] = {"text": text}
    size = len(encode(whole))
    if size <= cap:
        return whole, False
    mark = {"_truncated": True, "original_bytes": size}
    # Escapes make JSON longer than its text; a few steps find a length that fits.
    shortened = text[:cap]
    while len(encode({"text": f"{shortened}…", **mark})) > cap:
        shortened = shortened[: int(len(shortened) * 0.9)]
    return {"text": f"{shortened}…", **mark}, True
