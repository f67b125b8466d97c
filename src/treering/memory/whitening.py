"""Whitening: removes what all vectors of a memory have in common.

In a conversation between two people every vector contains their names and usual topics. Directions
in which all documents are alike, or all vary a lot, say little about one of them and are weighted
down. This is to vectors what inverse document frequency is to words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

SAMPLE_MAX: Final = 8_192
"""At most this many vectors are sampled, evenly."""
EVEN_SHARE: Final = 1.0
"""Weight of an even spread, added so that the covariance can be inverted."""
UNSEEN: Final = 20
"""Imaginary vectors added to the sample: a few real ones say little about the rest."""


class Whitening:
    """Mean and covariance of unit vectors."""

    def __init__(self, vectors: Vectors) -> None:
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

    def similarity(self, vectors: Vectors, query: Vectors) -> Vectors:
        """Return the similarity of each vector to a query, from -1 to 1; 0 for zero vectors."""
        import numpy as np  # noqa: PLC0415

        if not query.any():
            return np.zeros(len(vectors), np.float32)
        direction = self._inverse @ (query - self._mean)
        direction /= np.sqrt(direction @ direction)
        # For a unit v, |v - m| follows from v.m, so the vectors need not be copied.
        projection, common = vectors @ direction, vectors @ self._mean
        distance = np.sqrt(np.maximum(1 - 2 * common + self._mean @ self._mean, 1e-9))
        empty = (projection == 0) & (common == 0)
        return np.where(empty, 0, (projection - self._mean @ direction) / distance).astype(
            np.float32
        )
