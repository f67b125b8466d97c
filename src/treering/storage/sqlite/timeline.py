"""The orders of time: two small tables that lag a little behind the events.

Entering each event at once would touch two more pages in every commit. So events up to
``timed_position`` are in the tables, and the few behind it are looked through where they lie;
a read merges both and is always exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.storage.sqlite.sql import fetch_all, fetch_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from treering.model.queries import Query
    from treering.storage.sqlite.sql import Row

LAG_EVENTS_MAX: Final = 512
"""So many events wait at most before they are entered."""

_UNTIMED: Final = (
    "e.position > (SELECT value FROM ledger WHERE name = 'timed_position') AND e.flags < 64"
)


def timed_position(connection: apsw.Connection) -> int:
    """Return the position up to which events are entered."""
    position: int = fetch_value(
        connection, "SELECT value FROM ledger WHERE name = 'timed_position'"
    )
    return position


def enter(connection: apsw.Connection, newest: int) -> None:
    """Enter every event that is not in yet. Call inside a write transaction."""
    connection.execute(
        "INSERT INTO times_by_session (session, ts_ms, position)"
        f" SELECT e.session, e.ts_ms, e.position FROM events AS e NOT INDEXED WHERE {_UNTIMED}"
        " ORDER BY e.session, e.ts_ms, e.position"
    )
    connection.execute(
        "INSERT INTO times_by_kind (scope, kind, ts_ms, position)"
        " SELECT e.scope, e.kind, e.ts_ms, e.position"
        f" FROM events AS e NOT INDEXED WHERE {_UNTIMED}"
        " ORDER BY e.scope, e.kind, e.ts_ms, e.position"
    )
    connection.execute("UPDATE ledger SET value = ? WHERE name = 'timed_position'", (newest,))


def remove(connection: apsw.Connection, positions: Iterable[int]) -> None:
    """Take events out again. Call before their time is blanked."""
    for position in positions:
        connection.execute(
            "DELETE FROM times_by_session WHERE (session, ts_ms, position) ="
            " (SELECT session, ts_ms, position FROM events WHERE position = ?)",
            (position,),
        )
        connection.execute(
            "DELETE FROM times_by_kind WHERE (scope, kind, ts_ms, position) ="
            " (SELECT scope, kind, ts_ms, position FROM events WHERE position = ?)",
            (position,),
        )


def rebuild(connection: apsw.Connection) -> None:
    """Make both orders anew from the events. Call inside a write transaction."""
    connection.execute("DELETE FROM times_by_session")
    connection.execute("DELETE FROM times_by_kind")
    connection.execute("UPDATE ledger SET value = 0 WHERE name = 'timed_position'")
    enter(connection, fetch_value(connection, "SELECT coalesce(max(position), 0) FROM events"))


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
    return fetch_all(
        connection,
        "SELECT e.session, count(*), EXISTS"
        " (SELECT 1 FROM runs WHERE runs.session = e.session AND runs.state = 0)"
        " FROM (SELECT t.position FROM times_by_kind AS t"
        "  WHERE t.scope = :scope AND t.kind = :kind AND t.ts_ms < :cutoff"
        f" UNION ALL SELECT e.position FROM events AS e NOT INDEXED WHERE {_UNTIMED}"
        "  AND e.scope = :scope AND e.kind = :kind AND e.ts_ms < :cutoff) AS old"
        " JOIN events AS e ON e.position = old.position GROUP BY e.session",
        {"scope": scope, "kind": kind, "cutoff": cutoff},
    )


def sessions_with(connection: apsw.Connection, scope: int, kind: int) -> set[int]:
    """Return the sessions of a scope that have an event of ``kind``."""
    found = fetch_all(
        connection,
        "SELECT e.session FROM times_by_kind AS t JOIN events AS e ON e.position = t.position"
        " WHERE t.scope = :scope AND t.kind = :kind"
        f" UNION SELECT e.session FROM events AS e NOT INDEXED WHERE {_UNTIMED}"
        " AND e.scope = :scope AND e.kind = :kind",
        {"scope": scope, "kind": kind},
    )
    return {row[0] for row in found}


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
    tail = f"SELECT e.ts_ms, e.position FROM events AS e NOT INDEXED WHERE {_UNTIMED} AND {wanted}"
    return f"({tail}) AS t WHERE true"
