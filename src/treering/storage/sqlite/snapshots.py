"""Snapshots of views: a few for each session, the denser the nearer to its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from treering.errors import Busy, ReadOnly, StorageFull
from treering.model.codec import encode
from treering.storage.projections import SqliteTable, keep, latest
from treering.storage.sqlite.reader import find_scope, find_session

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.writer import Writer

PATIENCE_S: Final = 0.5
"""How long a read that would keep a snapshot waits for those who write."""
_DROP: Final = """
WITH RECURSIVE touched (scope, session) AS (
  SELECT scope, session FROM events WHERE position IN (SELECT value FROM json_each(CAST(? AS TEXT)))
  UNION
  SELECT touched.scope, forks.session
  FROM touched JOIN forks ON forks.parent = touched.session
)
DELETE FROM snapshots WHERE (scope, session) IN (SELECT scope, session FROM touched)
"""


class Snapshots:
    """Reads and keeps the snapshots of sessions."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._database = writer.database

    def latest(
        self, scope: Scope, session_id: str, *, until_seq: int, view: int = 0
    ) -> tuple[int, bytes] | None:
        """Return the seq and body of the latest snapshot of a view at or before ``until_seq``."""
        with self._database.reading() as connection:
            number, key = find_scope(connection, scope)
            session = find_session(connection, number, key, session_id)
            return latest(SqliteTable(connection), number, session, view, until_seq)

    def keep(self, scope: Scope, session_id: str, *, seq: int, body: bytes, view: int = 0) -> None:
        """Keep a snapshot unless the ledger is read-only; a few older ones stay."""
        if self._database.read_only:
            return

        def work(batch: Batch, _: None) -> None:
            ids, connection = self._writer.ids, batch.connection
            owner = ids.scope(connection, scope, create=False)
            session = ids.session(connection, *owner, session_id)
            if session:
                keep(SqliteTable(connection), owner[0], session, view, seq, body)
                batch.dirty = True

        # A reader loses nothing without it.
        lock = self._database.lock
        with contextlib.suppress(Busy, StorageFull, ReadOnly), lock.guard, lock:
            self._database.hurry(PATIENCE_S)
            self._writer.transact(work, None)


def drop(connection: apsw.Connection, positions: Iterable[int]) -> None:
    """Drop those of the sessions that have these events, and of all forked from them."""
    connection.execute(_DROP, (encode(list(positions)),))


def empty(connection: apsw.Connection) -> None:
    """Throw all of them away. Call inside a write transaction."""
    connection.execute("DELETE FROM snapshots")
