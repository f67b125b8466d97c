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
from itertools import chain
from typing import Any, Final

import Stemmer

from treering.model.search_words import WORD_CHARACTERS_MAX, named_part, pieces_in, word_list

_KEPT_WORDS_MAX: Final = 2**16
_KEPT_CHUNKS_MAX: Final = 2**17
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
    return [term for word in chain(*_words(text)) if (term := _term(word))]


def term_ids(text: str, key: bytes = b"") -> array[int]:
    """Return the terms of a text as 32-bit numbers, the same in every process with ``key``."""
    # The parts of a text are those of its chunks between blanks, and most chunks come again.
    parts = list(map(_ids_of(key).__getitem__, text.split()))
    named = [part for part in parts if type(part) is tuple]
    words = [part[0] if type(part) is tuple else part for part in parts] if named else parts
    return array("I", b"".join([*words, *(part[at] for at in (1, 2) for part in named)]))


def _words(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the words of a text, the parts of its names in camel case, and names as a whole."""
    words, named = word_list(text), named_part(text)
    if not named:
        return words, [], []
    return words, pieces_in(named), [name.lower() for name in _WHOLE.findall(named)]


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
            number = array("I", [int.from_bytes(digest, "little")]).tobytes()
        # The first ones stay: among them are those that are frequent.
        if len(self) < _KEPT_WORDS_MAX:
            self[word] = number
        return number


class _ChunkIds(dict[str, Any]):
    """The numbers of the terms of chunks under one key, as they are in an array.

    A chunk with a name in code has three parts, as of ``_words``.
    """

    def __init__(self, key: bytes) -> None:
        self._words = _WordIds(key)

    def __missing__(self, chunk: str) -> Any:
        number = self._words.__getitem__
        words, pieces, names = (b"".join(map(number, words)) for words in _words(chunk))
        ids = (words, pieces, names) if pieces or names else words
        if len(chunk) <= WORD_CHARACTERS_MAX and len(self) < _KEPT_CHUNKS_MAX:
            self[chunk] = ids
        return ids


_ids_of: Final = lru_cache(_KEPT_KEYS_MAX)(_ChunkIds)
