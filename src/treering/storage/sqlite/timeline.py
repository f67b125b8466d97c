"""The orders of time: two of the indexes that lag a little after the events (see indexes.py).

Events up to ``timed_position`` are in the tables; the few after it are read by position. A read
merges both and is always exact. The mark is one of its own: a program that does not know the other
indexes yet may still have the file open, and moves this one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.storage.encoding import EXPIRED
from treering.storage.runs import RUN_OPEN
from treering.storage.sqlite.sql import fetch_all, fetch_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from treering.model.queries import Query
    from treering.storage.sqlite.sql import Row

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


def enter(connection: apsw.Connection, newest: int, *, many: bool = False) -> None:
    """Enter every event that is not in yet, if there are ``many`` sorted.

    Call inside a write transaction.
    """
    by_session = "ORDER BY e.session, e.ts_ms, e.position" if many else ""
    by_kind = "ORDER BY e.scope, e.kind, e.ts_ms, e.position" if many else ""
    connection.execute(_ENTER_SESSIONS + by_session)
    connection.execute(_ENTER_KINDS + by_kind)
    connection.execute(_SET_TIMED, (newest,))


def remove(connection: apsw.Connection, positions: Iterable[int]) -> None:
    """Remove events. Call before their time is blanked."""
    for position in positions:
        connection.execute(_REMOVE_FROM_SESSION, (position,))
        connection.execute(_REMOVE_FROM_KIND, (position,))


def empty(connection: apsw.Connection) -> None:
    """Remove all events. Call inside a write transaction, and enter them again."""
    connection.execute("DELETE FROM times_by_session")
    connection.execute("DELETE FROM times_by_kind")
    connection.execute(_RESET_TIMED)


def in_session(session: int, kinds: list[int]) -> list[str]:
    """Return where a session's events of ``kinds`` are; of every kind, if none is named."""
    among = _among(kinds)
    joined = f" JOIN events AS e ON e.position = t.position{among}" if kinds else ""
    return [
        f"times_by_session AS t{joined} WHERE t.session = {session}",
        _tail(f"e.session = {session}{among}"),
    ]


def in_scope(scope: int, kinds: list[int], entered: list[int]) -> list[str]:
    """Return where a scope's events of ``kinds`` are; ``entered`` are those to look up."""
    return [
        *(f"times_by_kind AS t WHERE t.scope = {scope} AND t.kind = {kind}" for kind in entered),
        _tail(f"e.scope = {scope}{_among(kinds)}"),
    ]


def statement(
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


def _among(kinds: list[int]) -> str:
    return f" AND e.kind IN ({', '.join(map(str, kinds))})" if kinds else ""


def _tail(wanted: str) -> str:
    tail = f"SELECT e.ts_ms, e.position FROM events AS e WHERE {_UNTIMED} AND {wanted}"
    return f"({tail}) AS t WHERE true"
