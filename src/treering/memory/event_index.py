"""Events ranked for a query by words and vectors together."""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.memory.fusion import FusionWeights, Ranking, is_about_query, rank
from treering.memory.lexical import K1, B
from treering.memory.session_order import order_by_session
from treering.memory.vectors import dots

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.document_index import DocumentIndex
    from treering.memory.lexical import Lexicon
    from treering.memory.session_order import SessionOrder

SAMPLE_MAX: Final = 8_192
"""At most this many vectors are sampled, evenly."""
EVEN_SHARE: Final = 1.0
"""Weight of an even spread, added so that the covariance can be inverted."""
UNSEEN: Final = 20
"""Imaginary vectors added to the sample: a few real ones say little about the rest."""

REACH: Final = 5
"""Neighbours on each side that are part of a passage."""

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
                lengths=documents.lengths,
            )
        order = ranking.best(limit)
        if cosines is not None:
            # A neighbour of an answer must itself be about the query.
            order = [hit for hit in order if matches.scores[hit] > 0 or cosines[hit] >= UNRELATED]
        return Ranked(order, ranking)

    def documents_before(self, numbers: Sequence[int]) -> list[int | None]:
        """Return for each document the one before it in its session; None for the first."""
        import numpy as np  # noqa: PLC0415

        order = self._current_order()
        places = order.by_document(np.arange(len(order.order)))[np.asarray(numbers, np.int64)]
        return [
            None if index == order.first[index] else int(order.order[index - 1])
            for index in places.tolist()
        ]

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


def passage_scores(
    lexicon: Lexicon, terms: Sequence[int], session_order: SessionOrder
) -> NDArray[np.float32]:
    """Return for each document how well its passage matches the terms of a query, by BM25.

    A question is seldom answered within one message: the name is in one, the object in the next. A
    passage is a document with a few neighbours on both sides, scored like one document.
    """
    import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

    indexes = np.arange(len(session_order.order))
    begin = np.maximum(indexes - REACH, session_order.first)
    end = np.minimum(indexes + REACH + 1, session_order.last)
    lengths = _within(lexicon.lengths()[session_order.order], begin, end)
    mean_length = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
    length_penalty = K1 * (1 - B + (B / mean_length) * lengths)
    scores = np.zeros(len(indexes), np.float32)
    for term in dict.fromkeys(terms):
        documents, counts = lexicon.postings(term)
        if not len(documents):
            continue
        frequency = np.zeros(len(indexes), np.float32)
        frequency[documents] = counts
        frequency = _within(frequency[session_order.order], begin, end)
        document_count = int(np.count_nonzero(frequency))
        rarity = log1p((len(indexes) - document_count + 0.5) / (document_count + 0.5))
        scores += rarity * (K1 + 1) * frequency / (frequency + length_penalty)
    return session_order.by_document(scores)


def _within(
    amounts: NDArray[np.float32], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the sums over ranges."""
    import numpy as np  # noqa: PLC0415

    # Sums of whole numbers are exact in 64 bits, even as differences of large sums.
    sums = np.append(0.0, np.cumsum(amounts, dtype=np.float64))
    ranges: NDArray[np.float64] = sums[end] - sums[begin]
    return ranges.astype(np.float32)


class Whitening:
    """Mean and covariance of unit vectors: removes what all vectors of a memory have in common.

    In a conversation between two people every vector contains their names and usual topics.
    Directions in which all documents are alike, or all vary a lot, say little about one of them and
    are weighted down. This is to vectors what inverse document frequency is to words.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        sample = vectors[:: -(-len(vectors) // SAMPLE_MAX) or 1]
        dimensions = vectors.shape[1]
        weight = len(sample) + UNSEEN
        self._mean = sample.sum(axis=0) / np.float32(weight)
        squares = (sample.T @ sample).astype(np.float64)
        squares[np.diag_indices(dimensions)] += UNSEEN / dimensions
        spread = squares / weight - np.outer(self._mean, self._mean)
        even = EVEN_SHARE * np.trace(spread) / dimensions
        self._inverse = np.linalg.inv(spread + even * np.eye(dimensions)).astype(np.float32)

    def similarity(
        self, vectors: NDArray[np.float32], query: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the similarity of each vector to a query, from -1 to 1; 0 for zero vectors."""
        import numpy as np  # noqa: PLC0415

        if not query.any():
            return np.zeros(len(vectors), np.float32)
        direction = self._inverse @ (query - self._mean)
        direction /= np.sqrt(direction @ direction)
        # For a unit v, |v - m| follows from v.m, so the vectors need not be copied.
        projection, common = dots(vectors, direction), dots(vectors, self._mean)
        distance = np.sqrt(np.maximum(1 - 2 * common + self._mean @ self._mean, 1e-9))
        empty = (projection == 0) & (common == 0)
        return np.where(empty, 0, (projection - self._mean @ direction) / distance).astype(
            np.float32
        )
