"""The terms by which texts are ranked: stemmed words without stop words.

``Meetings`` and ``met`` differ, ``meetings`` and ``meeting`` do not. Names in code count as a whole
and in parts; scripts without spaces count in pairs of characters. Terms are stored as numbers,
hashed under a key of the ledger, so that the index holds no text and none can be guessed without
the ledger.
"""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from hashlib import blake2b
from sys import byteorder
from typing import Final

import Stemmer

from treering.model.search_words import WORD_CHARACTERS_MAX, named_part, pieces_in, word_list

_KEPT_WORDS_MAX: Final = 2**16
_KEPT_KEYS_MAX: Final = 4
_WHOLE: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)+")
"""Names and versions with separators: ``snake_case``, ``notes.txt``, ``3.11.7``."""

STOP_WORDS: Final = frozenset(
    """
    a about all also am an and any are aren as at be been being but by can could couldn d did
    didn do does doesn doing don for from had hadn has hasn have haven having he her hers him
    his how i if in into is isn it its just ll m me my of on or our ours re s shall she should
    shouldn so some such t than that the their theirs them then there these they this those to
    too us ve very was wasn we were weren what when where which who whom whose why will with won
    would wouldn you your yours
    """.split()  # noqa: SIM905  (as a list it would be longer than the rest)
)
"""Stop words: too common to distinguish texts."""


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order, with repetitions."""
    return [term for word in _words(text) if (term := _term(word))]


def term_ids(text: str, key: bytes = b"") -> array[int]:
    """Return the terms of a text as 32-bit numbers, the same in every process with ``key``."""
    return array("I", b"".join(map(_ids_of(key).__getitem__, _words(text))))


def _words(text: str) -> list[str]:
    """Return the words of a text, the parts of its names in camel case, and names as a whole."""
    words, named = word_list(text), named_part(text)
    if named:
        words += pieces_in(named)
        words += [name.lower() for name in _WHOLE.findall(named)]
    return words


@lru_cache(_KEPT_WORDS_MAX)
def _term(word: str) -> str:
    """Return the term of a word; empty for a stop word."""
    if word in STOP_WORDS:
        return ""
    clipped = word[:WORD_CHARACTERS_MAX]
    # A stemmer is not thread-safe, and costs almost nothing to create.
    if clipped.isascii() and clipped.isalpha():
        return str(Stemmer.Stemmer("english", 0).stemWord(clipped))
    return clipped


class _WordIds(dict[str, bytes]):
    """The numbers of words under one key, as they are in an array; none for a stop word."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __missing__(self, word: str) -> bytes:
        term = _term(word)
        number = b""
        if term:
            digest = blake2b(term.encode(), digest_size=4, key=self._key).digest()
            number = digest if byteorder == "little" else digest[::-1]
        # The first ones stay: among them are those that are frequent.
        if len(self) < _KEPT_WORDS_MAX:
            self[word] = number
        return number


_ids_of: Final = lru_cache(_KEPT_KEYS_MAX)(_WordIds)
