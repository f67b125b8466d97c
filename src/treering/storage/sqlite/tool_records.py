"""Tool records: the rows of their table, with the texts that the events hold."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from treering.derive.tool_calls import links, record_of, runs_of
from treering.errors import Busy
from treering.model.codec import encode
from treering.model.followers import FollowStep
from treering.model.kinds import ERASURE_KINDS
from treering.storage import tool_table
from treering.storage.corruption import corrupt_on_error
from treering.storage.encoding import GONE, name_key
from treering.storage.private_tools import PrivateTable
from treering.storage.sqlite import tool_calls
from treering.storage.sqlite.indexes import position_at
from treering.storage.sqlite.reader import find_scope
from treering.storage.sqlite.rows import HEADER, SESSION
from treering.storage.sqlite.sql import fetch_all, fetch_one, fetch_value
from treering.storage.tool_calls import RUN_STATES, call_of, record_places
from treering.storage.tool_queries import asked, statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from treering.model.events import Header
    from treering.model.runs import RunState
    from treering.model.scopes import Scope
    from treering.model.tool_records import ToolQuery, ToolRecord, ToolStatistics
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.sql import Row
    from treering.storage.sqlite.writer import Writer
    from treering.storage.tool_queries import ResolvedToolQuery

ATTEMPTS_MAX: Final = 5
"""How often records are looked for of which something is erased meanwhile."""

AT_PLACES: Final = f"""
SELECT {HEADER}
FROM json_each(CAST(? AS TEXT)) AS place
CROSS JOIN events AS e ON e.position = {position_at("place.value ->> 0", "place.value ->> 1")}
WHERE e.flags & {GONE} = 0
"""
_SEQ: Final = SESSION + 1


class ToolRecords:
    """Answers what is asked of tool calls, and keeps their table up with the events."""

    def __init__(self, writer: Writer, to_headers: Callable[[list[Row]], list[Header]]) -> None:
        self._database = writer.database
        self._writer = writer
        self._to_headers = to_headers
        self._private: PrivateTable | None = None
        """Replaces the table where that lags and may not be written."""

    def follow(self, scope: Scope | None) -> FollowStep:  # noqa: ARG002  (scopes share a table)
        """Enter the next batch of events, of all scopes."""
        if self._private is not None:
            return self._follow_privately(self._private)
        with self._database.reading() as connection, connection:
            if not tool_calls.is_behind(connection):
                return FollowStep(0, more=False)
        if self._database.read_only:
            self._private = PrivateTable()
            return FollowStep(0, more=True)
        step = FollowStep(0, more=False)

        def work(batch: Batch, _: None) -> None:
            nonlocal step
            connection = batch.connection
            start = tool_calls.seen(connection)
            with corrupt_on_error(self._database.path):
                end, newest = tool_calls.enter(connection, connection, start)
            if end > start:
                tool_calls.note_seen(connection, end)
                batch.dirty = True
            step = FollowStep(end - start, more=end < newest)

        self._writer.transact(work, None)
        return step

    def _follow_privately(self, private: PrivateTable) -> FollowStep:
        with self._database.reading() as source, source, private.using() as table:
            newest = tool_calls.newest(source)
            if tool_calls.has_any(source, private.sound_until, newest, ERASURE_KINDS):
                # What was erased since may have been entered before.
                private.empty()
            if not private.seen:
                private.sound_until = newest
            start = sum(private.seen)
            with corrupt_on_error(self._database.path):
                end, newest = tool_calls.enter(source, table, start)
            private.seen = (end,)
        return FollowStep(end - start, more=end < newest)

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Derive the table of a scope again, up to its mark; say what differs."""
        fresh = PrivateTable()
        with self._database.reading() as source, source, fresh.using() as table:
            place = find_scope(source, scope)[0]
            seen, start = tool_calls.seen(source), 0
            with corrupt_on_error(self._database.path):
                while start < seen:
                    start, _ = tool_calls.enter(source, table, start, until=seen, scope=place)
            count, flaw = tool_table.difference(
                tool_table.all_rows(source, place), tool_table.all_rows(table, place)
            )
        return count, flaw

    def page(self, query: ToolQuery) -> list[ToolRecord]:
        """Return up to ``query.limit`` records in the query's direction."""
        for _ in range(ATTEMPTS_MAX):
            with self._open() as (source, table):
                found = self._asked(source, query)
                rows = tool_table.page(table, found) if found else []
                headers = _headers_of(source, rows)
            records = self._records(rows, headers)
            if len(records) == len(rows):
                return records[::-1] if query.backwards else records
            self._catch_up()
        raise _erasing()

    def statistics(self, query: ToolQuery) -> list[ToolStatistics]:
        """Return statistics of each tool, the most called first."""
        for _ in range(ATTEMPTS_MAX):
            with self._open() as (source, table):
                found = self._asked(source, query)
                measured = tool_table.statistics(table, found) if found else []
                rows = tool_table.rows_at(table, [one.position for one in measured])
                headers = _headers_of(source, rows)
            records = self._records(rows, headers)
            if len(records) == len(measured):
                return [
                    statistics_of(one, record.tool)
                    for one, record in zip(measured, records, strict=True)
                ]
            self._catch_up()
        raise _erasing()

    def _catch_up(self) -> None:
        while self.follow(None).more:
            pass

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[apsw.Connection, apsw.Connection]]:
        """Lend the events and the table, both as of one moment."""
        with self._database.reading() as source, source:
            if self._private is None:
                yield source, source
            else:
                with self._private.using() as table:
                    yield source, table

    def _asked(self, source: apsw.Connection, query: ToolQuery) -> ResolvedToolQuery | None:
        """Return the query in numbers; None if nothing can be found."""
        scope = fetch_one(source, "SELECT id, key FROM scopes WHERE name = ?", (query.scope,))
        if scope is None:
            return None
        session = None
        if query.session_id is not None:
            session = fetch_value(
                source,
                "SELECT id FROM sessions WHERE scope = ? AND key = ?",
                (scope[0], name_key(scope[1], query.session_id)),
            )
            if session is None:
                return None
        return asked(query, scope[0], scope[1], session)

    def _records(self, rows: list[Row], header_rows: list[Row]) -> list[ToolRecord]:
        """Return the records of ``rows``; without those of which an event is gone."""
        places = [(row[SESSION], row[_SEQ]) for row in header_rows]
        headers = dict(zip(places, self._to_headers(header_rows), strict=True))
        whole = [row for row in rows if all(place in headers for place in record_places([row]))]
        with corrupt_on_error(self._database.path):
            calls = [(row[1], call_of(row)) for row in whole]
            states = self._states(headers)
            return [
                record_of(
                    call,
                    *(headers.get((session, seq or 0)) for seq in links(call)),
                    states=states,
                )
                for session, call in calls
            ]

    def _states(self, headers: dict[tuple[int, int], Header]) -> dict[tuple[str, str], RunState]:
        """Return the states of the runs that ``headers`` name."""
        runs = {
            (session, header.session_id, run)
            for (session, _), header in headers.items()
            for run in runs_of(header)
        }
        states: dict[tuple[str, str], RunState] = {}
        with self._database.reading() as connection:
            for session, session_id, run in runs:
                state = fetch_value(
                    connection,
                    "SELECT state FROM runs WHERE session = ? AND run = ?",
                    (session, tool_calls.name_id(connection, run)),
                )
                if state is not None:
                    states[session_id, run] = RUN_STATES[state]
        return states


def _headers_of(source: apsw.Connection, rows: list[Row]) -> list[Row]:
    return fetch_all(source, AT_PLACES, (encode(record_places(rows)),))


def _erasing() -> Busy:
    return Busy("tool calls are being erased while they are read", hint="ask again")
