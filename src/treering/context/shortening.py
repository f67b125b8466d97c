"""Texts cut in the middle: their beginning and their end are what tells most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.context.tokens import Counter

OUTPUT_CHARACTERS_MAX: Final = 8_000
"""A tool's output beyond this is shortened in every context."""
CHARACTERS_PER_TOKEN_MAX: Final = 12
"""No text worth keeping has more characters to a token."""
MARKED_TOKENS_MIN: Final = 40
"""With fewer tokens than this a text is cut at its end, and no marker says so."""


def shorten(text: str, characters: int) -> str:
    """Return ``text`` with its first and last characters, about ``characters`` of them in all.

    It is never longer than ``text``.
    """
    if len(text) <= characters:
        return text
    half = max(characters, 0) // 2
    omitted = len(text) - 2 * half
    marker = f"\n\n(truncated: {omitted} chars omitted)\n\n"
    shorter = text[:half] + marker + (text[-half:] if half else "")
    return shorter if len(shorter) < len(text) else text


def shorten_to(text: str, tokens: int, count: Counter) -> str:
    """Return as much of ``text`` as counts for at most ``tokens``; empty if none does.

    With more tokens no less of it is left.
    """
    if tokens <= 0:
        return ""
    if len(text) <= tokens * CHARACTERS_PER_TOKEN_MAX and count(text) <= tokens:
        return text
    if tokens >= MARKED_TOKENS_MIN:
        characters = _marked(text, tokens, count)
        return shorten(text, characters) if characters else _beginning(text, tokens, count)
    # A marker would be the most of it. Without one more would be left than with a few tokens more
    # and a marker, if nothing held it back.
    most = _marked(text, MARKED_TOKENS_MIN, count)
    return _beginning(text, tokens, count)[: most or None]


def _marked(text: str, tokens: int, count: Counter) -> int:
    """Return how many characters are left with a marker in their midst; 0 if there is no room."""
    low, high = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if count(shorten(text, middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    # Halves are cut, so an odd one is not shown.
    return low // 2 * 2


def _beginning(text: str, tokens: int, count: Counter) -> str:
    """Return the start of ``text``, where there is no room for a marker."""
    low, high = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
