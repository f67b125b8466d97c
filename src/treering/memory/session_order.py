"""Documents ordered by session, to find each one's neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Scores = NDArray[np.float32]


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
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        if not len(scores):
            return scores
        return np.repeat(np.maximum.reduceat(scores, self.starts), self.ends - self.starts)

    def neighbours(self, scores: Scores, distance: int) -> Scores:
        """Return per index the score ``distance`` before it in its session; 0 without one.

        A negative distance is after it.
        """
        import numpy as np  # noqa: PLC0415

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
    import numpy as np  # noqa: PLC0415

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
