"""Values of other programs' logs, read without trust: any part may be missing, or be another."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.model.codec import canonical, encode
from treering.model.events import NAME_CHARACTERS_MAX
from treering.model.fields import TIME_MS_MAX
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import PurePath

STATE_BYTES_MAX: Final = 64 * 1024
"""What a reader may keep between two readings of a file."""
_DIGEST_DIGITS: Final = 16
_ENDING: Final = re.compile(r"\.jsonl|\.(?:json|bin)(?=\.|$)")
_HINTS: Final = (
    "command", "cmd", "path", "file_path", "filePath", "file", "url", "query", "pattern", "prompt",
    "message", "text", "name", "action",
)  # fmt: skip
"""Fields of an input that say best what a call is about."""


def fields_of(value: Any) -> dict[str, Any]:
    """Return an object, an empty one for whatever is none."""
    return value if isinstance(value, dict) else {}


def word(value: Any) -> str | None:
    """Return a text that says something, None for whatever is none."""
    return value if isinstance(value, str) and value.strip() else None


def name(value: Any) -> str | None:
    """Return a text that can name something in a ledger, None for whatever cannot."""
    text = word(value)
    return text if text and len(text) <= NAME_CHARACTERS_MAX and text.isprintable() else None


def stem(path: PurePath | None) -> str | None:
    """Return what a file is called without its ending, if that can name something in a ledger."""
    return None if path is None else name(_ENDING.split(path.name)[0])


def count(value: Any) -> int:
    """Return a number of things, 0 for whatever is none."""
    return value if type(value) is int and value > 0 else 0


def time_ms(value: Any) -> int | None:
    """Return a time in milliseconds: from such a number, or from ISO 8601; UTC if it is open."""
    if isinstance(value, str):
        try:
            told = datetime.fromisoformat(value.strip())
            told = told if told.tzinfo else told.replace(tzinfo=UTC)
            value = math.floor(told.timestamp() * 1_000 + 0.5)
        except (ValueError, OverflowError):
            return None
    if type(value) is float and math.isfinite(value):
        value = int(value)
    return value if type(value) is int and 0 < value <= TIME_MS_MAX else None


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a message's content; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found = content if isinstance(content, list) else []
    return [
        {"type": "text", "text": block}
        if isinstance(block, str)
        else block
        if isinstance(block, dict)
        else {"type": "value", "value": block}
        for block in found
    ]


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or blocks of which some have one."""
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in blocks_of(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def says_beyond(told: dict[str, Any], known: Collection[str]) -> bool:
    """Whether an object says something in other fields than the ``known`` ones."""
    return any(says_something(value) for at, value in told.items() if at not in known)


def says_something(value: Any) -> bool:
    """Whether a value holds more than blanks, nothing and numbers."""
    if isinstance(value, dict):
        return any(map(says_something, value.values()))
    if isinstance(value, list):
        return any(map(says_something, value))
    return word(value) is not None


def digest(value: Any) -> str:
    """Return what tells ``value`` from others, in a few letters."""
    return sha256(encode(value)).hexdigest()[:_DIGEST_DIGITS]


def hint_of(tool: str, given: Any) -> str:
    """Return a call in one line: the tool, and what it is about."""
    fields = fields_of(given)
    told = next((text for at in _HINTS if (text := word(fields.get(at)))), None)
    if told is None:
        told = word(given) or next((text for one in fields.values() if (text := word(one))), None)
    return shorten(f"{tool}: {told}" if told else tool)


def without_none(**found: Any) -> dict[str, Any]:
    """Return what is known of ``found``."""
    return {at: value for at, value in found.items() if value is not None}


def storable(value: Any) -> bool:
    """Whether a ledger can hold ``value`` as it is."""
    try:
        canonical([value], "value")
    except InvalidInput:
        return False
    return True


def bounded(state: Any) -> Any:
    """Return ``state`` if it is small enough to be kept, None otherwise."""
    return state if len(encode(state)) <= STATE_BYTES_MAX else None
