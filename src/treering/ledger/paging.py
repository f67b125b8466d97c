"""Pages: of a query, with the cursor to continue, and of a session: its first events or last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from treering.derive.visible import UndoFilter
from treering.errors import InvalidInput
from treering.ledger.lineage import NO_END, Lineage, next_limit
from treering.model.events import Event, Header
from treering.model.fields import check_count, check_list, check_name, check_time
from treering.model.kinds import HIDING_KINDS, stored_kinds
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
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ports import EventStore

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


def read_page(store: EventStore, part: type[Item], query: Query, after: str | None) -> Page[Item]:
    """Return one page of the headers or events of ``query``, after the cursor ``after``."""
    position = None if after is None else read_cursor(query, after)
    # One more than asked for says whether there is more.
    wanted = msgspec.structs.replace(query, after=position, limit=query.limit + 1)
    rows = store.reader.by_time(part, wanted)
    items = rows[-query.limit :] if query.backwards else rows[: query.limit]
    edge = _edge(query, items)
    if edge is None:
        return Page(items=items, has_more=False, next_cursor=None)
    has_more = len(rows) > query.limit or _has_more(store, query, edge)
    cursor = make_cursor(query, edge) if has_more else None
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def read_session_page(
    store: EventStore, part: type[Item], query: Query, after: str | None
) -> Page[Item]:
    """Return one page of the session of ``query``, its own events by seq, after ``after``."""
    scope, session_id = query.scope, query.session_id or ""
    seq = 0 if after is None else read_seq_cursor(scope, session_id, after)
    items = store.reader.by_seq(part, scope, session_id, after_seq=seq, limit=query.limit)
    last = items[-1].seq if items else seq
    has_more = bool(
        items and store.reader.by_seq(Header, scope, session_id, after_seq=last, limit=1)
    )
    cursor = make_seq_cursor(scope, session_id, last) if has_more else None
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def pages_by_time(store: EventStore, part: type[Item], query: Query) -> Iterator[list[Item]]:
    """Yield all pages of ``query``, each in order; the last one first, if it reads backwards."""
    while page := store.reader.by_time(part, query):
        yield page
        query = msgspec.structs.replace(query, after=_edge(query, page))


def _edge(query: Query, items: Sequence[Header]) -> TimelinePoint | None:
    """Return where the next page begins."""
    if not items:
        return None
    last = items[0] if query.backwards else items[-1]
    return TimelinePoint(last.ts_ms, last.position)


def _has_more(store: EventStore, query: Query, edge: TimelinePoint) -> bool:
    """Whether a short page was cut because its payloads are large."""
    return bool(store.reader.by_time(Header, msgspec.structs.replace(query, after=edge, limit=1)))


PAGE: Final = 2_000


def read_pages(
    lineage: Lineage,
    part: type[Item],
    first: int | None,
    last: int | None,
    keep: Callable[[Header], bool] | None = None,
    *,
    after_seq: int = 0,
) -> Iterator[Item]:
    """Return all headers or events, the ``first`` or the ``last``. Raise InvalidInput for both.

    ``keep`` says which events are wanted: no more pages are read than it takes to find them.
    ``after_seq`` skips the beginning, except for the ``last``.
    """
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
    if last is not None:
        return _backwards(lineage, part, check_count(last, "last"), keep)
    count = None if first is None else check_count(first, "first")
    seq = 0 if after_seq == 0 else check_count(after_seq, "after_seq")
    return _forwards(lineage, part, count, keep, seq)


def live_events(lineage: Lineage, kinds: frozenset[str], last: int | None) -> Iterator[Event]:
    """Return the events of ``kinds`` that count and are not hidden, or the last of them.

    They are in order. Read from the end, a page at a time, as far back as needed.
    """
    hidden = UndoFilter()
    live: list[Event] = []
    before, size = NO_END, PAGE if last is None else min(PAGE, last + 8)
    while last is None or len(live) < last:
        page = lineage.committed_before(before, kinds=kinds | HIDING_KINDS, limit=size)
        if not page:
            break
        live += [
            event
            for event in reversed(page)
            if hidden.is_visible(event) and event.kind in kinds and not event.redacted
        ]
        before = min(page[0].seq, hidden.before or NO_END)
        size = next_limit(size, page, PAGE)
    return reversed(live if last is None else live[:last])


def _forwards(
    lineage: Lineage,
    part: type[Item],
    count: int | None,
    keep: Callable[[Header], bool] | None,
    seq: int,
) -> Iterator[Item]:
    left = count
    # A page may be short because its payloads are large; only an empty one is the end.
    while left != 0 and (page := lineage.after(part, seq, _size(left, keep))):
        wanted = page if keep is None else list(filter(keep, page))
        wanted = wanted if left is None else wanted[:left]
        yield from wanted
        seq = page[-1].seq
        left = None if left is None else left - len(wanted)


def _backwards(
    lineage: Lineage, part: type[Item], count: int, keep: Callable[[Header], bool] | None
) -> Iterator[Item]:
    pages: list[list[Item]] = []
    seq: int | None = None
    while count > 0 and (page := lineage.before(part, seq, _size(count, keep))):
        wanted = page if keep is None else list(filter(keep, page))[-count:]
        pages.append(wanted)
        seq = page[0].seq
        count -= len(wanted)
    for page in reversed(pages):
        yield from page


def _size(wanted: int | None, keep: object) -> int:
    """Return how many events to read at once: of those that are filtered, more than are wanted."""
    return PAGE if wanted is None or keep is not None else min(PAGE, wanted)
