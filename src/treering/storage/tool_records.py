"""Tool records: a projection that follows tool events, with the texts that the events hold.

The tables hold hashes where the events hold texts. Where they lag and may not be written, a private
table takes their place.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from treering.derive.tool_calls import links, record_of, runs_of
from treering.errors import Busy
from treering.garbage import collecting_rarely
from treering.lazy import LazyModule
from treering.model.queries import FollowStep
from treering.storage import tool_table
from treering.storage.encoding import corrupt_on_error
from treering.storage.tool_calls import call_of, groups_of, record_places
from treering.storage.tool_table import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.model.events import Header
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.model.tools import ToolQuery, ToolRecord, ToolStatistics
    from treering.model.views import RunState
    from treering.storage import private_tools
    from treering.storage.encoding import Row
    from treering.storage.private_tools import PrivateTable
    from treering.storage.projections import Pairs, ProjectionTable
    from treering.storage.tool_calls import Facts
    from treering.storage.tool_table import ResolvedToolQuery
else:
    private_tools = LazyModule("treering.storage.private_tools")  # It brings SQLite with it.

ATTEMPTS_MAX: Final = 5
"""How often records are read again when an event of theirs is erased meanwhile."""
PASSED_MAX: Final = 500
"""How many events of other kinds are read again and again before the mark moves past them."""
PRIVATE_MAX: Final = 16
"""The most scopes with a private table."""

Result = TypeVar("Result")


class Stretch(NamedTuple):
    """The next events after a mark."""

    facts: Facts
    last: Mark
    events: int
    more: bool


class ScopePlace(NamedTuple):
    """A scope as the tables have it, and the key of its hashes."""

    scope: int | str
    key: bytes


class ToolDatabase(Protocol):
    """The events and tables of one database, as tool records need them."""

    @property
    def read_only(self) -> bool:
        """Whether the tables may not be written."""

    @property
    def shown(self) -> str:
        """Return where the database is, for errors."""

    def read(self, work: Callable[[Any], Result], scope: Scope) -> Result:
        """Return what ``work`` returns, called with a connection."""

    def read_state(self, work: Callable[[Any], Result], scope: Scope) -> Result:
        """Do the same with a connection that shows one state, whatever others write."""

    def write(self, work: Callable[[Any], Result], scope: Scope) -> Result:
        """Do the same in a transaction, while nobody else follows or erases in the scope."""

    def table(self, connection: Any) -> ProjectionTable:
        """Return the tables."""

    def place(self, connection: Any, scope: Scope) -> ScopePlace | None:
        """Return a scope as the tables have it; None if it has no events."""

    def session(self, connection: Any, scope: Scope, session_id: str) -> int | None:
        """Return the number of a session; None if there is no such session."""

    def is_behind(self, connection: Any, scope: Scope) -> bool:
        """Whether there are events that would change the tables, or many others to pass."""

    def mark(self, connection: Any, scope: Scope) -> Mark:
        """Return the mark up to which events are in the tables."""

    def set_mark(self, connection: Any, scope: Scope, mark: Mark) -> None:
        """Set the mark."""

    def settled(self, connection: Any, scope: Scope, after: Mark, until: Mark) -> Stretch:
        """Return the next events that none can overtake any more.

        ``until`` is where to stop, if the order of events allows to; it may be empty.
        """

    def unsettled(self, connection: Any, scope: Scope, after: Mark) -> Facts:
        """Return all other events after a mark."""

    def erasures(self, connection: Any, scope: Scope) -> int:
        """Return how often something was erased in the scope."""

    def headers(self, scope: Scope, places: Pairs) -> dict[tuple[int, int], Header]:
        """Return the headers of events by session and seq, without those that are gone."""

    def states(
        self, scope: Scope, runs: list[tuple[int, str, str]]
    ) -> dict[tuple[str, str], RunState]:
        """Return the states of runs; each has the number and the name of a session, and an id."""

    def lag(self, scope: Scope) -> int:
        """Return how many tool events of a scope are not in the tables yet."""


class ToolRecords:
    """Answers queries of tool calls, and keeps their tables up to date with the events."""

    def __init__(self, source: ToolDatabase) -> None:
        self._source = source
        self._private: dict[Scope, PrivateTable] = {}
        self.lag = source.lag

    def follow(self, scope: Scope) -> FollowStep:
        """Enter the next events of a scope."""
        source = self._source
        if source.read_only:
            make = private_tools.PrivateTable
            return source.read(lambda c: self._follow_privately(c, scope, make), scope)
        if not source.read(lambda c: source.is_behind(c, scope), scope):
            return FollowStep(0, more=False)
        return source.write(lambda c: self._follow(c, scope), scope)

    def _follow(self, connection: Any, scope: Scope) -> FollowStep:
        source = self._source
        with corrupt_on_error(source.shown):
            after = source.mark(connection, scope)
            stretch = self._enter(connection, source.table(connection), scope, after)
            if stretch.facts or stretch.events >= PASSED_MAX:
                source.set_mark(connection, scope, stretch.last)
        return FollowStep(stretch.events, more=stretch.more)

    def _follow_privately(
        self, connection: Any, scope: Scope, make: Callable[[], PrivateTable]
    ) -> FollowStep:
        source = self._source
        scope_place = source.place(connection, scope)
        # Once the tables lagged, we continue with our own.
        if scope_place is None or not (
            scope in self._private or source.is_behind(connection, scope)
        ):
            return FollowStep(0, more=False)
        private = self._table_of(scope, make)
        erasures = source.erasures(connection, scope)
        with private.using() as table, corrupt_on_error(source.shown):
            if erasures != private.erasures:
                # Something erased since may be in it.
                private.empty()
                private.erasures = erasures
            stretch = self._enter(connection, table, scope, private.seen, only=scope_place.scope)
            private.seen = stretch.last
        return FollowStep(stretch.events, more=stretch.more)

    def _enter(
        self,
        connection: Any,
        table: ProjectionTable,
        scope: Scope,
        after: Mark,
        *,
        until: Mark = (),
        only: int | str | None = None,
    ) -> Stretch:
        """Enter the next events into ``table``; the last step takes those not settled as well.

        ``only`` is the scope to enter, as the tables have it: events of others may come along.
        """
        with collecting_rarely():
            stretch = self._source.settled(connection, scope, after, until)
            later = {} if stretch.more else self._source.unsettled(connection, scope, stretch.last)
            for facts in (stretch.facts, later):
                own = {owner: placed for owner, placed in facts.items() if only in {None, owner}}
                tool_table.take(table, own)
        return stretch

    def _table_of(self, scope: Scope, make: Callable[[], PrivateTable]) -> PrivateTable:
        if scope not in self._private:
            while len(self._private) >= PRIVATE_MAX:
                self._private.pop(next(iter(self._private)))
            self._private[scope] = make()
        return self._private[scope]

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Derive the records of a scope again up to their mark.

        Return how many rows were compared, and the first difference.
        """
        private = private_tools.PrivateTable()
        with corrupt_on_error(self._source.shown):
            return self._source.read_state(lambda c: self._compare(c, scope, private), scope)

    def _compare(
        self, connection: Any, scope: Scope, private: PrivateTable
    ) -> tuple[int, str | None]:
        source = self._source
        scope_place, until = source.place(connection, scope), source.mark(connection, scope)
        if scope_place is None or not any(until):
            return 0, None
        # Newer events may be in the table, or not.
        waiting = source.unsettled(connection, scope, until).get(scope_place.scope, [])
        recent: set[object] = {*groups_of(waiting), *(fact.position for _, fact in waiting)}
        after: Mark = ()
        more = True
        with private.using() as table:
            while more:
                _, after, _, more = self._enter(
                    connection, table, scope, after, until=until, only=scope_place.scope
                )
            return tool_table.difference(
                tool_table.all_rows(source.table(connection), scope_place.scope),
                tool_table.all_rows(table, scope_place.scope),
                recent,
            )

    def page(self, query: ToolQuery) -> list[ToolRecord]:
        """Return up to ``query.limit`` records in the query's direction."""
        for _ in range(ATTEMPTS_MAX):
            rows = self._ask(query, tool_table.page)
            records = self._records(query.scope, rows)
            if len(records) == len(rows):
                return records[::-1] if query.backwards else records
            self._catch_up(query.scope)
        raise _erasing()

    def statistics(self, query: ToolQuery) -> list[ToolStatistics]:
        """Return statistics of each tool, the most called first."""

        def measure(
            table: ProjectionTable, found: ResolvedToolQuery
        ) -> list[tuple[ToolStatistics, Row]]:
            measured = tool_table.statistics(table, found)
            rows = tool_table.rows_at(table, found.scope, [position for position, _ in measured])
            return list(zip((statistic for _, statistic in measured), rows, strict=True))

        for _ in range(ATTEMPTS_MAX):
            pairs = self._ask(query, measure)
            records = self._records(query.scope, [row for _, row in pairs])
            if len(records) == len(pairs):
                named = zip(pairs, records, strict=True)
                return [replace(statistic, tool=record.tool) for (statistic, _), record in named]
            self._catch_up(query.scope)
        raise _erasing()

    def _ask(
        self, query: ToolQuery, ask: Callable[[ProjectionTable, ResolvedToolQuery], list[Result]]
    ) -> list[Result]:
        """Return what ``ask`` returns; nothing if no record can match."""
        source = self._source

        def look(connection: Any) -> list[Result]:
            scope_place, session = source.place(connection, query.scope), None
            if scope_place is None:
                return []
            if query.session_id is not None:
                session = source.session(connection, query.scope, query.session_id)
                if session is None:
                    return []
            with self._tables(connection, query.scope) as table:
                return ask(table, resolve(query, scope_place.scope, scope_place.key, session))

        return source.read(look, query.scope)

    @contextlib.contextmanager
    def _tables(self, connection: Any, scope: Scope) -> Iterator[ProjectionTable]:
        private = self._private.get(scope)
        if private is None:
            yield self._source.table(connection)
        else:
            with private.using() as table:
                yield table

    def _catch_up(self, scope: Scope) -> None:
        while self.follow(scope).more:
            pass

    def _records(self, scope: Scope, rows: list[Row]) -> list[ToolRecord]:
        """Return the records of ``rows``, without those that lost an event."""
        headers = self._source.headers(scope, record_places(rows))
        named = {
            (session, header.session_id, run)
            for (session, _), header in headers.items()
            for run in runs_of(header)
        }
        states = self._source.states(scope, sorted(named)) if named else {}
        with corrupt_on_error(self._source.shown):
            return [
                record_of(
                    call,
                    *(headers.get((row[1], seq or 0)) for seq in links(call)),
                    states=states,
                )
                for row in rows
                if all(pair in headers for pair in record_places([row]))
                for call in (call_of(row),)
            ]


def _erasing() -> Busy:
    return Busy("tool calls are being erased while they are read", hint="ask again")
