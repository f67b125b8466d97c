"""Whether the tables agree with SQLite, with their schema and with each other.

The chain proves what events say. This looks at all that lies around it and decides what is found:
indexes, names, the orders of time and the states of runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import apsw

from treering.storage.sqlite import schema
from treering.storage.sqlite.rows import name_key
from treering.storage.sqlite.sql import fetch_all, fetch_value

if TYPE_CHECKING:
    from treering.storage.sqlite.sql import Row

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
        "payloads belong to an event that is gone",
        "SELECT count(*) FROM contents WHERE position NOT IN (SELECT position FROM events)",
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
_RUNS: Final = """
SELECT count(*)
FROM runs AS r
LEFT JOIN events AS before ON before.session = r.session AND before.seq = r.first_seq - 1
LEFT JOIN events AS first ON first.session = r.session AND first.seq = r.first_seq
LEFT JOIN events AS last ON last.session = r.session AND last.seq = r.last_seq
LEFT JOIN names AS kind ON kind.id = last.kind
WHERE before.run = r.run
  OR first.seq IS NULL
  OR (first.flags < 64 AND first.run IS NOT r.run)
  OR (r.state = 0 AND r.last_seq IS NOT NULL)
  OR (r.state <> 0 AND last.seq IS NULL)
  OR (last.flags < 64 AND last.run IS NOT r.run)
  OR kind.name <> CASE r.state
    WHEN 1 THEN 'run.ended'
    WHEN 2 THEN 'run.failed'
    WHEN 3 THEN 'run.interrupted'
    ELSE ''
  END
"""


def first_flaw(connection: apsw.Connection) -> str | None:
    """Say what is wrong with the file beyond the events' own chain, if anything."""
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
    return _flaw_of_derived(connection)


def _flaw_of_derived(connection: apsw.Connection) -> str | None:
    key = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'name_key'")
    named = connection.execute("SELECT key, name FROM names WHERE name IS NOT NULL")
    if any(name_key(key, name) != found for found, name in named):
        return "names cannot be found by their keys"
    entered = fetch_value(connection, _ENTERED)
    for statement in (_TIMES_BY_SESSION, _TIMES_BY_KIND):
        if fetch_all(connection, statement)[0] != (entered, entered):
            return "the orders of time do not hold the events as they are"
    if fetch_value(connection, _RUNS):
        return "the states of runs are not what their events say"
    return None


def _changed_schema(connection: apsw.Connection) -> str | None:
    found = set(_schema(connection))
    pristine = apsw.Connection(":memory:")
    for statements in schema.migrations():
        pristine.execute(statements)
    missing = [row for row in _schema(pristine) if row not in found]
    pristine.close()
    return str(missing[0][0]) if missing else None


def _schema(connection: apsw.Connection) -> list[Row]:
    return fetch_all(connection, "SELECT name, type, tbl_name, sql FROM sqlite_schema")
