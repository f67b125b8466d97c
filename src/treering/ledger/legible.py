"""What stays legible of an event whose payload is sealed: none of the words of the payload."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.events import NewEvent

WORD_CHARS_MIN: Final = 4
"""Shorter words stand in every text, and say nothing of it."""
NAMES: Final = {
    "conversation.user": "user message",
    "conversation.assistant": "assistant message",
}
_WORD: Final = re.compile(r"\w+")
_CODE: Final = re.compile(r"[\w.:/@+-]{1,128}")
"""An id, a name or a path: it points somewhere, and is no talk."""


def without_words(event: NewEvent) -> NewEvent:
    """Return ``event`` with a summary and refs that repeat nothing of its payload.

    A summary of its author's own stays; one that shares a word with the payload gives way to the
    kind and the size. So do texts in refs; ids, names and paths stay.
    """
    texts = list(_texts(event.payload))
    spoken = "\n".join((*texts, *_figures(event.payload))).lower()
    summary, refs = event.summary, event.refs
    if _repeats(summary, spoken):
        summary = _described(event, sum(map(len, texts)))
    if refs is not None:
        refs = _wordless(refs, spoken)
    if summary is event.summary and refs is event.refs:
        return event
    return replace(event, summary=summary, refs=refs)


def _repeats(text: str, spoken: str) -> bool:
    words = _WORD.findall(text.lower())
    long = [word for word in words if len(word) >= WORD_CHARS_MIN]
    return any(word in spoken for word in long or words)


def _described(event: NewEvent, characters: int) -> str:
    name = NAMES.get(event.kind) or event.kind.replace(".", " ")
    tool = event.refs.get("tool") if isinstance(event.refs, dict) else None
    if isinstance(tool, str) and _CODE.fullmatch(tool):
        name = f"{name} of {tool}"
    return f"{name}, {characters:,} character{'' if characters == 1 else 's'}"


def _wordless(value: Any, spoken: str) -> Any:
    """Return refs with "…" for every text that repeats the payload."""
    if isinstance(value, str):
        return "…" if not _CODE.fullmatch(value) and _repeats(value, spoken) else value
    if isinstance(value, dict):
        return {key: _wordless(item, spoken) for key, item in value.items()}
    if isinstance(value, list):
        return [_wordless(item, spoken) for item in value]
    return value


def _figures(value: Any) -> Iterator[str]:
    """Give every number in a payload, and every key that is no plain name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not _CODE.fullmatch(key):
                yield key
            yield from _figures(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _figures(item)


def _texts(value: Any) -> Iterator[str]:
    """Give every text in a payload, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
