"""Reading: short pages, each by its index, built after the connection is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.storage.sqlite import rows
from treering.storage.sqlite.rows import CONTENT, HEADER, JOINS, name_key
from treering.storage.sqlite.sql import fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from treering.ledger.records import Record
    from treering.model.events import Event, Header
    from treering.model.queries import Query
    from treering.model.scopes import Scope
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.known import SessionTexts, Texts
    from treering.storage.sqlite.sql import Row

LAST: Final = 2**62
"""Behind every seq and position."""
SCAN_ROWS_MAX: Final = 2_000
"""Rows of all scopes that one step of following looks at."""
RUN_PAGE: Final = 1_000


class Reader:
    """Answers reads from the pool of reading connections."""

    def __init__(self, database: Database, names: Texts, sessions: SessionTexts) -> None:
        self._database = database
        self._names = names
        self._sessions = sessions

    # By time, over a scope or a session.

    def headers(self, query: Query) -> list[Header]:
        """Return up to ``query.limit`` headers in the query's direction."""
        found = self._by_time(query, HEADER, "")
        return rows.headers(found, self._names, self._sessions)

    def events(self, query: Query) -> list[Event]:
        """Return the same as ``headers``, with payloads."""
        found = self._by_time(query, f"{HEADER}, {CONTENT}", JOINS)
        return rows.events(found, self._names, self._sessions)

    def _by_time(self, query: Query, columns: str, joins: str) -> list[Row]:
        with self._database.reading() as connection:
            scope, scope_key = _scope(connection, query.scope)
            kinds = _kinds(connection, query.kinds)
            if not scope or (query.kinds and not kinds):
                return []
            if query.session_id is not None:
                session = _session(connection, scope, scope_key, query.session_id)
                if not session:
                    return []
                arms = [f"e.session = {session}{_one_of(kinds)}"]
            else:
                present = kinds or _present_kinds(connection, scope)
                arms = [f"e.scope = {scope} AND e.kind = {kind}" for kind in present]
            if not arms:
                return []
            statement, bindings = time_statement(query, arms, columns, joins)
            found = fetch_all(connection, statement, bindings)
        return found[::-1] if query.backwards else found

    # By seq, within a session.

    def session_headers(
        self, scope: Scope, session_id: str, *, after_seq: int, limit: int
    ) -> list[Header]:
        """Return headers of a session in order, behind ``after_seq``."""
        found = self._by_seq(scope, session_id, after_seq, LAST, limit, HEADER, "", "ASC")
        return rows.headers(found, self._names, self._sessions)

    def session_events(
        self, scope: Scope, session_id: str, *, after_seq: int, limit: int
    ) -> list[Event]:
        """Return events of a session in order, behind ``after_seq``."""
        columns = f"{HEADER}, {CONTENT}"
        found = self._by_seq(scope, session_id, after_seq, LAST, limit, columns, JOINS, "ASC")
        return rows.events(found, self._names, self._sessions)

    def last_headers(
        self, scope: Scope, session_id: str, *, before_seq: int | None, limit: int
    ) -> list[Header]:
        """Return the last headers of a session, before ``before_seq``, in order."""
        found = self._by_seq(scope, session_id, 0, before_seq or LAST, limit, HEADER, "", "DESC")
        return rows.headers(found[::-1], self._names, self._sessions)

    def last_events(
        self, scope: Scope, session_id: str, *, before_seq: int | None, limit: int
    ) -> list[Event]:
        """Return the last events of a session, before ``before_seq``, in order."""
        columns, before = f"{HEADER}, {CONTENT}", before_seq or LAST
        found = self._by_seq(scope, session_id, 0, before, limit, columns, JOINS, "DESC")
        return rows.events(found[::-1], self._names, self._sessions)

    def _by_seq(
        self,
        scope: Scope,
        session_id: str,
        after: int,
        before: int,
        limit: int,
        columns: str,
        joins: str,
        direction: str,
    ) -> list[Row]:
        with self._database.reading() as connection:
            session = _session(connection, *_scope(connection, scope), session_id)
            if not session:
                return []
            return fetch_all(
                connection,
                seq_statement(columns, joins, direction),
                (session, after, before, limit),
            )

    def run_events(self, scope: Scope, session_id: str, run_id: str) -> Iterator[Event]:
        """Return the events of one run, in order."""
        with self._database.reading() as connection:
            session = _session(connection, *_scope(connection, scope), session_id)
            run = _name(connection, run_id)
            stretch = fetch_one(
                connection,
                "SELECT first_seq, coalesce(last_seq, ?) FROM runs WHERE session = ? AND run = ?",
                (LAST, session, run),
            )
        after, last = (stretch[0] - 1, stretch[1]) if stretch else (0, 0)
        while after < last:
            found = self.session_events(scope, session_id, after_seq=after, limit=RUN_PAGE)
            if not found:
                return
            yield from (e for e in found if e.run_id == run_id and e.seq <= last)
            after = found[-1].seq

    # By id and by position.

    def find(self, scope: Scope, event_id: str) -> Event | None:
        """Return the event with this id, or None."""
        with self._database.reading() as connection:
            number, scope_key = _scope(connection, scope)
            found = fetch_all(
                connection,
                f"SELECT {HEADER}, {CONTENT} FROM events AS e {JOINS}"  # noqa: S608
                " WHERE e.scope = ? AND e.event_id = ? AND e.flags < 64",
                (number, rows.id_key(scope_key, event_id)[0]),
            )
        return next(iter(rows.events(found, self._names, self._sessions)), None)

    def positions_after(
        self, scope: Scope, position: int, *, limit: int
    ) -> tuple[list[Event], int]:
        """Return events of the scope behind ``position``, and the position looked at last."""
        found, last = self._by_position(scope, position, limit, "AND e.flags < 64")
        return rows.events(found, self._names, self._sessions), last

    def records_after(self, scope: Scope, position: int, *, limit: int) -> tuple[list[Record], int]:
        """Return stored events of a scope behind ``position``, and the position looked at last."""
        found, last = self._by_position(scope, position, limit, "")
        return rows.records(found, self._names, self._sessions), last

    def _by_position(
        self, scope: Scope, position: int, limit: int, condition: str
    ) -> tuple[list[Row], int]:
        with self._database.reading() as connection:
            number = _scope(connection, scope)[0]
            newest = fetch_value(connection, "SELECT max(position) FROM events") or 0
            last = min(newest, position + max(limit, SCAN_ROWS_MAX))
            found = fetch_all(
                connection,
                f"SELECT {HEADER}, {CONTENT} FROM events AS e {JOINS}"  # noqa: S608
                f" WHERE e.position > ? AND e.position <= ? AND e.scope = ? {condition}"
                " ORDER BY e.position LIMIT ?",
                (position, last, number, limit),
            )
        if len(found) == limit:
            last = found[-1][0]
        return found, max(last, position)

    def last_position(self) -> int:
        """Return the position of the newest event, 0 if there is none."""
        with self._database.reading() as connection:
            return fetch_value(connection, "SELECT max(position) FROM events") or 0

    def records(self, scope: Scope, session_id: str, *, after_seq: int, limit: int) -> list[Record]:
        """Return stored events of a session in order, erased ones included."""
        with self._database.reading() as connection:
            session = _session(connection, *_scope(connection, scope), session_id)
            found = fetch_all(
                connection,  # A left join: a payload row that was torn out must not hide its event.
                f"SELECT {HEADER}, {CONTENT} FROM events AS e LEFT {JOINS.lstrip()}"  # noqa: S608
                " WHERE e.session = ? AND e.seq > ? ORDER BY e.seq LIMIT ?",
                (session, after_seq, limit),
            )
        return rows.records(found, self._names, self._sessions)

    def _of_kinds(self, scope: Scope, session_id: str, kinds: list[str]) -> list[Event]:
        with self._database.reading() as connection:
            session = _session(connection, *_scope(connection, scope), session_id)
            chosen = _kinds(connection, tuple(kinds))
            found = fetch_all(
                connection,
                f"SELECT {HEADER}, {CONTENT} FROM events AS e {JOINS}"  # noqa: S608
                f" WHERE e.session = ? AND e.kind IN ({', '.join(map(str, chosen))})"
                " ORDER BY e.seq",
                (session,),
            )
        return rows.events(found, self._names, self._sessions)


def time_statement(
    query: Query, arms: list[str], columns: str, joins: str
) -> tuple[str, dict[str, Any]]:
    """Return the SQL that reads ``arms``, each in index order, merged by time."""
    direction, beyond = ("DESC", "<") if query.backwards else ("ASC", ">")
    conditions = ["e.flags < 64"]
    if query.since_ms is not None:
        conditions.append("e.ts_ms >= :since")
    if query.until_ms is not None:
        conditions.append("e.ts_ms <= :until")
    if query.after is not None:
        # The first half finds the place by index, the second steps over events of the same time.
        conditions.append(f"e.ts_ms {beyond}= :ts_ms")
        conditions.append(f"(e.ts_ms {beyond} :ts_ms OR e.position {beyond} :position)")
    where = " AND ".join(conditions)
    places = " UNION ALL ".join(
        f"SELECT e.ts_ms AS ts_ms, e.position AS position FROM events AS e WHERE {arm} AND {where}"  # noqa: S608
        for arm in arms
    )
    order = f"ORDER BY ts_ms {direction}, position {direction} LIMIT :limit"
    statement = (
        f"SELECT {columns} FROM ({places} {order}) AS place"  # noqa: S608
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
    return statement, bindings


def seq_statement(columns: str, joins: str, direction: str) -> str:
    """Return the SQL that reads a stretch of a session."""
    return (
        f"SELECT {columns} FROM events AS e {joins}"  # noqa: S608
        " WHERE e.session = ? AND e.seq > ? AND e.seq < ? AND e.flags < 64"
        f" ORDER BY e.seq {direction} LIMIT ?"
    )


def _scope(connection: apsw.Connection, name: str) -> tuple[int, bytes]:
    row = fetch_one(connection, "SELECT id, key FROM scopes WHERE name = ?", (name,))
    return (row[0], row[1]) if row else (0, b"")


def _session(connection: apsw.Connection, scope: int, scope_key: bytes, name: str) -> int:
    return (
        fetch_value(
            connection,
            "SELECT id FROM sessions WHERE scope = ? AND key = ?",
            (scope, name_key(scope_key, name)),
        )
        or 0
    )


def _name(connection: apsw.Connection, text: str) -> int:
    key = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'name_key'")
    return (
        fetch_value(connection, "SELECT id FROM names WHERE key = ?", (name_key(key, text),)) or 0
    )


def _kinds(connection: apsw.Connection, names: tuple[str, ...]) -> list[int]:
    return [kind for kind in (_name(connection, name) for name in names) if kind]


def _one_of(kinds: list[int]) -> str:
    return f" AND e.kind IN ({', '.join(map(str, kinds))})" if kinds else ""


def _present_kinds(connection: apsw.Connection, scope: int) -> list[int]:
    """Return the kinds that a scope has, leaping through the index from one to the next."""
    kinds: list[int] = []
    kind: int | None = 0
    while kind is not None:
        kind = fetch_value(
            connection,
            "SELECT min(e.kind) FROM events AS e WHERE e.scope = ? AND e.kind > ? AND e.flags < 64",
            (scope, kind),
        )
        if kind is not None:
            kinds.append(kind)
    return kinds
