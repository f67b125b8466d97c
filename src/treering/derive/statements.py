"""Statements: what a fact says, however it is spelt."""

from __future__ import annotations

import unicodedata
from typing import Final

from treering.derive.claim_words import ARTICLES, word_finder

_SPEAKER: Final = frozenset({"i", "user"})
_words: Final = word_finder(r"\w")


def statement_of(text: str) -> str:
    """Return the words of a statement: case, articles, marks and who tells it do not matter."""
    words = _words(unicodedata.normalize("NFKC", text).casefold())
    kept = [word for word in words if word not in ARTICLES]
    if kept and kept[0] in _SPEAKER:
        kept = kept[1:]
    return " ".join(kept or words)
