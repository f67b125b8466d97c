"""Snapshots of views: a few for each session, the denser the nearer to its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import psycopg

from treering.errors import Closed
from treering.storage.snapshots import superfluous

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.scopes import Scope
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Server

LOCK_NAME: Final = "\0snapshots"
"""Not a session's name: sessions cannot have it."""
PATIENCE_S: Final = 1.0
"""How long to wait for a connection to store one."""
LATEST: Final = """
SELECT seq, body
FROM snapshots
WHERE scope = %s AND session = %s AND seq <= %s
ORDER BY seq DESC
LIMIT 1
"""
# One lost in a crash is derived again, and locks of others are not waited for.
_SETTLE: Final = """
SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '100ms', true)
"""
# Never waited for: an erasure would delete the new one, another reader stores an equal one.
_MAY_KEEP: Final = """
SELECT pg_try_advisory_xact_lock_shared(%s) AND pg_try_advisory_xact_lock(%s)
"""
_KEEP: Final = """
INSERT INTO snapshots (scope, session, seq, body) VALUES (%s, %s, %s, %s)
ON CONFLICT (scope, session, seq) DO UPDATE SET body = excluded.body
"""
_SEQS: Final = """
SELECT seq FROM snapshots WHERE scope = %s AND session = %s ORDER BY seq DESC
"""
_THIN: Final = """
DELETE FROM snapshots WHERE scope = %s AND session = %s AND seq = ANY(%s::bigint[])
"""
DROP: Final = """
WITH RECURSIVE touched (session) AS (
  SELECT unnest(%(sessions)s::bigint[])
  UNION
  SELECT f.session
  FROM touched AS t
  CROSS JOIN LATERAL (
    SELECT f.session FROM forks AS f WHERE f.scope = %(scope)s AND f.parent = t.session
    ORDER BY f.session
  ) AS f
)
DELETE FROM snapshots
WHERE scope = %(scope)s AND session = ANY(ARRAY(SELECT t.session FROM touched AS t))
"""


class Snapshots:
    """Stores snapshots beside the events they were derived from."""

    def __init__(self, server: Server, cache: IdCache) -> None:
        self._server = server
        self._cache = cache

    def latest(self, scope: Scope, session_id: str, until_seq: int) -> tuple[int, bytes] | None:
        """Return the latest snapshot of a session at or before ``until_seq``, and its seq."""

        def look(connection: Connection) -> tuple[int, bytes] | None:
            session = self._cache.session(connection, scope, session_id)
            row = connection.execute(LATEST, (scope, session, until_seq), binary=True).fetchone()
            return None if row is None else (row[0], row[1])

        return self._server.read(look, scope)

    def keep(self, scope: Scope, session_id: str, seq: int, body: bytes) -> None:
        """Store a snapshot and thin out the others, if that is possible at once."""
        if self._server.read_only:
            return
        # A reader gets its answer, even if it may not write or the server is lost.
        with (
            contextlib.suppress(psycopg.Error, Closed),
            self._server.lend(scope, PATIENCE_S) as connection,
        ):
            session = self._cache.session(connection, scope, session_id)
            if session is not None and connection.epoch >= 0:
                self._keep(connection, scope, session, session_id, seq, body)

    def _keep(
        self,
        connection: Connection,
        scope: Scope,
        session: int,
        session_id: str,
        seq: int,
        body: bytes,
    ) -> None:
        locks = _lock(self._cache, scope), _lock(self._cache, scope, session_id)
        with connection.transaction():
            connection.execute(_SETTLE)
            if connection.execute(_MAY_KEEP, locks).fetchone() != (True,):
                return
            connection.execute(_KEEP, (scope, session, seq, body))
            found = connection.execute(_SEQS, (scope, session), binary=True).fetchall()
            spare = superfluous([row[0] for row in found])
            if spare:
                connection.execute(_THIN, (scope, session, spare))


def drop(connection: Connection, cache: IdCache, scope: Scope, sessions: Iterable[int]) -> None:
    """Delete those of ``sessions`` and of all their forks. Call inside a transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock(cache, scope),))
    connection.execute(DROP, {"scope": scope, "sessions": sorted(set(sessions))})


def empty(connection: Connection) -> None:
    """Delete all of them, of every scope."""
    connection.execute("LOCK TABLE snapshots IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    connection.execute("DELETE FROM snapshots")


def _lock(cache: IdCache, scope: Scope, session_id: str = "") -> int:
    """Return the lock of a session's snapshots; without a session, that of the scope."""
    return cache.lock_of(scope, f"{LOCK_NAME}\0{session_id}")
