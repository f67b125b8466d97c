"""Snapshots of views: a few for each session, the denser the nearer to its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from treering.errors import Busy, ReadOnly, StorageFull
from treering.model.codec import encode
from treering.storage.snapshots import superfluous
from treering.storage.sqlite.reader import find_scope, find_session
from treering.storage.sqlite.sql import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.writer import Writer

LATEST: Final = """
SELECT seq, body
FROM snapshots
WHERE session = ? AND seq <= ?
ORDER BY seq DESC
LIMIT 1
"""
PATIENCE_S: Final = 0.5
"""How long a read that would keep a snapshot waits for those who write."""
_KEEP: Final = """
INSERT INTO snapshots (session, seq, body) VALUES (?, ?, ?)
ON CONFLICT (session, seq) DO UPDATE SET body = excluded.body
"""
_DROP: Final = """
WITH RECURSIVE touched (session) AS (
  SELECT session FROM events WHERE position IN (SELECT value FROM json_each(CAST(? AS TEXT)))
  UNION
  SELECT forks.session FROM touched JOIN forks ON forks.parent = touched.session
)
DELETE FROM snapshots WHERE session IN (SELECT session FROM touched)
"""


class Snapshots:
    """Reads and keeps the snapshots of sessions."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._database = writer.database

    def latest(self, scope: Scope, session_id: str, *, until_seq: int) -> tuple[int, bytes] | None:
        """Return the latest snapshot kept of a session at or before ``until_seq``, and its seq."""
        with self._database.reading() as connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            return _latest(connection, session, until_seq)

    def keep(self, scope: Scope, session_id: str, *, seq: int, body: bytes) -> None:
        """Keep a snapshot unless the ledger is read-only; a few older ones stay."""
        if self._database.read_only:
            return

        def work(batch: Batch, _: None) -> None:
            ids, connection = self._writer.ids, batch.connection
            place = ids.scope(connection, scope, create=False)
            session = ids.session(connection, *place, session_id)
            if session:
                _keep(connection, session, seq, body)
                batch.dirty = True

        # A reader loses nothing without it.
        lock = self._database.lock
        with contextlib.suppress(Busy, StorageFull, ReadOnly), lock.guard, lock:
            self._database.hurry(PATIENCE_S)
            self._writer.transact(work, None)


def _latest(connection: apsw.Connection, session: int, until_seq: int) -> tuple[int, bytes] | None:
    """Return the latest snapshot at or before ``until_seq``, and its seq."""
    found = fetch_one(connection, LATEST, (session, until_seq))
    return found and (found[0], found[1])


def _keep(connection: apsw.Connection, session: int, seq: int, body: bytes) -> None:
    """Keep a snapshot, and few enough of the others. Call inside a write transaction."""
    connection.execute(_KEEP, (session, seq, body))
    found = fetch_all(
        connection, "SELECT seq FROM snapshots WHERE session = ? ORDER BY seq DESC", (session,)
    )
    connection.executemany(
        "DELETE FROM snapshots WHERE session = ? AND seq = ?",
        [(session, spare) for spare in superfluous([row[0] for row in found])],
    )


def drop(connection: apsw.Connection, positions: Iterable[int]) -> None:
    """Drop those of the sessions that have these events, and of all forked from them."""
    connection.execute(_DROP, (encode(list(positions)),))


def empty(connection: apsw.Connection) -> None:
    """Throw all of them away. Call inside a write transaction."""
    connection.execute("DELETE FROM snapshots")
