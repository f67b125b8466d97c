"""Rows and documents derived from events for the memory, on a server, and neighbours among them.

If the extension vector is installed, each shelf of a scope has an index of the vectors nearest to
another, created as the ledger's owner for any role that asks: see migrations/0008_neighbours.sql.
Building it takes long, so each question builds a part; nothing is answered from an unfinished
index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from treering.memory.records import INDEX_NAMES, Document, DocumentColumns, SavedFold
from treering.memory.vectors import SCALE_BYTES
from treering.model.queries import FollowStep, Mark
from treering.storage.encoding import corrupt_on_error
from treering.storage.memory import BUILD_S, HNSW_DOCUMENTS, read_rows, write_rows
from treering.storage.postgres import memory_documents
from treering.storage.postgres.eraser import SCRUB_BYTES_MAX, scrub
from treering.storage.postgres.faults import is_passing
from treering.storage.postgres.following import read_mark, write_mark
from treering.storage.postgres.memory_documents import MemoryReader
from treering.storage.postgres.rows import PostgresTable, empty_tables, fetch, note_erased, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.records import IndexEntry, IndexName, IndexState, Row
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Connection

DERIVED: Final = (
    "SELECT * FROM memory_rows",
    """
SELECT scope, shelf, position, session, seq, ts_ms, kind, embedder, terms, vectors
FROM memory_documents
""",
)
"""All that is derived. The number of a document only says when it was entered."""
DOCUMENTS_MAX: Final = 50_000
"""Documents of one page."""
_COUNTS: Final = """
SELECT
  (SELECT count(*) FROM memory_rows WHERE scope = %(scope)s),
  (SELECT coalesce(sum(documents), 0)::bigint FROM memory_shelves WHERE scope = %(scope)s)
"""
_STRAYS: Final = """
SELECT
  (SELECT count(*) FROM memory_rows WHERE scope NOT IN (SELECT s.scope FROM scopes AS s))
  + (
    SELECT count(*) FROM memory_documents
    WHERE scope NOT IN (SELECT s.scope FROM scopes AS s) OR shelf <> ALL(%s::text[])
  )
"""
_MARKS: Final = "memory_marks"
_ROWS: Final = (
    "coalesce(json_agg(key), '[]')::text, coalesce(json_agg(length(body)), '[]')::text,"
    " coalesce(string_agg(body, CAST(:gap AS bytea)), '')"
)


class MemoryKeeper(MemoryReader):
    """Stores rows and documents in their own tables, and keeps them up to date with the events."""

    def stray_rows(self) -> int:
        """Return how many rows and documents belong to no scope, or to no index."""
        return int(self._server.fetch(_STRAYS, (list(INDEX_NAMES),))[0][0])

    def memory_rows(self, scope: Scope) -> SavedFold:
        """Return the rows of a scope with their mark."""

        def look(connection: Connection) -> SavedFold:
            mark = read_mark(connection, _MARKS, scope)
            return SavedFold(mark, read_rows(PostgresTable(connection), scope, _ROWS))

        return self._server.read_state(look, scope)

    def keep_memory_rows(
        self, scope: Scope, rows: Sequence[Row], *, since: Mark, until: Mark, replace: bool
    ) -> bool:
        """Store rows that events between two marks changed; return False if others were faster."""
        if self._server.read_only:
            return False

        def work(connection: Connection) -> bool:
            with connection.transaction():
                memory_documents.lock(connection, self._cache, scope)
                if read_mark(connection, _MARKS, scope) != since:
                    return False
                write_rows(PostgresTable(connection), scope, rows, replace=replace)
                if until:
                    write_mark(connection, _MARKS, scope, until)
                return True

        return self._server.write(work, scope)

    def follow_documents(
        self,
        scope: Scope,
        shelf: IndexName,
        read: Callable[[Sequence[Event]], Sequence[IndexEntry]],
        *,
        embedder: str,
    ) -> FollowStep:
        """Index the next events of a shelf, as ``read`` derives their documents."""
        if self._server.read_only:
            return FollowStep(0, more=False)

        def work(connection: Connection) -> FollowStep:
            where, cache = (scope, shelf), self._cache
            return memory_documents.follow(
                connection, cache, where, self._reader.to_events, read, embedder
            )

        with corrupt_on_error(self._server.address.shown):
            return self._server.write(work, scope)

    def documents(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int
    ) -> list[tuple[int, Document]]:
        """Return documents with their numbers, in the order of entry."""
        asked = (scope, shelf, after, min(limit, DOCUMENTS_MAX))
        rows = self._server.fetch(memory_documents.PAGE, asked, scope)
        return [(row[0], Document(*row[1:])) for row in rows]

    def document_columns(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int, embedder: str
    ) -> DocumentColumns:
        """Return the same as columns, with the vectors of one embedder alone."""
        asked = (embedder, scope, shelf, after, min(limit, DOCUMENTS_MAX))
        [row] = self._server.fetch(memory_documents.COLUMNS, asked, scope)
        return DocumentColumns(*row)

    def index_state(self, scope: Scope, shelf: IndexName) -> IndexState:
        """Return the state of a shelf."""
        return self._server.read(lambda c: memory_documents.index_state(c, scope, shelf), scope)

    def documents_lag(self, scope: Scope, shelf: IndexName) -> int:
        """Return how many events of a shelf's kinds are not on it yet."""
        return self._server.read(lambda c: memory_documents.lag(c, scope, shelf), scope)

    def term_key(self, scope: Scope) -> bytes:
        """Return the key of the hashed words of a scope; empty if there is none."""
        return self._server.read(lambda c: self._cache.scope_key(c, scope), scope) or b""

    def drop_documents(self, scope: Scope | None = None, shelf: IndexName | None = None) -> int:
        """Delete all documents, to be entered again; return how many there were."""
        if self._server.read_only:
            return 0

        def work(connection: Connection) -> int:
            with connection.transaction():
                if scope is None:
                    return memory_documents.empty_all(connection)
                memory_documents.lock(connection, self._cache, scope)
                tables = memory_documents.empty(connection, scope, shelf)
                note_erased(connection, (row[0] for row in tables))
            # Their events may be erased later, when nothing leads to these documents any more.
            scrub(connection, bytes_max=SCRUB_BYTES_MAX)
            return len(tables)

        return self._server.write(work, scope)

    def nearest(
        self, scope: Scope, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return numbers of documents and cosines, by an index of neighbours; None without one."""
        if self._server.read_only:
            return None

        def work(connection: Connection) -> list[tuple[int, float]] | None:
            where, cache = (scope, shelf), self._cache
            return nearest(connection, cache, where, vector, embedder, limit)

        return self._server.write(work, scope)

    def lag(self, scope: Scope) -> int:
        """Return how many events of a scope are not in its indexes yet."""
        return sum(self.documents_lag(scope, index) for index in INDEX_NAMES)

    def counts(self, scope: Scope) -> dict[str, int]:
        """Return how many rows and documents there are of a scope."""
        [(rows, documents)] = self._server.fetch(_COUNTS, {"scope": scope}, scope)
        return {"memory_rows": rows, "documents": documents}


def empty(connection: Connection) -> None:
    """Delete all of it, of every scope. Call inside a transaction."""
    memory_documents.empty_all(connection)
    empty_tables(connection, "memory_rows", _MARKS)


EXTENSION: Final = "vector"
DIMENSIONS_MAX: Final = 4_000
"""The most dimensions that the index supports."""

_INSTALLED: Final = """
SELECT installed_version IS NOT NULL,
  (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = current_user)
FROM pg_available_extensions
WHERE name = %s
"""
_NEAREST: Final = """
WITH asked AS MATERIALIZED (
  SELECT nearest_documents(%s::text, %s::text, %s::text, %s::bytea, %s::bigint, %s::bigint) AS found
)
SELECT (found).numbers, (found).cosines FROM asked
"""


def nearest(
    connection: Connection,
    cache: IdCache,
    where: tuple[Scope, IndexName],
    vector: bytes,
    embedder: str,
    limit: int,
) -> list[tuple[int, float]] | None:
    """Return numbers of documents and cosines, the nearest first; None without an index."""
    if not 0 < len(vector) - SCALE_BYTES <= DIMENSIONS_MAX:
        return None
    if memory_documents.index_state(connection, *where).count < HNSW_DOCUMENTS:
        return None
    if not _is_there(connection):
        return None
    asked = (*where, embedder, vector, limit)
    try:
        neighbours = _ask(connection, asked, 0)
        if neighbours is None:
            with connection.transaction():
                # Do not wait for others at the shelf: a full read is quicker.
                if memory_documents.try_lock(connection, cache, where[0]):
                    neighbours = _ask(connection, asked, max(int(BUILD_S * 1_000), 1))
    except psycopg.Error as error:
        if is_passing(error):
            raise
        # The owner may not create tables any more, or the disk is full: the shelf still answers.
        return None
    return neighbours


def _is_there(connection: Connection) -> bool:
    """Whether the extension is in the database; create it if this role may."""
    rows = fetch(connection, _INSTALLED, (EXTENSION,))
    if not rows or rows[0][0]:
        return bool(rows)
    if not rows[0][1]:
        return False
    try:
        # Not into the ledger's own schema: others in the database may use it.
        connection.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION} SCHEMA public")
    except psycopg.Error:
        return False
    return True


def _ask(
    connection: Connection, asked: tuple[str, IndexName, str, bytes, int], build_ms: int
) -> list[tuple[int, float]] | None:
    [(numbers, cosines)] = planned(connection, _NEAREST, (*asked, build_ms))
    return None if numbers is None else list(zip(numbers, cosines, strict=True))
