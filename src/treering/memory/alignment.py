"""Word-by-word comparison: how well each word of a question matches a word of an answer.

The vector of a sentence blurs its words. Comparing the vectors of single words finds a dog for a
pet and a wife for a spouse. It is done only for the few best candidates.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from treering.derive.terms import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.ports import Embedder

WORDS_MAX: Final = 24
"""Words of a text that are compared."""
_WORDS_HELD: Final = 20_000
_WORD: Final = re.compile(r"[^\W_]+")
_SPEAKERS: Final = frozenset({"user", "users"})


def content_words(text: str) -> list[str]:
    """Return the meaningful words of a text, without stop words and "user"."""
    words = [word.casefold() for word in _WORD.findall(text)]
    kept = [word for word in words if word not in STOP_WORDS and word not in _SPEAKERS]
    return (kept or words)[:WORDS_MAX]


class Aligner:
    """Compares texts word by word, with one embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vector = lru_cache(maxsize=_WORDS_HELD)(self._embed)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text matches the words of a query, from 0 to 1."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        query_words = content_words(query)
        words = [content_words(text) or [""] for text in texts]
        if not query_words or not words:
            return [0.0] * len(texts)
        question = np.stack([self._vector(word) for word in query_words])
        answers = np.stack([self._vector(word) for text in words for word in text])
        starts = np.cumsum([0, *(len(text) for text in words[:-1])])
        met = np.maximum.reduceat(question @ answers.T, starts, axis=1).mean(axis=0)
        scores: list[float] = np.maximum(met, 0).tolist()
        return scores

    def _embed(self, word: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embedder.embed([word])[0]
        return vector
