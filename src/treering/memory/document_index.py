"""An index of a scope's documents, held in memory as arrays.

It catches up with new events at every query. Vectors are held up to a limit; beyond it the store's
nearest-neighbour index answers, or the vectors are read page by page.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from treering.errors import Unavailable
from treering.garbage import collecting_rarely
from treering.memory.records import DocumentColumns, IndexEntry
from treering.memory.vectors import (
    SCALE_BYTES,
    all_dots,
    dots,
    pack,
    pack_groups,
    unpack,
    unpack_into,
)

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.lexical import Lexicon
    from treering.memory.ports import Embedder, Matrix, MemoryStore
    from treering.memory.records import IndexName, IndexState
    from treering.model.events import Event
    from treering.model.scopes import Scope

    Texts = Callable[[Event], list[str]]
    """Returns the text of an event to index, or its parts in order; empty if there is none."""

PAGE: Final = 5_000
"""Documents that are read at once."""
VECTORS_HELD_MAX: Final = 200_000
"""Documents whose vectors are held in memory; beyond, a nearest-neighbour index is used."""
DOCUMENTS_HELD_MAX: Final = 1_000_000
"""Documents that are ranked: the newest."""
NEIGHBOURS: Final = 1_000
"""Results asked of the nearest-neighbour index."""


class DocumentIndex:
    """One index of one scope, used by one thread at a time."""

    def __init__(
        self, store: MemoryStore, scope: Scope, index_name: IndexName, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._scope = scope
        self._index_name: IndexName = index_name
        self.embedder = embedder
        self.generation = -1
        """Changes when everything was read again."""
        self._newest = 0
        self._term_key = b""
        self.count = 0
        self.without_vector = 0
        """Documents without a vector of the current embedder."""
        self.embedder_failed = False
        """Whether the embedder failed when it was last called."""
        self.ahead: Mapping[str, NDArray[np.float32]] = {}
        """Vectors of texts that the next step will index, if they were needed before."""
        self._unstored: dict[int, IndexEntry] = {}
        """The newest documents, by position, as long as they are in this process alone."""
        self._is_reading = False
        """Whether documents were being read when somebody interrupted it."""
        self.clear()

    def reset(self) -> None:
        """Have everything read again."""
        self.clear()
        self.generation = -1

    def clear(self) -> None:
        """Drop everything held in memory."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        from treering.memory.lexical import Lexicon  # noqa: PLC0415

        self.lexicon: Lexicon = Lexicon()
        self._columns: dict[str, Any] = {
            name: np.empty(0, np.int64) for name in ("number", "position", "session", "seq")
        }
        self._lengths = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int64)
        self._matrix: Matrix | None = np.empty((0, self._dimensions), np.float32)
        self._room = 0
        self._filled = 0
        self.at: dict[int, int] = {}
        """The document number of the event at a position."""
        self._unstored.clear()
        self._newest = self.count = self.without_vector = 0

    @property
    def _dimensions(self) -> int:
        return 1 if self.embedder is None else self.embedder.dimensions

    def column(self, name: str) -> NDArray[np.int64]:
        """Return number, position, session or seq of each document."""
        values: NDArray[np.int64] = self._columns[name][: self.count]
        return values

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Return the number of terms of each document."""
        return self._lengths[: self.count]

    # Catching up.

    def catch_up(
        self,
        texts: Texts,
        *,
        progress: Callable[[int], None] | None = None,
        embedding: bool = True,
    ) -> None:
        """Let the store index new events, then read them.

        While the embedder fails nothing is indexed; a later call makes up for it. Unless
        ``embedding``, neither is what it would be asked for.
        """
        self.embedder_failed = False
        try:
            while self._step(texts, progress, embedding=embedding):
                pass
        except Unavailable:
            self.embedder_failed = True
        finally:
            self.ahead = {}
        self.refresh()

    def _step(
        self, texts: Texts, progress: Callable[[int], None] | None, *, embedding: bool
    ) -> bool:
        """Let the store index one page; return whether there is more."""
        step = self._store.follow_documents(
            self._scope,
            self._index_name,
            lambda events: self._entries(events, texts, embedding=embedding),
            embedder="" if self.embedder is None else self.embedder.name,
        )
        if progress is not None and step.events:
            progress(step.events)
        return step.more

    def embed_queries(self, queries: Sequence[str]) -> Matrix | None:
        """Return the vectors of queries; None without an embedder, or if it fails."""
        if self.embedder is None:
            return None
        try:
            return self.embedder.embed_queries(queries)
        except Unavailable:
            self.embedder_failed = True
            return None

    def _entries(
        self, events: Sequence[Event], texts: Texts, *, embedding: bool = True
    ) -> list[IndexEntry]:
        new = [event for event in events if event.position not in self._unstored]
        if not embedding and self.embedder is not None and any(map(texts, new)):
            raise Unavailable("the embedder is not asked now", hint="recall something")
        entered = {
            entry.position: entry
            for entry in entries(new, texts, self.embedder, self.term_ids, self.ahead)
        }
        entered |= self._unstored
        return [entered[event.position] for event in events if event.position in entered]

    def add_unstored(self, events: Iterable[Event], texts: Texts) -> None:
        """Add events whose words and vectors stay in this process until the store indexes them.

        Those of a sealed scope always do. While the embedder fails nothing is added.
        """
        self.embedder_failed = False
        new_events = {event.position: event for event in events if event.position not in self.at}
        try:
            added = self._entries(list(new_events.values()), texts)
        except Unavailable:
            self.embedder_failed = True
            return
        finally:
            self.ahead = {}
        first = self._newest + len(self._unstored) + 1
        if added:
            stated = [new_events[entry.position] for entry in added]
            page = DocumentColumns(
                numbers=list(range(first, first + len(added))),
                positions=[event.position for event in stated],
                sessions=[0] * len(stated),
                seqs=[event.seq for event in stated],
                term_bytes=[len(entry.terms) for entry in added],
                vector_bytes=[len(entry.vectors) for entry in added],
                terms=b"".join(entry.terms for entry in added),
                vectors=b"".join(entry.vectors for entry in added),
            )
            self._add(page, self.count + len(added))
            self._unstored |= {entry.position: entry for entry in added}

    def is_stored(self, position: int) -> bool:
        """Return whether the store has the document of an event, as far as is known here."""
        return position in self.at and position not in self._unstored

    @property
    def unstored_positions(self) -> list[int]:
        """Return the positions of documents that are in this process alone."""
        return list(self._unstored)

    @property
    def unstored_count(self) -> int:
        """Return how many documents are in this process alone."""
        return len(self._unstored)

    def drop_unstored(self) -> None:
        """Forget the documents that are in this process alone."""
        if not self._unstored:
            return
        dropped = len(self._unstored)
        self.count -= dropped
        self.lexicon.truncate(self.count)
        if self.embedder is not None and self._matrix is not None:
            self._filled -= int(self._counts[self.count : self.count + dropped].sum())
            self.without_vector -= sum(not entry.vectors for entry in self._unstored.values())
        for position in self._unstored:
            del self.at[position]
        self._unstored.clear()

    def refresh(self) -> None:
        """Read new documents; read all of them if any were removed."""
        state = self._store.index_state(self._scope, self._index_name)
        if state.generation != self.generation or self._is_reading:
            self.clear()
            self.generation = state.generation
        if self._newest >= state.newest:
            return
        self._is_reading = True
        # They are stored by now, in an order and with numbers of the store's.
        self.drop_unstored()
        self._skip(state)
        with contextlib.nullcontext() if self.count else collecting_rarely():
            while (page := self._page()).numbers:
                self._add(page, state.count)
                self._newest = page.numbers[-1]
        self._is_reading = False

    def _skip(self, state: IndexState) -> None:
        """Skip the oldest documents, if there are more than are ranked."""
        if state.count > DOCUMENTS_HELD_MAX and not self.count:
            self._newest = state.newest - DOCUMENTS_HELD_MAX

    def _page(self) -> DocumentColumns:
        embedder = "" if self.embedder is None else self.embedder.name
        return self._store.document_columns(
            self._scope, self._index_name, after=self._newest, limit=PAGE, embedder=embedder
        )

    def _add(self, page: DocumentColumns, total: int) -> None:
        import numpy as np  # noqa: PLC0415

        first = self.count
        for name, values in (
            ("number", page.numbers),
            ("position", page.positions),
            ("session", page.sessions),
            ("seq", page.seqs),
        ):
            self._columns[name] = _grown(self._columns[name], first, values, np.int64)
        lengths = np.array(page.term_bytes, np.int32) // 4
        self._lengths = _grown(self._lengths, first, lengths, np.int32)
        self.lexicon.extend(np.frombuffer(page.terms, "<u4"), lengths)
        self.count += len(page.numbers)
        self.at.update(zip(page.positions, range(first, self.count), strict=True))
        self._add_vectors(page, total)

    def _add_vectors(self, page: DocumentColumns, total: int) -> None:
        import numpy as np  # noqa: PLC0415

        if self.embedder is None or self._matrix is None:
            return
        if total > VECTORS_HELD_MAX:
            self._matrix = None
            return
        width = SCALE_BYTES + self._dimensions
        counts = np.array(page.vector_bytes, np.int64) // width
        rows = np.frombuffer(page.vectors, np.uint8).reshape(-1, width)
        without = int((counts == 0).sum())
        if without:
            # A document without a vector has one of zeros.
            self.without_vector += without
            has_own = np.repeat(counts > 0, np.maximum(counts, 1))
            rows_of_all = np.zeros((len(has_own), width), np.uint8)
            rows_of_all[has_own] = rows
            rows, counts = rows_of_all, np.maximum(counts, 1)
        self._counts = _grown(self._counts, self.count - len(counts), counts, np.int64)
        needed = self._filled + len(rows)
        if needed > len(self._matrix):
            room = max(needed, total, 2 * len(self._matrix) if self._filled else 0)
            grown = np.empty((room, self._dimensions), np.float32)
            grown[: self._filled] = self._matrix[: self._filled]
            self._matrix = grown
        unpack_into(self._matrix[self._filled : needed], rows)
        self._filled = needed

    # Searching.

    def term_ids(self, text: str) -> array[int]:
        """Return the hashed terms of a text."""
        from treering.rules.terms import term_ids  # noqa: PLC0415

        self._term_key = self._term_key or self._store.term_key(self._scope)
        return term_ids(text, self._term_key)

    @property
    def vectors(self) -> Matrix | None:
        """Return all vectors in document order; None if there are too many to hold."""
        return None if self._matrix is None else self._matrix[: self._filled]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Return the index of each document's first vector."""
        import numpy as np  # noqa: PLC0415

        counts = self._counts[: self.count]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]])

    def has_parts(self) -> bool:
        """Return whether any document has several vectors."""
        return self._filled != self.count

    def cosines(self, query: Matrix, only: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Return the cosine of each document's nearest part with a query.

        With several query rows, the best counts. ``only`` names the documents needed; the others
        are 0.
        """
        import numpy as np  # noqa: PLC0415

        near = np.zeros(self.count, np.float32)
        if self.embedder is None or not self.count:
            return near
        vectors = self.vectors
        if vectors is None:
            rows = [
                self._stored_cosines(query[at : at + 1], near.copy()) for at in range(len(query))
            ]
            far: NDArray[np.float32] = np.max(rows, axis=0)
            return far
        if only is not None and len(only) < self.count // 4 and not self.has_parts():
            near[only] = _nearest(vectors[only], query)
        else:
            near = self.best_of_parts(_nearest(vectors, query))
        return near

    def products(self, queries: Matrix, documents: NDArray[np.int64]) -> Matrix:
        """Return the cosines of queries, one per row, with documents that have one vector each."""
        import numpy as np  # noqa: PLC0415

        vectors = self.vectors
        if vectors is None:
            rows = [self.cosines(queries[at : at + 1])[documents] for at in range(len(queries))]
            return np.stack(rows)
        rows_of_documents = self.starts[documents] if self.has_parts() else documents
        cosines: Matrix
        if len(rows_of_documents) < len(vectors) // 4:
            cosines = _products(queries, vectors.take(rows_of_documents, axis=0))
        else:
            cosines = _products(queries, vectors).take(rows_of_documents, axis=1)
        return cosines

    def best_of_parts(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the best score of each document's vectors."""
        import numpy as np  # noqa: PLC0415

        if not self.has_parts() or not self.count:
            return scores
        best: NDArray[np.float32] = np.maximum.reduceat(scores, self.starts)
        return best

    def _stored_cosines(self, query: Matrix, near: NDArray[np.float32]) -> NDArray[np.float32]:
        """Ask the store's nearest-neighbour index; without one, read all vectors page by page."""
        import numpy as np  # noqa: PLC0415

        embedder = self.embedder
        if embedder is None:
            return near
        numbers = self.column("number")
        neighbours = self._store.nearest(
            self._scope, self._index_name, pack(query), embedder=embedder.name, limit=NEIGHBOURS
        )
        if neighbours is not None:
            for number, cosine in neighbours:
                at = int(np.searchsorted(numbers, number))
                if at < len(numbers) and numbers[at] == number:
                    near[at] = cosine
            return near
        after = int(numbers[0]) - 1
        at = 0
        while page := self._store.documents(self._scope, self._index_name, after=after, limit=PAGE):
            ours = [
                document.vectors if document.embedder == embedder.name else b""
                for _, document in page
            ]
            rows, counts = unpack(ours, self._dimensions)
            cosines = dots(rows, query[0])
            begin = 0
            for count in counts:
                if at < self.count and count:
                    near[at] = cosines[begin : begin + count].max()
                begin += count
                at += 1
            after = page[-1][0]
        return near


def _nearest(vectors: Matrix, query: Matrix) -> NDArray[np.float32]:
    """Return for each vector the cosine of the nearest query row."""
    nearest: NDArray[np.float32] = all_dots(vectors, query).max(axis=0)
    return nearest


def _products(queries: Matrix, vectors: Matrix) -> Matrix:
    """Return the cosines of queries with vectors, one row per query."""
    return all_dots(vectors, queries) if len(queries) == 1 else queries @ vectors.T


def entries(
    events: Sequence[Event],
    texts: Texts,
    embedder: Embedder | None,
    term_ids: Callable[[str], array[int]],
    ahead: Mapping[str, NDArray[np.float32]] | None = None,
) -> list[IndexEntry]:
    """Return the index entries of events: hashed words and packed vectors.

    ``ahead`` are vectors of texts that were embedded already.
    """
    indexed = [(event, texts(event)) for event in events]
    indexed = [(event, parts) for event, parts in indexed if parts]
    all_parts = [part for _, parts in indexed for part in parts]
    if embedder is None or not all_parts:
        vectors = [b""] * len(indexed)
    else:
        import numpy as np  # noqa: PLC0415

        prepared = [ahead[part] for part in all_parts if part in ahead] if ahead else []
        is_known = len(prepared) == len(all_parts)
        matrix = np.stack(prepared) if is_known else embedder.embed(all_parts)
        vectors = pack_groups(matrix, [len(parts) for _, parts in indexed])
    return [
        IndexEntry(event.position, term_ids(" ".join(parts)).tobytes(), packed)
        for (event, parts), packed in zip(indexed, vectors, strict=True)
    ]


def _grown(column: Any, count: int, values: Any, dtype: Any) -> Any:
    """Return a column with values after its first ``count``; it grows by at least half."""
    import numpy as np  # noqa: PLC0415

    needed = count + len(values)
    if needed > len(column):
        larger = np.zeros(max(needed, count + count // 2), dtype)
        larger[:count] = column[:count]
        column = larger
    column[count:needed] = values
    return column
