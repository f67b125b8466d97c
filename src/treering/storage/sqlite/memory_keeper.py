"""Rows and documents that the memory derives from events, in a file beside the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apsw

from treering.errors import StorageError
from treering.memory.records import (
    INDEX_NAMES,
    REMEMBERED_KINDS,
    DocumentColumns,
    IndexState,
    SavedFold,
)
from treering.model.codec import encode
from treering.model.queries import FollowStep
from treering.storage import memory_rows
from treering.storage.projections import SqliteTable
from treering.storage.sqlite import memory_documents
from treering.storage.sqlite.companion_file import unseen_erasures
from treering.storage.sqlite.memory_file import MemoryFile
from treering.storage.sqlite.memory_neighbours import Neighbours
from treering.storage.sqlite.memory_reader import MemoryReader, position_of
from treering.storage.sqlite.reader import find_scope
from treering.storage.sqlite.rows import fetch_all, fetch_one, fetch_value, name_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.records import Document, IndexEntry, IndexName, Row
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
            rows = memory_rows.read(SqliteTable(connection), number)
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
            memory_rows.write(SqliteTable(connection), number, rows, replace=replace)
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
        number, span = self._scope_number(scope), (after, min(limit, DOCUMENTS_MAX))
        columns = self._memory.read_existing(
            lambda c: memory_documents.columns(c, number, shelf, span, embedder)
        )
        return columns or DocumentColumns([], [], [], [], [], [], [], b"", b"")

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
                taken += memory_rows.drop(SqliteTable(connection), scope)
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
