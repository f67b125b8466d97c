"""Events ranked for a query by words and vectors together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.memory.fusion import FusionWeights, Ranking, is_about_query, rank
from treering.memory.passages import passage_scores
from treering.memory.session_order import order_by_session
from treering.memory.whitening import Whitening

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.document_index import DocumentIndex
    from treering.memory.session_order import SessionOrder

Blend = Literal["hybrid", "semantic"]

GROWTH: Final = 1.1
"""The whitening is computed again when the vectors have grown by this factor."""
UNRELATED: Final = 0.1
"""A document without a word of the query, and with a lower cosine, is unrelated."""
WHITENED_FROM: Final = 50
"""Fewer vectors are not whitened."""
SEMANTIC: Final = FusionWeights(words=0.0, before=(), after=(), passage=0.0, session=0.0)


class Ranked(msgspec.Struct, frozen=True):
    """Matching documents, best first, and the scores behind the order."""

    order: list[int]
    ranking: Ranking | None


class EventIndex:
    """Ranks the documents of one index. The caller holds its lock."""

    def __init__(self, documents: DocumentIndex) -> None:
        self.documents = documents
        self._session_order: SessionOrder | None = None
        self._ordered_at = (-1, 0)
        self._whitening: Whitening | None = None
        self._whitened_at = (-1, 0)

    def rank(self, query: str, blend: Blend, limit: int) -> Ranked:
        """Return up to ``limit`` matching documents, best first; none if nothing matches."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        documents = self.documents
        if not documents.count:
            return Ranked([], None)
        terms = list(documents.term_ids(query))
        matches = documents.lexicon.matches(terms)
        cosines, similarity = self._similarity(query)
        coverage = matches.coverage if blend == "hybrid" else np.zeros_like(matches.coverage)
        floor = 0.0 if documents.embedder is None else documents.embedder.cosine_min
        if not is_about_query(coverage, cosines, cosine_min=floor):
            return Ranked([], None)
        session_order = self._current_order()
        if blend == "semantic":
            flat = np.zeros_like(matches.scores)
            ranking = rank(
                words=flat,
                passages=flat,
                similarity=similarity,
                session_order=session_order,
                weights=SEMANTIC,
            )
        else:
            ranking = rank(
                words=matches.scores,
                passages=passage_scores(documents.lexicon, terms, session_order),
                similarity=similarity,
                session_order=session_order,
            )
        order = ranking.best(limit)
        if cosines is not None:
            # A neighbour of an answer must itself be about the query.
            order = [one for one in order if matches.scores[one] > 0 or cosines[one] >= UNRELATED]
        return Ranked(order, ranking)

    def _similarity(
        self, query: str
    ) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """Return each document's cosine and whitened similarity; None without an embedder."""
        documents = self.documents
        vector = documents.embed_queries([query])
        if vector is None or not vector.any():
            # The embedder knows no word of the query; exact words may still match.
            return None, None
        cosines = documents.cosines(vector)
        vectors = documents.vectors
        if vectors is None or len(vectors) < WHITENED_FROM:
            return cosines, cosines
        similarity = self._current_whitening(vectors).similarity(vectors, vector[0])
        return cosines, documents.best_of_parts(similarity)

    def _current_whitening(self, vectors: NDArray[np.float32]) -> Whitening:
        generation, count = self._whitened_at
        stale = generation != self.documents.generation or len(vectors) > count * GROWTH
        if self._whitening is None or stale:
            self._whitening = Whitening(vectors)
            self._whitened_at = (self.documents.generation, len(vectors))
        return self._whitening

    def _current_order(self) -> SessionOrder:
        now = (self.documents.generation, self.documents.count)
        if self._session_order is None or self._ordered_at != now:
            self._session_order = order_by_session(
                self.documents.column("session").tolist(), self.documents.column("seq").tolist()
            )
            self._ordered_at = now
        return self._session_order
