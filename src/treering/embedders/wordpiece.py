"""Texts as numbers of word pieces, the way that BERT's uncased vocabulary takes them apart.

Words are looked up whole, then by their longest known beginnings. What a word comes to is kept, for
most words of a text have been seen before; so there is no need of a compiled tokenizer, nor of its
threads, which do not survive a fork.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_MAX: Final = 20_000
"""Of a longer text, the beginning is read."""
WORD_CHARACTERS_MAX: Final = 100
"""A longer word is none."""
KEPT_WORDS_MAX: Final = 50_000
UNKNOWN: Final = 100
STARTS: Final = 101
ENDS: Final = 102

_PLAIN: Final = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_BLANKS: Final = re.compile(r"\s+")
_IDEOGRAPHS: Final = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f])"
)


class WordPieces:
    """A vocabulary, and how texts read in it. May be used by several threads."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._known: dict[str, tuple[int, ...]] = {}

    def numbers(self, text: str) -> list[int]:
        """Return the pieces of a text as their places in the vocabulary."""
        clipped = text[:CHARACTERS_MAX]
        words = _PLAIN.findall(clipped.lower()) if clipped.isascii() else _words(clipped)
        known = self._known
        numbers: list[int] = []
        for word in words:
            pieces = known.get(word)
            numbers += self._keep(word) if pieces is None else pieces
        return numbers

    def _keep(self, word: str) -> tuple[int, ...]:
        pieces = self._pieces(word)
        if len(self._known) < KEPT_WORDS_MAX:
            self._known[word] = pieces
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
    """Return the words of a text with letters of any script, punctuation marks each for itself."""
    spaced = _IDEOGRAPHS.sub(r" \1 ", text).lower()
    words: list[str] = []
    for chunk in _BLANKS.split(unicodedata.normalize("NFD", spaced)):
        word = ""
        for character in chunk:
            sort = unicodedata.category(character)
            if sort == "Mn" or (sort[0] == "C"):
                continue
            if sort[0] == "P" or (character.isascii() and not character.isalnum()):
                words += [word, character] if word else [character]
                word = ""
            else:
                word += character
        if word:
            words.append(word)
    return words
