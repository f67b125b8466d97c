"""The archive: all that a ledger holds, read by time, by tool and by run, and followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import NotFound
from treering.ledger import tool_calls as tools
from treering.ledger.following import Follower, cursor_at
from treering.ledger.paging import make_query, read_page, read_session_page
from treering.ledger.search import catch_up, search
from treering.model.fields import check_id, check_list, check_name
from treering.model.scopes import Scope, parse_scope
from treering.model.searches import HITS_DEFAULT
from treering.model.tool_records import ToolQuery, parse_statuses
from treering.model.tools import check_reason

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.drafts import Drafter
    from treering.ledger.memory_factory import MemoryFactory
    from treering.ledger.ports import Clock, EventStore
    from treering.ledger.records import EventLocation
    from treering.model.events import Event, Header
    from treering.model.queries import Page
    from treering.model.searches import SearchResult
    from treering.model.tool_records import Order, ToolRecord, ToolStatistics


class ReadableLedger:
    """What a ledger holds. Reading it writes nothing that is not derived."""

    def __init__(
        self, store: EventStore, *, drafter: Drafter, clock: Clock, memory_factory: MemoryFactory
    ) -> None:
        self._store = store
        self._memory_factory = memory_factory
        self._drafter = drafter
        self._clock = clock

    def query(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        kinds: Sequence[str] = (),
        turn_id: str | None = None,
        since: int | None = None,
        until: int | None = None,
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
    ) -> Page[Header]:
        """Return headers of a scope by time: the first so many, or the last.

        ``turn_id`` keeps to one turn; with ``session_id``, no other session is looked through for
        it. ``since`` and ``until`` are milliseconds since 1970, both inclusive. ``after`` is the
        ``next_cursor`` of the page before; with ``last`` it goes on towards the past.
        """
        query = make_query(scope, session_id, kinds, since, until, first, last, turn_id=turn_id)
        return read_page(self._store, query, after, self._store.headers)

    def events(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        kinds: Sequence[str] = (),
        turn_id: str | None = None,
        since: int | None = None,
        until: int | None = None,
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
    ) -> Page[Event]:
        """Return the same as ``query``, with payloads; a page of large ones is shorter."""
        query = make_query(scope, session_id, kinds, since, until, first, last, turn_id=turn_id)
        return read_page(self._store, query, after, self._store.events)

    def replay(
        self, scope: str, session_id: str, *, first: int | None = None, after: str | None = None
    ) -> Page[Header]:
        """Return headers of a session in the order in which they were recorded, by seq.

        ``query`` goes by ``ts_ms``, when they happened: what arrived late stands there before what
        was recorded earlier.
        """
        query = make_query(scope, session_id, (), None, None, first, None)
        return read_session_page(self._store, query, after, self._store.session_headers)

    def replay_events(
        self, scope: str, session_id: str, *, first: int | None = None, after: str | None = None
    ) -> Page[Event]:
        """Return the same as ``replay``, with payloads; a page of large ones is shorter."""
        query = make_query(scope, session_id, (), None, None, first, None)
        return read_session_page(self._store, query, after, self._store.session_events)

    def event(self, scope: str, event_id: str) -> Event:
        """Return one event with its payload. Raises NotFound if the scope has none such."""
        found = self._store.find(parse_scope(scope), check_id(event_id))
        if found is None:
            raise NotFound(f"no event {event_id} in scope {scope}", hint="check id and scope")
        return found

    def known(self, scope: str, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return where the events with these ids stand, as far as the scope has ever had such.

        Ids of redacted and expired events are known, too: they do not come back.
        """
        ids = [check_id(one) for one in check_list(event_ids, "event_ids")]
        return self._store.find_ids(parse_scope(scope), ids)

    def tool_calls(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        call_id: str | None = None,
        tool: str | None = None,
        status: str | Sequence[str] | None = None,
        reason: str | None = None,
        run_id: str | None = None,
        since: int | None = None,
        until: int | None = None,
        order: Order = "time",
        first: int | None = None,
        last: int | None = None,
        after: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Page[ToolRecord]:
        """Return one record for each tool call of a scope, those of failed runs among them.

        ``status`` is one or several; ``"failing"`` is failed or synthetic. ``order="slowest"``
        gives the longest first. ``progress`` is told of events that are caught up with.
        """
        query = ToolQuery(
            scope=parse_scope(scope),
            session_id=session_id,
            call_id=call_id,
            tool=tool,
            statuses=parse_statuses(status),
            reason=None if reason is None else check_reason(reason),
            run_id=run_id,
            since_ms=since,
            until_ms=until,
            order=order,
            limit=tools.limit_of(first, last),
            backwards=last is not None,
        )
        return tools.read_page(self._store, query, after=after, progress=progress)

    def tool_statistics(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        tool: str | None = None,
        since: int | None = None,
        until: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[ToolStatistics]:
        """Return for each tool of a scope how its calls ended and how long they took."""
        query = ToolQuery(
            scope=parse_scope(scope),
            session_id=session_id,
            tool=tool,
            since_ms=since,
            until_ms=until,
        )
        return tools.read_statistics(self._store, query, progress=progress)

    def search(
        self,
        query: str,
        *,
        scope: str,
        mode: str = "words",
        limit: int = HITS_DEFAULT,
        include_failed: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> SearchResult:
        """Find events of a scope; the best first, grouped by session.

        ``mode="words"``: all words have to be there, in any order and whatever their case or
        accents: ``deploy* "no such table" -draft kind:tool.call agent: session: tool: file:
        after:3d before:2026-03-05``. A word that few events have is also found inside of names in
        code, and so are several that none has together. ``"hybrid"`` takes a question as it is
        asked, and finds what answers it by words, by meaning and by what stands around it;
        ``"semantic"`` by meaning alone. Operators narrow all of them.
        Runs that failed or were interrupted are left out, unless ``include_failed`` says otherwise.
        ``progress`` is told of events that the index is caught up with.
        """
        return search(
            self._store,
            self._drafter.guard(),
            query,
            parse_scope(scope),
            mode=mode,
            limit=limit,
            include_failed=include_failed,
            now_ms=self._clock(),
            progress=progress,
            scope_memory=lambda: self._memory_factory.scope_memories.of(parse_scope(scope)),
        )

    def index(
        self, scope: str | None = None, *, progress: Callable[[int], None] | None = None
    ) -> int:
        """Have the search index catch up with a scope, or with all of them.

        Return how many events that took. A search does so by itself, in its scope.
        """
        if scope is None:
            scopes = sorted({Scope(one.scope) for one in self._store.session_records()})
        else:
            scopes = [parse_scope(scope)]
        guard = self._drafter.guard()
        return sum(catch_up(self._store, guard, one, progress) for one in scopes)

    def search_lag(self, scope: str) -> int:
        """Return how many events of a scope the search index does not know yet."""
        return self._store.words.lag(parse_scope(scope))

    def run_headers(self, scope: str, session_id: str, run_id: str) -> Iterator[Header]:
        """Return the headers of one run, in order."""
        return self._store.run_headers(
            parse_scope(scope), check_name(session_id, "session_id"), check_name(run_id, "run_id")
        )

    def run_events(self, scope: str, session_id: str, run_id: str) -> Iterator[Event]:
        """Return the same as ``run_headers``, with payloads."""
        return self._store.run_events(
            parse_scope(scope), check_name(session_id, "session_id"), check_name(run_id, "run_id")
        )

    def follow(
        self,
        scope: str,
        *,
        after: str | None = None,
        committed: bool = False,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Follower[Header]:
        """Return an iterator over the headers that are there and those that come, in order.

        ``committed`` delivers a run's events when it has ended well, and no others of runs.
        It ends after ``idle_seconds`` without news, or when ``stop`` is set; else never.
        """
        return Follower(
            self._store,
            parse_scope(scope),
            read=self._store.headers_after,
            of_run=self._store.run_headers,
            after=after,
            committed=committed,
            idle_seconds=idle_seconds,
            stop=stop,
        )

    def end(self, scope: str) -> str:
        """Return a cursor behind all events of a scope, to follow only what comes from now on."""
        name = parse_scope(scope)
        return cursor_at(name, self._store.end(name))

    def follow_events(
        self,
        scope: str,
        *,
        after: str | None = None,
        committed: bool = False,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Follower[Event]:
        """Return the same as ``follow``, with payloads."""
        return Follower(
            self._store,
            parse_scope(scope),
            read=self._store.events_after,
            of_run=self._store.run_events,
            after=after,
            committed=committed,
            idle_seconds=idle_seconds,
            stop=stop,
        )
