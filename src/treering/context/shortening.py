"""Texts cut in the middle: their beginning and their end are what tells most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.context.tokens import Counter

OUTPUT_CHARACTERS_MAX: Final = 8_000
"""A tool's output beyond this is shortened in every context."""
CHARACTERS_PER_TOKEN_MAX: Final = 12
"""No text worth keeping has more characters to a token."""


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
    """Return as much of ``text`` as counts for at most ``tokens``; empty if none does."""
    if tokens <= 0:
        return ""
    if len(text) <= tokens * CHARACTERS_PER_TOKEN_MAX and count(text) <= tokens:
        return text
    low, high, found = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX), ""
    while low < high:
        middle = (low + high + 1) // 2
        tried = shorten(text, middle)
        if count(tried) <= tokens:
            low, found = middle, tried
        else:
            high = middle - 1
    return found or _beginning(text, tokens, count)


def _beginning(text: str, tokens: int, count: Counter) -> str:
    """Return the start of ``text``, where there is no room for a marker."""
    end = min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while end and count(text[:end]) > tokens:
        end //= 2
    return text[:end]
