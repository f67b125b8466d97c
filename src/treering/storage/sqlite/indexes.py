"""The indexes of the events: small tables that lag a little after the events.

Entering each event at once would touch four more pages in every commit. So a commit writes the
events, their contents and the heads of their sessions, and every ``LAG_EVENTS_MAX`` events one
commit enters all that are not in the indexes yet. ``indexed_position`` is the last event in them;
the few after it, the tail, are read by position. A read looks at both and is always exact.

    position   1 ........................ 4096 | 4097 .... 4803
               in the indexes                  | tail: at most a few hundred events

A session's events have rising positions. So those in the tail come after all that are indexed, and
a read by seq takes one part, then the other. Decision 0040 has the rules and why they hold.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.storage.encoding import EXPIRED, NAMED
from treering.storage.sqlite import timeline
from treering.storage.sqlite.sql import fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from treering.storage.sqlite.sql import Row

LAG_EVENTS_MAX: Final = 512
"""Events that wait in the tail before they are entered."""
IDS_AT_ONCE: Final = 500
"""Ids that one statement looks for."""

# Reads are right without the mark, and slow; verify reports that it is gone.
INDEXED_POSITION: Final = "coalesce((SELECT value FROM ledger WHERE name = 'indexed_position'), 0)"

# Not sorted: a few hundred events of a few sessions come nearly in the order of the index, so that
# sorting them takes longer than it saves. Ids alone may come in any order.
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
ORDER BY e.scope, e.event_id
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
    connection.execute(_ENTER_IDS)
    connection.execute(_SET_INDEXED, (newest,))
    timeline.enter(connection, newest, many=many)


def rebuild(connection: apsw.Connection) -> None:
    """Derive all indexes from the events again. Call inside a write transaction."""
    connection.execute("DELETE FROM seqs_by_session")
    connection.execute("DELETE FROM ids_by_scope")
    connection.execute(_SET_INDEXED, (0,))
    timeline.empty(connection)
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
