"""Events ranked for a query by words and vectors together."""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.memory.fusion import FusionWeights, Ranking, is_about_query, order_by_session, rank
from treering.memory.lexical import K1, B
from treering.memory.vectors import all_dots, dots

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.document_index import DocumentIndex
    from treering.memory.fusion import SessionOrder
    from treering.memory.lexical import Lexicon

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
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        self.documents = documents
        self._passages: Passages | None = None
        self._ordered_at = (-1, 0)
        self._whitening: Whitening | None = None
        self._whitened_at = (-1, 0)
        self._distances: NDArray[np.float32] = np.empty(0, np.float32)
        """How far each vector is from the mean."""

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
        passages = self._current_passages()
        session_order = passages.session_order
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
                passages=passages.scores(terms),
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

        order = self._current_passages().session_order
        places = order.places[np.asarray(numbers, np.int64)]
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
        vectors = documents.vectors
        if vectors is None or len(vectors) < WHITENED_FROM:
            cosines = documents.cosines(vector)
            return cosines, cosines
        whitening = self._current_whitening(vectors)
        both = whitening.compare(vectors, vector[0], self._distances)
        return documents.best_of_parts(both[0]), documents.best_of_parts(both[1])

    def _current_whitening(self, vectors: NDArray[np.float32]) -> Whitening:
        import numpy as np  # noqa: PLC0415

        generation, count = self._whitened_at
        stale = generation != self.documents.generation or len(vectors) > count * GROWTH
        if self._whitening is None or stale:
            self._whitening = Whitening(vectors)
            self._whitened_at = (self.documents.generation, len(vectors))
            self._distances = self._whitening.distances(vectors)
        elif len(vectors) > len(self._distances):
            new = self._whitening.distances(vectors[len(self._distances) :])
            self._distances = np.append(self._distances, new)
        return self._whitening

    def _current_passages(self) -> Passages:
        now = (self.documents.generation, self.documents.count)
        if self._passages is None or self._ordered_at != now:
            session_order = order_by_session(
                self.documents.column("session"), self.documents.column("seq")
            )
            self._passages = Passages(self.documents.lexicon, session_order)
            self._ordered_at = now
        return self._passages


class Passages:
    """Documents with a few neighbours on both sides, each scored like one document.

    A question is seldom answered within one message: the name is in one, the object in the next.
    """

    def __init__(self, lexicon: Lexicon, session_order: SessionOrder) -> None:
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        self._lexicon = lexicon
        self.session_order = session_order
        indexes = np.arange(len(session_order.order))
        self._begin = np.maximum(indexes - REACH, session_order.first)
        self._end = np.minimum(indexes + REACH + 1, session_order.last)
        lengths = _within(lexicon.lengths()[session_order.order], self._begin, self._end)
        mean_length = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
        self._length_penalty = K1 * (1 - B + (B / mean_length) * lengths)

    def scores(self, terms: Sequence[int]) -> NDArray[np.float32]:
        """Return for each document how well its passage matches the terms of a query, by BM25."""
        import numpy as np  # noqa: PLC0415

        count = len(self._begin)
        scores = np.zeros(count, np.float32)
        for term in dict.fromkeys(terms):
            documents, counts = self._lexicon.postings(term)
            if not len(documents):
                continue
            # A document is part of the passages around it: it counts from the first to the last.
            places = self.session_order.places[documents]
            begins = np.bincount(self._begin[places], counts, count + 1)
            ends = np.bincount(self._end[places], counts, count + 1)
            frequency = np.cumsum(begins - ends)[:-1].astype(np.float32)
            having = np.flatnonzero(frequency)
            rarity = log1p((count - len(having) + 0.5) / (len(having) + 0.5))
            found = frequency[having]
            scores[having] += rarity * (K1 + 1) * found / (found + self._length_penalty[having])
        return self.session_order.by_document(scores)


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

    def distances(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return how far each vector is from the mean; infinitely far for zero vectors."""
        import numpy as np  # noqa: PLC0415

        # For a unit v, |v - m| follows from v.m, so the vectors need not be copied.
        common = dots(vectors, self._mean)
        squares = np.maximum(1 - 2 * common + self._mean @ self._mean, 1e-9)
        distances: NDArray[np.float32] = np.sqrt(squares).astype(np.float32)
        distances[~vectors.any(axis=1)] = np.inf
        return distances

    def compare(
        self,
        vectors: NDArray[np.float32],
        query: NDArray[np.float32],
        distances: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return each vector's cosine with a query, and its similarity without what is common.

        Both are from -1 to 1, and 0 for zero vectors. ``distances`` are those of the vectors, if
        they were needed before.
        """
        import numpy as np  # noqa: PLC0415

        if not query.any():
            return np.zeros(len(vectors), np.float32), np.zeros(len(vectors), np.float32)
        direction = self._inverse @ (query - self._mean)
        direction /= np.sqrt(direction @ direction)
        away = self.distances(vectors) if distances is None else distances
        cosines, projection = all_dots(vectors, np.stack([query, direction]))
        return cosines, (projection - self._mean @ direction) / away
