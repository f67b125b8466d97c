"""Forgetting names: of sessions, and of runs without events.

All other names are in the events themselves and go with them. A forgotten session gets the key of
its stand-in name. If the old name is used again, it is a new session, and writers that remember
the old one find it gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.ledger.records import FORGOTTEN, Share, forgotten_name
from treering.model.kinds import ERASURE_KINDS
from treering.storage.encoding import EXPIRED, name_key
from treering.storage.postgres.connections import Bytes
from treering.storage.postgres.rows import note_erased, session_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.model.scopes import Scope
    from treering.storage.postgres.connections import Connection

SAID: Final = ("conversation.user", "inbox.received")
"""Kinds with the words of a user."""

_SHARES: Final = f"""
SELECT {session_name("s")}, found.events, found.said, found.others
FROM (
  SELECT
    e.session,
    count(*) FILTER (WHERE e.user_id = ANY(%(users)s::text[])) AS events,
    count(*) FILTER (
      WHERE e.user_id = ANY(%(users)s::text[]) AND e.kind = ANY(%(said)s::text[])
    ) AS said,
    count(*) FILTER (
      WHERE e.user_id <> ALL(%(users)s::text[])
        OR (e.user_id IS NULL AND e.kind = ANY(%(said)s::text[]))
    ) AS others
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.flags < {EXPIRED}
  GROUP BY e.session
) AS found
JOIN sessions AS s ON s.scope = %(scope)s AND s.id = found.session
WHERE found.events > 0
"""
_FORGET: Final = f"""
UPDATE sessions AS s
SET name = NULL, salt = NULL, key = %(key)s
WHERE s.scope = %(scope)s AND s.id = %(session)s AND s.name IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.scope = s.scope AND e.session = s.id AND e.flags < {EXPIRED}
      AND e.kind <> ALL(%(vouching)s::text[])
  )
RETURNING s.id
"""
_RUNS_GONE: Final = f"""
SELECT r.run_id, '{FORGOTTEN}' || r.first_seq
FROM runs AS r
WHERE r.scope = %s AND r.session = %s AND NOT starts_with(r.run_id, '{FORGOTTEN}')
  AND NOT EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.scope = r.scope AND e.session = r.session AND e.run_id = r.run_id
      AND e.flags < {EXPIRED}
  )
"""
_RENAME: Final = """
UPDATE {table} AS t
SET run_id = gone.name
FROM unnest(%s::text[], %s::text[]) AS gone (run_id, name)
WHERE t.scope = %s AND t.session = %s AND t.run_id = gone.run_id
RETURNING t.tableoid::regclass::text
"""
_BY_GENESIS: Final = f"""
SELECT s.genesis, {session_name("s")}
FROM sessions AS s
WHERE s.scope = %s AND s.genesis = ANY(%b)
"""


def shares(connection: Connection, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
    """Return the sessions that have events about ``users``, and how many."""
    asked = {"scope": scope, "users": list(users), "said": list(SAID)}
    rows = connection.execute(_SHARES, asked, binary=True).fetchall()
    return {
        name: Share(events=events, said=said, others=others) for name, events, said, others in rows
    }


def forget_name(
    connection: Connection, scope: Scope, scope_key: bytes, session: int, genesis: bytes
) -> int:
    """Forget the name of a session without events; return 1 if it had a name."""
    key = name_key(scope_key, forgotten_name(genesis))
    asked = {"key": key, "scope": scope, "session": session, "vouching": sorted(ERASURE_KINDS)}
    if connection.execute(_FORGET, asked).fetchone() is None:
        return 0
    # By this a writer that remembers the session learns that it is gone.
    connection.execute(
        "UPDATE heads SET key = %s WHERE scope = %s AND session = %s", (key, scope, session)
    )
    note_erased(connection, ["sessions", "heads"])
    return 1


def forget_runs(connection: Connection, scope: Scope, session: int) -> None:
    """Forget the names of a session's runs that have no events."""
    gone = connection.execute(_RUNS_GONE, (scope, session)).fetchall()
    if not gone:
        return
    runs, names = [row[0] for row in gone], [row[1] for row in gone]
    touched: list[Any] = []
    for table in ("events", "runs"):
        statement = _RENAME.format(table=table)
        touched += connection.execute(statement, (runs, names, scope, session)).fetchall()
    note_erased(connection, [row[0] for row in touched])


def by_genesis(connection: Connection, scope: Scope, starts: Iterable[bytes]) -> dict[bytes, str]:
    """Return the names of sessions here by their genesis."""
    asked = [Bytes(start) for start in starts]
    rows = connection.execute(_BY_GENESIS, (scope, asked), binary=True).fetchall()
    return {bytes(genesis): name for genesis, name in rows}
