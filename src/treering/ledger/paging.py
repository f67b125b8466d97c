"""Pages: the items of a query that fit, and the cursor to continue with."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from treering.errors import InvalidInput
from treering.model.fields import check_list, check_name, check_time
from treering.model.kinds import stored_kinds
from treering.model.queries import (
    PAGE_ITEMS_DEFAULT,
    Page,
    Query,
    TimelinePoint,
    check_query,
    make_cursor,
    make_seq_cursor,
    read_cursor,
    read_seq_cursor,
)
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.events import Header

Item = TypeVar("Item", bound="Header")


def make_query(
    scope: str,
    *,
    first: int | None,
    last: int | None = None,
    session_id: str | None = None,
    kinds: str | Sequence[str] = (),
    turn_id: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Query:
    """Return what is asked for, checked. Raises InvalidInput if it makes no sense."""
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
    limit = first if first is not None else last
    return check_query(
        Query(
            scope=parse_scope(scope),
            session_id=None if session_id is None else check_name(session_id, "session_id"),
            kinds=parse_kinds(kinds),
            turn_id=None if turn_id is None else check_name(turn_id, "turn_id"),
            since_ms=None if since_ms is None else check_time(since_ms),
            until_ms=None if until_ms is None else check_time(until_ms),
            limit=PAGE_ITEMS_DEFAULT if limit is None else limit,
            backwards=last is not None,
        )
    )


def parse_kinds(kinds: str | Sequence[str]) -> tuple[str, ...]:
    """Return kinds by their stored names, each once; a single one need not be in a list."""
    return stored_kinds((kinds,) if isinstance(kinds, str) else check_list(kinds, "kinds"))


def read_page(
    store: EventStore, query: Query, after: str | None, read: Callable[[Query], list[Item]]
) -> Page[Item]:
    """Return one page of ``query``, after the cursor ``after``."""
    position = None if after is None else read_cursor(query, after)
    # One more than asked for says whether there is more.
    rows = read(msgspec.structs.replace(query, after=position, limit=query.limit + 1))
    items = rows[-query.limit :] if query.backwards else rows[: query.limit]
    edge = _edge(query, items)
    if edge is None:
        return Page(items=items, has_more=False, next_cursor=None)
    has_more = len(rows) > query.limit or _has_more(store, query, edge)
    cursor = make_cursor(query, edge) if has_more else None
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def read_session_page(
    store: EventStore, query: Query, after: str | None, read: Callable[..., list[Item]]
) -> Page[Item]:
    """Return one page of the session of ``query``, its own events by seq, after ``after``."""
    scope, session_id = query.scope, query.session_id or ""
    seq = 0 if after is None else read_seq_cursor(scope, session_id, after)
    items = read(scope, session_id, after_seq=seq, limit=query.limit)
    last = items[-1].seq if items else seq
    has_more = bool(
        items and store.reader.session_headers(scope, session_id, after_seq=last, limit=1)
    )
    cursor = make_seq_cursor(scope, session_id, last) if has_more else None
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def _edge(query: Query, items: Sequence[Header]) -> TimelinePoint | None:
    """Return where the next page begins."""
    if not items:
        return None
    last = items[0] if query.backwards else items[-1]
    return TimelinePoint(last.ts_ms, last.position)


def _has_more(store: EventStore, query: Query, edge: TimelinePoint) -> bool:
    """Whether a short page was cut because its payloads are large."""
    return bool(store.reader.headers(msgspec.structs.replace(query, after=edge, limit=1)))
