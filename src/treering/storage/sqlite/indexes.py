"""The indexes of the events: small tables that lag a little after the events.

Entering each event at once would touch four more pages in every commit. So a commit writes the
events, their contents and the heads of their sessions, and every ``LAG_EVENTS_MAX`` events one
commit enters all that are not in the indexes yet. ``indexed_position`` is the last event in them;
the few after it, the tail, are read by position. A read looks at both and is always exact.

    position   1 ........................ 4096 | 4097 .... 4803
               in the indexes                  | tail: at most a few hundred events

A session's events have rising positions. So those in the tail come after all that are indexed, and
a read by seq takes one part, then the other. Decision 0040 has the rules and why they hold.

The two orders of time have a mark of their own, ``timed_position``: a program that does not know
the other indexes yet may still have the file open, and moves this one alone.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.storage.encoding import EXPIRED, NAMED
from treering.storage.runs import RUN_OPEN
from treering.storage.sqlite.rows import fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from treering.model.queries import Query
    from treering.storage.sqlite.rows import Row

LAG_EVENTS_MAX: Final = 512
"""Events that wait in the tail before they are entered."""
IDS_AT_ONCE: Final = 500
"""Ids that one statement looks for."""

# Reads are right without the mark, and slow; verify reports that it is gone.
INDEXED_POSITION: Final = "coalesce((SELECT value FROM ledger WHERE name = 'indexed_position'), 0)"

# Not sorted: a few hundred events come nearly in the order of the index, so that sorting them takes
# longer than it saves. So do ids that are made here; of others each has a page of its own anyway.
_ENTER_SEQS: Final = f"""
INSERT OR IGNORE INTO seqs_by_session (session, seq, position)
SELECT e.session, e.seq, e.position
FROM events AS e
WHERE e.position > {INDEXED_POSITION}
"""
_ENTER_IDS: Final = f"""
INSERT OR IGNORE INTO ids_by_scope (scope, event_id, position)
SELECT e.scope, e.event_id, e.position
FROM events AS e
WHERE e.position > {INDEXED_POSITION}
"""
_REBUILD_IDS: Final = f"""
INSERT OR IGNORE INTO ids_by_scope (scope, event_id, position)
SELECT e.scope, e.event_id, e.position
FROM events AS e
WHERE e.position <= {INDEXED_POSITION}
ORDER BY e.scope, e.event_id
"""
_SET_INDEXED: Final = """
INSERT INTO ledger (name, value)
VALUES ('indexed_position', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

_ID_POSITION: Final = """
SELECT position
FROM ids_by_scope
WHERE scope = ? AND event_id = ?
"""
_SCOPE_TAIL: Final = f"""
SELECT event_id, position
FROM events
WHERE position > {INDEXED_POSITION} AND scope = ?
"""
# Two ranges, merged: what is entered meanwhile is in one or both, and never in neither, because the
# tail is read first.
_TAIL_RANGE: Final = f"""
SELECT event_id
FROM events
WHERE position > {INDEXED_POSITION}
  AND scope = ?
  AND event_id BETWEEN ? AND ?
  AND flags & {NAMED} = 0
"""
_INDEXED_RANGE: Final = f"""
SELECT t.event_id
FROM ids_by_scope AS t
JOIN events AS e ON e.position = t.position
WHERE t.scope = ? AND t.event_id BETWEEN ? AND ? AND e.flags & {NAMED} = 0
ORDER BY t.event_id
LIMIT ?
"""
_TAIL_IDS: Final = f"""
SELECT scope, event_id
FROM events
WHERE position > {INDEXED_POSITION}
"""


def indexed_position(connection: apsw.Connection) -> int:
    """Return the position up to which events are in the indexes."""
    position = fetch_value(connection, f"SELECT {INDEXED_POSITION}")
    return position if isinstance(position, int) else 0


def enter(connection: apsw.Connection, newest: int, *, many: bool = False) -> None:
    """Enter the tail, up to ``newest``, the last event. Call inside a write transaction.

    ``many`` sorts them first, for pages that are full and written once.
    """
    # An event that another program doubled must not stop all writers: verify
    # reports it.
    connection.execute(f"{_ENTER_SEQS} ORDER BY e.session, e.seq" if many else _ENTER_SEQS)
    connection.execute(f"{_ENTER_IDS} ORDER BY e.scope, e.event_id" if many else _ENTER_IDS)
    connection.execute(_SET_INDEXED, (newest,))
    enter_times(connection, newest, many=many)


def rebuild(connection: apsw.Connection) -> None:
    """Derive all indexes from the events again. Call inside a write transaction."""
    connection.execute("DELETE FROM seqs_by_session")
    connection.execute("DELETE FROM ids_by_scope")
    connection.execute(_SET_INDEXED, (0,))
    empty_times(connection)
    newest = fetch_value(connection, "SELECT coalesce(max(position), 0) FROM events")
    enter(connection, newest, many=True)


def rebuild_ids(connection: apsw.Connection) -> None:
    """Write the index by id again, so that no page has bytes of an id that was there before."""
    connection.execute("DELETE FROM ids_by_scope")
    connection.execute(_REBUILD_IDS)


def change_id(
    connection: apsw.Connection, position: int, scope: int, before: bytes, after: bytes
) -> None:
    """Have the index find an event by another id, if it is in there."""
    if position <= indexed_position(connection):
        connection.execute(
            "DELETE FROM ids_by_scope WHERE scope = ? AND event_id = ?", (scope, before)
        )
        connection.execute(
            "INSERT OR IGNORE INTO ids_by_scope (scope, event_id, position) VALUES (?, ?, ?)",
            (scope, after, position),
        )


# By seq.


def position_at(session: str, seq: str) -> str:
    """Return SQL for the position of a session's event at a seq, NULL if it has none.

    Both are SQL that names its tables: a column ``r.session``, a parameter ``?1``.
    """
    return f"""coalesce(
  (SELECT position FROM seqs_by_session WHERE session = {session} AND seq = {seq}),
  (
    SELECT position
    FROM events
    WHERE position > {INDEXED_POSITION} AND session = {session} AND seq = {seq}
    ORDER BY position DESC
    LIMIT 1
  )
)"""


def positions_in(sessions: str) -> str:
    """Return SQL for the positions of all events of sessions; ``sessions`` is = or IN of some."""
    return f"""
SELECT position FROM seqs_by_session WHERE session {sessions}
UNION ALL
SELECT position FROM events WHERE position > {INDEXED_POSITION} AND session {sessions}
"""


class SessionStatements(NamedTuple):
    """The two halves of a read of one session by seq."""

    indexed: str
    tail: str
    backwards: bool
    by_seq: bool
    """Whether the tail is sorted, and read even where the session's head denies it."""

    def of_kinds(self, kinds: Iterable[int]) -> SessionStatements:
        """Return the same with the numbers of ``kinds`` for their place in the SQL."""
        listed = ", ".join(map(str, kinds))
        indexed, tail = (text.format(kinds=listed) for text in (self.indexed, self.tail))
        return SessionStatements(indexed, tail, self.backwards, self.by_seq)


def session_statements(
    columns: str,
    *,
    joins: str = "",
    where: str = "",
    backwards: bool = False,
    by_seq: bool = False,
) -> SessionStatements:
    """Return SQL that reads ``columns`` of a stretch of a session, in the order of seqs.

    The columns begin with position, session and seq. The tail has that order by itself, unless
    another program changed seqs or heads: ``by_seq`` reads it all the same, and sorts it.
    """
    direction = "DESC" if backwards else "ASC"
    order = "seq" if by_seq else "position"
    return SessionStatements(
        f"""
SELECT {columns}
FROM seqs_by_session AS t
CROSS JOIN events AS e ON e.position = t.position
{joins}
WHERE t.session = :session AND t.seq > :after AND t.seq < :before {where}
ORDER BY t.seq {direction}
LIMIT :limit
""",
        f"""
SELECT {columns}
FROM events AS e
{joins}
WHERE e.position > :mark AND e.session = :session AND e.seq > :after AND e.seq < :before {where}
ORDER BY e.{order} {direction}
LIMIT :limit
""",
        backwards,
        by_seq,
    )


LIVE: Final = f"AND e.flags < {EXPIRED}"


# The session's own events begin after the cut of a fork.
SESSION_STATE: Final = f"""
SELECT
  {INDEXED_POSITION},
  (SELECT seq FROM heads WHERE session = ?1),
  (SELECT max(seq) FROM seqs_by_session WHERE session = ?1),
  coalesce((SELECT seq FROM forks WHERE session = ?1), 0)
"""


def session_rows(
    connection: apsw.Connection,
    statements: SessionStatements,
    session: int,
    after: int,
    before: int,
    limit: int,
    **bindings: int | None,
) -> list[Row]:
    """Return up to ``limit`` rows of a session between two seqs.

    It needs no transaction: events up to the mark are in the index whatever is entered meanwhile,
    and those after it stay where they are.
    """
    mark, head, indexed, shared = fetch_one(connection, SESSION_STATE, (session,)) or (
        0,
        None,
        0,
        0,
    )
    mark = mark if isinstance(mark, int) else 0
    indexed = shared if indexed is None else indexed
    index_limit = tail_limit = limit
    if not statements.by_seq and isinstance(head, int) and head >= indexed:
        # The tail has the seqs from the last indexed one to the head. Knowing how many they are
        # ends the walk through it early; mostly there are none, or those of a new fork are all.
        before, after = min(before, head + 1), max(after, shared)
        tail_limit = min(limit, before - 1 - max(after, indexed))
        index_limit = min(limit, indexed - after)

    def read(statement: str, limit: int) -> list[Row]:
        stretch = {"session": session, "after": after, "before": before, "mark": mark}
        return fetch_all(connection, statement, {**stretch, "limit": limit, **bindings})

    if tail_limit <= 0:
        return read(statements.indexed, limit) if index_limit > 0 else []
    if statements.backwards:
        rows = read(statements.tail, tail_limit)
        if rows:
            before = rows[-1][2]
        left = min(index_limit, limit - len(rows))
        return rows + read(statements.indexed, left) if left > 0 else rows
    rows = read(statements.indexed, limit) if index_limit > 0 else []
    if rows:
        # What was entered since the mark was read is not taken twice.
        after, mark = rows[-1][2], max(mark, rows[-1][0])
    left = min(tail_limit, limit - len(rows))
    return rows + read(statements.tail, left) if left > 0 else rows


# By id.


def position_of_id(scope: str, key: str) -> str:
    """Return SQL for the position of the event with an id, NULL if there is none."""
    return f"""coalesce(
  (SELECT position FROM ids_by_scope WHERE scope = {scope} AND event_id = {key}),
  (
    SELECT position
    FROM events
    WHERE position > {INDEXED_POSITION} AND scope = {scope} AND event_id = {key}
    LIMIT 1
  )
)"""


def indexed_ids(connection: apsw.Connection, scope: int, keys: Sequence[bytes]) -> dict[bytes, int]:
    """Return those of ``keys`` that are ids in the index, with their positions."""
    if len(keys) == 1:
        position = fetch_value(connection, _ID_POSITION, (scope, keys[0]))
        return {} if position is None else {keys[0]: position}
    positions: dict[bytes, int] = {}
    for start in range(0, len(keys), IDS_AT_ONCE):
        marks, some = _listed(keys[start : start + IDS_AT_ONCE])
        positions.update(
            connection.execute(
                "SELECT event_id, position FROM ids_by_scope"
                f" WHERE scope = ? AND event_id IN ({marks})",
                (scope, *some),
            )
        )
    return positions


def _listed(keys: Sequence[bytes]) -> tuple[str, Sequence[bytes]]:
    """Return the marks and values of a list in SQL, the last one again and again.

    Lists of few lengths make few statements, which SQLite has prepared already.
    """
    if not keys:
        return "", keys
    length = 1 << (len(keys) - 1).bit_length()
    return ", ".join("?" * length), [*keys, *repeat(keys[-1], length - len(keys))]


def find_ids(connection: apsw.Connection, scope: int, keys: Sequence[bytes]) -> dict[bytes, int]:
    """Return those of ``keys`` that are ids of events, with their positions."""
    # The tail first: what moves from there into the index meanwhile is found in the index.
    if len(keys) <= IDS_AT_ONCE:
        # SQLite compares 1,000 rows with a few keys in a third of the time that it takes to hand
        # them over.
        marks, some = _listed(keys)
        tail = connection.execute(f"{_SCOPE_TAIL} AND event_id IN ({marks})", (scope, *some))
        unindexed = dict(tail)
    else:
        wanted = set(keys)
        tail = connection.execute(_SCOPE_TAIL, (scope,))
        unindexed = {key: position for key, position in tail if key in wanted}
    return indexed_ids(connection, scope, keys) | unindexed


def ids_between(
    connection: apsw.Connection, scope: int, first: bytes, last: bytes, *, limit: int
) -> list[bytes]:
    """Return the first ids that are not names from ``first`` to ``last``, in order."""
    tail = fetch_all(connection, _TAIL_RANGE, (scope, first, last))
    indexed = fetch_all(connection, _INDEXED_RANGE, (scope, first, last, limit))
    return sorted({key for (key,) in [*tail, *indexed]})[:limit]


def tail_ids(connection: apsw.Connection) -> set[tuple[int, bytes]]:
    """Return the scopes and ids of the events in the tail."""
    return set(fetch_all(connection, _TAIL_IDS))


_UNTIMED: Final = f"""
e.position > (SELECT value FROM ledger WHERE name = 'timed_position') AND e.flags < {EXPIRED}
"""
_ENTER_SESSIONS: Final = f"""
INSERT INTO times_by_session (session, ts_ms, position)
SELECT e.session, e.ts_ms, e.position
FROM events AS e
WHERE {_UNTIMED}
"""
_ENTER_KINDS: Final = f"""
INSERT INTO times_by_kind (scope, kind, ts_ms, position)
SELECT e.scope, e.kind, e.ts_ms, e.position
FROM events AS e
WHERE {_UNTIMED}
"""
_SET_TIMED: Final = "UPDATE ledger SET value = ? WHERE name = 'timed_position'"
_RESET_TIMED: Final = """
INSERT INTO ledger (name, value)
VALUES ('timed_position', 0)
ON CONFLICT (name) DO UPDATE SET value = 0
"""
_REMOVE_FROM_SESSION: Final = """
DELETE FROM times_by_session
WHERE (session, ts_ms, position) = (
  SELECT session, ts_ms, position FROM events WHERE position = ?
)
"""
_REMOVE_FROM_KIND: Final = """
DELETE FROM times_by_kind
WHERE (scope, kind, ts_ms, position) = (
  SELECT scope, kind, ts_ms, position FROM events WHERE position = ?
)
"""
_OLDER: Final = f"""
SELECT
  e.session,
  count(*),
  EXISTS (SELECT 1 FROM runs WHERE runs.session = e.session AND runs.state = {RUN_OPEN})
FROM (
  SELECT t.position
  FROM times_by_kind AS t
  WHERE t.scope = :scope AND t.kind = :kind AND t.ts_ms < :cutoff
  UNION ALL
  SELECT e.position
  FROM events AS e
  WHERE {_UNTIMED} AND e.scope = :scope AND e.kind = :kind AND e.ts_ms < :cutoff
) AS old
JOIN events AS e ON e.position = old.position
GROUP BY e.session
"""
_SESSIONS_WITH: Final = f"""
SELECT e.session
FROM times_by_kind AS t
JOIN events AS e ON e.position = t.position
WHERE t.scope = :scope AND t.kind = :kind
UNION
SELECT e.session
FROM events AS e
WHERE {_UNTIMED} AND e.scope = :scope AND e.kind = :kind
"""


def enter_times(connection: apsw.Connection, newest: int, *, many: bool = False) -> None:
    """Enter every event that is not in yet, if there are ``many`` sorted.

    Call inside a write transaction.
    """
    by_session = "ORDER BY e.session, e.ts_ms, e.position" if many else ""
    by_kind = "ORDER BY e.scope, e.kind, e.ts_ms, e.position" if many else ""
    connection.execute(_ENTER_SESSIONS + by_session)
    connection.execute(_ENTER_KINDS + by_kind)
    connection.execute(_SET_TIMED, (newest,))


def remove_times(connection: apsw.Connection, positions: Iterable[int]) -> None:
    """Remove events. Call before their time is blanked."""
    for position in positions:
        connection.execute(_REMOVE_FROM_SESSION, (position,))
        connection.execute(_REMOVE_FROM_KIND, (position,))


def empty_times(connection: apsw.Connection) -> None:
    """Remove all events. Call inside a write transaction, and enter them again."""
    connection.execute("DELETE FROM times_by_session")
    connection.execute("DELETE FROM times_by_kind")
    connection.execute(_RESET_TIMED)


def times_in_session(session: int, kinds: list[int]) -> list[str]:
    """Return where a session's events of ``kinds`` are; of every kind, if none is named."""
    among = _among_kinds(kinds)
    joined = f" JOIN events AS e ON e.position = t.position{among}" if kinds else ""
    return [
        f"times_by_session AS t{joined} WHERE t.session = {session}",
        _untimed_tail(f"e.session = {session}{among}"),
    ]


def times_in_scope(scope: int, kinds: list[int], entered: list[int]) -> list[str]:
    """Return where a scope's events of ``kinds`` are; ``entered`` are those to look up."""
    return [
        *(f"times_by_kind AS t WHERE t.scope = {scope} AND t.kind = {kind}" for kind in entered),
        _untimed_tail(f"e.scope = {scope}{_among_kinds(kinds)}"),
    ]


def time_statement(
    query: Query, places: list[str], columns: str, joins: str, *, turn: int | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the SQL of a query by time: each place in its own order, merged."""
    direction, beyond = ("DESC", "<") if query.backwards else ("ASC", ">")
    window = ""
    if turn is not None:
        window += f" AND (SELECT turn FROM events WHERE position = t.position) = {turn}"
    if query.since_ms is not None:
        window += " AND t.ts_ms >= :since"
    if query.until_ms is not None:
        window += " AND t.ts_ms <= :until"
    if query.after is not None:
        window += f" AND (t.ts_ms, t.position) {beyond} (:ts_ms, :position)"
    arms = [
        f"SELECT t.ts_ms AS ts_ms, t.position AS position FROM {place}{window}" for place in places
    ]
    order = f"ORDER BY ts_ms {direction}, position {direction}"
    text = (
        f"SELECT {columns} FROM ({' UNION ALL '.join(arms)} {order} LIMIT :limit) AS place"
        f" CROSS JOIN events AS e ON e.position = place.position {joins}"
        f" ORDER BY place.ts_ms {direction}, place.position {direction}"
    )
    bindings = {
        "since": query.since_ms,
        "until": query.until_ms,
        "ts_ms": query.after.ts_ms if query.after else None,
        "position": query.after.position if query.after else None,
        "limit": query.limit,
    }
    return text, bindings


def older(connection: apsw.Connection, scope: int, kind: int, cutoff: int) -> list[Row]:
    """Return session, number of events and whether a run is open, for events before ``cutoff``."""
    return fetch_all(connection, _OLDER, {"scope": scope, "kind": kind, "cutoff": cutoff})


def sessions_with(connection: apsw.Connection, scope: int, kind: int) -> set[int]:
    """Return the sessions of a scope that have an event of ``kind``."""
    sessions = fetch_all(connection, _SESSIONS_WITH, {"scope": scope, "kind": kind})
    return {session for (session,) in sessions}


def kinds_of(connection: apsw.Connection, scope: int) -> list[int]:
    """Return the kinds that a scope has, leaping through the table from one to the next."""
    kinds: list[int] = []
    kind: int | None = 0
    while kind is not None:
        kind = fetch_value(
            connection,
            "SELECT min(kind) FROM times_by_kind WHERE scope = ? AND kind > ?",
            (scope, kind),
        )
        if kind is not None:
            kinds.append(kind)
    return kinds


def _among_kinds(kinds: list[int]) -> str:
    return f" AND e.kind IN ({', '.join(map(str, kinds))})" if kinds else ""


def _untimed_tail(wanted: str) -> str:
    tail = f"SELECT e.ts_ms, e.position FROM events AS e WHERE {_UNTIMED} AND {wanted}"
    return f"({tail}) AS t WHERE true"
