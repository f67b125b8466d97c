"""Splits texts into the word pieces of BERT's uncased vocabulary.

Words are looked up whole, then by their longest known prefixes. The pieces of what is between
blanks are cached, since most of it occurs again; so no compiled tokenizer is needed, nor its
threads, which do not survive a fork.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_MAX: Final = 20_000
"""The rest of a longer text is not read."""
WORD_CHARACTERS_MAX: Final = 100
"""Longer words are unknown."""
KEPT_WORDS_MAX: Final = 50_000
KEPT_CHUNKS_MAX: Final = 2**17
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
        words = _WordPieces({piece: number for number, piece in enumerate(vocabulary)})
        self._chunks = _ChunkPieces(words)

    def numbers(self, text: str) -> list[int]:
        """Return the pieces of a text as indexes into the vocabulary."""
        chunks = text[:CHARACTERS_MAX].split()
        return list(chain.from_iterable(map(self._chunks.__getitem__, chunks)))


class _ChunkPieces(dict[str, tuple[int, ...]]):
    """The pieces of what is between blanks, found when first asked for."""

    def __init__(self, words: _WordPieces) -> None:
        self._words = words

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        words = _PLAIN.findall(chunk.lower()) if chunk.isascii() else _foreign_words(chunk)
        pieces = tuple(chain.from_iterable(map(self._words.__getitem__, words)))
        if len(chunk) <= WORD_CHARACTERS_MAX and len(self) < KEPT_CHUNKS_MAX:
            self[chunk] = pieces
        return pieces


class _WordPieces(dict[str, tuple[int, ...]]):
    """The pieces of words, found when first asked for."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self._split(word)
        if len(self) < KEPT_WORDS_MAX:
            self[word] = pieces
        return pieces

    def _split(self, word: str) -> tuple[int, ...]:
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


def _foreign_words(text: str) -> list[str]:
    """Return the words of a text in any script, with punctuation marks as separate words."""
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
    return words
