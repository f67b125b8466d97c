"""Values of other programs' logs, read defensively: any of them may be missing or mistyped."""

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
"""The limit of a reader's state between two reads of a file."""
_DIGEST_DIGITS: Final = 16
_ENDING: Final = re.compile(r"\.jsonl|\.(?:json|bin)(?=\.|$)")
_HINTS: Final = (
    "command", "cmd", "path", "file_path", "filePath", "file", "url", "query", "pattern", "prompt",
    "message", "text", "name", "action",
)  # fmt: skip
"""Input fields that describe a call best, in order of preference."""


def fields_of(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is an object, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def word(value: Any) -> str | None:
    """Return ``value`` if it is a text that is not blank, otherwise None."""
    return value if isinstance(value, str) and value.strip() else None


def name(value: Any) -> str | None:
    """Return ``value`` if the ledger accepts it as a name, otherwise None."""
    text = word(value)
    return text if text and len(text) <= NAME_CHARACTERS_MAX and text.isprintable() else None


def stem(path: PurePath | None) -> str | None:
    """Return the file's name without its extension, or None if it is not a valid name."""
    return None if path is None else name(_ENDING.split(path.name)[0])


def count(value: Any) -> int:
    """Return ``value`` if it is a positive integer, otherwise 0."""
    return value if type(value) is int and value > 0 else 0


def time_ms(value: Any) -> int | None:
    """Return a time in milliseconds, from a number or an ISO 8601 text, which defaults to UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            value = math.floor(moment.timestamp() * 1_000 + 0.5)
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
    """Return the text of a message's content: a string, or blocks with texts."""
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in blocks_of(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def says_beyond(fields: dict[str, Any], known: Collection[str]) -> bool:
    """Return whether an object has content in fields other than the ``known`` ones."""
    return any(says_something(value) for at, value in fields.items() if at not in known)


def says_something(value: Any) -> bool:
    """Return whether a value contains a text that is not blank."""
    if isinstance(value, dict):
        return any(map(says_something, value.values()))
    if isinstance(value, list):
        return any(map(says_something, value))
    return word(value) is not None


def digest(value: Any) -> str:
    """Return a short digest that identifies ``value``."""
    return sha256(encode(value)).hexdigest()[:_DIGEST_DIGITS]


def hint_of(tool: str, given: Any) -> str:
    """Return a one-line summary of a call: the tool and its main argument."""
    fields = fields_of(given)
    subject = next((text for at in _HINTS if (text := word(fields.get(at)))), None)
    if subject is None:
        subject = word(given) or next(
            (text for value in fields.values() if (text := word(value))), None
        )
    return shorten(f"{tool}: {subject}" if subject else tool)


def without_none(**values: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {at: value for at, value in values.items() if value is not None}


def storable(value: Any) -> bool:
    """Return whether the ledger can store ``value`` unchanged."""
    try:
        canonical([value], "value")
    except InvalidInput:
        return False
    return True


def bounded(state: Any) -> Any:
    """Return ``state`` if it is within the size limit, otherwise None."""
    return state if len(encode(state)) <= STATE_BYTES_MAX else None
