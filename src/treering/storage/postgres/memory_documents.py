"""The shelves of the memory on a server: documents follow the events, and leave with them.

A shelf holds the settled events up to its row of ``memory_shelves``: see following.py.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from treering.memory.records import REMEMBERED_KINDS, IndexEntry, IndexName, IndexState
from treering.model.queries import FollowedEvents, FollowStep, Mark
from treering.storage.encoding import GONE, Row, corrupt_on_error
from treering.storage.memory import FOLDED_KINDS, MEMORIES, entries
from treering.storage.postgres import following
from treering.storage.postgres.following import (
    IN_ORDER,
    Which,
    mark_of,
    next_events,
    place,
    settled,
    unsettled,
)
from treering.storage.postgres.rows import EVENT, fetch, planned
from treering.storage.runs import state_after

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.reader import Reader
    from treering.storage.postgres.server import Connection

_FOLDED, _TOLD = (", ".join(f"'{kind}'" for kind in kinds) for kinds in (FOLDED_KINDS, MEMORIES))
_OF_MEMORY: Final = f"e.flags & {GONE} = 0 AND e.kind IN ({_FOLDED})"
_BY_KIND: Final = f"{IN_ORDER}, e.kind"
REMEMBERED: Final = Which(
    f"""
{_OF_MEMORY} AND (e.run_id IS NULL OR EXISTS (
  SELECT 1 FROM runs AS r
  WHERE r.scope = e.scope AND r.session = e.session AND r.run_id = e.run_id
    AND r.state = {state_after("run.ended")}
))
""",
    _BY_KIND,
)
SHELVED: Final[dict[IndexName, Which]] = {
    "events": Which(f"e.flags & {GONE} = 0 AND NOT (e.kind IN ({_FOLDED}))"),
    "memories": Which(f"{_OF_MEMORY} AND e.kind IN ({_TOLD})", _BY_KIND),
}
"""Which events are on which shelf."""
# Ordered, although there is only one row: a plan made while the table was empty may
# otherwise use any index of the scope.
AT_POSITIONS: Final = f"""
SELECT found.*
FROM unnest(%(positions)s::bigint[]) AS one (position)
CROSS JOIN LATERAL (
  SELECT {EVENT}
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.position BETWEEN one.position AND one.position
    AND e.flags & {GONE} = 0
  ORDER BY e.position
  LIMIT 1
) AS found
"""
_SESSIONS: Final = """
SELECT e.position, e.session
FROM events AS e
WHERE e.scope = %s AND e.position = ANY(%s::bigint[])
"""


class MemoryReader:
    """Reads events for the memory."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._server = reader.server
        self._cache = reader.cache
        self.end = reader.end

    def remembered_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return the events that the memory is folded from, and the events that vouch for erasures.

        After the settled events come those that others may still overtake.
        """

        def look(connection: Connection) -> FollowedEvents[Event]:
            rows, more = settled(connection, scope, mark, REMEMBERED, limit=limit)
            last = mark_of(rows[-1]) if rows else mark
            if not more:
                # No horizon here: it has moved on since the settled ones were read.
                rows += unsettled(connection, scope, last, REMEMBERED)
            events = self._reader.to_events(connection, scope, rows)
            return FollowedEvents(events, [mark_of(row) for row in rows], last, more)

        with corrupt_on_error(self._server.address.shown):
            return self._server.read(look, scope)

    def events_at_positions(self, scope: Scope, positions: Sequence[int]) -> list[Event]:
        """Return the events of a scope at ``positions`` that exist and are not erased."""

        def look(connection: Connection) -> list[Row]:
            asked = {"scope": scope, "positions": list(positions)}
            rows = fetch(connection, AT_POSITIONS, asked)
            by_position = {row[0]: row for row in rows}
            return [by_position[position] for position in positions if position in by_position]

        return self._reader.read(scope, look, self._reader.to_events)

    def sessions_at_positions(self, scope: Scope, positions: Sequence[int]) -> dict[int, int]:
        """Return the number of the session of the event at each position."""
        rows = self._server.fetch(_SESSIONS, (scope, list(positions)), scope)
        return {row[0]: row[1] for row in rows}


LOCK_NAME: Final = "\0memory"
"""Not a session's name: sessions cannot have it."""
GENERATION_BITS: Final = 40
"""A shelf begins with a random generation, so that a new one is not mistaken for the last."""

_SHELF: Final = """
SELECT epoch, xid::text::bigint, position, newest, documents, generation
FROM memory_shelves
WHERE scope = %s AND shelf = %s
"""
_NOTE: Final = """
INSERT INTO memory_shelves (scope, shelf, epoch, xid, position, newest, documents, generation)
VALUES (%s, %s, %s::int, %s::text::xid8, %s, %s, %s, %s)
ON CONFLICT (scope, shelf) DO UPDATE SET (epoch, xid, position, newest, documents)
  = (excluded.epoch, excluded.xid, excluded.position, excluded.newest, excluded.documents)
"""
_INTO: Final = """
INSERT INTO memory_documents (
  scope, shelf, number, position, session, seq, ts_ms, kind, embedder, terms, vectors
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
PAGE: Final = """
SELECT number, position, session, seq, ts_ms, kind, embedder, terms, vectors
FROM memory_documents
WHERE scope = %s AND shelf = %s AND number > %s
ORDER BY number
LIMIT %s
"""
# One row: to make a tuple of each document takes longer than to read all of them.
COLUMNS: Final = """
SELECT
  coalesce(array_agg(number), '{}'),
  coalesce(array_agg(position), '{}'),
  coalesce(array_agg(session), '{}'),
  coalesce(array_agg(seq), '{}'),
  coalesce(array_agg(length(terms)), '{}'),
  coalesce(array_agg(length(vectors)), '{}'),
  coalesce(string_agg(terms, ''), ''),
  coalesce(string_agg(vectors, ''), '')
FROM (
  SELECT
    number, position, session, seq, terms,
    CASE WHEN embedder = %s THEN vectors ELSE '' END AS vectors
  FROM memory_documents
  WHERE scope = %s AND shelf = %s AND number > %s
  ORDER BY number
  LIMIT %s
) AS page
"""
_AMONG: Final = """
WHERE d.scope = %s AND (d.session, d.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
"""
_DROP: Final = f"""
DELETE FROM memory_documents AS d {_AMONG}
RETURNING d.shelf, d.tableoid::regclass::text
"""
_LEFT: Final = """
UPDATE memory_shelves SET generation = generation + 1, documents = documents - %s
WHERE scope = %s AND shelf = %s
"""
_ANY_REMEMBERED: Final = f"""
SELECT EXISTS (SELECT 1 FROM events AS d {_AMONG} AND d.kind = ANY(%s::text[]))
"""
_EMPTIED: Final = """
UPDATE memory_shelves
SET generation = generation + 1, documents = 0, newest = 0, epoch = 0, xid = '0', position = 0
"""
_LAG: Final = """
SELECT count(*) {behind} AND NOT EXISTS (
  SELECT 1 FROM memory_documents AS d
  WHERE d.scope = e.scope AND d.session = e.session AND d.seq = e.seq
)
"""


def follow(
    connection: Connection,
    cache: IdCache,
    where: tuple[Scope, IndexName],
    to_events: Callable[[Connection, Scope, list[Row]], list[Event]],
    read: Callable[[Sequence[Event]], Sequence[IndexEntry]],
    embedder: str,
) -> FollowStep:
    """Enter the next events of a shelf, in a transaction."""
    scope, shelf = where
    which = SHELVED[shelf]
    if not unsettled(connection, scope, _state(connection, *where)[0], which, limit=1):
        return FollowStep(0, more=False)
    with connection.transaction():
        lock(connection, cache, scope)
        mark, newest, count, generation = _state(connection, *where)
        new, last, passed, more = next_events(connection, scope, mark, which, "memory_documents")
        sessions = {row[0]: row[1] for row in new}
        pairs = entries(to_events(connection, scope, new), read)
        documents = [
            (
                *(scope, shelf, number, event.position, sessions[event.position], event.seq),
                *(event.ts_ms, event.kind, embedder if entry.vectors else ""),
                *(entry.terms, entry.vectors),
            )
            for number, (event, entry) in enumerate(pairs, start=newest + 1)
        ]
        with connection.cursor() as cursor:
            cursor.executemany(_INTO, documents)
        epoch, xid, position = last or (0, 0, 0)
        total = newest + len(documents), count + len(documents)
        connection.execute(_NOTE, (*where, epoch, str(xid), position, *total, generation))
    return FollowStep(passed, more=more)


def index_state(connection: Connection, scope: Scope, shelf: IndexName) -> IndexState:
    """Return the state of a shelf."""
    rows = fetch(connection, _SHELF, (scope, shelf))
    return IndexState(rows[0][5], *rows[0][3:5]) if rows else IndexState(0, 0, 0)


def lag(connection: Connection, scope: Scope, shelf: IndexName) -> int:
    """Return how many events of a shelf's kinds are not on it yet."""
    statement = _LAG.format(behind=SHELVED[shelf].behind())
    mark = _state(connection, scope, shelf)[0]
    return int(planned(connection, statement, place(scope, mark))[0][0])


def lock(connection: Connection, cache: IdCache, scope: Scope) -> None:
    """Lock the rows derived from a scope until the end of the transaction."""
    following.lock(connection, cache, scope, LOCK_NAME)


def try_lock(connection: Connection, cache: IdCache, scope: Scope) -> bool:
    """Do the same unless somebody else has the lock; return whether it was done."""
    number = cache.lock_of(scope, LOCK_NAME)
    return bool(fetch(connection, "SELECT pg_try_advisory_xact_lock(%s)", (number,))[0][0])


def drop(
    connection: Connection, cache: IdCache, scope: Scope, sessions: list[int], seqs: list[int]
) -> list[str]:
    """Delete the documents of events that are being erased; return the tables that held them.

    Rows are folded again if they came from one of the events.
    """
    lock(connection, cache, scope)
    rows = fetch(connection, _DROP, (scope, sessions, seqs))
    for shelf in sorted({row[0] for row in rows}):
        count = sum(row[0] == shelf for row in rows)
        connection.execute(_LEFT, (count, scope, shelf))
    tables: list[str] = [row[1] for row in rows]
    asked = (scope, sessions, seqs, list(REMEMBERED_KINDS))
    if fetch(connection, _ANY_REMEMBERED, asked)[0][0]:
        connection.execute("DELETE FROM memory_marks WHERE scope = %s", (scope,))
        connection.execute("DELETE FROM memory_rows WHERE scope = %s", (scope,))
        tables.append("memory_rows")
    return tables


def empty(connection: Connection, scope: Scope, shelf: IndexName | None = None) -> list[Row]:
    """Delete all documents of a scope, or of one shelf of it; return the table of each."""
    values: list[str] = [scope]
    where = "WHERE scope = %s"
    if shelf is not None:
        where, values = f"{where} AND shelf = %s", [scope, shelf]
    tables = fetch(
        connection,
        f"DELETE FROM memory_documents AS d {where} RETURNING d.tableoid::regclass::text",
        values,
    )
    connection.execute(f"{_EMPTIED} {where}", values)
    return tables


def empty_all(connection: Connection) -> int:
    """Delete all documents, of every scope; return how many there were."""
    connection.execute("LOCK TABLE memory_documents, memory_shelves IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    count = fetch(connection, "SELECT count(*) FROM memory_documents", ())[0][0]
    # Their files are deleted, too.
    connection.execute("TRUNCATE memory_documents")
    connection.execute(_EMPTIED)
    return int(count)


def _state(connection: Connection, scope: Scope, shelf: IndexName) -> tuple[Mark, int, int, int]:
    """Return mark, newest number, count and generation of a shelf."""
    rows = fetch(connection, _SHELF, (scope, shelf))
    if not rows:
        return (), 0, 0, secrets.randbits(GENERATION_BITS)
    return tuple(rows[0][:3]), *rows[0][3:]
