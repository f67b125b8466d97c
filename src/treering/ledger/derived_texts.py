"""Events that summarise others, and are erased together with them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.queries import PAGE_ITEMS_MAX, Query, TimelinePoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.events import Header
    from treering.model.scopes import Scope

KINDS: Final = ("context.compacted", "episode.written")
"""Their refs hold the first and last seq that they summarise."""


def derived_texts_of(
    store: EventStore, scope: Scope, session_id: str, ranges: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """Return the ids of events that summarise ranges of a session, given in order.

    A range is a first and a last seq. Summaries in sessions forked from it after that are included.
    """
    queue = [(session_id, ranges)]
    while queue:
        name, summarised = queue.pop()
        for header in _all(store, scope, name):
            if not header.redacted and _summarises(header, summarised):
                yield header.event_id
        for fork in store.sessions.forks(scope, name):
            cut = store.sessions.cut(scope, fork)
            shared = [(a, min(b, cut.seq)) for a, b in summarised if a <= cut.seq] if cut else []
            if shared:
                queue.append((fork, shared))


def _summarises(header: Header, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether a summary covers anything in ``ranges``; without refs it covers all before it."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    through, start = refs.get("through_seq"), refs.get("from_seq")
    through = through if type(through) is int else header.seq - 1
    start = start if type(start) is int else 0
    # The first range that does not end before the summary starts decides.
    at = bisect_left(ranges, start, key=lambda ends: ends[1])
    return at < len(ranges) and ranges[at][0] <= through


def _all(store: EventStore, scope: Scope, session_id: str) -> Iterator[Header]:
    query = Query(scope=scope, session_id=session_id, kinds=KINDS, limit=PAGE_ITEMS_MAX)
    while page := store.reader.headers(query):
        yield from page
        query = msgspec.structs.replace(
            query, after=TimelinePoint(page[-1].ts_ms, page[-1].position)
        )
