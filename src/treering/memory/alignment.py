"""Word by word: how well each word of a question is met by a word of an answer.

The vector of a whole sentence blurs what its words mean; for short ones, whose words have vectors
of their own, comparing these finds a dog for a pet and a wife for a spouse. It is done for the few
that look best.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from treering.derive.terms import SMALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.ports import Embedder

WORDS_MAX: Final = 24
"""Of longer texts the first so many words are looked at."""
_WORDS_HELD: Final = 20_000
_WORD: Final = re.compile(r"[^\W_]+")
_SPEAKERS: Final = frozenset({"user", "users"})


def content_words(text: str) -> list[str]:
    """Return the words that say something: small ones, and whoever tells it, are left out."""
    found = [word.casefold() for word in _WORD.findall(text)]
    kept = [word for word in found if word not in SMALL_WORDS and word not in _SPEAKERS]
    return (kept or found)[:WORDS_MAX]


class Aligner:
    """Compares texts word by word, with one embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vector = lru_cache(maxsize=_WORDS_HELD)(self._embed)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well the words of a query are met in each text, from 0 to 1."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        asked = content_words(query)
        words = [content_words(text) or [""] for text in texts]
        if not asked or not words:
            return [0.0] * len(texts)
        question = np.stack([self._vector(word) for word in asked])
        answers = np.stack([self._vector(word) for text in words for word in text])
        starts = np.cumsum([0, *(len(text) for text in words[:-1])])
        met = np.maximum.reduceat(question @ answers.T, starts, axis=1).mean(axis=0)
        found: list[float] = np.maximum(met, 0).tolist()
        return found

    def _embed(self, word: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embedder.embed([word])[0]
        return vector
