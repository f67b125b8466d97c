"""Calibrates token estimates by a model's own counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRS_MAX: Final = 8
"""Latest calls that are compared; a changed tokenizer shows after five of them."""
RATIO_MIN: Final = 0.5
RATIO_MAX: Final = 3


def ratio(pairs: Sequence[tuple[int, int]]) -> float:
    """Return the factor for estimates, from pairs of estimated and reported tokens.

    The pairs are of one model, newest last. The median of the latest pairs is used, so that one odd
    report changes nothing; pairs without tokens are ignored. It is 1.0 if none is left.
    """
    ratios: list[float] = []
    for estimated, reported in reversed(pairs):
        if estimated > 0 and reported > 0:
            # Compared as integers first: a quotient may be too large for a float.
            too_many = reported > RATIO_MAX * estimated
            ratios.append(float(RATIO_MAX) if too_many else max(reported / estimated, RATIO_MIN))
            if len(ratios) == PAIRS_MAX:
                break
    return _median(sorted(ratios)) if ratios else 1.0


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
