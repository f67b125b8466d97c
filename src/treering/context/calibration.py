"""How a model's own count of tokens compares with the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRS_MAX: Final = 8
"""So many latest calls are compared: a model that is counted anew is known after five."""
RATIO_MIN: Final = 0.5
RATIO_MAX: Final = 3


def ratio(pairs: Sequence[tuple[int, int]]) -> float:
    """Return what an estimate is multiplied by, from pairs of estimated and reported tokens.

    The pairs are of one model, the newest last. The median of the latest counts, so that one odd
    report changes nothing; pairs without tokens tell nothing. It is 1.0 if none is left.
    """
    told: list[float] = []
    for estimated, reported in reversed(pairs):
        if estimated > 0 and reported > 0:
            # Compared as integers first: a quotient may be too large for a float.
            too_many = reported > RATIO_MAX * estimated
            told.append(float(RATIO_MAX) if too_many else max(reported / estimated, RATIO_MIN))
            if len(told) == PAIRS_MAX:
                break
    return _median(sorted(told)) if told else 1.0


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
