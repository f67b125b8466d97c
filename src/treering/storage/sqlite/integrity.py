"""Whether the tables agree with SQLite, with their schema and with each other.

The chain proves what events say. This looks at all that lies around it and decides what is found:
indexes, names, the sets of sessions, the orders of time and the states of runs. Of one scope, or of
one session, it looks at that alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw

from treering.errors import Corrupt, TreeringError
from treering.ledger.chain import NO_SESSIONS, SALT_BYTES, genesis, with_session
from treering.ledger.records import HIDDEN_IDS
from treering.storage.encoding import ALWAYS, ERASED, EXPIRED, NAMED, PLACEHOLDER, SPILLED, name_key
from treering.storage.sqlite import runs, schema, tool_records
from treering.storage.sqlite.database import Database
from treering.storage.sqlite.id_cache import SEALED_MARK
from treering.storage.sqlite.indexes import INDEXED_POSITION, position_at, positions_in
from treering.storage.sqlite.rows import Row, fetch_all, fetch_value, key_of_names, session_name

if TYPE_CHECKING:
    from treering.model.scopes import Scope
    from treering.storage.sealing import Opener

# All that can be counted in one pass: each of these alone would read the whole file again.
_EVENTS: Final = f"""
SELECT
  count(*),
  coalesce(min(e.position), 1),
  coalesce(max(e.position), 0),
  count(*) FILTER (WHERE s.id IS NULL),
  count(*) FILTER (WHERE c.position IS NULL),
  count(*) FILTER (WHERE s.scope <> e.scope),
  count(*) FILTER (WHERE
    e.flags > {2 * EXPIRED - 1}
    OR e.flags & {ALWAYS} = 0
    OR (e.flags & {PLACEHOLDER | EXPIRED} <> 0 AND e.flags & {ERASED} = 0)
    OR (e.flags & {NAMED} = 0 AND e.event_name IS NOT NULL)
    OR (e.flags & {SPILLED} = 0) <> (c.blob IS NULL)
  ),
  count(*) FILTER (WHERE
    length(c.salt) > {SALT_BYTES}
    AND EXISTS (
      SELECT 1
      FROM scopes AS o
      WHERE o.id = e.scope
        AND NOT EXISTS (SELECT 1 FROM ledger WHERE name = '{SEALED_MARK}' || o.name)
    )
  ),
  count(*) FILTER (WHERE e.position <= {INDEXED_POSITION}),
  count(*) FILTER (WHERE
    e.flags < {EXPIRED}
    AND e.position <= (SELECT value FROM ledger WHERE name = 'timed_position')
  )
FROM events AS e
LEFT JOIN contents AS c ON c.position = e.position
LEFT JOIN sessions AS s ON s.id = e.session
WHERE {{own}}
"""


class _EventCounts(NamedTuple):
    """The events of the ledger, a scope or a session, and what is odd about them."""

    events: int
    oldest: int
    newest: int
    sessionless: int
    contentless: int
    elsewhere: int
    flagged: int
    unmarked: int
    indexed: int
    timed: int
    """Those that have to be in the orders of time."""


_FILED: Final = (
    ("events have lost the row of their payload", "SELECT {contentless}"),
    ("events lie in another scope than their session", "SELECT {elsewhere}"),
    ("events carry flags that were never set", "SELECT {flagged}"),
    ("payloads are sealed in a scope that is not marked as sealed", "SELECT {unmarked}"),
)
"""Complaints of the events of a session, a scope or the ledger, and how many there are of each."""
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
_STRAY_KEYS: Final = """
SELECT count(*)
FROM record_keys AS k
LEFT JOIN events AS e ON e.position = k.position
WHERE e.scope IS NOT k.scope
"""
# By the index and the tail, in which sessions lie in order; whether the index holds the events is
# looked at as well.
_GAPS: Final = f"""
SELECT count(*)
FROM (
  SELECT min(t.first) AS first, max(t.last) - sum(t.events) AS before, coalesce(f.seq, 0) AS shared
  FROM (
    SELECT session, min(seq) AS first, max(seq) AS last, count(*) AS events
    FROM seqs_by_session
    GROUP BY session
    UNION ALL
    SELECT session, min(seq), max(seq), count(*)
    FROM events
    WHERE position > {INDEXED_POSITION}
    GROUP BY session
  ) AS t
  LEFT JOIN forks AS f ON f.session = t.session
  GROUP BY t.session
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
_WRONG_CUTS: Final = f"""
SELECT count(*)
FROM forks AS f
LEFT JOIN events AS e
  ON e.position = {position_at("f.parent", "f.seq")} AND e.session = f.parent AND e.seq = f.seq
WHERE e.link IS NOT f.link
"""
# What is said to be done with, and is not here yet: it would be left out when it comes.
_AHEAD: Final = """
SELECT count(*)
FROM ledger
WHERE (name IN ('indexed_position', 'timed_position', 'tools_seen')
    AND value > (SELECT coalesce(max(position), 0) FROM events))
  OR (name = 'sessions' AND value > (SELECT coalesce(max(id), 0) FROM sessions))
"""
_MARKS_GONE: Final = """
SELECT 2 - count(*)
FROM ledger
WHERE name IN ('indexed_position', 'timed_position') AND typeof(value) = 'integer'
"""
# Ids of what has expired are looked for under the key that hides them only if that is noted.
_UNHIDDEN: Final = f"""
SELECT count(*)
FROM cursors
WHERE follower = '{HIDDEN_IDS}'
  AND NOT EXISTS (SELECT 1 FROM ledger WHERE name = 'hidden_ids')
"""
_STRAYS: Final = (
    ("marks are after the last event or session", _AHEAD),
    ("marks of what is indexed are gone", _MARKS_GONE),
    ("scopes hide ids of expired events, and nothing says so", _UNHIDDEN),
    (
        "events are missing: their positions are empty",
        "SELECT {newest} - {events} + ({oldest} <> 1)",
    ),
    ("events belong to a session that is gone", "SELECT {sessionless}"),
    (
        "sessions belong to a scope that is gone",
        "SELECT count(*) FROM sessions WHERE scope NOT IN (SELECT id FROM scopes)",
    ),
    (
        "sessions have an end and no beginning",
        "SELECT count(*) FROM heads WHERE session NOT IN (SELECT id FROM sessions)",
    ),
    ("forks have no session, or no parent in its scope", _LOOSE_FORKS),
    ("forks leave their parent where it is not what it was", _WRONG_CUTS),
    ("sessions have gaps, or events that belong to their parent", _GAPS),
    (
        "snapshots belong to no session, or to no view",
        """
SELECT count(*) FROM snapshots
WHERE view NOT IN (0, 1) OR (scope, session) NOT IN (SELECT scope, id FROM sessions)
""",
    ),
    ("keys of records belong to no event, or to one of another scope", _STRAY_KEYS),
    ("blobs are held by no event, or by one of another scope", _STRAY_BLOBS),
    (
        # There is an event at each position up to the newest.
        "payloads belong to an event that is gone",
        "SELECT count(*) FROM contents WHERE position < 1 OR position > {newest}",
    ),
    (
        "settings belong to a scope that is gone",
        "SELECT count(*) FROM retention WHERE scope NOT IN (SELECT id FROM scopes)",
    ),
    (
        "cursors belong to a scope that is gone",
        "SELECT count(*) FROM cursors WHERE scope NOT IN (SELECT id FROM scopes)",
    ),
)
"""Complaints of the whole ledger, and how many there are of each."""
# An event may be in the tail and not in an index, or in an index and not in the tail: it is found
# once, then. Twice the same seq or id may be neither in the one nor in both.
_IN_SEQS: Final = """
SELECT count(*)
FROM seqs_by_session AS t
JOIN events AS e ON e.position = t.position AND e.session = t.session AND e.seq = t.seq
WHERE {own}
"""
_IN_IDS: Final = """
SELECT count(*)
FROM ids_by_scope AS t
JOIN events AS e ON e.position = t.position AND e.scope = t.scope AND e.event_id = t.event_id
WHERE {own}
"""
_DOUBLED: Final = (
    (
        "seqs of new events were given before",
        f"""
SELECT count(*) - count(DISTINCT e.session || ' ' || e.seq) + count(t.position)
FROM events AS e
LEFT JOIN seqs_by_session AS t ON t.session = e.session AND t.seq = e.seq
WHERE e.position > {INDEXED_POSITION}
""",
    ),
    (
        "ids of new events were given before",
        f"""
SELECT count(*) - count(DISTINCT e.scope || ' ' || hex(e.event_id)) + count(t.position)
FROM events AS e
LEFT JOIN ids_by_scope AS t ON t.scope = e.scope AND t.event_id = e.event_id
WHERE e.position > {INDEXED_POSITION}
""",
    ),
)
# Events before kinds: the other way round, all their pages are read once for each kind.
_TIMED: Final = (
    f"""
SELECT count(*)
FROM events AS e
JOIN times_by_session AS t
  ON t.session = e.session AND t.ts_ms = e.ts_ms AND t.position = e.position
WHERE {{own}} AND e.flags < {EXPIRED}
""",
    f"""
SELECT count(*)
FROM events AS e
CROSS JOIN times_by_kind AS t
  ON t.scope = e.scope AND t.kind = e.kind AND t.ts_ms = e.ts_ms AND t.position = e.position
WHERE {{own}} AND e.flags < {EXPIRED}
""",
)
_SESSIONS: Final = """
SELECT s.id, s.genesis
FROM sessions AS s
WHERE s.scope = ? AND s.id <= (SELECT value FROM ledger WHERE name = 'sessions')
"""
_KEYED: Final = """
SELECT e.event_id, e.event_name, s.key
FROM events AS e
JOIN scopes AS s ON s.id = e.scope
WHERE {own} AND e.event_name IS NOT NULL
"""
_NAMED: Final = f"""
SELECT e.key, {session_name("e")}, s.key
FROM sessions AS e
JOIN scopes AS s ON s.id = e.scope
WHERE {{own}}
"""
_BLOBS: Final = """
SELECT s.name, s.key, b.key, b.body
FROM blobs AS b
JOIN scopes AS s ON s.id = b.scope
WHERE b.body IS NOT NULL AND {own}
"""
VIEW: Final = "episodic_events"


class _CheckedPart(NamedTuple):
    """What is looked at: the ledger, a scope or a session, as conditions of SQL."""

    events: str = "TRUE"
    """On the events, as e."""
    in_sessions: str = "TRUE"
    """On whatever belongs to a session, as e."""
    sessions: str = "TRUE"
    """On the sessions, as e."""
    scope: int | None = None
    session: int | None = None


def first_problem(
    connection: apsw.Connection,
    opener: Opener,
    scope: Scope | None = None,
    session_id: str | None = None,
) -> str | None:
    """Say what is wrong with the file beyond the events' own chain, if anything."""
    if scope is None:
        part: _CheckedPart | None = _CheckedPart()
        flaw = _flaw_of_pages(connection)
    else:
        flaw = _flaw_of_scopes(connection)
        part = _part(connection, scope, session_id)
        if part is not None:
            flaw = None if part.session else _flaw_of_set(connection, part.scope or 0)
        elif flaw is None:
            flaw = _new_name(connection, scope)
    if flaw is not None or part is None:
        return flaw
    counts = _count_events(connection, part)
    return (
        (_flaw_of_file(connection, counts) if scope is None else None)
        or _flaw_of_filing(connection, opener, part, counts)
        or _flaw_of_derived(connection, part, counts)
    )


def find_damage(path: str) -> str | None:
    """Say what is wrong with the pages and tables of the ledger at ``path``, if anything."""
    try:
        database = Database(path, mode="ro")
        try:
            with database.reading() as connection:
                flaw = _flaw_of_pages(connection)
                return flaw or _flaw_of_file(connection, _count_events(connection, _CheckedPart()))
        finally:
            database.close()
    except Corrupt as error:
        return str(error)
    except TreeringError:
        return None


def _part(connection: apsw.Connection, scope: Scope, session_id: str | None) -> _CheckedPart | None:
    scopes = fetch_all(connection, "SELECT id, key FROM scopes WHERE name = ?", (scope,))
    if not scopes:
        return None
    number, key = scopes[0]
    if session_id is None:
        own = f"IN (SELECT id FROM sessions WHERE scope = {number})"
        return _CheckedPart(_events_in(own), f"e.session {own}", f"e.scope = {number}", number)
    session = fetch_value(
        connection,
        "SELECT id FROM sessions WHERE scope = ? AND key = ?",
        (number, name_key(key, session_id)),
    )
    if not session:
        return None
    own = f"= {session}"
    return _CheckedPart(_events_in(own), f"e.session {own}", f"e.id {own}", number, session)


def _events_in(sessions: str) -> str:
    return f"e.position IN ({positions_in(sessions)})"


def _flaw_of_pages(connection: apsw.Connection) -> str | None:
    damage = fetch_value(connection, "PRAGMA integrity_check(1)")
    if damage != "ok":
        return f"SQLite reports damage: {damage}"
    changed = _changed_schema(connection)
    if changed is not None:
        return f"the schema was changed: {changed} is not as it was made"
    return None


def _count_events(connection: apsw.Connection, part: _CheckedPart) -> _EventCounts:
    return _EventCounts(*fetch_all(connection, _EVENTS.format(own=part.events))[0])


def _flaw_of_file(connection: apsw.Connection, counts: _EventCounts) -> str | None:
    flaw = _flaw_of_scopes(connection) or _complaint(connection, _STRAYS + _DOUBLED, counts)
    scopes = fetch_all(connection, "SELECT id FROM scopes ORDER BY id")
    sets = (_flaw_of_set(connection, scope) for (scope,) in scopes)
    return flaw or next((set_flaw for set_flaw in sets if set_flaw is not None), None)


def _complaint(
    connection: apsw.Connection, complaints: tuple[tuple[str, str], ...], counts: _EventCounts
) -> str | None:
    for complaint, statement in complaints:
        count = fetch_value(connection, statement.format(**counts._asdict()))
        if count:
            return f"{count} {complaint}"
    return None


def _flaw_of_scopes(connection: apsw.Connection) -> str | None:
    """Say how many scopes are gone. Their ids are given in order: none is ever left out."""
    counted = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'scopes'")
    if type(counted) is not int:
        return "the record of how many scopes there are is gone"
    remaining = fetch_value(
        connection, "SELECT count(*) FROM scopes WHERE id BETWEEN 1 AND ?", (counted,)
    )
    if remaining != counted:
        return f"{counted} scopes were opened, and {remaining} of them are here"
    return None


def _new_name(connection: apsw.Connection, scope: Scope) -> str | None:
    """Say what a scope is called now that is not there by its name, if it was renamed."""
    for new_name, name, salt, start in connection.execute(
        "SELECT scopes.name, s.name, s.salt, s.genesis FROM sessions AS s"
        " JOIN scopes ON scopes.id = s.scope WHERE s.name IS NOT NULL AND s.salt IS NOT NULL"
    ):
        if genesis(salt, scope, name) == start:
            return f"scope {scope} was renamed: its sessions are in scope {new_name} now"
    return None


def _flaw_of_set(connection: apsw.Connection, scope: int) -> str | None:
    """Say that the sessions of a scope are not those that were opened in it, if so."""
    name, opened, recorded = fetch_all(
        connection, "SELECT name, sessions, digest FROM scopes WHERE id = ?", (scope,)
    )[0]
    count, digest = 0, NO_SESSIONS
    for _, start in connection.execute(_SESSIONS, (scope,)):
        count, digest = count + 1, with_session(digest, start)
    if count != opened:
        return f"{opened} sessions were opened in scope {name}, and {count} of them are here"
    if digest != recorded:
        return f"the sessions of scope {name} are not those that were opened in it"
    return None


def _flaw_of_filing(
    connection: apsw.Connection, opener: Opener, part: _CheckedPart, counts: _EventCounts
) -> str | None:
    flaw = _complaint(connection, _FILED, counts)
    if flaw is None and _has_wrong_keys(connection, opener, part):
        return "names, ids or blobs cannot be found by their keys"
    return flaw


def _flaw_of_derived(
    connection: apsw.Connection, part: _CheckedPart, counts: _EventCounts
) -> str | None:
    for name, statements in _all_indexed(part).items():
        entries = {fetch_value(connection, text.format(own=part.events)) for text in statements}
        if entries != {counts.indexed}:
            return f"the index by {name} does not hold the events as they are"
    timed = {fetch_value(connection, statement.format(own=part.events)) for statement in _TIMED}
    timed |= {fetch_value(connection, statement) for statement in _all_timed(part)}
    if timed != {counts.timed}:
        return "the orders of time do not hold the events as they are"
    states = runs.DIFFERENCES.format(sessions=part.in_sessions, events=part.events)
    if fetch_value(connection, states):
        return "the states of runs are not what their events say"
    if not tool_records.is_sound(connection, part.events, part.in_sessions):
        return "the tool calls are not what their events say"
    return None


def _all_indexed(part: _CheckedPart) -> dict[str, tuple[str, ...]]:
    """Return SQL that counts the true entries of each index, and all of them."""
    in_scope = "TRUE" if part.scope is None else f"t.scope = {part.scope}"
    seqs = f"SELECT count(*) FROM seqs_by_session AS e WHERE {part.in_sessions}"
    ids = f"SELECT count(*) FROM ids_by_scope AS t WHERE {in_scope}"
    return {"seq": (_IN_SEQS, seqs), "id": (_IN_IDS,) if part.session else (_IN_IDS, ids)}


def _all_timed(part: _CheckedPart) -> list[str]:
    """Return SQL that counts all entries of a part in the orders of time, true or not."""
    in_scope = "TRUE" if part.scope is None else f"t.scope = {part.scope}"
    by_session = f"SELECT count(*) FROM times_by_session AS e WHERE {part.in_sessions}"
    by_kind = f"SELECT count(*) FROM times_by_kind AS t WHERE {in_scope}"
    return [by_session] if part.session else [by_session, by_kind]


def _has_wrong_keys(connection: apsw.Connection, opener: Opener, part: _CheckedPart) -> bool:
    """Whether a name, a session, an id or a blob is filed under a key that is not its own."""
    key = key_of_names(connection)
    names = connection.execute("SELECT key, name FROM names WHERE name IS NOT NULL")
    if any(name_key(key, name) != stored_key for stored_key, name in names):
        return True
    for statement, own in ((_KEYED, part.events), (_NAMED, part.sessions)):
        keyed: Any = connection.execute(statement.format(own=own))
        if any(name_key(scope_key, name) != stored_key for stored_key, name, scope_key in keyed):
            return True
    if part.session:
        return False  # A blob may be held by several sessions.
    in_scope = "TRUE" if part.scope is None else f"b.scope = {part.scope}"
    return any(opener.is_misplaced(*row) for row in connection.execute(_BLOBS.format(own=in_scope)))


def _changed_schema(connection: apsw.Connection) -> str | None:
    actual = set(_schema(connection))
    pristine = apsw.Connection(":memory:")
    for statements in schema.migrations():
        pristine.execute(statements)
    made = set(_schema(pristine))
    pristine.close()
    # The view is for people with other tools: dropping it loses nothing else.
    changed = sorted(row[0] for row in actual ^ made if row[0] != VIEW or row in actual)
    return str(changed[0]) if changed else None


def _schema(connection: apsw.Connection) -> list[Row]:
    return fetch_all(
        connection,
        "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'",
    )
