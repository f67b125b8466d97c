"""Whether the tables agree with SQLite, with their schema and with each other.

The chain proves what events say. This looks at all that lies around it and decides what is found:
indexes, names, the orders of time and the states of runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import apsw

from treering.errors import Corrupt, TreeringError
from treering.ledger.chain import SALT_BYTES
from treering.storage.encoding import name_key
from treering.storage.sqlite import runs, schema, tool_calls
from treering.storage.sqlite.database import Database
from treering.storage.sqlite.known import SEALED_MARK
from treering.storage.sqlite.sql import fetch_all, fetch_value, session_name

if TYPE_CHECKING:
    from treering.storage.sealing import Opener
    from treering.storage.sqlite.sql import Row

_ODD_FLAGS: Final = """
SELECT count(*)
FROM events
WHERE flags >= 128
  OR flags & 8 = 0
  OR (flags & 68 <> 0 AND flags & 2 = 0)
  OR (flags & 32 = 0 AND event_name IS NOT NULL)
"""
_STRAY_BLOBS: Final = """
SELECT count(*)
FROM blobs AS b
WHERE b.body IS NOT NULL
  AND NOT EXISTS (
    SELECT 1
    FROM contents AS c
    JOIN events AS e ON e.position = c.position
    WHERE c.blob = b.id AND e.scope = b.scope
  )
"""
_UNMARKED: Final = f"""
SELECT count(*)
FROM contents AS c
JOIN events AS e ON e.position = c.position
JOIN scopes AS s ON s.id = e.scope
WHERE length(c.salt) > {SALT_BYTES}
  AND NOT EXISTS (SELECT 1 FROM ledger WHERE name = '{SEALED_MARK}' || s.name)
"""
_GAPS: Final = """
SELECT count(*)
FROM (
  SELECT min(e.seq) AS first, max(e.seq) - count(*) AS before, coalesce(f.seq, 0) AS shared
  FROM events AS e
  LEFT JOIN forks AS f ON f.session = e.session
  GROUP BY e.session
)
WHERE first <> shared + 1 OR before <> shared
"""
_LOOSE_FORKS: Final = """
SELECT count(*)
FROM forks AS f
LEFT JOIN sessions AS s ON s.id = f.session
LEFT JOIN sessions AS p ON p.id = f.parent
WHERE s.scope IS NULL OR p.scope IS NOT s.scope
"""
_WRONG_CUTS: Final = """
SELECT count(*)
FROM forks AS f
LEFT JOIN events AS e ON e.session = f.parent AND e.seq = f.seq
WHERE e.link IS NOT f.link
"""
_STRAYS: Final = (
    (
        "events are missing: their positions are empty",
        "SELECT coalesce(max(position), 0) - count(*) FROM events",
    ),
    (
        "events belong to a session that is gone",
        "SELECT count(*) FROM events WHERE session NOT IN (SELECT id FROM sessions)",
    ),
    (
        "events lie in another scope than their session",
        "SELECT count(*) FROM events e, sessions s WHERE s.id = e.session AND s.scope <> e.scope",
    ),
    (
        "sessions have an end and no beginning",
        "SELECT count(*) FROM heads WHERE session NOT IN (SELECT id FROM sessions)",
    ),
    (
        "forks have no session, or no parent in its scope",
        _LOOSE_FORKS,
    ),
    (
        "forks leave their parent where it is not what it was",
        _WRONG_CUTS,
    ),
    (
        "sessions have gaps, or events that belong to their parent",
        _GAPS,
    ),
    (
        "snapshots belong to a session that is gone",
        "SELECT count(*) FROM snapshots WHERE session NOT IN (SELECT id FROM sessions)",
    ),
    (
        "events carry flags that were never set",
        _ODD_FLAGS,
    ),
    (
        "blobs are held by no event, or by one of another scope",
        _STRAY_BLOBS,
    ),
    (
        "payloads belong to an event that is gone",
        "SELECT count(*) FROM contents WHERE position NOT IN (SELECT position FROM events)",
    ),
    (
        "payloads are sealed in a scope that is not marked as sealed",
        _UNMARKED,
    ),
)
"""Complaints, and how many there are of each."""
_ENTERED: Final = """
SELECT count(*)
FROM events
WHERE flags < 64
  AND position <= (SELECT value FROM ledger WHERE name = 'timed_position')
"""
_TIMES_BY_SESSION: Final = """
SELECT count(*), count(e.position)
FROM times_by_session AS t
LEFT JOIN events AS e
  ON e.position = t.position AND e.session = t.session AND e.ts_ms = t.ts_ms AND e.flags < 64
"""
_TIMES_BY_KIND: Final = """
SELECT count(*), count(e.position)
FROM times_by_kind AS t
LEFT JOIN events AS e
  ON e.position = t.position AND e.scope = t.scope AND e.kind = t.kind AND e.ts_ms = t.ts_ms
  AND e.flags < 64
"""
_KEYED: Final = f"""
SELECT e.event_id, e.event_name, s.key
FROM events AS e
JOIN scopes AS s ON s.id = e.scope
WHERE e.event_name IS NOT NULL
UNION ALL
SELECT n.key, {session_name("n")}, s.key
FROM sessions AS n
JOIN scopes AS s ON s.id = n.scope
"""
_BLOBS: Final = """
SELECT s.name, s.key, b.key, b.body
FROM blobs AS b
JOIN scopes AS s ON s.id = b.scope
WHERE b.body IS NOT NULL
"""
VIEW: Final = "episodic_events"


def first_flaw(connection: apsw.Connection, opener: Opener) -> str | None:
    """Say what is wrong with the file beyond the events' own chain, if anything."""
    return _flaw_of_tables(connection) or _flaw_of_derived(connection, opener)


def find_damage(path: str) -> str | None:
    """Say what is wrong with the pages and tables of the ledger at ``path``, if anything."""
    try:
        database = Database(path, mode="ro")
        try:
            with database.reading() as connection:
                return _flaw_of_tables(connection)
        finally:
            database.close()
    except Corrupt as error:
        return str(error)
    except TreeringError:
        return None


def _flaw_of_tables(connection: apsw.Connection) -> str | None:
    damage = fetch_value(connection, "PRAGMA integrity_check(1)")
    if damage != "ok":
        return f"SQLite reports damage: {damage}"
    changed = _changed_schema(connection)
    if changed is not None:
        return f"the schema was changed: {changed} is not as it was made"
    for complaint, statement in _STRAYS:
        count = fetch_value(connection, statement)
        if count:
            return f"{count} {complaint}"
    return None


def _flaw_of_derived(connection: apsw.Connection, opener: Opener) -> str | None:
    if _has_wrong_keys(connection, opener):
        return "names, ids or blobs cannot be found by their keys"
    entered = fetch_value(connection, _ENTERED)
    for statement in (_TIMES_BY_SESSION, _TIMES_BY_KIND):
        if fetch_all(connection, statement)[0] != (entered, entered):
            return "the orders of time do not hold the events as they are"
    for one, other in ((runs.STORED, runs.DERIVED), (runs.DERIVED, runs.STORED)):
        if fetch_value(connection, f"SELECT count(*) FROM ({one} EXCEPT {other})"):
            return "the states of runs are not what their events say"
    if not tool_calls.is_sound(connection):
        return "the tool calls are not what their events say"
    return None


def _has_wrong_keys(connection: apsw.Connection, opener: Opener) -> bool:
    """Whether a name, a session, an id or a blob is filed under a key that is not its own."""
    key = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'name_key'")
    names = connection.execute("SELECT key, name FROM names WHERE name IS NOT NULL")
    if any(name_key(key, name) != found for found, name in names):
        return True
    keyed = connection.execute(_KEYED)
    if any(name_key(scope_key, name) != found for found, name, scope_key in keyed):
        return True
    return any(opener.is_misplaced(*row) for row in connection.execute(_BLOBS))


def _changed_schema(connection: apsw.Connection) -> str | None:
    found = set(_schema(connection))
    pristine = apsw.Connection(":memory:")
    for statements in schema.migrations():
        pristine.execute(statements)
    made = set(_schema(pristine))
    pristine.close()
    # The view is for people with other tools: whoever drops it loses nothing else.
    changed = sorted(row[0] for row in found ^ made if row[0] != VIEW or row in found)
    return str(changed[0]) if changed else None


def _schema(connection: apsw.Connection) -> list[Row]:
    return fetch_all(
        connection,
        "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'",
    )
