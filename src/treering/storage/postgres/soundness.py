"""Whether the tables agree with each other.

The chain proves what events say. This looks at all that lies around it and decides what is found:
keys, blobs and the states of runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.ledger.chain import SALT_BYTES
from treering.storage.encoding import name_key
from treering.storage.postgres import runs, tool_calls
from treering.storage.postgres.cuts import session_name

if TYPE_CHECKING:
    from treering.storage.postgres.connections import Connection
    from treering.storage.sealing import Opener

_HOMELESS: Final = """
SELECT count(*)
FROM events AS e
WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.scope = e.scope AND s.id = e.session)
"""
_HEADLESS: Final = """
SELECT count(*)
FROM heads AS h
WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.scope = h.scope AND s.id = h.session)
"""
_SCOPELESS: Final = """
SELECT count(*)
FROM sessions AS s
WHERE NOT EXISTS (SELECT 1 FROM scopes WHERE scopes.scope = s.scope)
"""
# Its scope is a part of what a fork names, so a parent elsewhere is none.
_LOOSE_FORKS: Final = """
SELECT count(*)
FROM forks AS f
LEFT JOIN sessions AS s ON s.scope = f.scope AND s.id = f.session
LEFT JOIN sessions AS p ON p.scope = f.scope AND p.id = f.parent
WHERE s.id IS NULL OR p.id IS NULL
"""
_WRONG_CUTS: Final = """
SELECT count(*)
FROM forks AS f
LEFT JOIN events AS e ON e.scope = f.scope AND e.session = f.parent AND e.seq = f.seq
WHERE e.link IS DISTINCT FROM f.link
"""
_GAPS: Final = """
SELECT count(*)
FROM (
  SELECT e.scope, e.session, min(e.seq) AS first, max(e.seq) - count(*) AS before
  FROM events AS e
  GROUP BY e.scope, e.session
) AS own
LEFT JOIN forks AS f ON f.scope = own.scope AND f.session = own.session
WHERE own.first <> coalesce(f.seq, 0) + 1 OR own.before <> coalesce(f.seq, 0)
"""
_STRAY_SNAPSHOTS: Final = """
SELECT count(*)
FROM snapshots AS n
WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.scope = n.scope AND s.id = n.session)
"""
_ODD_FLAGS: Final = """
SELECT count(*)
FROM events
WHERE flags >= 128
  OR flags & 8 = 0
  OR (flags & 68 <> 0 AND flags & 2 = 0)
  OR (flags & 32 = 0 AND event_name IS NOT NULL)
  OR (flags & 16 = 0) <> (blob IS NULL)
"""
_STRAY_BLOBS: Final = """
SELECT count(*)
FROM blobs AS b
WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.scope = b.scope AND e.blob = b.key)
"""
_LOST_BLOBS: Final = """
SELECT count(*)
FROM events AS e
WHERE e.blob IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.scope = e.scope AND b.key = e.blob)
"""
_UNMARKED: Final = f"""
SELECT count(*)
FROM events AS e
WHERE length(e.salt) > {SALT_BYTES}
  AND NOT EXISTS (SELECT 1 FROM seals AS s WHERE s.scope = e.scope)
"""
_STRAYS: Final = (
    ("events belong to a session that is gone", _HOMELESS),
    ("sessions have an end and no beginning", _HEADLESS),
    ("sessions belong to a scope that is gone", _SCOPELESS),
    ("forks have no session, or no parent in its scope", _LOOSE_FORKS),
    ("forks leave their parent where it is not what it was", _WRONG_CUTS),
    ("sessions have gaps, or events that belong to their parent", _GAPS),
    ("snapshots belong to a session that is gone", _STRAY_SNAPSHOTS),
    ("events carry flags that were never set", _ODD_FLAGS),
    ("blobs are held by no event", _STRAY_BLOBS),
    ("events hold a blob that is gone", _LOST_BLOBS),
    ("payloads are sealed in a scope that is not marked as sealed", _UNMARKED),
    ("positions stand twice", "SELECT count(*) - count(DISTINCT position) FROM events"),
)
"""Complaints, and how many there are of each."""
_KEYED: Final = f"""
SELECT e.event_id, e.event_name, s.key
FROM events AS e
JOIN scopes AS s ON s.scope = e.scope
WHERE e.event_name IS NOT NULL
UNION ALL
SELECT n.key, {session_name("n")}, s.key
FROM sessions AS n
JOIN scopes AS s ON s.scope = n.scope
"""
_BLOBS: Final = (
    "SELECT s.scope, s.key, b.key, b.body FROM blobs AS b JOIN scopes AS s ON s.scope = b.scope"
)
PAGE: Final = 500


def first_flaw(connection: Connection, opener: Opener) -> str | None:
    """Say what is wrong beyond the events' own chain, if anything. One snapshot for all of it."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL enable_seqscan = on")
        for complaint, statement in _STRAYS:
            row = connection.execute(statement).fetchone()
            if row and row[0]:
                return f"{row[0]} {complaint}"
        if _has_wrong_keys(connection, opener):
            return "sessions, ids or blobs cannot be found by their keys"
        for one, other in ((runs.STORED, runs.DERIVED), (runs.DERIVED, runs.STORED)):
            row = connection.execute(
                f"SELECT count(*) FROM ({one} EXCEPT {other}) AS odd"
            ).fetchone()
            if row and row[0]:
                return "the states of runs are not what their events say"
        row = connection.execute(tool_calls.UNSOUND).fetchone()
        if row and row[0]:
            return "the tool calls are not what their events say"
    return None


def _has_wrong_keys(connection: Connection, opener: Opener) -> bool:
    """Whether a session, an id or a blob is filed under a key that is not its own."""
    with connection.cursor(name="keyed", binary=True) as cursor:
        cursor.itersize = PAGE
        cursor.execute(_KEYED)
        if any(name_key(scope_key, name) != found for found, name, scope_key in cursor):
            return True
    with connection.cursor(name="blobs", binary=True) as cursor:
        cursor.itersize = 1
        cursor.execute(_BLOBS)
        return any(opener.is_misplaced(*row) for row in cursor)
