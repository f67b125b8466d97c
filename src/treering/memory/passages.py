"""How well the passage around each document fits a query.

What is asked for is seldom said in one breath: the name in one message, the thing in the next. A
passage is a document with the few before and behind it; BM25 ranks passages as it does documents.
"""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING, Final

from treering.memory.lexical import K1, B

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.lexical import Lexicon
    from treering.memory.placing import Placing

REACH: Final = 5
"""How many documents before, and how many behind, are part of a passage."""


def passage_scores(lexicon: Lexicon, terms: Sequence[int], placing: Placing) -> NDArray[np.float32]:
    """Return for each document how well its passage fits the terms of a query."""
    import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

    places = np.arange(len(placing.order))
    begin = np.maximum(places - REACH, placing.first)
    end = np.minimum(places + REACH + 1, placing.last)
    lengths = _within(lexicon.lengths()[placing.order], begin, end)
    usual = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
    drag = K1 * (1 - B + (B / usual) * lengths)
    scores = np.zeros(len(places), np.float32)
    for term in dict.fromkeys(terms):
        documents, counts = lexicon.postings(term)
        if not len(documents):
            continue
        often = np.zeros(len(places), np.float32)
        often[documents] = counts
        often = _within(often[placing.order], begin, end)
        having = int(np.count_nonzero(often))
        rarity = log1p((len(places) - having + 0.5) / (having + 0.5))
        scores += rarity * (K1 + 1) * often / (often + drag)
    return placing.by_number(scores)


def _within(
    amounts: NDArray[np.float32], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the sums of stretches."""
    import numpy as np  # noqa: PLC0415

    # Sums of whole numbers: exact in 64 bits, where the difference of two large ones is taken.
    sums = np.append(0.0, np.cumsum(amounts, dtype=np.float64))
    stretches: NDArray[np.float64] = sums[end] - sums[begin]
    return stretches.astype(np.float32)
