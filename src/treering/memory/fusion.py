"""Documents in the order in which they answer a query, from all that speaks for them.

Words and vectors are each brought to 0..1 by their best, weighed and added. What stands around a
document lifts it: the message before it most, for an answer seldom repeats its question; then the
passage that it is part of, then the best of its session. Every part of a score is kept, so that it
can be told why a document was found.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.placing import Placing

    Scores = NDArray[np.float32]

COVERAGE_MIN: Final = 0.3
"""A document that has so much of what a query weighs in words speaks of it."""
FEW_VECTORS: Final = 20
MANY_VECTORS: Final = 400
CROWD_COSINE: Final = 0.1
"""How much nearer a vector has to be among many than among few."""


class FusionWeights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each part counts. Found on conversations and on long messages alike, and flat."""

    words: float = 0.5
    """Against vectors, which have the rest."""
    before: tuple[float, ...] = (0.4, 0.2)
    """Of the score of the document before, and of the one before that."""
    after: tuple[float, ...] = (0.1, 0.1)
    passage: float = 0.3
    session: float = 0.3


class Ranking(NamedTuple):
    """The scores of all documents, and what they are the sums of."""

    scores: Scores
    words: Scores
    vector: Scores
    neighbours: Scores
    passage: Scores
    session: Scores

    def best(self, limit: int) -> list[int]:
        """Return the numbers of the documents that answer best, the best first."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        limit = min(limit, len(self.scores))
        if limit <= 0:
            return []
        # Only those that can be among the best are sorted; of equals, the earlier comes first.
        bound = -np.partition(-self.scores, limit - 1)[limit - 1]
        able = np.flatnonzero((self.scores >= bound) & (self.scores > 0))
        ordered = able[np.argsort(-self.scores[able], kind="stable")][:limit]
        return [int(number) for number in ordered]


def rank(
    *,
    words: Scores,
    passages: Scores,
    likeness: Scores | None,
    placing: Placing,
    weights: FusionWeights | None = None,
) -> Ranking:
    """Rank documents by BM25, by that of their passages, and by the likeness of their vectors.

    All are by the documents' numbers. Without an embedder there is no likeness, and words count
    alone.
    """
    import numpy as np  # noqa: PLC0415

    chosen = weights or FusionWeights()
    share = 1.0 if likeness is None else chosen.words
    worded = share * _to_best(placing.laid_out(words))
    alike = np.zeros_like(worded)
    if likeness is not None:
        alike = (1 - share) * _to_best(placing.laid_out(likeness))
    own = worded + alike
    around = _around(own, placing, chosen)
    passage = chosen.passage * _to_best(placing.laid_out(passages))
    session = chosen.session * _best_of_session(own + around, placing)
    parts = [placing.by_number(part) for part in (worded, alike, around, passage, session)]
    return Ranking(np.sum(parts, axis=0, dtype=np.float32), *parts)


def speaks_of(coverage: Scores, cosines: Scores | None, *, cosine_min: float) -> bool:
    """Whether anything here speaks of what is asked: enough of its rare words, or a near vector.

    Scores that are relative to the best cannot tell, for there is always a best. ``cosine_min`` is
    the embedder's, for a handful of vectors; among many, one comes nearer by chance.
    """
    if len(coverage) and float(coverage.max()) >= COVERAGE_MIN:
        return True
    if cosines is None or not len(cosines):
        return False
    crowd = log(max(len(cosines), FEW_VECTORS) / FEW_VECTORS) / log(MANY_VECTORS / FEW_VECTORS)
    return float(cosines.max()) >= cosine_min + CROWD_COSINE * min(crowd, 1.0)


def best_of_chunks(scores: Scores, counts: Sequence[int]) -> Scores:
    """Return the score of each document's best chunk; 0 for one that has no chunks."""
    import numpy as np  # noqa: PLC0415

    sizes = np.asarray(counts, np.int64)
    best = np.zeros(len(sizes), np.float32)
    some = np.flatnonzero(sizes)
    if len(some):
        starts = np.cumsum(sizes[some]) - sizes[some]
        best[some] = np.maximum.reduceat(scores, starts)
    return best


def _to_best(scores: Scores) -> Scores:
    """Return scores between 0, for the worst or for none, and 1, for the best."""
    import numpy as np  # noqa: PLC0415

    if not len(scores):
        return scores
    lowest = min(float(scores.min()), 0.0)
    reach = float(scores.max()) - lowest
    return ((scores - lowest) / reach).astype(np.float32) if reach > 0 else np.zeros_like(scores)


def _around(own: Scores, placing: Placing, weights: FusionWeights) -> Scores:
    import numpy as np  # noqa: PLC0415

    places = np.arange(len(own))
    total = np.zeros_like(own)
    for distance, weight in enumerate(weights.before, 1):
        there = places - distance >= placing.first
        total[there] += weight * own[places[there] - distance]
    for distance, weight in enumerate(weights.after, 1):
        there = places + distance < placing.last
        total[there] += weight * own[places[there] + distance]
    return total


def _best_of_session(scores: Scores, placing: Placing) -> Scores:
    import numpy as np  # noqa: PLC0415

    if not len(scores):
        return scores
    starts, sessions = np.unique(placing.first, return_inverse=True)
    return np.maximum.reduceat(scores, starts)[sessions]
