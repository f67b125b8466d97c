"""Tool records: the rows of their table with the texts of their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.tool_calls import links, record_of, runs_of
from treering.errors import Busy
from treering.model.followers import FollowStep
from treering.storage import tool_table
from treering.storage.corruption import corrupt_on_error
from treering.storage.encoding import GONE
from treering.storage.postgres import tool_calls, tool_queries
from treering.storage.postgres.rows import HEADER, SESSION, headers
from treering.storage.tool_calls import (
    COLUMNS,
    RUN_STATES,
    call_of,
    groups_of,
    record_places,
)
from treering.storage.tool_queries import asked, statistics_of

if TYPE_CHECKING:
    from treering.model.events import Header
    from treering.model.followers import Mark
    from treering.model.runs import RunState
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolQuery, ToolRecord, ToolStatistics
    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Server
    from treering.storage.private_tools import PrivateTable
    from treering.storage.tool_queries import Measured, ResolvedToolQuery

ATTEMPTS_MAX: Final = 5
"""How often a page is read again when something of it is erased meanwhile."""
PRIVATE_MAX: Final = 16
"""The most scopes with a private table."""

AT_PLACES: Final = f"""
SELECT {HEADER}
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
  AND e.flags & {GONE} = 0
"""
_STATES: Final = """
SELECT r.session, r.run_id, r.state
FROM runs AS r
WHERE r.scope = %s AND (r.session, r.run_id) IN (SELECT * FROM unnest(%b::bigint[], %s::text[]))
"""
_ROWS: Final = f"""
SELECT {", ".join(COLUMNS)} FROM tool_calls WHERE scope = %s AND position = ANY(%b::bigint[])
"""
_SEQ: Final = SESSION + 1


class ToolRecords:
    """Answers queries of tool calls, and keeps their table up to date with the events."""

    def __init__(self, server: Server, cache: IdCache) -> None:
        self._server = server
        self._cache = cache
        self._private: dict[str, PrivateTable] = {}
        """Private tables, for scopes whose table lags and may not be written."""

    def follow(self, scope: Scope) -> FollowStep:
        """Enter the next events of a scope."""
        if self._server.read_only:
            return self._server.read(lambda c: self._follow_privately(c, scope), scope)
        return self._server.write(lambda c: self._follow(c, scope), scope)

    def _follow(self, connection: Connection, scope: Scope) -> FollowStep:
        key = self._cache.scope_key(connection, scope)
        if key is None or not tool_calls.is_behind(connection, scope):
            return FollowStep(0, more=False)
        with connection.transaction(), corrupt_on_error(self._server.address.shown):
            lock(connection, self._cache, scope)
            news = tool_calls.settled(connection, scope, key, tool_calls.mark(connection, scope))
            tool_calls.enter(connection, scope, news.facts)
            if news.facts or news.events >= tool_calls.PASSED_MAX:
                tool_calls.note_mark(connection, scope, news.last)
            if not news.more:
                waiting = tool_calls.unsettled(connection, scope, key, news.last)
                tool_calls.enter(connection, scope, waiting)
        return FollowStep(news.events, more=news.more)

    def _follow_privately(self, connection: Connection, scope: Scope) -> FollowStep:
        key = self._cache.scope_key(connection, scope)
        # Once the table lagged, we continue with our own.
        if key is None or not (scope in self._private or tool_calls.is_behind(connection, scope)):
            return FollowStep(0, more=False)
        private = self._table_of(scope)
        erasures = tool_calls.erasures(connection, scope)
        with private.using() as table, corrupt_on_error(self._server.address.shown):
            if erasures != private.sound_until:
                # Something erased since may be in it.
                private.empty()
                private.sound_until = erasures
            news = tool_calls.settled(connection, scope, key, private.seen or (0, 0, 0))
            tool_table.take(table, 0, news.facts)
            private.seen = news.last
            if not news.more:
                tool_table.take(table, 0, tool_calls.unsettled(connection, scope, key, news.last))
        return FollowStep(news.events, more=news.more)

    def _table_of(self, scope: Scope) -> PrivateTable:
        from treering.storage.private_tools import PrivateTable  # noqa: PLC0415  (it brings SQLite with it)

        if scope not in self._private:
            while len(self._private) >= PRIVATE_MAX:
                self._private.pop(next(iter(self._private)))
            self._private[scope] = PrivateTable()
        return self._private[scope]

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Derive the table of a scope again up to its mark; return what differs."""

        def look(connection: Connection) -> tuple[int, str | None]:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return self._compare(connection, scope)

        with corrupt_on_error(self._server.address.shown):
            return self._server.read(look, scope)

    def _compare(self, connection: Connection, scope: Scope) -> tuple[int, str | None]:
        from treering.storage.private_tools import PrivateTable  # noqa: PLC0415  (it brings SQLite with it)

        key, until = self._cache.scope_key(connection, scope), tool_calls.mark(connection, scope)
        if key is None or not any(until):
            return 0, None
        # Newer events may be in the table, or not.
        waiting = tool_calls.unsettled(connection, scope, key, until)
        recent: set[object] = {*groups_of(waiting), *(fact.position for _, fact in waiting)}
        after: Mark = (0, 0, 0)
        more = True
        with PrivateTable().using() as table:
            while more:
                news = tool_calls.settled(connection, scope, key, after)
                tool_table.take(table, 0, news.facts)
                after, more = news.last, news.more
            tool_table.take(table, 0, tool_calls.unsettled(connection, scope, key, after))
            return tool_table.difference(
                tool_calls.all_rows(connection, scope), tool_table.all_rows(table, 0), recent
            )

    def page(self, query: ToolQuery) -> list[ToolRecord]:
        """Return up to ``query.limit`` records in the query's direction."""
        for _ in range(ATTEMPTS_MAX):
            rows, records = self._server.read(lambda c: self._page(c, query), query.scope)
            if len(rows) == len(records):
                return records[::-1] if query.backwards else records
            self._catch_up(query.scope)
        raise _erasing()

    def _page(self, connection: Connection, query: ToolQuery) -> tuple[list[Row], list[ToolRecord]]:
        found = self._asked(connection, query)
        if found is None:
            return [], []
        private = self._private.get(query.scope)
        if private is None:
            rows = tool_queries.page(connection, found)
        else:
            with private.using() as table:
                rows = tool_table.page(table, msgspec.structs.replace(found, scope=0))
        return rows, self._records(connection, query.scope, rows)

    def statistics(self, query: ToolQuery) -> list[ToolStatistics]:
        """Return statistics of each tool, the most called first."""
        for _ in range(ATTEMPTS_MAX):
            measured, records = self._server.read(lambda c: self._statistics(c, query), query.scope)
            if len(measured) == len(records):
                return [statistics_of(one, records[one.position].tool) for one in measured]
            self._catch_up(query.scope)
        raise _erasing()

    def _statistics(
        self, connection: Connection, query: ToolQuery
    ) -> tuple[list[Measured], dict[int, ToolRecord]]:
        found = self._asked(connection, query)
        if found is None:
            return [], {}
        private = self._private.get(query.scope)
        if private is None:
            measured = tool_queries.statistics(connection, found)
            positions = [one.position for one in measured]
            rows = _fetch(connection, _ROWS, (query.scope, positions))
        else:
            with private.using() as table:
                measured = tool_table.statistics(table, msgspec.structs.replace(found, scope=0))
                rows = tool_table.rows_at(table, [one.position for one in measured])
        records = self._records(connection, query.scope, rows)
        return measured, {record.position: record for record in records}

    def _catch_up(self, scope: Scope) -> None:
        while self.follow(scope).more:
            pass

    def _asked(self, connection: Connection, query: ToolQuery) -> ResolvedToolQuery | None:
        """Return the query with ids in place of names; None if nothing can match."""
        key = self._cache.scope_key(connection, query.scope)
        if key is None:
            return None
        session = None
        if query.session_id is not None:
            session = self._cache.session(connection, query.scope, query.session_id)
            if session is None:
                return None
        return asked(query, query.scope, key, session)

    def _records(self, connection: Connection, scope: Scope, rows: list[Row]) -> list[ToolRecord]:
        """Return the records of ``rows``, without those that lost an event."""
        places = record_places(rows)
        sessions, seqs = [place[0] for place in places], [place[1] for place in places]
        found = _fetch(connection, AT_PLACES, (scope, sessions, seqs))
        with corrupt_on_error(self._server.address.shown):
            names = self._cache.session_names(connection, scope, sessions)
            at = [(row[SESSION], row[_SEQ]) for row in found]
            known = dict(zip(at, headers(found, scope, names), strict=True))
            states = _states(connection, scope, known)
            whole = [row for row in rows if all(p in known for p in record_places([row]))]
            calls = [(row[1], call_of(row)) for row in whole]
            return [
                record_of(
                    call, *(known.get((session, seq or 0)) for seq in links(call)), states=states
                )
                for session, call in calls
            ]


def lock(connection: Connection, cache: IdCache, scope: Scope) -> None:
    """Lock the scope's tool calls until the end of the transaction."""
    number = cache.lock_of(scope, tool_calls.LOCK_NAME)
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (number,))


def _states(
    connection: Connection, scope: Scope, known: dict[tuple[int, int], Header]
) -> dict[tuple[str, str], RunState]:
    """Return the states of the runs of ``known`` headers."""
    names = {session: header.session_id for (session, _), header in known.items()}
    runs = [(session, run) for (session, _), header in known.items() for run in runs_of(header)]
    if not runs:
        return {}
    values = (scope, [run[0] for run in runs], [run[1] for run in runs])
    return {
        (names[session], run): RUN_STATES[state]
        for session, run, state in _fetch(connection, _STATES, values)
    }


def _fetch(connection: Connection, statement: str, values: Any) -> list[Row]:
    return connection.execute(statement, values, binary=True).fetchall()


def _erasing() -> Busy:
    return Busy("tool calls are being erased while they are read", hint="ask again")
