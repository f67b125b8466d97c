"""What the vectors of a memory have in common, so that it does not count.

In a talk between two people their names are in every vector, and so is what they always talk of. A
query is weighed against that: directions in which all the documents differ little from one another,
or all differ much, tell less than the others. It is to vectors what rarity is to words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

SAMPLE_MAX: Final = 8_192
"""Of more vectors, as many are looked at, evenly spread."""
EVEN_SHARE: Final = 1.0
"""How much an even spread counts beside the one that was found."""
UNSEEN: Final = 20
"""As many vectors without a direction are thought to be there too: few tell little of the rest."""


class Spread:
    """Mean and covariance of vectors of length 1."""

    def __init__(self, vectors: Vectors) -> None:
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        seen = vectors[:: -(-len(vectors) // SAMPLE_MAX) or 1]
        dimensions = vectors.shape[1]
        weight = len(seen) + UNSEEN
        self._mean = seen.sum(axis=0) / np.float32(weight)
        squares = (seen.T @ seen).astype(np.float64)
        squares[np.diag_indices(dimensions)] += UNSEEN / dimensions
        spread = squares / weight - np.outer(self._mean, self._mean)
        even = EVEN_SHARE * np.trace(spread) / dimensions
        self._inverse = np.linalg.inv(spread + even * np.eye(dimensions)).astype(np.float32)

    def likeness(self, vectors: Vectors, query: Vectors) -> Vectors:
        """Return how alike each vector is to a query, from -1 to 1; 0 for one of zeros."""
        import numpy as np  # noqa: PLC0415

        if not query.any():
            return np.zeros(len(vectors), np.float32)
        sought = self._inverse @ (query - self._mean)
        sought /= np.sqrt(sought @ sought)
        # |v - m| of a v of length 1 follows from v.m: no copy of the vectors is made.
        along, common = vectors @ sought, vectors @ self._mean
        apart = np.sqrt(np.maximum(1 - 2 * common + self._mean @ self._mean, 1e-9))
        empty = (along == 0) & (common == 0)
        return np.where(empty, 0, (along - self._mean @ sought) / apart).astype(np.float32)
