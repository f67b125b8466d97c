"""Fuses words, vectors and neighbours into one ranking.

Word and vector scores are each scaled to 0..1 by their best, weighted and added. Neighbours lift a
document: the message before it most, since an answer seldom repeats its question; then its passage,
then the best of its session. Every part of a score is kept, to explain why a document was found.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from treering.lazy import LazyModule
from treering.memory.vectors import highest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Scores = NDArray[np.float32]
else:
    np = LazyModule("numpy")


class SessionOrder(NamedTuple):
    """Documents ordered session by session, each session by seq."""

    order: Places
    """Document numbers in this order."""
    places: Places
    """Per document, its index in this order."""
    first: Places
    """Per index, where its session starts."""
    last: Places
    """Per index, the end of its session (exclusive)."""
    starts: Places
    """Where each session starts."""
    ends: Places
    """Where each session ends (exclusive)."""

    def in_session_order(self, scores: Scores) -> Scores:
        """Return per-document scores in session order."""
        return scores[self.order]

    def by_document(self, scores: Scores) -> Scores:
        """Return values in session order by document number."""
        return scores[self.places]

    def best_of_session(self, scores: Scores) -> Scores:
        """Return per index the best score of its session."""
        if not len(scores):
            return scores
        return np.repeat(np.maximum.reduceat(scores, self.starts), self.ends - self.starts)

    def neighbours(self, scores: Scores, distance: int) -> Scores:
        """Return per index the score ``distance`` before it in its session; 0 without one.

        A negative distance is after it.
        """
        moved, size = np.zeros_like(scores), abs(distance)
        if distance > 0:
            moved[size:] = scores[:-size]
            edges = [self.starts + at for at in range(size)]
        else:
            moved[:-size] = scores[size:]
            edges = [self.ends - 1 - at for at in range(size)]
        for at in edges:
            moved[at[(at >= self.starts) & (at < self.ends)]] = 0
        return moved


def order_by_session(
    sessions: Sequence[int] | Places, seqs: Sequence[int] | Places
) -> SessionOrder:
    """Order documents by session number, then by seq."""
    codes = np.asarray(sessions, np.int64)
    order = np.lexsort((np.asarray(seqs, np.int64), codes))
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1) != 0) if len(codes) else codes
    ends = np.append(starts[1:], len(codes))[: len(starts)]
    sizes = ends - starts
    return SessionOrder(
        order, places, np.repeat(starts, sizes), np.repeat(ends, sizes), starts, ends
    )


COVERAGE_MIN: Final = 0.3
"""Coverage of the query's words from which a document is about it."""
FEW_VECTORS: Final = 20
MANY_VECTORS: Final = 400
CROWD_COSINE: Final = 0.1
"""How much nearer a vector must be among many than among few."""


PARTS_MAX: Final = 2.3
"""The largest sum of all parts of a score."""


class FusionWeights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of the parts, tuned on conversations and on long messages."""

    words: float = 0.5
    """The rest is the weight of vectors."""
    before: tuple[float, ...] = (0.4, 0.2)
    """Shares of the scores of the previous document, and of the one before it."""
    after: tuple[float, ...] = (0.1, 0.1)
    passage: float = 0.3
    session: float = 0.3
    length: float = 0.6
    """What a document of ``LONG_TERMS`` gains over an empty one: "Wow, nice!" answers nothing."""


LONG_TERMS: Final = 25
LONG_MESSAGES: Final = 40
"""From this median of terms on, a message seldom needs its neighbours to be understood."""
AMONG_LONG: Final = FusionWeights(before=(0.2,), after=(0.1,), passage=0.1, session=0.1)
"""The weights where messages are long, as between a person and an assistant."""


class Ranking(NamedTuple):
    """The scores of all documents, and the parts they are the sum of."""

    scores: Scores
    words: Scores
    vector: Scores
    neighbours: Scores
    passage: Scores
    session: Scores

    def parts(self, number: int) -> dict[str, float]:
        """Return the parts of a document's score, of which all together are at most 1."""
        return {
            name: round(float(part[number]) / PARTS_MAX, 4)
            for name, part in zip(self._fields[1:], self[1:], strict=True)
        }

    def best(self, limit: int) -> list[int]:
        """Return the numbers of the best documents, best first; ties go to the earlier one."""
        return [
            number for number in highest(self.scores, limit).tolist() if self.scores[number] > 0
        ]


def rank(
    *,
    words: Scores,
    passages: Scores,
    similarity: Scores | None,
    session_order: SessionOrder,
    lengths: NDArray[np.int32] | None = None,
    weights: FusionWeights | None = None,
) -> Ranking:
    """Rank documents by BM25, by the BM25 of their passages, and by vector similarity.

    ``lengths`` are the numbers of their terms: a long document is preferred to a short one, and
    where most are long, neighbours count less.

    All arrays are indexed by document number. Without an embedder similarity is unknown, and words
    alone count.
    """
    chosen = weights or _weights(lengths)
    share = 1.0 if similarity is None else chosen.words
    word_part = share * _to_best(session_order.in_session_order(words))
    vector_part = np.zeros_like(word_part)
    if similarity is not None:
        vector_part = (1 - share) * _to_best(session_order.in_session_order(similarity))
    if lengths is not None:
        gain = chosen.length * np.minimum(lengths[session_order.order] / LONG_TERMS, 1)
        factor = ((1 + gain) / (1 + chosen.length)).astype(np.float32)
        word_part, vector_part = word_part * factor, vector_part * factor
    own = word_part + vector_part
    around = _around(own, session_order, chosen)
    passage = chosen.passage * _to_best(session_order.in_session_order(passages))
    session = chosen.session * session_order.best_of_session(own + around)
    parts = [
        session_order.by_document(part)
        for part in (word_part, vector_part, around, passage, session)
    ]
    return Ranking(np.sum(parts, axis=0, dtype=np.float32), *parts)


def _weights(lengths: NDArray[np.int32] | None) -> FusionWeights:
    if lengths is None or not len(lengths) or float(np.median(lengths)) <= LONG_MESSAGES:
        return FusionWeights()
    return AMONG_LONG


def is_about_query(coverage: Scores, cosines: Scores | None, *, cosine_min: float) -> bool:
    """Return whether any document is about the query: enough of its rare words, or a near vector.

    Relative scores cannot tell, since there is always a best one. ``cosine_min`` is the embedder's,
    for a few vectors; among many, one comes nearer by chance.
    """
    if len(coverage) and float(coverage.max()) >= COVERAGE_MIN:
        return True
    if cosines is None or not len(cosines):
        return False
    crowd = log(max(len(cosines), FEW_VECTORS) / FEW_VECTORS) / log(MANY_VECTORS / FEW_VECTORS)
    return float(cosines.max()) >= cosine_min + CROWD_COSINE * min(crowd, 1.0)


def _to_best(scores: Scores) -> Scores:
    """Return scores scaled so that the best is 1 and the worst, or none, is 0."""
    if not len(scores):
        return scores
    lowest = min(float(scores.min()), 0.0)
    reach = float(scores.max()) - lowest
    return ((scores - lowest) / reach).astype(np.float32) if reach > 0 else np.zeros_like(scores)


def _around(own: Scores, session_order: SessionOrder, weights: FusionWeights) -> Scores:
    total = np.zeros_like(own)
    for distance, weight in enumerate(weights.before, 1):
        total += weight * session_order.neighbours(own, distance)
    for distance, weight in enumerate(weights.after, 1):
        total += weight * session_order.neighbours(own, -distance)
    return total
