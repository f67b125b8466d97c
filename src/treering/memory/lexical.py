"""Which documents share which terms with a query: BM25 over numbers, without a text.

New documents arrive one by one. They wait in a short list until somebody asks, then become a part
of their own; parts are joined as they grow, so that each document is sorted in a few times at most.
"""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint32]
    Scores = NDArray[np.float32]

K1: Final = 1.2
"""How soon a term that is repeated stops to count."""
B: Final = 0.75
"""How much the length of a document takes off."""


class Matches(NamedTuple):
    """How well each document fits a query."""

    scores: Scores
    """BM25, from 0 up."""
    coverage: Scores
    """How much of the query's weight is in the document, from 0 to 1: rare terms weigh more."""


class _Postings:
    """Postings of a stretch of documents: for each term, in which it is and how often."""

    def __init__(self, first: int, terms: Numbers, lengths: NDArray[np.int32]) -> None:
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        self.first, self.terms, self.lengths = first, terms, lengths
        places = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
        pairs, counts = np.unique((terms.astype(np.uint64) << 32) | places, return_counts=True)
        self.documents = (pairs & 0xFFFFFFFF).astype(np.int64) + first
        self.counts = counts.astype(np.float32)
        self.vocabulary, starts = np.unique(
            (pairs >> np.uint64(32)).astype(np.uint32), return_index=True
        )
        self.bounds = np.append(starts, len(pairs))

    def postings(self, term: int) -> slice:
        at = int(self.vocabulary.searchsorted(term))
        if at == len(self.vocabulary) or self.vocabulary[at] != term:
            return slice(0, 0)
        return slice(int(self.bounds[at]), int(self.bounds[at + 1]))


class Lexicon:
    """Documents as their terms, in the order in which they came. For one thread at a time."""

    def __init__(self, terms: Numbers | None = None, lengths: Sequence[int] | None = None) -> None:
        """Take in documents of which the terms lie in one array, one behind another."""
        import numpy as np  # noqa: PLC0415

        self._parts: list[_Postings] = []
        self._waiting: list[Numbers] = []
        self._lengths = np.empty(0, np.float32)
        self._present = np.empty(0, bool)
        self._there = 0
        self._usual = 1.0
        if terms is not None and lengths is not None and len(lengths):
            self._take(np.asarray(terms, np.uint32), np.asarray(lengths, np.int32))

    def __len__(self) -> int:
        return len(self._lengths) + len(self._waiting)

    def add(self, terms: Sequence[int]) -> int:
        """Take in a document and return its number: how many came before."""
        import numpy as np  # noqa: PLC0415

        self._waiting.append(np.array(terms, np.uint32))
        return len(self) - 1

    def extend(self, terms: Numbers, lengths: Sequence[int]) -> None:
        """Take in documents of which the terms lie in one array, one behind another."""
        import numpy as np  # noqa: PLC0415

        self._settle()
        if len(lengths):
            self._take(np.asarray(terms, np.uint32), np.asarray(lengths, np.int32))

    def remove(self, documents: Iterable[int]) -> None:
        """Leave documents out from now on. The numbers of the others stay."""
        self._settle()
        self._present[list(documents)] = False
        self._count()

    def rarity(self, terms: Sequence[int]) -> Scores:
        """Return how much each term tells: much if few documents have it."""
        import numpy as np  # noqa: PLC0415

        self._settle()
        found = [self.postings(term)[0] for term in terms]
        return np.array([self._weight(len(documents)) for documents in found], np.float32)

    def scores(self, terms: Sequence[int]) -> Scores:
        """Return how well each document fits the terms of a query."""
        return self.matches(terms).scores

    def matches(self, terms: Sequence[int]) -> Matches:
        """Return how well each document fits the terms of a query, and how much of it it has."""
        import numpy as np  # noqa: PLC0415

        self._settle()
        scores = np.zeros(len(self._lengths), np.float32)
        coverage = np.zeros(len(self._lengths), np.float32)
        total = 0.0
        for term in dict.fromkeys(terms):
            documents, counts = self.postings(term)
            weight = self._weight(len(documents))
            # A word that nobody used tells no more than one that somebody used once.
            total += self._weight(max(len(documents), 1))
            drag = K1 * (1 - B + (B / self._usual) * self._lengths[documents])
            scores[documents] += weight * (K1 + 1) * counts / (counts + drag)
            coverage[documents] += weight
        return Matches(scores, coverage / max(total, 1e-9))

    def lengths(self) -> Scores:
        """Return how many terms each document has; none if it was removed."""
        import numpy as np  # noqa: PLC0415

        self._settle()
        return np.where(self._present, self._lengths, np.float32(0))

    def postings(self, term: int) -> tuple[NDArray[np.int64], Scores]:
        """Return the documents that have a term, and how often."""
        import numpy as np  # noqa: PLC0415

        self._settle()
        where = [(part, part.postings(term)) for part in self._parts]
        if len(where) == 1:
            [(part, span)] = where
            documents, counts = part.documents[span], part.counts[span]
        else:
            none = (np.empty(0, np.int64), np.empty(0, np.float32))
            found = [none, *((part.documents[span], part.counts[span]) for part, span in where)]
            documents = np.concatenate([one for one, _ in found])
            counts = np.concatenate([one for _, one in found])
        if self._there == len(self._present):
            return documents, counts
        kept = self._present[documents]
        return documents[kept], counts[kept]

    def _weight(self, having: int) -> float:
        return log1p((self._there - having + 0.5) / (having + 0.5))

    def _count(self) -> None:
        self._there = int(self._present.sum())
        if self._there:
            self._usual = max(float(self._lengths[self._present].mean()), 1.0)

    def _settle(self) -> None:
        """Sort in what has been waiting."""
        import numpy as np  # noqa: PLC0415

        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._take(
                np.concatenate(waiting), np.array([len(terms) for terms in waiting], np.int32)
            )

    def _take(self, terms: Numbers, lengths: NDArray[np.int32]) -> None:
        import numpy as np  # noqa: PLC0415

        first = len(self._lengths)
        self._lengths = np.append(self._lengths, lengths.astype(np.float32))
        self._present = np.append(self._present, np.ones(len(lengths), bool))
        self._count()
        # A part is joined with the one before it unless that is twice as large: of n documents
        # there are log n parts, and each document is sorted log n times.
        while self._parts and len(self._parts[-1].lengths) < 2 * len(lengths):
            before = self._parts.pop()
            first = before.first
            terms = np.append(before.terms, terms)
            lengths = np.append(before.lengths, lengths)
        self._parts.append(_Postings(first, terms, lengths))
