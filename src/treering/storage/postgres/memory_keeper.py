"""Rows and documents derived from events for the memory, on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.followers import FollowStep
from treering.storage.corruption import corrupt_on_error
from treering.storage.postgres import memory_neighbours, memory_rows, memory_shelves
from treering.storage.postgres.eraser import SCRUB_BYTES_MAX, scrub
from treering.storage.postgres.forgetting import note_erased
from treering.storage.postgres.memory_reader import MemoryReader
from treering.storage.postgres.tool_rows import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.records import Document, IndexEntry, IndexName, IndexState, Row, SavedFold
    from treering.model.events import Event
    from treering.model.followers import Mark
    from treering.model.scopes import Scope
    from treering.storage.postgres.connections import Connection

DOCUMENTS_MAX: Final = 50_000
"""Documents of one page."""
_COUNTS: Final = """
SELECT
  (SELECT count(*) FROM memory_rows WHERE scope = %(scope)s),
  (SELECT coalesce(sum(documents), 0)::bigint FROM memory_shelves WHERE scope = %(scope)s)
"""


class MemoryKeeper(MemoryReader):
    """Stores rows and documents in their own tables, and keeps them up to date with the events."""

    def memory_rows(self, scope: Scope) -> SavedFold:
        """Return the stored rows."""
        return self._server.read(lambda c: memory_rows.read(c, scope), scope)

    def keep_memory_rows(
        self, scope: Scope, rows: Sequence[Row], *, since: Mark, until: Mark, anew: bool
    ) -> bool:
        """Store rows that events between two marks changed; return False if others were faster."""
        if self._server.read_only:
            return False

        def work(connection: Connection) -> bool:
            with connection.transaction():
                memory_shelves.lock(connection, self._cache, scope)
                return memory_rows.keep(
                    connection, scope, rows, since=since, until=until, anew=anew
                )

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
            return memory_shelves.follow(
                connection, cache, where, self._reader.to_events, read, embedder
            )

        with corrupt_on_error(self._server.address.shown):
            return self._server.write(work, scope)

    def documents(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int
    ) -> list[tuple[int, Document]]:
        """Return documents with their numbers, in the order of entry."""
        most = min(limit, DOCUMENTS_MAX)
        return self._server.read(lambda c: memory_shelves.page(c, scope, shelf, after, most), scope)

    def index_state(self, scope: Scope, shelf: IndexName) -> IndexState:
        """Return the state of a shelf."""
        return self._server.read(lambda c: memory_shelves.index_state(c, scope, shelf), scope)

    def documents_lag(self, scope: Scope, shelf: IndexName) -> int:
        """Return how many events of a shelf's kinds are not on it yet."""
        return self._server.read(lambda c: memory_shelves.lag(c, scope, shelf), scope)

    def term_key(self, scope: Scope) -> bytes:
        """Return the key of the hashed words of a scope; empty if there is none."""
        return self._server.read(lambda c: self._cache.scope_key(c, scope), scope) or b""

    def drop_documents(self, scope: Scope | None = None) -> int:
        """Delete all documents, to be entered again; return how many there were."""
        if self._server.read_only:
            return 0

        def work(connection: Connection) -> int:
            with connection.transaction():
                if scope is None:
                    return memory_shelves.empty_all(connection)
                memory_shelves.lock(connection, self._cache, scope)
                found = memory_shelves.empty(connection, scope)
                note_erased(connection, (row[0] for row in found))
            # Their events may be erased later, when nothing leads to these documents any more.
            scrub(connection, bytes_max=SCRUB_BYTES_MAX)
            return len(found)

        return self._server.write(work, scope)

    def nearest(
        self, scope: Scope, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return numbers of documents and cosines, by an index of neighbours; None without one."""
        if self._server.read_only:
            return None

        def work(connection: Connection) -> list[tuple[int, float]] | None:
            where, cache = (scope, shelf), self._cache
            return memory_neighbours.nearest(connection, cache, where, vector, embedder, limit)

        return self._server.write(work, scope)

    def counts(self, scope: Scope) -> dict[str, int]:
        """Return how many rows and documents there are of a scope."""
        [(rows, documents)] = self._server.read(
            lambda c: fetch(c, _COUNTS, {"scope": scope}), scope
        )
        return {"memory_rows": rows, "documents": documents}


def empty(connection: Connection) -> None:
    """Delete all of it, of every scope. Call inside a transaction."""
    memory_shelves.empty_all(connection)
    for table in ("memory_rows", "memory_marks"):
        connection.execute(f"DELETE FROM {table}")
