"""Statements: what a fact says, however it is spelt."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

from treering.derive.claim_words import marks_and_signs

_WORD: Final = re.compile(r"(?:(?<!\S)-(?=\d))?\w+[+#%]*|[$]")
_SPEAKER: Final = frozenset({"i", "user"})
_ARTICLES: Final = frozenset({"a", "an", "the"})


def statement_of(text: str) -> str:
    """Return the words of a statement: case, articles, marks and who tells it do not matter."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = (_WORD if folded.isascii() else _word_of_any_script()).findall(folded)
    kept = [word for word in words if word not in _ARTICLES]
    if kept and kept[0] in _SPEAKER:
        kept = kept[1:]
    return " ".join(kept or words)


@cache
def _word_of_any_script() -> re.Pattern[str]:
    marks, signs = marks_and_signs()
    return re.compile(rf"(?:(?<!\S)-(?=\d))?[\w{marks}]+[+#%]*|[${signs}]")
