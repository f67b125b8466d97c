"""Values of other programs' logs, read defensively: any of them may be missing or mistyped."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

from treering.errors import InvalidInput
from treering.model.codec import canonical_content, decode, encode
from treering.model.events import NAME_CHARACTERS_MAX
from treering.model.fields import TIME_MS_MAX
from treering.spine.words import shorten

Value = TypeVar("Value")

STATE_BYTES_MAX: Final = 64 * 1024
"""The limit of a reader's state between two reads of a file."""
_DIGEST_DIGITS: Final = 16
_USUAL_TIME: Final = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:[0-5]\d\.\d{3}Z", re.ASCII)
_ENDING: Final = re.compile(r"\.jsonl|\.(?:json|bin|txt)(?=\.|$)")
_FAILED: Final = re.compile(
    r"\s*(?:<tool_use_error>|(?:fatal |tool )?error(?: executing tool)?:|command failed\b)"
    r"|.*\b(?:exit(?:ed with)?(?: code|ed with code)?|exit status)[: ]+[1-9]",
    re.IGNORECASE | re.DOTALL,
)
_FAILED_CHARACTERS: Final = 200
_HINTS: Final = (
    "command", "cmd", "path", "file_path", "filePath", "file", "url", "query", "pattern", "prompt",
    "message", "text", "name", "action",
)  # fmt: skip
"""Input fields that describe a call best, in order of preference."""


def fields_of(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is an object, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Any]:
    """Return ``value`` if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none if it is something else."""
    return [item for item in items_of(value) if isinstance(item, dict)]


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
        usual_ms = usual_time_ms(value)
        if usual_ms is not None:
            return usual_ms
        try:
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            value = math.floor(moment.timestamp() * 1_000 + 0.5)
        except (ValueError, OverflowError):
            return None
    if type(value) is float and math.isfinite(value):
        value = int(value)
    return value if type(value) is int and 0 < value <= TIME_MS_MAX else None


def usual_time_ms(text: str) -> int | None:
    """Return the milliseconds of a time as agents usually write it; None if it is another."""
    if _USUAL_TIME.fullmatch(text) is None:
        return None
    minute_ms = _minute_ms(text[:16])
    if minute_ms is None:
        return None
    return minute_ms + int(text[17:19]) * 1_000 + int(text[20:23])


@lru_cache(maxsize=16)
def _minute_ms(minute: str) -> int | None:
    # Records follow each other: mostly it is the minute of the one before.
    try:
        return round(datetime.fromisoformat(minute).replace(tzinfo=UTC).timestamp()) * 1_000
    except ValueError:
        return None


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a message's content; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {"type": "text", "text": block}
        if isinstance(block, str)
        else block
        if isinstance(block, dict)
        else {"type": "value", "value": block}
        for block in items_of(content)
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


def failed_by_words(output: Any) -> bool:
    """Return whether a tool's output says that it failed, where its log does not."""
    return _FAILED.match(text_of(output)[:_FAILED_CHARACTERS]) is not None


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


def keep(entries: dict[str, Value], at: str, value: Value, most: int) -> None:
    """Put ``value`` last, and drop the first ones beyond ``most``."""
    entries.pop(at, None)
    entries[at] = value
    while len(entries) > most:
        del entries[next(iter(entries))]


def storable(value: Any) -> bool:
    """Return whether the ledger can store ``value`` unchanged."""
    try:
        canonical_content("", None, [value])
    except InvalidInput:
        return False
    return True


def bounded(state: Any) -> Any:
    """Return ``state`` if it is within the size limit, otherwise None."""
    return state if len(encode(state)) <= STATE_BYTES_MAX else None


BESIDE_BYTES_MAX: Final = 4 * 1024 * 1024


def read_beside(path: PurePath | None, name: str) -> dict[str, Any]:
    """Return the object in the file ``name`` beside a log; {} if there is none."""
    if path is None or not name:
        return {}
    beside = Path(path).parent / name
    try:
        if not beside.is_file() or beside.stat().st_size > BESIDE_BYTES_MAX:
            return {}
        value = decode(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
