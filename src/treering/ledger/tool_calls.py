"""Queries of tool records: the projection is brought up to date first."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from treering.derive.tool_facts import TOOL_KINDS
from treering.errors import InvalidInput
from treering.ledger.lineage import NO_END, Lineage, Segment
from treering.model.events import Header
from treering.model.queries import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, Page, Query, items_of
from treering.model.scopes import parse_scope
from treering.model.tools import ToolQuery, check_tool_query, make_tool_cursor, read_tool_cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ports import EventStore
    from treering.model.tools import ToolRecord, ToolStatistics


def limit_of(first: int | None, last: int | None) -> int:
    """Return the requested number. Raises InvalidInput if both are given."""
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last calls, not both", hint="drop one")
    given = last if first is None else first
    return PAGE_ITEMS_DEFAULT if given is None else given


def read_page(
    store: EventStore,
    query: ToolQuery,
    *,
    after: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Page[ToolRecord]:
    """Return one page of tool records, after the cursor ``after``.

    ``progress`` is called with the events read, if there are many to catch up with.
    """
    check_tool_query(query)
    start = None if after is None else read_tool_cursor(query, after)
    if after is None and _has_no_events(store, query):
        return Page(items=[], has_more=False, next_cursor=None)
    catch_up(store, query, progress)
    # One more than asked for shows whether there is more.
    calls = store.tools.page(msgspec.structs.replace(query, after=start, limit=query.limit + 1))
    has_more = len(calls) > query.limit
    items = calls[-query.limit :] if query.backwards else calls[: query.limit]
    edge = items[0 if query.backwards else -1] if has_more else None
    cursor = None if edge is None else make_tool_cursor(query, edge)
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def lineage_tool_calls(lineage: Lineage, *, last: int | None = None) -> Iterator[ToolRecord]:
    """Return the records of a session's tool calls and of the past it shares, in order.

    All of them, or the last ones.
    """
    return _calls(lineage) if last is None else iter(_last_calls(lineage, last))


def _calls(lineage: Lineage) -> Iterator[ToolRecord]:
    for segment in reversed(list(lineage.segments())):
        end = _end_of(lineage, segment)
        for record in session_tool_calls(lineage.store, lineage.scope, segment.session_id):
            if record.position <= end:
                yield record


def _last_calls(lineage: Lineage, count: int) -> list[ToolRecord]:
    records: list[ToolRecord] = []
    for segment in lineage.segments():
        if len(records) >= count:
            break
        end = _end_of(lineage, segment)
        calls = last_tool_calls(lineage.store, lineage.scope, segment.session_id, page=count)
        own = (record for record in calls if record.position <= end)
        records += islice(own, count - len(records))
    return records[::-1]


def _end_of(lineage: Lineage, segment: Segment) -> int:
    """Return the position of the last event of a part of a lineage."""
    if segment.until_seq == NO_END:
        return NO_END
    before_seq = segment.until_seq + 1
    headers = lineage.store.reader.last_by_seq(
        Header, lineage.scope, segment.session_id, before_seq=before_seq, limit=1
    )
    return headers[0].position if headers else 0


def session_tool_calls(store: EventStore, scope: str, session_id: str) -> Iterator[ToolRecord]:
    """Return the records of all tool calls of a session, in order."""
    query = ToolQuery(scope=parse_scope(scope), session_id=session_id, limit=PAGE_ITEMS_MAX)
    return items_of(lambda after: read_page(store, query, after=after))


def last_tool_calls(
    store: EventStore, scope: str, session_id: str, *, page: int
) -> Iterator[ToolRecord]:
    """Return the same, the last one first; the first ``page`` of them are read at once."""
    query = ToolQuery(
        scope=parse_scope(scope), session_id=session_id, limit=min(page, PAGE_ITEMS_MAX),
        backwards=True,
    )  # fmt: skip
    cursor = None
    while True:
        listed = read_page(store, query, after=cursor)
        yield from reversed(listed.items)
        cursor = listed.next_cursor
        if cursor is None:
            return
        query = msgspec.structs.replace(query, limit=min(2 * query.limit, PAGE_ITEMS_MAX))


def read_statistics(
    store: EventStore, query: ToolQuery, *, progress: Callable[[int], None] | None = None
) -> list[ToolStatistics]:
    """Return the statistics of each tool of a scope, the most called first."""
    check_tool_query(query)
    if _has_no_events(store, query):
        return []
    catch_up(store, query, progress)
    return sorted(store.tools.statistics(query), key=lambda item: (-item.calls, item.tool or ""))


def _has_no_events(store: EventStore, query: ToolQuery) -> bool:
    """Whether the query names a period without tool events.

    The time of a record is that of its call or its result, so no record exists either. It takes
    one look at the index by time, while catching up reads every event since the last time.
    """
    if query.since_ms is query.until_ms is None:
        return False
    events = Query(
        scope=query.scope,
        session_id=query.session_id,
        kinds=TOOL_KINDS,
        since_ms=query.since_ms,
        until_ms=query.until_ms,
        limit=1,
    )
    return not store.reader.by_time(Header, events)


def catch_up(
    store: EventStore, query: ToolQuery, progress: Callable[[int], None] | None = None
) -> None:
    """Bring the tool records up to date."""
    while (step := store.tools.follow(query.scope)).more:
        if progress is not None:
            progress(step.events)
