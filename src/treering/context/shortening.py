"""Shortens texts in the middle: their beginning and end say most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.context.tokens import Counter

OUTPUT_CHARACTERS_MAX: Final = 8_000
"""Longer tool outputs are shortened in every context."""
CHARACTERS_PER_TOKEN_MAX: Final = 12
"""No useful text has more characters per token."""
MARKED_TOKENS_MIN: Final = 40
"""With fewer tokens a text is cut at its end, without a marker."""


def shorten(text: str, characters: int) -> str:
    """Return the first and last characters of ``text``, about ``characters`` in all.

    The result is never longer than ``text``.
    """
    if len(text) <= characters:
        return text
    half = max(characters, 0) // 2
    omitted = len(text) - 2 * half
    marker = f"\n\n(truncated: {omitted} chars omitted)\n\n"
    shorter = text[:half] + marker + (text[-half:] if half else "")
    return shorter if len(shorter) < len(text) else text


def shorten_to(text: str, tokens: int, count: Counter) -> str:
    """Return as much of ``text`` as fits into ``tokens``; empty if nothing does.

    More tokens never leave less text.
    """
    if tokens <= 0:
        return ""
    if len(text) <= tokens * CHARACTERS_PER_TOKEN_MAX and count(text) <= tokens:
        return text
    if tokens >= MARKED_TOKENS_MIN:
        characters = _marked(text, tokens, count)
        return shorten(text, characters) if characters else _beginning(text, tokens, count)
    # A marker would take most of the room. But without one more text would be left than with a few
    # more tokens and a marker, so the length is capped.
    most = _marked(text, MARKED_TOKENS_MIN, count)
    return _beginning(text, tokens, count)[: most or None]


def _marked(text: str, tokens: int, count: Counter) -> int:
    """Return how many characters fit around a marker; 0 if none fit."""
    low, high = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if count(shorten(text, middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    # Both halves are equal, so an odd character is not shown.
    return low // 2 * 2


def _beginning(text: str, tokens: int, count: Counter) -> str:
    """Return the start of ``text``, where a marker does not fit."""
    low, high = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
