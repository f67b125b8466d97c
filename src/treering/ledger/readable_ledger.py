"""Reading a ledger: by time, by session, by tool and by run; searching and following it."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Unpack

from treering.errors import NotFound, NotPermitted
from treering.lazy import LazyModule
from treering.ledger.following import Follower, cursor_at
from treering.ledger.paging import make_query, read_page, read_session_page
from treering.model.events import Event, Header
from treering.model.fields import check_count, check_id, check_list, check_name, check_text
from treering.model.queries import PAGE_ITEMS_DEFAULT, VIEW_ITEMS_DEFAULT
from treering.model.scopes import parse_scope
from treering.model.searches import HITS_DEFAULT
from treering.model.tools import ToolQuery, check_reason, parse_statuses

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from treering.ledger import runs, scopes, search
    from treering.ledger import tool_calls as tools
    from treering.ledger.drafts import Drafter
    from treering.ledger.memory_factory import MemoryFactory
    from treering.ledger.ports import Clock, EventStore
    from treering.ledger.records import EventLocation
    from treering.ledger.runs import RunOutline, RunView
    from treering.ledger.scopes import ScopeOutline
    from treering.model import search_queries
    from treering.model.queries import EventFilters, Page
    from treering.model.searches import SearchResult
    from treering.model.tools import Order, ToolFilters, ToolRecord, ToolStatistics
else:
    runs = LazyModule("treering.ledger.runs")
    scopes = LazyModule("treering.ledger.scopes")
    search = LazyModule("treering.ledger.search")
    search_queries = LazyModule("treering.model.search_queries")
    tools = LazyModule("treering.ledger.tool_calls")


class ReadableLedger:
    """Reading a ledger. It writes derived data only."""

    def __init__(
        self, store: EventStore, *, drafter: Drafter, clock: Clock, memory_factory: MemoryFactory
    ) -> None:
        self._store = store
        self._memory_factory = memory_factory
        self._drafter = drafter
        self._clock = clock

    def scopes(
        self, *, limit: int = PAGE_ITEMS_DEFAULT, after: str | None = None
    ) -> Page[ScopeOutline]:
        """Return a page of the scopes that have sessions, by name; only those you may see.

        ``after`` is the ``next_cursor`` of the previous page.
        """
        cursor = None if after is None else check_text(after, "after")
        return scopes.list_scopes(self._store, limit=check_count(limit, "limit"), after=cursor)

    def headers(
        self,
        scope: str,
        *,
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
        **filters: Unpack[EventFilters],
    ) -> Page[Header]:
        """Return a page of the headers of a scope by time: the ``first`` ones, or the ``last``.

        ``turn_id`` limits it to one turn; with ``session_id``, only that session is searched for
        it. ``since_ms`` and ``until_ms`` are milliseconds since 1970, both inclusive. ``after`` is
        the ``next_cursor`` of the previous page; with ``last`` it continues towards the past.
        """
        query = make_query(scope, first=first, last=last, **filters)
        return read_page(self._store, Header, query, after)

    def events(
        self,
        scope: str,
        *,
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
        **filters: Unpack[EventFilters],
    ) -> Page[Event]:
        """Return the same as ``headers``, with payloads; large payloads make a page shorter."""
        query = make_query(scope, first=first, last=last, **filters)
        return read_page(self._store, Event, query, after)

    def replay(
        self, scope: str, session_id: str, *, first: int | None = None, after: str | None = None
    ) -> Page[Header]:
        """Return headers of a session in the order in which they were recorded, by seq.

        ``headers`` goes by ``ts_ms``, the time they happened: it lists an event that arrived late
        before events that were recorded earlier.
        """
        query = make_query(scope, session_id=session_id, first=first)
        return read_session_page(self._store, Header, query, after)

    def replay_events(
        self, scope: str, session_id: str, *, first: int | None = None, after: str | None = None
    ) -> Page[Event]:
        """Return the same as ``replay``, with payloads; large payloads make a page shorter."""
        query = make_query(scope, session_id=session_id, first=first)
        return read_session_page(self._store, Event, query, after)

    def event(self, scope: str, event_id: str) -> Event:
        """Return one event with its payload. Raise NotFound if the scope does not have it."""
        event = self._store.reader.find(parse_scope(scope), check_id(event_id))
        if event is None:
            raise NotFound(f"no event {event_id} in scope {scope}", hint="check id and scope")
        return event

    def find_ids(self, scope: str, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return session, seq and time of the events with these ids; unknown ids are left out.

        Ids of redacted and expired events are found, too: they are never used again.
        """
        ids = [check_id(event_id) for event_id in check_list(event_ids, "event_ids")]
        return self._store.reader.find_ids(parse_scope(scope), ids)

    def event_ids(self, scope: str, prefix: str, *, limit: int = PAGE_ITEMS_DEFAULT) -> list[str]:
        """Return the ids of events that start with ``prefix``, in order, at most ``limit``.

        Only UUIDs are found: Treering and its importers create such ids. Ids of redacted and
        expired events are included.
        """
        return self._store.reader.ids_starting(
            parse_scope(scope), check_text(prefix, "prefix"), limit=check_count(limit, "limit")
        )

    def tool_calls(
        self,
        scope: str,
        *,
        status: str | Sequence[str] | None = None,
        reason: str | None = None,
        order: Order = "time",
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[ToolFilters],
    ) -> Page[ToolRecord]:
        """Return one record for each tool call of a scope, including failed runs.

        ``status`` is one or several; ``"failing"`` is failed or synthetic. ``order="slowest"``
        gives the longest first. ``progress`` is called with the events read.
        """
        query = ToolQuery(
            scope=parse_scope(scope),
            statuses=parse_statuses(status),
            reason=None if reason is None else check_reason(reason),
            order=order,
            limit=tools.limit_of(first, last),
            backwards=last is not None,
            **filters,
        )
        return tools.read_page(self._store, query, after=after, progress=progress)

    def tool_statistics(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        tool: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[ToolStatistics]:
        """Return statistics of each tool of a scope: outcomes and durations."""
        query = ToolQuery(
            scope=parse_scope(scope),
            session_id=session_id,
            tool=tool,
            since_ms=since_ms,
            until_ms=until_ms,
        )
        return tools.read_statistics(self._store, query, progress=progress)

    def search(
        self,
        query: str,
        *,
        scope: str | Sequence[str] | None = None,
        all_scopes: bool = False,
        mode: str = "words",
        limit: int = HITS_DEFAULT,
        include_failed: bool = False,
        zone: tzinfo = UTC,
        progress: Callable[[int], None] | None = None,
    ) -> SearchResult:
        """Find events; the best first, by session.

        ``scope`` is one scope or a list of them; ``all_scopes=True`` asks for all instead.
        ``mode="words"``: every word must occur, in any order; case and accents do not matter:
        ``deploy* "no such table" -draft kind:tool.call agent: session: tool: file: after:3d
        before:2026-03-05``. If few events have all words, those with most of them follow, marked as
        partial. If few have a word, it is also searched inside names in code.
        ``"hybrid"`` takes a question as you would ask a person, and compares words, meaning and
        neighbouring events; ``"semantic"`` compares meaning only. Operators filter all modes.
        Runs that failed or were interrupted are left out, unless ``include_failed`` is True.
        Times without a zone are in ``zone``. ``progress`` is called with the number of events
        indexed since its last call.
        """
        results = [
            search.search(
                self._store,
                self._drafter.guard(),
                search_queries.SearchRequest(
                    text=query,
                    scope=asked_scope,
                    mode=mode,
                    limit=limit,
                    include_failed=include_failed,
                    now_ms=self._clock(),
                    local_offset_ms=search.zone_offset(zone),
                ),
                progress=progress,
                scope_memory=self._memory_factory.scope_memories.of,
            )
            for asked_scope in scopes.asked_scopes(self._store, scope, all_scopes=all_scopes)
        ]
        is_one = isinstance(scope, str) and not all_scopes
        return results[0] if is_one else search.merged(results, query, limit)

    def matches_elsewhere(
        self, query: str, *, scope: str, include_failed: bool = False, zone: tzinfo = UTC
    ) -> int:
        """Return how many events of other scopes have all words of a query.

        It counts indexed events only, up to 1,000 per scope; none for a role that is limited to one
        scope.
        """
        here = parse_scope(scope)
        parsed = search_queries.parse_search(
            query, here, now_ms=self._clock(), local_offset_ms=search.zone_offset(zone)
        )
        try:
            others = [name for name in scopes.scope_names(self._store) if name != here]
        except NotPermitted:
            return 0
        return search.count_matches(self._store, parsed, others, include_failed=include_failed)

    def runs(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        failing: bool = False,
        limit: int = PAGE_ITEMS_DEFAULT,
        after: str | None = None,
    ) -> Page[RunOutline]:
        """Return a page of overviews of the runs of a scope, newest first.

        ``failing`` leaves out runs that are open or succeeded. ``since_ms`` and ``until_ms`` limit
        the time of their start. ``after`` is the ``next_cursor`` of the previous page. A page
        searches about 100,000 runs: it may be short or empty although more follow.
        """
        query = make_query(
            scope, session_id=session_id, since_ms=since_ms, until_ms=until_ms, first=limit
        )
        return runs.list_runs(self._store, query, failing=failing, after=after)

    def run_ids(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        limit: int = PAGE_ITEMS_DEFAULT,
        after: str | None = None,
    ) -> Page[str]:
        """Return a page of the ids of the runs of a scope, the newest first."""
        query = make_query(scope, session_id=session_id, first=limit)
        return runs.list_run_ids(self._store, query, after=after)

    def run(self, scope: str, run_id: str, *, session_id: str | None = None) -> RunOutline:
        """Return an overview of one run. Raise NotFound if it is not among the latest 100,000.

        A run whose id is a UUID of version 7 is found however old it is.
        """
        return runs.outline_run(self._store, *self._find_run(scope, run_id, session_id))

    def run_view(
        self,
        scope: str,
        run_id: str,
        *,
        session_id: str | None = None,
        events_max: int = VIEW_ITEMS_DEFAULT,
        progress: Callable[[int], None] | None = None,
    ) -> RunView:
        """Return one run from start to end, without private content. Raise NotFound as ``run``.

        A run of more than ``events_max`` events is shown by its first and last ones; the same limit
        holds for its tool calls. ``progress`` is called with the number of events read.
        """
        started, _ = self._find_run(scope, run_id, session_id)
        events_max = check_count(events_max, "events_max")
        return runs.view_run(self._store, started, limit=events_max, progress=progress)

    def _find_run(
        self, scope: str, run_id: str, session_id: str | None
    ) -> tuple[Header, Header | None]:
        session = None if session_id is None else check_name(session_id, "session_id")
        name = check_name(run_id, "run_id")
        return runs.find_run(self._store, parse_scope(scope), name, session_id=session)

    def run_headers(self, scope: str, session_id: str, run_id: str) -> Iterator[Header]:
        """Return an iterator over the headers of one run, in order."""
        return self._store.reader.by_run(
            Header,
            parse_scope(scope),
            check_name(session_id, "session_id"),
            check_name(run_id, "run_id"),
        )

    def run_events(self, scope: str, session_id: str, run_id: str) -> Iterator[Event]:
        """Return the same as ``run_headers``, with payloads."""
        return self._store.reader.by_run(
            Event,
            parse_scope(scope),
            check_name(session_id, "session_id"),
            check_name(run_id, "run_id"),
        )

    def follow(
        self,
        scope: str,
        *,
        after: str | None = None,
        committed: bool = False,
        idle_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> Follower[Header]:
        """Return an iterator over existing and new headers, in order.

        With ``committed``, events of a run are returned only once it has succeeded. It ends after
        ``idle_s`` seconds without new events, or when ``stop`` is set; otherwise never.
        """
        return Follower(
            self._store, parse_scope(scope), Header,
            after=after, committed=committed, idle_s=idle_s, stop=stop,
        )  # fmt: skip

    def end_cursor(self, scope: str) -> str:
        """Return a cursor after all events of a scope, to follow only later ones."""
        name = parse_scope(scope)
        return cursor_at(name, self._store.reader.end(name))

    def follow_events(
        self,
        scope: str,
        *,
        after: str | None = None,
        committed: bool = False,
        idle_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> Follower[Event]:
        """Return the same as ``follow``, with payloads."""
        return Follower(
            self._store, parse_scope(scope), Event,
            after=after, committed=committed, idle_s=idle_s, stop=stop,
        )  # fmt: skip
