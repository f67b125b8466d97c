"""Word-by-word comparison: how well each word of a question matches a word of an answer.

The vector of a sentence blurs its words. Comparing the vectors of single words finds a dog for a
pet and a wife for a spouse. It is done only for the few best candidates.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from treering.memory.questions import content_words
from treering.memory.vectors import all_dots
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.ports import Embedder
    from treering.memory.questions import Clause

_WORDS_HELD: Final = 20_000
_TEXTS_HELD: Final = 4_096
_CLAUSES_HELD: Final = 64


class Aligner:
    """Compares texts word by word, with one embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.vector = lru_cache(maxsize=_WORDS_HELD)(self.embed)
        """Returns the vector of a word."""
        self._matrix = lru_cache(maxsize=_CLAUSES_HELD)(self._rows)
        """Returns the vectors of the words of a clause, which many texts are compared with."""

    def scores(self, clause: Clause, texts: Sequence[str]) -> list[float]:
        """Return how well each text matches the words of a clause, from 0 to 1."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        if not clause.concepts or not texts:
            return [0.0] * len(texts)
        weights = np.array([concept.weight for concept in clause.concepts], np.float32)
        met = weights @ self.by_concept(clause, texts) / weights.sum()
        scores: list[float] = np.clip(met, 0, 1).tolist()
        return scores

    def by_concept(self, clause: Clause, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return how well each concept of a clause, a row, is met by each text, a column."""
        import numpy as np  # noqa: PLC0415

        names = [name for concept in clause.concepts for name in concept.names]
        words = [_words(text) for text in texts]
        question = self._matrix(tuple(names))
        # Facts about one thing share most of their words.
        columns = {word: at for at, word in enumerate(dict.fromkeys(chain.from_iterable(words)))}
        cosines = all_dots(self._rows(columns), question)
        starts = np.cumsum([0, *(len(text) for text in words[:-1])])
        having = [columns[word] for text in words for word in text]
        nearest = np.maximum.reduceat(cosines[:, having], starts, axis=1)
        # An equal word matches in full, even one that the embedder does not know.
        text_terms = [_terms(text) for text in texts]
        for at, name in enumerate(names):
            wanted = _terms(name)
            if not any(map(str.isalpha, name)):
                # A number is near every other number.
                nearest[at] = 0.0
            equal = [place for place, terms in enumerate(text_terms) if wanted and wanted <= terms]
            if equal:
                nearest[at, equal] = 1.0
        firsts = np.cumsum([0, *(len(concept.names) for concept in clause.concepts[:-1])])
        met: NDArray[np.float32] = np.maximum.reduceat(nearest, firsts, axis=0)
        return met

    def _rows(self, words: Collection[str]) -> NDArray[np.float32]:
        """Return the vectors of words, one per row."""
        import numpy as np  # noqa: PLC0415

        return np.concatenate([self.vector(word) for word in words]).reshape(len(words), -1)

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text."""
        vector: NDArray[np.float32] = self.embedder.embed([text])[0]
        return vector


@lru_cache(maxsize=_TEXTS_HELD)
def _words(text: str) -> list[str]:
    return content_words(text) or [""]


@lru_cache(maxsize=_TEXTS_HELD)
def _terms(text: str) -> frozenset[str]:
    return frozenset(terms(text))
