"""Splits texts into the word pieces of BERT's uncased vocabulary.

Words are looked up whole, then by their longest known prefixes. The pieces of a word are cached,
since most words occur again; so no compiled tokenizer is needed, nor its threads, which do not
survive a fork.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_MAX: Final = 20_000
"""The rest of a longer text is not read."""
WORD_CHARACTERS_MAX: Final = 100
"""Longer words are unknown."""
KEPT_WORDS_MAX: Final = 50_000
FOREIGN_KEPT_MAX: Final = 8_192
UNKNOWN: Final = 100
STARTS: Final = 101
ENDS: Final = 102

_PLAIN: Final = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_IDEOGRAPHS: Final = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f])"
)


class WordPieces:
    """A vocabulary that splits texts. Thread-safe."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._cache: dict[str, tuple[int, ...]] = {}

    def numbers(self, text: str) -> list[int]:
        """Return the pieces of a text as indexes into the vocabulary."""
        clipped = text[:CHARACTERS_MAX]
        words = _PLAIN.findall(clipped.lower()) if clipped.isascii() else _words(clipped)
        cached = self._cache
        numbers: list[int] = []
        for word in words:
            pieces = cached.get(word)
            numbers += self._cache_word(word) if pieces is None else pieces
        return numbers

    def _cache_word(self, word: str) -> tuple[int, ...]:
        pieces = self._pieces(word)
        if len(self._cache) < KEPT_WORDS_MAX:
            self._cache[word] = pieces
        return pieces

    def _pieces(self, word: str) -> tuple[int, ...]:
        if len(word) > WORD_CHARACTERS_MAX:
            return (UNKNOWN,)
        pieces: list[int] = []
        at = 0
        while at < len(word):
            before = "##" if at else ""
            for end in range(len(word), at, -1):
                number = self._numbers.get(before + word[at:end])
                if number is not None:
                    pieces.append(number)
                    at = end
                    break
            else:
                return (UNKNOWN,)
        return tuple(pieces)


def _words(text: str) -> list[str]:
    """Return the words of a text in any script, with punctuation marks as separate words."""
    words: list[str] = []
    # Most chunks between blanks are ASCII, even in a text that is not.
    for is_plain, group in groupby(text.split(), str.isascii):
        if is_plain:
            words += _PLAIN.findall(" ".join(group).lower())
        else:
            for chunk in group:
                words += _foreign_words(chunk)
    return words


@lru_cache(FOREIGN_KEPT_MAX)
def _foreign_words(text: str) -> tuple[str, ...]:
    spaced = _IDEOGRAPHS.sub(r" \1 ", text).lower()
    words: list[str] = []
    for chunk in unicodedata.normalize("NFD", spaced).split():
        word = ""
        for character in chunk:
            category = unicodedata.category(character)
            if category == "Mn" or (category[0] == "C"):
                continue
            if category[0] == "P" or (character.isascii() and not character.isalnum()):
                words += [word, character] if word else [character]
                word = ""
            else:
                word += character
        if word:
            words.append(word)
    return tuple(words)
