"""BM25 scores of the passage around each document.

A question is seldom answered within one message: the name is in one, the object in the next. A
passage is a document with a few neighbours on both sides, scored like one document.
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
    from treering.memory.session_order import SessionOrder

REACH: Final = 5
"""Neighbours on each side that are part of a passage."""


def passage_scores(
    lexicon: Lexicon, terms: Sequence[int], session_order: SessionOrder
) -> NDArray[np.float32]:
    """Return for each document how well its passage matches the terms of a query."""
    import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

    indexes = np.arange(len(session_order.order))
    begin = np.maximum(indexes - REACH, session_order.first)
    end = np.minimum(indexes + REACH + 1, session_order.last)
    lengths = _within(lexicon.lengths()[session_order.order], begin, end)
    mean_length = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
    length_penalty = K1 * (1 - B + (B / mean_length) * lengths)
    scores = np.zeros(len(indexes), np.float32)
    for term in dict.fromkeys(terms):
        documents, counts = lexicon.postings(term)
        if not len(documents):
            continue
        frequency = np.zeros(len(indexes), np.float32)
        frequency[documents] = counts
        frequency = _within(frequency[session_order.order], begin, end)
        document_count = int(np.count_nonzero(frequency))
        rarity = log1p((len(indexes) - document_count + 0.5) / (document_count + 0.5))
        scores += rarity * (K1 + 1) * frequency / (frequency + length_penalty)
    return session_order.by_document(scores)


def _within(
    amounts: NDArray[np.float32], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the sums over ranges."""
    import numpy as np  # noqa: PLC0415

    # Sums of whole numbers are exact in 64 bits, even as differences of large sums.
    sums = np.append(0.0, np.cumsum(amounts, dtype=np.float64))
    ranges: NDArray[np.float64] = sums[end] - sums[begin]
    return ranges.astype(np.float32)
