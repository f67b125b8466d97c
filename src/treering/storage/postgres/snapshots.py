"""Snapshots of views: a few for each session, the denser the nearer to its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import psycopg

from treering.errors import Closed
from treering.storage.postgres.rows import PostgresTable, empty_tables
from treering.storage.projections import keep, latest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.model.scopes import Scope
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Connection, Server

LOCK_NAME: Final = "\0snapshots"
"""Not a session's name: sessions cannot have it."""
PATIENCE_S: Final = 1.0
"""How long to wait for a connection to store one."""
# One lost in a crash is derived again, and locks of others are not waited for.
_SETTLE: Final = """
SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '100ms', true)
"""
# Never waited for: an erasure would delete the new one, another reader stores an equal one.
_MAY_KEEP: Final = """
SELECT pg_try_advisory_xact_lock_shared(%s) AND pg_try_advisory_xact_lock(%s)
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

    def latest(
        self, scope: Scope, session_id: str, *, until_seq: int, view: int = 0
    ) -> tuple[int, bytes] | None:
        """Return the seq and body of the latest snapshot of a view at or before ``until_seq``."""

        def look(connection: Connection) -> tuple[int, bytes] | None:
            session = self._cache.session(connection, scope, session_id)
            if session is None:
                return None
            return latest(PostgresTable(connection), scope, session, view, until_seq)

        return self._server.read(look, scope)

    def keep(self, scope: Scope, session_id: str, *, seq: int, body: bytes, view: int = 0) -> None:
        """Store a snapshot and thin out the others, if that is possible at once."""
        if self._server.read_only:
            return
        # A reader gets its answer, even if it may not write or the server is lost.
        with (
            contextlib.suppress(psycopg.Error, Closed),
            self._server.lend(scope, PATIENCE_S) as connection,
        ):
            session = self._cache.session(connection, scope, session_id)
            if session is None or connection.epoch < 0:
                return
            locks = _lock(self._cache, scope), _lock(self._cache, scope, session_id)
            with connection.transaction():
                connection.execute(_SETTLE)
                if connection.execute(_MAY_KEEP, locks).fetchone() == (True,):
                    keep(PostgresTable(connection), scope, session, view, seq, body)


def drop(connection: Connection, cache: IdCache, scope: Scope, sessions: Iterable[int]) -> None:
    """Delete those of ``sessions`` and of all their forks. Call inside a transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock(cache, scope),))
    connection.execute(DROP, {"scope": scope, "sessions": sorted(set(sessions))})


def empty(connection: Connection) -> None:
    """Delete all of them, of every scope."""
    empty_tables(connection, "snapshots")


def _lock(cache: IdCache, scope: Scope, session_id: str = "") -> int:
    """Return the lock of a session's snapshots; without a session, that of the scope."""
    return cache.lock_of(scope, f"{LOCK_NAME}\0{session_id}")
