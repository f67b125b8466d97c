"""Rows and documents that the memory derives from events, and an index of neighbours among them.

The index says which vectors are near another, without a look at all. It is derived from the
documents of one shelf and one embedder, and holds good for one generation: whatever is taken out of
the shelf, the index goes as a whole. It is built a little with each question, for that takes long;
until it is up nobody is answered from it.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import apsw
import msgspec

from treering.embedders.minilm import load_runtime
from treering.errors import StorageError
from treering.memory.records import (
    INDEX_NAMES,
    REMEMBERED_KINDS,
    DocumentColumns,
    IndexName,
    IndexState,
    SavedFold,
)
from treering.memory.vectors import SCALE_BYTES, unpack
from treering.model.codec import encode
from treering.model.queries import FollowStep
from treering.storage.memory import BUILD_S, HNSW_DOCUMENTS, drop_rows, read_rows, write_rows
from treering.storage.projections import SqliteTable
from treering.storage.sqlite import memory_documents
from treering.storage.sqlite.companion_file import unseen_erasures
from treering.storage.sqlite.memory_documents import MemoryFile, MemoryReader, position_of
from treering.storage.sqlite.opening import create_private
from treering.storage.sqlite.reader import find_scope
from treering.storage.sqlite.rows import fetch_all, fetch_one, fetch_value, name_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.records import Document, IndexEntry, Row
    from treering.model.events import Event
    from treering.model.queries import Mark
    from treering.model.receipts import Physical
    from treering.model.scopes import Scope
    from treering.storage.sqlite.reader import Reader

DERIVED: Final = (
    "SELECT * FROM memory_rows",
    """
SELECT scope, shelf, position, session, seq, ts_ms, kind, embedder, terms, vectors
FROM documents
""",
)
"""All that is derived. The number of a document only says when it was entered."""
_ROWS: Final = (
    "json_group_array(key), json_group_array(length(body)),"
    " CAST(coalesce(group_concat(body, CAST(:gap AS TEXT)), '') AS BLOB)"
)
DOCUMENTS_MAX: Final = 50_000
"""Documents of one page."""
FOLD_PATIENCE_MS: Final = 2_000
_COUNTS: Final = """
SELECT
  (SELECT count(*) FROM memory_rows WHERE scope = ?),
  (SELECT coalesce(sum(documents), 0) FROM shelves WHERE scope = ?)
"""
_KNOWN: Final = "(SELECT value FROM json_each(CAST(? AS TEXT)))"
_STRAYS: Final = f"""
SELECT
  (SELECT count(*) FROM memory_rows WHERE scope NOT IN {_KNOWN})
  + (SELECT count(*) FROM documents WHERE scope NOT IN {_KNOWN} OR shelf NOT IN {_KNOWN})
"""
_SET_MARK: Final = "INSERT OR REPLACE INTO marks (scope, position, link) VALUES (?, ?, ?)"
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_UNTIDY: Final = "SELECT value FROM facts WHERE name = 'untidy'"


class MemoryKeeper:
    """Keeps rows and documents in a file of their own, and up with the events."""

    def __init__(self, reader: Reader) -> None:
        self._database = reader.database
        self._last_position = reader.last_position
        self._scope_number = reader.scope_number
        self._memory = MemoryFile(reader.database)
        self._neighbours = Neighbours(self._memory)
        self.reader = MemoryReader(reader)
        self.end = reader.end
        self.remembered_after = self.reader.remembered_after
        self.events_at_positions = self.reader.events_at_positions
        self.sessions_at_positions = self.reader.sessions_at_positions
        reader.database.companions.append(self._memory)

    def memory_rows(self, scope: Scope) -> SavedFold:
        """Return the rows of a scope; none if the file is missing or damaged."""
        number = self._scope_number(scope)

        def look(connection: apsw.Connection) -> SavedFold:
            position = self._marked(connection, number)
            rows = read_rows(SqliteTable(connection), number, _ROWS)
            return SavedFold((position,) if position else (), rows)

        return self._memory.read_existing(look) or SavedFold((), {})

    def keep_memory_rows(
        self, scope: Scope, rows: Sequence[Row], *, since: Mark, until: Mark, replace: bool
    ) -> bool:
        """Keep rows that events between two marks changed; False if another writer was first."""
        number = self._scope_number(scope)
        if self._database.read_only or not number:
            return False
        first, last = position_of(since), position_of(until)

        def work(connection: apsw.Connection) -> bool:
            self._apply_erasures(connection)
            if self._marked(connection, number) != first:
                return False
            write_rows(SqliteTable(connection), number, rows, replace=replace)
            connection.execute(_SET_MARK, (number, last, self._memory.link_at(last)))
            return True

        return self._memory.write(work)

    def follow_documents(
        self,
        scope: Scope,
        shelf: IndexName,
        read: Callable[[Sequence[Event]], Sequence[IndexEntry]],
        *,
        embedder: str,
    ) -> FollowStep:
        """Enter the next stretch of an index's events, as ``read`` parses them."""
        number = self._scope_number(scope)
        if not number or self._memory.is_frozen or self._is_up(number, shelf):
            return FollowStep(0, more=False)

        def work(connection: apsw.Connection) -> FollowStep:
            self._apply_erasures(connection)
            target = (scope, number, shelf)
            return memory_documents.follow(
                self._memory, connection, self.reader, target, read, embedder
            )

        return self._memory.write(work)

    def documents(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int
    ) -> list[tuple[int, Document]]:
        """Return documents with their numbers, in the order they were entered."""
        number, most = self._scope_number(scope), min(limit, DOCUMENTS_MAX)
        page = self._memory.read_existing(
            lambda c: memory_documents.page(c, number, shelf, after, most)
        )
        return page or []

    def document_columns(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int, embedder: str
    ) -> DocumentColumns:
        """Return the same as columns, with the vectors of one embedder alone."""
        asked = (embedder, self._scope_number(scope), shelf, after, min(limit, DOCUMENTS_MAX))

        def look(connection: apsw.Connection) -> DocumentColumns:
            [(*numbers, terms, vectors)] = fetch_all(connection, memory_documents.COLUMNS, asked)
            fields: list[Any] = [*map(_NUMBERS.decode, numbers), terms, vectors]
            return DocumentColumns(*fields)

        columns = self._memory.read_existing(look)
        return columns or DocumentColumns([], [], [], [], [], [], b"", b"")

    def index_state(self, scope: Scope, shelf: IndexName) -> IndexState:
        """Return the state of an index."""
        number = self._scope_number(scope)
        state = self._memory.read_existing(lambda c: memory_documents.index_state(c, number, shelf))
        return state or IndexState(0, 0, 0)

    def documents_lag(self, scope: Scope, shelf: IndexName) -> int:
        """Return how many events of an index's kinds are not in it yet."""
        after = self._followed(self._scope_number(scope), shelf) or 0
        return self.reader.shelf_lag(scope, shelf, after) if after < self._last_position() else 0

    def drop_documents(self, scope: Scope | None = None, shelf: IndexName | None = None) -> int:
        """Remove all documents, to be entered again; return how many there were."""
        number = None if scope is None else self._scope_number(scope)
        if not self._memory.exists or self._memory.is_frozen:
            return 0

        def work(connection: apsw.Connection) -> int:
            _note_untidy(connection)
            count = memory_documents.empty(connection, number, shelf)
            self._sweep(connection)
            return count

        return self._memory.write(work)

    def nearest(
        self, scope: Scope, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return numbers of documents and cosines, by an index of neighbours; None without one."""
        if self._database.in_memory or self._database.read_only or not self._memory.exists:
            return None
        number = self._scope_number(scope)
        return self._neighbours.nearest(number, shelf, vector, embedder=embedder, limit=limit)

    def counts(self, scope: Scope) -> dict[str, int]:
        """Return how many rows and documents there are of a scope."""
        number = self._scope_number(scope)
        counts = self._memory.read_existing(lambda c: fetch_one(c, _COUNTS, (number, number)))
        rows, documents = counts or (0, 0)
        return {"memory_rows": rows, "documents": documents}

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows and documents, in an order of their own."""

        def look(connection: apsw.Connection) -> list[tuple[Any, ...]]:
            parts = (fetch_all(connection, statement) for statement in DERIVED)
            return sorted((row for part in parts for row in part), key=repr)

        return self._memory.read_existing(look) or []

    def stray_rows(self) -> int:
        """Return how many rows and documents belong to no scope, or to no index."""
        with self._database.reading() as ledger:
            scopes = encode([row[0] for row in fetch_all(ledger, "SELECT id FROM scopes")])
        known = (scopes, scopes, encode(INDEX_NAMES))
        return self._memory.read_existing(lambda c: int(fetch_value(c, _STRAYS, known))) or 0

    def lag(self, scope: Scope) -> int:
        """Return how many events of a scope are not in its indexes yet."""
        return sum(self.documents_lag(scope, index) for index in INDEX_NAMES)

    def remove(self) -> None:
        """Remove all that was derived."""
        if self._memory.exists:
            self._memory.remove()
        self._sweep(None)

    def close(self) -> None:
        """Close the file."""
        self._memory.close()

    def finish(self) -> tuple[Physical, int | None]:
        """Remove erased bytes from the file; return whether that is done, and up to which position.

        None if the file does not exist, so that nothing has to be done.
        """
        if not self._memory.exists:
            self._sweep(None)
            return "done", None
        try:
            through = self._memory.write(self._apply_erasures, patience_s=FOLD_PATIENCE_MS / 1_000)
            self._tidy()
            folded = self._memory.fold(FOLD_PATIENCE_MS)
        except (StorageError, apsw.Error):
            # What was erased is gone from the ledger; from here it goes at the next opportunity.
            return "pending", None
        return ("done" if folded else "pending"), through

    def _apply_erasures(self, connection: apsw.Connection) -> int:
        """Remove what was erased since the last time, in every scope."""
        newest, gone = unseen_erasures(connection, self._database)
        if gone:
            with self._database.reading() as ledger:
                remembered = {name_id(ledger, kind) for kind in REMEMBERED_KINDS}
        for scope, events in gone.items():
            taken = memory_documents.take_out(connection, scope, events)
            if not remembered.isdisjoint(events.values()):
                connection.execute("DELETE FROM marks WHERE scope = ?", (scope,))
                taken += drop_rows(SqliteTable(connection), scope)
            if taken:
                _note_untidy(connection)
        if gone:
            self._sweep(connection)
        return newest

    def _marked(self, connection: apsw.Connection, scope: int) -> int:
        """Return how far the rows have come. Raise Unsound if the ledger is another one there."""
        statement = "SELECT position, link FROM marks WHERE scope = ?"
        return self._memory.followed(fetch_one(connection, statement, (scope,)))

    def _sweep(self, connection: apsw.Connection | None) -> None:
        if not self._database.in_memory and not self._database.read_only:
            self._neighbours.sweep(connection)

    def _tidy(self) -> None:
        """Write the file again if anything was deleted since it was last written whole."""
        untidy = self._memory.read(lambda c: fetch_value(c, _UNTIDY))
        if untidy:
            self._memory.write_anew(FOLD_PATIENCE_MS / 1_000)
            # A deletion meanwhile has counted up.
            self._memory.write(
                lambda c: c.execute(
                    "UPDATE facts SET value = 0 WHERE name = 'untidy' AND value = ?", (untidy,)
                )
            )

    def _is_up(self, scope: int, shelf: IndexName) -> bool:
        """Whether an index has nothing to follow, so that no caller waits for a turn."""
        return self._followed(scope, shelf) == self._last_position() != 0

    def _followed(self, scope: int, shelf: IndexName) -> int | None:
        file = self._memory
        return file.read_existing(lambda c: memory_documents.followed(file, c, scope, shelf))

    def term_key(self, scope: Scope) -> bytes:
        """Return the key that hashes the words of a scope; empty if the scope does not exist."""
        with self._database.reading() as ledger:
            return find_scope(ledger, scope)[1]


def _note_untidy(connection: apsw.Connection) -> None:
    connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'untidy'")


BATCH_DOCUMENTS: Final = 200
BREADTH: Final = 40
"""Vectors that a new one is compared with, before its neighbours are chosen."""
SAVED_EVERY: Final = 500
"""Vectors that are entered before the file is written again."""
CHUNKS_MAX: Final = 8
"""Vectors of one document: each has its key."""
CANDIDATES: Final = 4
"""Vectors that are measured exactly, for each document that is asked for."""
_SUFFIX: Final = ".hnsw"
_STATE: Final = ".hnsw.json"


class _NeighbourState(msgspec.Struct, frozen=True):
    """What an index holds: documents of one embedder and one generation, up to a number."""

    embedder: str
    dimensions: int
    generation: int
    newest: int
    vectors: int


class _Built(msgspec.Struct):
    """An index in memory, and what it holds."""

    index: Any
    state: _NeighbourState
    saved: int
    """How many vectors the file has."""


class Neighbours:
    """Indexes of the shelves beside one file of the memory. Used under that file's lock."""

    def __init__(self, file: MemoryFile) -> None:
        self._file = file
        self._built: dict[tuple[int, IndexName], _Built] = {}

    def nearest(
        self, scope: int, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return numbers of documents and cosines, the nearest first; None without an index."""
        with self._file.lock.guard, self._file.lock:
            held = self._file.read(lambda c: memory_documents.index_state(c, scope, shelf))
            if held is None or held.count < HNSW_DOCUMENTS:
                return None
            wanted = _NeighbourState(
                embedder, len(vector) - SCALE_BYTES, held.generation, held.newest, 0
            )
            built = self._opened(scope, shelf, wanted)
            if built is None or not self._build(built, scope, shelf, held.newest):
                return None
            return self._search(built, vector, limit)

    def sweep(self, connection: apsw.Connection | None) -> None:
        """Remove the indexes of what is on no shelf any more; all of them if there are none."""
        path = Path(self._file.path)
        for shelf in get_args(IndexName):
            for index_path in path.parent.glob(f"*-{shelf}{_SUFFIX}"):
                scope = index_path.name.removeprefix(f"{path.name}-").removesuffix(
                    f"-{shelf}{_SUFFIX}"
                )
                if not scope.isdigit():
                    continue  # It belongs to another ledger.
                state = _read_state(index_path.with_suffix(_STATE))
                if (
                    connection is None
                    or state is None
                    or state.generation != _generation(connection, int(scope), shelf)
                ):
                    index_path.unlink(missing_ok=True)
                    index_path.with_suffix(_STATE).unlink(missing_ok=True)

    def _opened(self, scope: int, shelf: IndexName, wanted: _NeighbourState) -> _Built | None:
        """Return the index that is there, or an empty one; None if the library is missing."""
        try:
            _load_runtime_of_models()
            from usearch.index import Index  # noqa: PLC0415  (an extra, and slow to import)
        except ImportError:
            return None
        built = self._built.get((scope, shelf))
        if built is None or not _fits(built.state, wanted):
            path = self._path(scope, shelf)
            state = _read_state(path.with_suffix(_STATE))
            index = Index(ndim=wanted.dimensions, metric="cos", dtype="i8", expansion_add=BREADTH)
            built = _Built(index, msgspec.structs.replace(wanted, newest=0), 0)
            if state is not None and _fits(state, wanted) and _load(index, path, state.vectors):
                built = _Built(index, state, state.vectors)
            self._built[scope, shelf] = built
        return built

    def _build(self, built: _Built, scope: int, shelf: IndexName, newest: int) -> bool:
        """Enter documents for a while; return whether all are in."""
        deadline = time.monotonic() + BUILD_S
        while built.state.newest < newest:
            after = built.state.newest
            page = partial(
                memory_documents.page, scope=scope, shelf=shelf, after=after, limit=BATCH_DOCUMENTS
            )
            documents = self._file.read(page)
            if not documents:
                return False
            _enter(built, [pair for pair in documents if pair[1].embedder == built.state.embedder])
            built.state = msgspec.structs.replace(
                built.state, newest=documents[-1][0], vectors=len(built.index)
            )
            if time.monotonic() > deadline:
                break
        is_up = built.state.newest >= newest
        waiting = built.state.vectors - built.saved
        if waiting >= SAVED_EVERY or (waiting and is_up and not built.saved):
            self._file.write(lambda c: self._save(c, built, scope, shelf))
        return is_up

    def _save(
        self, connection: apsw.Connection, built: _Built, scope: int, shelf: IndexName
    ) -> None:
        """Write the index beside the file, unless documents have left since it was built."""
        if _generation(connection, scope, shelf) != built.state.generation:
            return
        path = self._path(scope, shelf)
        state = path.with_suffix(_STATE)
        # An index without a state is never read: so none is taken for another's.
        state.unlink(missing_ok=True)
        for file in (path, state):
            create_private(str(file))
        built.index.save(str(path))
        state.write_bytes(encode(msgspec.to_builtins(built.state)))
        built.saved = built.state.vectors

    def _search(self, built: _Built, vector: bytes, limit: int) -> list[tuple[int, float]] | None:
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        dimensions = built.state.dimensions
        [asked], _ = unpack([vector], dimensions)
        count = min(limit * CANDIDATES, len(built.index))
        keys = built.index.search(asked, count).keys if count else []
        numbers = sorted({int(key) // CHUNKS_MAX for key in keys})
        rows = self._file.read(
            lambda c: fetch_all(
                c,
                "SELECT number, vectors FROM documents"
                " WHERE number IN (SELECT value FROM json_each(CAST(? AS TEXT)))",
                (encode(numbers),),
            )
        )
        if rows is None:
            return None
        vectors, counts = unpack([row[1] for row in rows], dimensions)
        cosines = vectors @ asked
        ends = np.cumsum(counts)
        best = [
            (row[0], float(cosines[end - count : end].max()))
            for row, end, count in zip(rows, ends, counts, strict=True)
        ]
        return sorted(best, key=lambda one: (-one[1], one[0]))[:limit]

    def _path(self, scope: int, shelf: IndexName) -> Path:
        return Path(f"{self._file.path}-{scope}-{shelf}{_SUFFIX}")


def _enter(built: _Built, documents: list[tuple[int, Document]]) -> None:
    import numpy as np  # noqa: PLC0415

    packed = [document.vectors for _, document in documents]
    vectors, counts = unpack(packed, built.state.dimensions)
    keys, rows, first = [], [], 0
    for (number, _), count in zip(documents, counts, strict=True):
        chunks = range(min(count, CHUNKS_MAX))
        keys += [number * CHUNKS_MAX + chunk for chunk in chunks]
        rows += [first + chunk for chunk in chunks]
        first += count
    if keys:
        built.index.add(np.array(keys, np.uint64), vectors[rows], threads=1)


def _load(index: Any, path: Path, vectors: int) -> bool:
    """Read an index from its file; return False, and leave it empty, if it is not whole."""
    try:
        index.load(str(path))
    except (OSError, RuntimeError, ValueError):
        index.reset()
        return False
    if len(index) == vectors:
        return True
    index.reset()
    return False


def _fits(state: _NeighbourState, wanted: _NeighbourState) -> bool:
    """Whether an index holds what is wanted, if perhaps not all of it."""
    return (state.embedder, state.dimensions, state.generation) == (
        wanted.embedder,
        wanted.dimensions,
        wanted.generation,
    ) and state.newest <= wanted.newest


def _generation(connection: apsw.Connection, scope: int, shelf: IndexName) -> int:
    return memory_documents.index_state(connection, scope, shelf).generation


def _read_state(path: Path) -> _NeighbourState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_NeighbourState)
    except (OSError, msgspec.MsgspecError):
        return None


def _load_runtime_of_models() -> None:
    """Load onnxruntime, where it is installed: after usearch it would take the process down."""
    with contextlib.suppress(ImportError):
        load_runtime()
