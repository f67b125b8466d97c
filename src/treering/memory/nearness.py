"""How near facts and episodes are to a question, by their words and by their meaning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.derive.fact_noise import is_filler
from treering.derive.memory_texts import memory_texts, question_text
from treering.memory.alignment import content_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.scope_memory import ScopeMemory

    Scores = NDArray[np.float32]

SAME_FROM: Final = 0.45
"""The cosine from which a question and an answer are taken to mean the same."""
ALIGNED_MAX: Final = 24
"""The best so many are looked at word by word."""
NOISE: Final = 0.12
"""The cosine that texts have which have nothing to do with one another."""
STANDING_OUT: Final = 0.5
CLAUSES_MAX: Final = 4
"""Of a long question its beginning and its end are looked at by themselves."""
_BREAK: Final = re.compile(r"[?!;\n]+|\.(?=\s|$)|,?\s+(?:and|but)\s+|,\s", re.IGNORECASE)


class Likeness(NamedTuple):
    """How similar documents are to a question."""

    similarity: Scores
    """From 0 to 1: either of words and vector is enough. It says whether one answers at all."""
    match: Scores
    """The same for ranking: both count, and neither is ever full."""
    words: Scores
    vector: Scores


class Near:
    """How similar each document is to the question, by its words and by its meaning."""

    def __init__(self, scope_memory: ScopeMemory, query: str | None) -> None:
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        self._scope_memory = scope_memory
        self.has_query = query is not None
        self._clauses = [] if query is None else clauses(query)
        self.words: Scores = np.zeros(scope_memory.shelf.count, np.float32)
        for one in self._clauses:
            coverage = scope_memory.shelf.lexicon.matches(
                list(scope_memory.shelf.term_ids(one))
            ).coverage
            self.words = np.maximum(self.words, coverage)
        self._query = scope_memory.shelf.embedded(self._clauses) if self._clauses else None

    def of(self, documents: NDArray[np.int64], *, word_by_word: bool) -> Likeness:
        """Return how similar documents are; those of number -1 are not.

        Short ones are compared ``word_by_word``, too.
        """
        import numpy as np  # noqa: PLC0415

        there = documents >= 0
        known = documents[there]
        words = np.zeros(len(documents), np.float32)
        near = np.zeros(len(documents), np.float32)
        words[there] = self.words[known]
        if self._query is not None:
            cosines = self._scope_memory.shelf.cosines(self._query, known)[known]
            near[there] = np.maximum(cosines, 0)
            if word_by_word:
                self._align(documents, words, near)
        vector = np.minimum(near / SAME_FROM, 1)
        return Likeness(
            similarity=1 - (1 - words) * (1 - vector),
            match=((words + near) / 2).astype(np.float32),
            words=words,
            vector=vector,
        )

    def _align(self, documents: NDArray[np.int64], words: Scores, near: Scores) -> None:
        """Look at the best word by word, and lift one that stands out."""
        import numpy as np  # noqa: PLC0415

        aligner = self._scope_memory.aligner
        if aligner is None or not len(documents):
            return
        count = min(ALIGNED_MAX, len(documents))
        best = np.argpartition(-(words + near), count - 1)[:count]
        best = best[documents[best] >= 0]
        positions = self._scope_memory.shelf.column("position")[documents[best]].tolist()
        tellings = self._scope_memory.fold.tellings(positions)
        texts = [
            " ".join(memory_texts(tellings[one])) if one in tellings else "" for one in positions
        ]
        if not texts:
            return
        for clause in self._clauses:
            near[best] = np.maximum(near[best], np.array(aligner.scores(clause, texts), np.float32))
        # What is nearer than all else by far is what was meant, though nothing names it.
        first, second = _two_best(near[best])
        top = best[int(np.argmax(near[best]))]
        lead = (first - max(second, NOISE)) / max(first, NOISE)
        near[top] = min(first * (1 + STANDING_OUT * lead), 1.0)


def clauses(query: str) -> list[str]:
    """Return what is asked for, one thing at a time: as a whole, and by its parts.

    Small words are left out, and what the others ask for is named.
    """
    # Greetings and thanks ask for nothing.
    parts = [content_words(one) for one in _BREAK.split(query) if not is_filler(one.strip())]
    said = [part for part in parts if part]
    if len(said) > CLAUSES_MAX:
        said = [*said[: CLAUSES_MAX // 2], *said[-(CLAUSES_MAX - CLAUSES_MAX // 2) :]]
    whole = [content_words(query)] if len(parts) > 1 and said else []
    return list(dict.fromkeys(question_text(one) for one in [*whole, *said] if one))


def _two_best(values: Scores) -> tuple[float, float]:
    ordered = sorted(values.tolist(), reverse=True)
    return (ordered[0], ordered[1]) if len(ordered) > 1 else (ordered[0], 0.0)
