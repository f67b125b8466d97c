"""Documents ordered by session, to find each one's neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Scores = NDArray[np.float32]
    _Number = TypeVar("_Number", np.float32, np.int64)


class SessionOrder(NamedTuple):
    """Documents ordered session by session, each session by seq."""

    order: Places
    """Document numbers in this order."""
    first: Places
    """Per index, where its session starts."""
    last: Places
    """Per index, the end of its session (exclusive)."""

    def in_session_order(self, scores: Scores) -> Scores:
        """Return per-document scores in session order."""
        return scores[self.order]

    def by_document(self, scores: NDArray[_Number]) -> NDArray[_Number]:
        """Return values in session order by document number."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        numbered = np.empty_like(scores)
        numbered[self.order] = scores
        return numbered


def order_by_session(sessions: Sequence[int], seqs: Sequence[int]) -> SessionOrder:
    """Order documents by session number, then by seq."""
    import numpy as np  # noqa: PLC0415

    codes = np.asarray(sessions, np.int64)
    order = np.lexsort((np.asarray(seqs, np.int64), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1) != 0) if len(codes) else codes
    ends = np.append(starts[1:], len(codes))
    sizes = ends - starts if len(codes) else codes
    return SessionOrder(order, np.repeat(starts, sizes), np.repeat(ends[: len(starts)], sizes))
