"""Where documents stand in their sessions: which come before them, which after."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Scores = NDArray[np.float32]


class Placing(NamedTuple):
    """Documents laid out session by session, each session in its own order."""

    order: Places
    """The numbers of the documents, as they are laid out."""
    first: Places
    """For each place, where its session begins."""
    last: Places
    """For each place, where its session has ended."""

    def laid_out(self, scores: Scores) -> Scores:
        """Return what belongs to documents, in the order of places."""
        return scores[self.order]

    def by_number(self, scores: Scores) -> Scores:
        """Return what belongs to places, in the order of the documents' numbers."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        numbered = np.empty_like(scores)
        numbered[self.order] = scores
        return numbered


def placed(sessions: Sequence[int], seqs: Sequence[int]) -> Placing:
    """Lay documents out by the number of their session, then by their seq."""
    import numpy as np  # noqa: PLC0415

    codes = np.asarray(sessions, np.int64)
    order = np.lexsort((np.asarray(seqs, np.int64), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1) != 0) if len(codes) else codes
    ends = np.append(starts[1:], len(codes))
    sizes = ends - starts if len(codes) else codes
    return Placing(order, np.repeat(starts, sizes), np.repeat(ends[: len(starts)], sizes))
