"""Shelves, held in memory: what documents of a scope are found by, as arrays.

A shelf is caught up with its events when somebody asks. Vectors are held up to a limit; beyond it
the store's own index of neighbours answers, or they are read through in pages.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from treering.errors import Unavailable
from treering.memory.records import Document, IndexEntry
from treering.memory.vectors import pack, unpack

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.lexical import Lexicon
    from treering.memory.ports import Embedder, Matrix, MemoryStore
    from treering.memory.records import IndexName, IndexState
    from treering.model.events import Event
    from treering.model.scopes import Scope

    Texts = Callable[[Event], list[str]]
    """What is to be found of an event: a text, or its parts in order; none if nothing is."""

PAGE: Final = 20_000
VECTORS_HELD_MAX: Final = 200_000
"""Documents whose vectors are held in memory; of more, neighbours are found by an index."""
DOCUMENTS_HELD_MAX: Final = 1_000_000
"""Documents that are ranked: the newest."""
BY_ROW_MAX: Final = 20_000
"""So many vectors are multiplied by one row after another."""
NEIGHBOURS: Final = 1_000
"""How many the index of neighbours is asked for."""


class DocumentIndex:
    """One shelf of one scope, as it is held. Callers hold ``lock`` while they look at it."""

    def __init__(
        self, store: MemoryStore, scope: Scope, shelf: IndexName, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._scope = scope
        self._shelf: IndexName = shelf
        self.embedder = embedder
        self.lock = threading.RLock()
        self.generation = -1
        """Changes when all was read anew."""
        self._newest = 0
        self._term_key = b""
        self.count = 0
        self.without_vector = 0
        """Documents without a vector of the embedder in use."""
        self.embedder_failed = False
        """Whether the embedder did not answer when it was last asked."""
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        from treering.memory.lexical import Lexicon  # noqa: PLC0415

        self.lexicon: Lexicon = Lexicon()
        self._columns: dict[str, Any] = {
            name: np.empty(0, np.int64) for name in ("number", "position", "session", "seq", "ts")
        }
        self._lengths = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int64)
        self._matrix: Matrix | None = np.empty((0, self._dimensions), np.float32)
        self._room = 0
        self._filled = 0
        self.at: dict[int, int] = {}
        """Which document stands for the event at a position."""
        self._newest = self.count = self.without_vector = 0

    @property
    def _dimensions(self) -> int:
        return 1 if self.embedder is None else self.embedder.dimensions

    def column(self, name: str) -> NDArray[np.int64]:
        """Return number, position, session, seq or ts of each document."""
        found: NDArray[np.int64] = self._columns[name][: self.count]
        return found

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Return how many terms each document has."""
        return self._lengths[: self.count]

    # Keeping up.

    def catch_up(self, texts: Texts, *, progress: Callable[[int], None] | None = None) -> None:
        """Have the store enter what is new, then read it.

        While the embedder does not answer nothing is entered: that is made up for later.
        """
        self.embedder_failed = False
        try:
            while self._step(texts, progress):
                pass
        except Unavailable:
            self.embedder_failed = True
        self.refresh()

    def _step(self, texts: Texts, progress: Callable[[int], None] | None) -> bool:
        """Have the store enter a stretch; return whether there is more."""
        step = self._store.follow_documents(
            self._scope,
            self._shelf,
            lambda events: entries(events, texts, self.embedder, self.term_ids),
            embedder="" if self.embedder is None else self.embedder.name,
        )
        if progress is not None and step.events:
            progress(step.events)
        return step.more

    def embedded(self, queries: Sequence[str]) -> Matrix | None:
        """Return the vectors of questions; None if there is no embedder, or it does not answer."""
        if self.embedder is None:
            return None
        try:
            return self.embedder.embed_queries(queries)
        except Unavailable:
            self.embedder_failed = True
            return None

    def take_private(self, events: Iterable[Event], texts: Texts) -> None:
        """Take in events of a sealed scope: what they say is held here and kept nowhere."""
        listed = [event for event in events if event.position not in self.at]
        if not listed:
            return
        by_position = {event.position: event for event in listed}
        name = "" if self.embedder is None else self.embedder.name
        page = []
        for number, entry in enumerate(
            entries(listed, texts, self.embedder, self.term_ids), self._newest + 1
        ):
            event = by_position[entry.position]
            page.append((number, Document(
                position=event.position, session=0, seq=event.seq, ts_ms=event.ts_ms,
                kind=event.kind, embedder=name, terms=entry.terms, vectors=entry.vectors,
            )))  # fmt: skip
        if page:
            self._take(page, self.count + len(page))

    def refresh(self) -> None:
        """Read what was entered since; all of it, if anything was taken out."""
        holdings = self._store.index_state(self._scope, self._shelf)
        if holdings.generation != self.generation:
            self.clear()
            self.generation = holdings.generation
        if self._newest >= holdings.newest:
            return
        self._skip(holdings)
        while page := self._store.documents(
            self._scope, self._shelf, after=self._newest, limit=PAGE
        ):
            self._take(page, holdings.count)

    def _skip(self, holdings: IndexState) -> None:
        """Leave out the oldest, if there are more than are ranked."""
        if holdings.count > DOCUMENTS_HELD_MAX and not self.count:
            self._newest = holdings.newest - DOCUMENTS_HELD_MAX

    def _take(self, page: list[tuple[int, Document]], total: int) -> None:
        import numpy as np  # noqa: PLC0415

        first = self.count
        for name, values in (
            ("number", [number for number, _ in page]),
            ("position", [one.position for _, one in page]),
            ("session", [one.session for _, one in page]),
            ("seq", [one.seq for _, one in page]),
            ("ts", [one.ts_ms for _, one in page]),
        ):
            self._columns[name] = _grown(self._columns[name], self.count, values, np.int64)
        lengths = [len(one.terms) // 4 for _, one in page]
        self._lengths = _grown(self._lengths, self.count, lengths, np.int32)
        terms = np.frombuffer(b"".join(one.terms for _, one in page), "<u4")
        self.lexicon.extend(terms, lengths)
        self.at.update((one.position, first + at) for at, (_, one) in enumerate(page))
        self.count += len(page)
        self._newest = page[-1][0]
        self._take_vectors([one for _, one in page], total)

    def _take_vectors(self, documents: list[Document], total: int) -> None:
        import numpy as np  # noqa: PLC0415

        if self.embedder is None or self._matrix is None:
            return
        if total > VECTORS_HELD_MAX:
            self._matrix = None
            return
        name = self.embedder.name
        ours = [one.vectors if one.embedder == name else b"" for one in documents]
        rows, counts = unpack(ours, self._dimensions)
        missing = [at for at, count in enumerate(counts) if not count]
        if missing:
            self.without_vector += len(missing)
            starts = np.cumsum([0, *counts[:-1]])
            rows = np.insert(rows, starts[missing], 0.0, axis=0)
            counts = [max(count, 1) for count in counts]
        self._counts = _grown(self._counts, self.count - len(documents), counts, np.int64)
        needed = self._filled + len(rows)
        if needed > len(self._matrix):
            grown = np.zeros((max(needed, 2 * len(self._matrix)), self._dimensions), np.float32)
            grown[: self._filled] = self._matrix[: self._filled]
            self._matrix = grown
        self._matrix[self._filled : needed] = rows
        self._filled = needed

    # Finding.

    def term_ids(self, text: str) -> array[int]:
        """Return the terms of a text as the numbers that they are kept as."""
        from treering.derive.terms import term_ids  # noqa: PLC0415

        self._term_key = self._term_key or self._store.term_key(self._scope)
        return term_ids(text, self._term_key)

    @property
    def vectors(self) -> Matrix | None:
        """Return all vectors that are held, of documents in order; None if there are too many."""
        return None if self._matrix is None else self._matrix[: self._filled]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Return where the vectors of each document begin."""
        import numpy as np  # noqa: PLC0415

        counts = self._counts[: self.count]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]])

    def has_parts(self) -> bool:
        """Whether any document has several vectors."""
        return self._filled != self.count

    def cosines(self, query: Matrix, only: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Return how near each document is to a query; the nearest of its parts counts.

        A query of several rows asks for several things: any of them counts. ``only`` names the
        documents that are asked for; the others are 0.
        """
        import numpy as np  # noqa: PLC0415

        near = np.zeros(self.count, np.float32)
        if self.embedder is None or not self.count:
            return near
        vectors = self.vectors
        if vectors is None:
            rows = [self._far(query[at : at + 1], near.copy()) for at in range(len(query))]
            far: NDArray[np.float32] = np.max(rows, axis=0)
            return far
        if only is not None and len(only) < self.count // 4 and not self.has_parts():
            near[only] = _nearest(vectors[only], query)
        else:
            near = self.best_of_parts(_nearest(vectors, query))
        return near

    def products(self, queries: Matrix, documents: NDArray[np.int64]) -> Matrix:
        """Return the cosines of queries, a row each, with documents that have one vector each."""
        import numpy as np  # noqa: PLC0415

        vectors = self.vectors
        if vectors is None:
            rows = [self.cosines(queries[at : at + 1])[documents] for at in range(len(queries))]
            return np.stack(rows)
        places = self.starts[documents] if self.has_parts() else documents
        found: Matrix
        if len(places) < len(vectors) // 4:
            found = queries @ vectors[places].T
        else:
            found = (queries @ vectors.T)[:, places]
        return found

    def best_of_parts(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return for each document the best score of its vectors."""
        import numpy as np  # noqa: PLC0415

        if not self.has_parts() or not self.count:
            return scores
        best: NDArray[np.float32] = np.maximum.reduceat(scores, self.starts)
        return best

    def _far(self, query: Matrix, near: NDArray[np.float32]) -> NDArray[np.float32]:
        """Ask the store's index of neighbours; without one, read all vectors in pages."""
        import numpy as np  # noqa: PLC0415

        embedder = self.embedder
        if embedder is None:
            return near
        numbers = self.column("number")
        found = self._store.nearest(
            self._scope, self._shelf, pack(query), embedder=embedder.name, limit=NEIGHBOURS
        )
        if found is not None:
            for number, cosine in found:
                at = int(np.searchsorted(numbers, number))
                if at < len(numbers) and numbers[at] == number:
                    near[at] = cosine
            return near
        after = int(numbers[0]) - 1
        at = 0
        while page := self._store.documents(self._scope, self._shelf, after=after, limit=PAGE):
            ours = [one.vectors if one.embedder == embedder.name else b"" for _, one in page]
            rows, counts = unpack(ours, self._dimensions)
            cosines = rows @ query[0]
            begin = 0
            for count in counts:
                if at < self.count and count:
                    near[at] = cosines[begin : begin + count].max()
                begin += count
                at += 1
            after = page[-1][0]
        return near


def _nearest(vectors: Matrix, query: Matrix) -> NDArray[np.float32]:
    """Return for each vector the cosine of the row that is nearest to it."""
    best: NDArray[np.float32]
    import numpy as np  # noqa: PLC0415

    if len(query) == 1 or len(vectors) <= BY_ROW_MAX:
        # A product with a vector is not shared between threads, which cost more than they save.
        best = vectors @ query[0]
        for row in query[1:]:
            np.maximum(best, vectors @ row, out=best)
        return best
    best = (vectors @ query.T).max(axis=1)
    return best


def entries(
    events: Sequence[Event],
    texts: Texts,
    embedder: Embedder | None,
    term_ids: Callable[[str], array[int]],
) -> list[IndexEntry]:
    """Return how events are entered: their words as numbers, their meaning as vectors."""
    told = [(event, texts(event)) for event in events]
    told = [(event, parts) for event, parts in told if parts]
    every = [part for _, parts in told for part in parts]
    rows = None if embedder is None or not every else embedder.embed(every)
    found: list[IndexEntry] = []
    at = 0
    for event, parts in told:
        vectors = b"" if rows is None else pack(rows[at : at + len(parts)])
        at += len(parts)
        found.append(IndexEntry(event.position, term_ids(" ".join(parts)).tobytes(), vectors))
    return found


def _grown(column: Any, count: int, values: Sequence[int], sort: Any) -> Any:
    """Return a column with values behind its first ``count``; it grows by half at least."""
    import numpy as np  # noqa: PLC0415

    needed = count + len(values)
    if needed > len(column):
        larger = np.zeros(max(needed, count + count // 2), sort)
        larger[:count] = column[:count]
        column = larger
    column[count:needed] = values
    return column
