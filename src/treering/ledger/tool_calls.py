"""Tool records, asked for: the projection is caught up first, then it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.errors import InvalidInput
from treering.model.fields import check_name, check_time
from treering.model.queries import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, Page
from treering.model.scopes import parse_scope
from treering.model.tool_records import (
    Order,
    ToolQuery,
    check_tool_query,
    make_tool_cursor,
    parse_statuses,
    read_tool_cursor,
)
from treering.model.tools import check_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.tool_records import ToolRecord, ToolStatistics


class Step(msgspec.Struct, frozen=True):
    """How far one step of catching up came."""

    events: int
    """Events that were looked at."""
    more: bool
    """There is more to look at: take another."""


def tool_calls(
    store: EventStore,
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
    """Return one page of the tool records of a scope.

    ``progress`` is told how many more events were looked at, if there is much to catch up with.
    """
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last calls, not both", hint="drop one")
    limit = first if first is not None else last
    query = check_tool_query(
        ToolQuery(
            scope=parse_scope(scope),
            session_id=None if session_id is None else check_name(session_id, "session_id"),
            call_id=call_id,
            tool=tool,
            statuses=parse_statuses(status),
            reason=None if reason is None else check_reason(reason),
            run_id=run_id,
            since_ms=None if since is None else check_time(since),
            until_ms=None if until is None else check_time(until),
            order=order,
            limit=PAGE_ITEMS_DEFAULT if limit is None else limit,
            backwards=last is not None,
        )
    )
    place = None if after is None else read_tool_cursor(query, after)
    catch_up(store, query, progress)
    # One more than asked for tells whether there is more.
    found = store.tool_calls(msgspec.structs.replace(query, after=place, limit=query.limit + 1))
    has_more = len(found) > query.limit
    items = found[-query.limit :] if query.backwards else found[: query.limit]
    edge = items[0 if query.backwards else -1] if has_more else None
    cursor = None if edge is None else make_tool_cursor(query, edge)
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def session_tool_calls(store: EventStore, scope: str, session_id: str) -> Iterator[ToolRecord]:
    """Return the records of all tool calls of a session, in order."""
    cursor = None
    while True:
        page = tool_calls(store, scope, session_id=session_id, first=PAGE_ITEMS_MAX, after=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def tool_statistics(
    store: EventStore,
    scope: str,
    *,
    session_id: str | None = None,
    tool: str | None = None,
    since: int | None = None,
    until: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[ToolStatistics]:
    """Return what is known of each tool of a scope, the most called first."""
    query = check_tool_query(
        ToolQuery(
            scope=parse_scope(scope),
            session_id=None if session_id is None else check_name(session_id, "session_id"),
            tool=tool,
            since_ms=None if since is None else check_time(since),
            until_ms=None if until is None else check_time(until),
        )
    )
    catch_up(store, query, progress)
    return sorted(store.tool_statistics(query), key=lambda one: (-one.calls, one.tool or ""))


def catch_up(
    store: EventStore, query: ToolQuery, progress: Callable[[int], None] | None = None
) -> None:
    """Have the tool records know of all that has happened until now."""
    while (step := store.follow_tools(query.scope)).more:
        if progress is not None:
            progress(step.events)
