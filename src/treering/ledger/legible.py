"""Keep the words of an encrypted payload out of the event's readable fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.events import NewEvent

WORD_CHARS_MIN: Final = 4
"""Shorter words are in every text, and reveal nothing."""
NAMES: Final = {
    "conversation.user": "user message",
    "conversation.assistant": "assistant message",
}
_WORD: Final = re.compile(r"\w+")
_CODE: Final = re.compile(r"[\w.:/@+-]{1,128}")
"""An id, a name or a path, as opposed to prose."""


def without_words(event: NewEvent) -> NewEvent:
    """Return ``event`` with a summary and refs that repeat nothing of its payload.

    A summary that shares a word with the payload is replaced by the kind and the size. Prose in
    refs is replaced, too; ids, names and paths stay.
    """
    texts = list(_texts(event.payload))
    payload_words = "\n".join((*texts, *_figures(event.payload))).lower()
    summary, refs = event.summary, event.refs
    if _repeats(summary, payload_words):
        summary = _described(event, sum(map(len, texts)))
    if refs is not None:
        refs = _wordless(refs, payload_words)
    if summary is event.summary and refs is event.refs:
        return event
    return replace(event, summary=summary, refs=refs)


def _repeats(text: str, payload_words: str) -> bool:
    words = _WORD.findall(text.lower())
    long = [word for word in words if len(word) >= WORD_CHARS_MIN]
    return any(word in payload_words for word in long or words)


def _described(event: NewEvent, characters: int) -> str:
    name = NAMES.get(event.kind) or event.kind.replace(".", " ")
    tool = event.refs.get("tool") if isinstance(event.refs, dict) else None
    if isinstance(tool, str) and _CODE.fullmatch(tool):
        name = f"{name} of {tool}"
    return f"{name}, {characters:,} character{'' if characters == 1 else 's'}"


def _wordless(value: Any, payload_words: str) -> Any:
    """Return refs with "…" for every text that repeats the payload."""
    if isinstance(value, str):
        return "…" if not _CODE.fullmatch(value) and _repeats(value, payload_words) else value
    if isinstance(value, dict):
        return {key: _wordless(item, payload_words) for key, item in value.items()}
    if isinstance(value, list):
        return [_wordless(item, payload_words) for item in value]
    return value


def _figures(value: Any) -> Iterator[str]:
    """Yield every number in a payload, and every key that is not a plain name."""
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
    """Yield every text in a payload, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
