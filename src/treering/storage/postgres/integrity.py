"""Whether the tables agree with each other.

The chain proves the events. This checks everything around them that decides what is found: the
sets of sessions, keys, blobs and the states of runs. It can be limited to a scope or a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.ledger.chain import SALT_BYTES
from treering.storage.encoding import ALWAYS, ERASED, EXPIRED, NAMED, PLACEHOLDER, SPILLED, name_key
from treering.storage.postgres import runs, tool_records
from treering.storage.postgres.rows import session_name, streaming
from treering.storage.postgres.schema import differences

if TYPE_CHECKING:
    from treering.model.scopes import Scope
    from treering.storage.postgres.address import Address
    from treering.storage.postgres.server import Connection
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
FROM sessions AS e
WHERE {own} AND NOT EXISTS (SELECT 1 FROM scopes WHERE scopes.scope = e.scope)
"""
# A fork and its parent are in one scope, so a parent elsewhere does not count.
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
WHERE n.view NOT IN (0, 1)
  OR NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.scope = n.scope AND s.id = n.session)
"""
_STRAY_KEYS: Final = """
SELECT count(*)
FROM record_keys AS k
WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.scope = k.scope AND e.position = k.position)
"""
_ODD_FLAGS: Final = f"""
SELECT count(*)
FROM events AS e
WHERE {{own}} AND (
  e.flags >= {2 * EXPIRED}
  OR e.flags & {ALWAYS} = 0
  OR (e.flags & {PLACEHOLDER | EXPIRED} <> 0 AND e.flags & {ERASED} = 0)
  OR (e.flags & {NAMED} = 0 AND e.event_name IS NOT NULL)
  OR (e.flags & {SPILLED} = 0) <> (e.blob IS NULL)
)
"""
_STRAY_SETTINGS: Final = """
SELECT count(*)
FROM retention AS r
WHERE NOT EXISTS (SELECT 1 FROM scopes AS s WHERE s.scope = r.scope)
"""
_WRONG_HEADS: Final = """
SELECT count(*)
FROM heads AS h
JOIN sessions AS s ON s.scope = h.scope AND s.id = h.session
WHERE s.key <> h.key
"""
_STRAY_BLOBS: Final = """
SELECT count(*)
FROM blobs AS b
WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.scope = b.scope AND e.blob = b.key)
"""
_LOST_BLOBS: Final = """
SELECT count(*)
FROM events AS e
WHERE {own}
  AND e.blob IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM blobs AS b WHERE b.scope = e.scope AND b.key = e.blob)
"""
_UNMARKED: Final = f"""
SELECT count(*)
FROM events AS e
WHERE {{own}}
  AND length(e.salt) > {SALT_BYTES}
  AND NOT EXISTS (SELECT 1 FROM seals AS s WHERE s.scope = e.scope AND s.round > 0)
"""
# A writer takes the session's lock before it gets a transaction id and a seq: both go up.
_DISORDERED: Final = """
SELECT count(*)
FROM (
  SELECT e.epoch, e.xid, e.position,
    lag(e.epoch) OVER own AS epoch_before,
    lag(e.xid) OVER own AS xid_before,
    lag(e.position) OVER own AS position_before
  FROM events AS e
  WHERE {own}
  WINDOW own AS (PARTITION BY e.scope, e.session ORDER BY e.seq)
) AS e
WHERE (e.epoch, e.xid) < (e.epoch_before, e.xid_before) OR e.position <= e.position_before
"""
_AHEAD: Final = """
SELECT count(*)
FROM events AS e
WHERE {own}
  AND (e.epoch, e.xid) >= ((SELECT enter_epoch()), pg_snapshot_xmax(pg_current_snapshot()))
"""
_FILED: Final = (
    ("events would be followed in another order than they were recorded in", _DISORDERED),
    ("events were moved after all future ones: followers would skip others", _AHEAD),
    ("events carry flags that were never set", _ODD_FLAGS),
    ("events refer to a blob that is gone", _LOST_BLOBS),
    ("payloads are sealed in a scope that is not marked as sealed", _UNMARKED),
)
"""Problems of the events of a session, a scope or the ledger, and the query that counts each."""
_IN_SCOPES: Final = (("sessions belong to a scope that is gone", _SCOPELESS),)
_STRAYS: Final = (
    ("events belong to a session that is gone", _HOMELESS),
    ("heads belong to a session that is gone", _HEADLESS),
    ("forks have no session, or no parent in its scope", _LOOSE_FORKS),
    ("forks leave their parent where it is not what it was", _WRONG_CUTS),
    ("sessions have gaps, or events that belong to their parent", _GAPS),
    ("snapshots belong to no session, or to no view", _STRAY_SNAPSHOTS),
    ("keys of records belong to no event", _STRAY_KEYS),
    ("blobs belong to no event", _STRAY_BLOBS),
    ("positions occur twice", "SELECT count(*) - count(DISTINCT position) FROM events"),
    ("heads have another session's key", _WRONG_HEADS),
    ("settings belong to a scope that is gone", _STRAY_SETTINGS),
)
"""Problems of the whole ledger, and the query that counts each."""
_SCOPES: Final = """
SELECT (SELECT l.value FROM ledger AS l WHERE l.name = 'scopes'), (SELECT count(*) FROM scopes)
"""
_SETS: Final = """
SELECT s.scope, s.sessions, coalesce(found.sessions, 0)
FROM scopes AS s
LEFT JOIN (
  SELECT e.scope, count(*) AS sessions,
    bit_xor(('x' || encode(e.genesis, 'hex'))::bit(256)) AS digest
  FROM sessions AS e
  WHERE {own}
  GROUP BY e.scope
) AS found ON found.scope = s.scope
WHERE {scope} AND (
  s.sessions <> coalesce(found.sessions, 0)
  OR s.digest <> coalesce(found.digest, B'0'::bit(256))
)
ORDER BY s.scope
LIMIT 1
"""
_KEYED: Final = """
SELECT e.event_id, e.event_name, s.key
FROM events AS e
JOIN scopes AS s ON s.scope = e.scope
WHERE {own} AND e.event_name IS NOT NULL
"""
_NAMED: Final = f"""
SELECT e.key, {session_name("e")}, s.key
FROM sessions AS e
JOIN scopes AS s ON s.scope = e.scope
WHERE {{own}}
"""
_BLOBS: Final = """
SELECT s.scope, s.key, b.key, b.body
FROM blobs AS b
JOIN scopes AS s ON s.scope = b.scope
WHERE {own}
"""
PAGE: Final = 500


class _CheckedPart(NamedTuple):
    """The ledger, a scope or a session, as conditions of SQL."""

    events: str
    """On the events, as e."""
    sessions: str
    """On the sessions, as e."""
    values: dict[str, Any]

    def among(self, statement: str) -> str:
        return f"SELECT * FROM ({statement}) AS e WHERE {self.events}"


def first_problem(
    connection: Connection,
    address: Address,
    opener: Opener,
    scope: Scope | None = None,
    session: int | None = None,
) -> str | None:
    """Return the first problem outside the events' chain; None if there is none. One snapshot."""
    part = _part(scope, session)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL enable_seqscan = on")
        flaw = None
        if scope is None:
            flaw = (
                _flaw_of_layout(connection, address)
                or _flaw_of_scopes(connection)
                or _count(connection, _STRAYS, part)
            )
        if flaw is None and session is None:
            flaw = _count(connection, _IN_SCOPES, part) or _flaw_of_sets(connection, part)
        return (
            flaw
            or _count(connection, _FILED, part)
            or _flaw_of_keys(connection, opener, part, blobs=session is None)
            or _flaw_of_derived(connection, part)
        )


def _part(scope: Scope | None, session: int | None) -> _CheckedPart:
    if scope is None:
        return _CheckedPart("TRUE", "TRUE", {})
    values = {"scope": scope, "session": session}
    own = "e.scope = %(scope)s"
    if session is None:
        return _CheckedPart(own, own, values)
    return _CheckedPart(
        f"{own} AND e.session = %(session)s", f"{own} AND e.id = %(session)s", values
    )


def _count(
    connection: Connection, complaints: tuple[tuple[str, str], ...], part: _CheckedPart
) -> str | None:
    for complaint, statement in complaints:
        row = connection.execute(statement.format(own=part.events), part.values).fetchone()
        if row and row[0]:
            return f"{row[0]} {complaint}"
    return None


def _flaw_of_layout(connection: Connection, address: Address) -> str | None:
    flaws = differences(connection, address)
    if not flaws:
        return None
    more = f" (and {len(flaws) - 1} more: see treering db status)" if len(flaws) > 1 else ""
    return f"the schema is not as it was made: {flaws[0]}{more}"


def _flaw_of_scopes(connection: Connection) -> str | None:
    opened, present = connection.execute(_SCOPES).fetchone() or (None, 0)
    if opened is None:
        return "the record of how many scopes there are is gone"
    if opened != str(present):
        return f"{opened} scopes were opened, and {present} of them are here"
    return None


def _flaw_of_sets(connection: Connection, part: _CheckedPart) -> str | None:
    """Return which scope's sessions are not those that were opened in it."""
    in_scope = part.events.replace("e.", "s.")
    statement = _SETS.format(own=part.sessions, scope=in_scope)
    row = connection.execute(statement, part.values).fetchone()
    if row is None:
        return None
    scope, opened, count = row
    if count != opened:
        return f"{opened} sessions were opened in scope {scope}, and {count} of them are here"
    return f"the sessions of scope {scope} are not those that were opened in it"


def _flaw_of_derived(connection: Connection, part: _CheckedPart) -> str | None:
    stored, derived = part.among(runs.STORED), part.among(runs.DERIVED)
    for left, right in ((stored, derived), (derived, stored)):
        statement = f"SELECT count(*) FROM ({left} EXCEPT {right}) AS odd"
        row = connection.execute(statement, part.values).fetchone()
        if row and row[0]:
            return "the states of runs are not what their events say"
    row = connection.execute(tool_records.UNSOUND.format(own=part.events), part.values).fetchone()
    if row and row[0]:
        return "the tool calls are not what their events say"
    return None


def _flaw_of_keys(
    connection: Connection, opener: Opener, part: _CheckedPart, *, blobs: bool
) -> str | None:
    """Return a problem if a session, an id or a blob is stored under a wrong key."""
    flaw = "sessions, ids or blobs cannot be found by their keys"
    for statement, own in ((_KEYED, part.events), (_NAMED, part.sessions)):
        with streaming(connection, "keyed") as cursor:
            cursor.itersize = PAGE
            cursor.execute(statement.format(own=own), part.values)
            if any(name_key(scope_key, name) != key for key, name, scope_key in cursor):
                return flaw
    if not blobs:
        return None  # Several sessions may use a blob.
    with streaming(connection, "blobs") as cursor:
        cursor.itersize = 1
        cursor.execute(_BLOBS.format(own=part.events.replace("e.", "b.")), part.values)
        return flaw if any(opener.is_misplaced(*row) for row in cursor) else None
