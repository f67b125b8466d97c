"""BM25 over hashed terms.

New documents wait in a short list until the next query, then become a segment of their own.
Segments are merged as they grow, so that each document is sorted only a few times. A process that
asks one question sorts none.
"""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.lazy import LazyModule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint32]
    Scores = NDArray[np.float32]
else:
    np = LazyModule("numpy")

K1: Final = 1.2
"""Term frequency saturation."""
B: Final = 0.75
"""Length normalisation."""
SCANS_MAX: Final = 100
"""Terms that are looked for among all before they are sorted, which takes as long."""


class Matches(NamedTuple):
    """How well each document matches a query."""

    scores: Scores
    """BM25, from 0 up."""
    coverage: Scores
    """The share of the query's weight that the document contains, from 0 to 1; rare terms weigh
    more."""


class _Postings(NamedTuple):
    """Per term, the documents and how often each has it."""

    vocabulary: Numbers
    bounds: NDArray[np.int64]
    documents: NDArray[np.int64]
    counts: Scores


class _IndexSegment:
    """The terms of a range of documents; they are sorted once they are often asked for."""

    def __init__(self, first: int, terms: Numbers, lengths: NDArray[np.int32]) -> None:
        self.first, self.terms, self.lengths = first, terms, lengths
        self._sorted: _Postings | None = None
        self._lookups = 0

    def postings(self, term: int) -> tuple[NDArray[np.int64], Scores]:
        """Return the documents that have a term, and how often."""
        self._lookups += 1
        if self._sorted is None and self._lookups <= SCANS_MAX:
            return self._scanned(term)
        self._sorted = found = self._sorted or self._sort()
        at = int(found.vocabulary.searchsorted(term))
        if at == len(found.vocabulary) or found.vocabulary[at] != term:
            return found.documents[:0], found.counts[:0]
        span = slice(int(found.bounds[at]), int(found.bounds[at + 1]))
        return found.documents[span], found.counts[span]

    def _scanned(self, term: int) -> tuple[NDArray[np.int64], Scores]:
        places = np.flatnonzero(self.terms == term)
        having = np.cumsum(self.lengths).searchsorted(places, side="right")
        documents, counts = np.unique(having, return_counts=True)
        return documents + self.first, counts.astype(np.float32)

    def _sort(self) -> _Postings:
        indexes = np.repeat(np.arange(len(self.lengths), dtype=np.uint64), self.lengths)
        pairs, counts = np.unique(
            (self.terms.astype(np.uint64) << 32) | indexes, return_counts=True
        )
        vocabulary, starts = np.unique(
            (pairs >> np.uint64(32)).astype(np.uint32), return_index=True
        )
        return _Postings(
            vocabulary=vocabulary,
            bounds=np.append(starts, len(pairs)),
            documents=(pairs & 0xFFFFFFFF).astype(np.int64) + self.first,
            counts=counts.astype(np.float32),
        )


class Lexicon:
    """An inverted index of documents in insertion order. Not thread-safe."""

    def __init__(self, terms: Numbers | None = None, lengths: Sequence[int] | None = None) -> None:
        """Add documents whose terms are concatenated in one array."""
        self._segments: list[_IndexSegment] = []
        self._pending: list[tuple[Numbers, NDArray[np.int32]]] = []
        self._lengths = np.empty(0, np.float32)
        self._present = np.empty(0, bool)
        self._present_count = 0
        self._mean_length = 1.0
        if terms is not None and lengths is not None:
            self.extend(terms, lengths)

    def __len__(self) -> int:
        return len(self._lengths) + sum(len(lengths) for _, lengths in self._pending)

    def add(self, terms: Sequence[int]) -> int:
        """Add a document and return its number."""
        self.extend(np.array(terms, np.uint32), [len(terms)])
        return len(self) - 1

    def extend(self, terms: Numbers, lengths: Sequence[int] | NDArray[np.int32]) -> None:
        """Add documents whose terms are concatenated in one array."""
        if len(lengths):
            self._pending.append((np.asarray(terms, np.uint32), np.asarray(lengths, np.int32)))

    def truncate(self, count: int) -> None:
        """Drop all documents but the first ``count``, as if they had never been added."""
        self._flush()
        self._lengths, self._present = self._lengths[:count], self._present[:count]
        while self._segments and self._segments[-1].first + len(self._segments[-1].lengths) > count:
            part = self._segments.pop()
            lengths = part.lengths[: max(count - part.first, 0)]
            if len(lengths):
                terms = part.terms[: int(lengths.sum())]
                self._segments.append(_IndexSegment(part.first, terms, lengths))
        self._count()

    def remove(self, documents: Iterable[int]) -> None:
        """Exclude documents from now on. The numbers of the others stay the same."""
        self._flush()
        self._present[list(documents)] = False
        self._count()

    def rarity(self, terms: Sequence[int]) -> Scores:
        """Return the inverse document frequency of each term."""
        self._flush()
        documents_by_term = [self.postings(term)[0] for term in terms]
        return np.array(
            [self.weight(len(documents)) for documents in documents_by_term], np.float32
        )

    def scores(self, terms: Sequence[int]) -> Scores:
        """Return the BM25 score of each document."""
        return self.matches(terms).scores

    def matches(self, terms: Sequence[int]) -> Matches:
        """Return the BM25 score of each document and its coverage of the query."""
        self._flush()
        scores = np.zeros(len(self._lengths), np.float32)
        coverage = np.zeros(len(self._lengths), np.float32)
        total = 0.0
        for term in dict.fromkeys(terms):
            documents, counts = self.postings(term)
            weight = self.weight(len(documents))
            # An unknown term weighs no more than one that a single document has.
            total += self.weight(max(len(documents), 1))
            length_penalty = K1 * (1 - B + (B / self._mean_length) * self._lengths[documents])
            scores[documents] += weight * (K1 + 1) * counts / (counts + length_penalty)
            coverage[documents] += weight
        return Matches(scores, coverage / max(total, 1e-9))

    def lengths(self) -> Scores:
        """Return the number of terms of each document; 0 if it was removed."""
        self._flush()
        return np.where(self._present, self._lengths, np.float32(0))

    def postings(self, term: int) -> tuple[NDArray[np.int64], Scores]:
        """Return the documents that have a term, and how often."""
        self._flush()
        where = [segment.postings(term) for segment in self._segments]
        if len(where) == 1:
            [(documents, counts)] = where
        else:
            parts = [(np.empty(0, np.int64), np.empty(0, np.float32)), *where]
            documents = np.concatenate([part_documents for part_documents, _ in parts])
            counts = np.concatenate([part_counts for _, part_counts in parts])
        if self._present_count == len(self._present):
            return documents, counts
        present = self._present[documents]
        return documents[present], counts[present]

    def having_all(
        self, terms: Iterable[int], among: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return the documents that have all terms, of all or ``among`` some, in order."""
        postings = [self.postings(term)[0] for term in dict.fromkeys(terms)]
        if not postings:
            return np.empty(0, np.int64)
        documents, *others = sorted(postings if among is None else [*postings, among], key=len)
        for other in others:
            # Both are in order: the few are looked up among the many.
            places = other.searchsorted(documents)
            places[places == len(other)] = 0
            documents = documents[other[places] == documents] if len(documents) else documents
        return documents

    def weight(self, having: int) -> float:
        """Return the inverse document frequency of a term that ``having`` documents have."""
        return log1p((self._present_count - having + 0.5) / (having + 0.5))

    def _count(self) -> None:
        self._present_count, self._mean_length = int(self._present.sum()), 1.0
        if self._present_count:
            self._mean_length = max(float(self._lengths[self._present].mean()), 1.0)

    def _flush(self) -> None:
        """Index the pending documents."""
        if not self._pending:
            return
        terms, lengths = map(np.concatenate, zip(*self._pending, strict=True))
        first, segments = len(self._lengths), list(self._segments)
        all_lengths = np.append(self._lengths, lengths.astype(np.float32))
        present = np.append(self._present, np.ones(len(lengths), bool))
        # Merge with the previous segment unless that is twice as large: n documents have log n
        # segments, and each document is sorted log n times.
        while segments and len(segments[-1].lengths) < 2 * len(lengths):
            before = segments.pop()
            first = before.first
            terms = np.append(before.terms, terms)
            lengths = np.append(before.lengths, lengths)
        segments.append(_IndexSegment(first, terms, lengths))
        # All at once, so that an interrupt leaves the documents pending or indexed.
        self._lengths, self._present, self._segments, self._pending = (
            all_lengths, present, segments, [],
        )  # fmt: skip
        self._count()
