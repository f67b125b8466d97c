"""The similarity of facts and episodes to a query, by words and by meaning."""

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
"""The cosine from which a question and an answer count as the same in meaning."""
ALIGNED_MAX: Final = 24
"""Best candidates that are compared word by word."""
NOISE: Final = 0.12
"""The cosine of unrelated texts."""
STANDING_OUT: Final = 0.5
CLAUSES_MAX: Final = 4
"""Clauses of a long question that are searched separately: its first and last ones."""
_BREAK: Final = re.compile(r"[?!;\n]+|\.(?=\s|$)|,?\s+(?:and|but)\s+|,\s", re.IGNORECASE)


class Similarity(NamedTuple):
    """How similar documents are to a query."""

    similarity: Scores
    """From 0 to 1; either words or vector suffice. Decides whether a document answers at all."""
    match: Scores
    """The same for ranking: both count, and neither saturates."""
    words: Scores
    vector: Scores


class QuerySimilarity:
    """The similarity of documents to one query, by words and by meaning."""

    def __init__(self, scope_memory: ScopeMemory, query: str | None) -> None:
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        self._scope_memory = scope_memory
        self.has_query = query is not None
        self._clauses = [] if query is None else clauses(query)
        self.words: Scores = np.zeros(scope_memory.documents.count, np.float32)
        for one in self._clauses:
            coverage = scope_memory.documents.lexicon.matches(
                list(scope_memory.documents.term_ids(one))
            ).coverage
            self.words = np.maximum(self.words, coverage)
        self._query = scope_memory.documents.embed_queries(self._clauses) if self._clauses else None

    def to(self, documents: NDArray[np.int64], *, word_by_word: bool) -> Similarity:
        """Return how similar documents are; document -1 never is.

        With ``word_by_word``, short documents are also compared word by word.
        """
        import numpy as np  # noqa: PLC0415

        indexed = documents >= 0
        numbers = documents[indexed]
        words = np.zeros(len(documents), np.float32)
        near = np.zeros(len(documents), np.float32)
        words[indexed] = self.words[numbers]
        if self._query is not None:
            cosines = self._scope_memory.documents.cosines(self._query, numbers)[numbers]
            near[indexed] = np.maximum(cosines, 0)
            if word_by_word:
                self._align(documents, words, near)
        vector = np.minimum(near / SAME_FROM, 1)
        return Similarity(
            similarity=1 - (1 - words) * (1 - vector),
            match=((words + near) / 2).astype(np.float32),
            words=words,
            vector=vector,
        )

    def _align(self, documents: NDArray[np.int64], words: Scores, near: Scores) -> None:
        """Compare the best candidates word by word, and lift one that stands out."""
        import numpy as np  # noqa: PLC0415

        aligner = self._scope_memory.aligner
        if aligner is None or not len(documents):
            return
        count = min(ALIGNED_MAX, len(documents))
        best = np.argpartition(-(words + near), count - 1)[:count]
        best = best[documents[best] >= 0]
        positions = self._scope_memory.documents.column("position")[documents[best]].tolist()
        tellings = self._scope_memory.fold.events_at(positions)
        texts = [
            " ".join(memory_texts(tellings[one])) if one in tellings else "" for one in positions
        ]
        if not texts:
            return
        for clause in self._clauses:
            near[best] = np.maximum(near[best], np.array(aligner.scores(clause, texts), np.float32))
        # A candidate far ahead of all others is probably meant, even if no word matches.
        first, second = _two_best(near[best])
        top = best[int(np.argmax(near[best]))]
        lead = (first - max(second, NOISE)) / max(first, NOISE)
        near[top] = min(first * (1 + STANDING_OUT * lead), 1.0)


def clauses(query: str) -> list[str]:
    """Return the parts of a query to search for: the whole, and each clause.

    Stop words are removed, and question words are replaced by what they ask for.
    """
    # Greetings and thanks ask for nothing.
    parts = [content_words(one) for one in _BREAK.split(query) if not is_filler(one.strip())]
    clauses_said = [part for part in parts if part]
    if len(clauses_said) > CLAUSES_MAX:
        clauses_said = [
            *clauses_said[: CLAUSES_MAX // 2],
            *clauses_said[-(CLAUSES_MAX - CLAUSES_MAX // 2) :],
        ]
    whole = [content_words(query)] if len(parts) > 1 and clauses_said else []
    return list(dict.fromkeys(question_text(one) for one in [*whole, *clauses_said] if one))


def _two_best(values: Scores) -> tuple[float, float]:
    ordered = sorted(values.tolist(), reverse=True)
    return (ordered[0], ordered[1]) if len(ordered) > 1 else (ordered[0], 0.0)
