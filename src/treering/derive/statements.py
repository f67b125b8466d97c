"""Statements: what a fact says, however it is spelt."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"\w+")
_SPEAKER: Final = frozenset({"i", "user"})
_ARTICLES: Final = frozenset({"a", "an", "the"})


def statement_of(text: str) -> str:
    """Return the words of a statement: case, articles, marks and who tells it do not matter."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    kept = [word for word in words if word not in _ARTICLES]
    if kept and kept[0] in _SPEAKER:
        kept = kept[1:]
    return " ".join(kept or words)
