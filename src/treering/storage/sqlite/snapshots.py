"""Snapshots of views: a few for each session, the denser the nearer to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.codec import encode
from treering.storage.snapshots import superfluous
from treering.storage.sqlite.sql import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

LATEST: Final = """
SELECT seq, body
FROM snapshots
WHERE session = ? AND seq <= ?
ORDER BY seq DESC
LIMIT 1
"""
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


def latest(connection: apsw.Connection, session: int, until_seq: int) -> tuple[int, bytes] | None:
    """Return the latest snapshot at or before ``until_seq``, and its seq."""
    found = fetch_one(connection, LATEST, (session, until_seq))
    return found and (found[0], found[1])


def keep(connection: apsw.Connection, session: int, seq: int, body: bytes) -> None:
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
