"""Retellings: events that tell others in other words, and must go when those are erased."""

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
"""Their refs say up to which seq, and from where on, they tell what happened."""


def derived_texts(
    store: EventStore, scope: Scope, session_id: str, *, first_seq: int, last_seq: int
) -> Iterator[str]:
    """Return the ids of events that retell what a session recorded from ``first_seq`` on.

    Those of sessions that were forked from it behind that are among them.
    """
    return derived_texts_of(store, scope, session_id, [(first_seq, last_seq)])


def derived_texts_of(
    store: EventStore, scope: Scope, session_id: str, stretches: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """Return the same for several stretches of a session, given by first and last seq, in order."""
    waiting = [(session_id, stretches)]
    while waiting:
        name, told = waiting.pop()
        for header in _all(store, scope, name):
            if not header.redacted and _tells(header, told):
                yield header.event_id
        for fork in store.forks(scope, name):
            cut = store.cut(scope, fork)
            shared = [(a, min(b, cut.seq)) for a, b in told if a <= cut.seq] if cut else []
            if shared:
                waiting.append((fork, shared))


def _tells(header: Header, stretches: Sequence[tuple[int, int]]) -> bool:
    """Whether a retelling is of anything in ``stretches``; if it does not say, of all before it."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    through, start = refs.get("through_seq"), refs.get("from_seq")
    through = through if type(through) is int else header.seq - 1
    start = start if type(start) is int else 0
    # The first stretch that does not end before it starts decides.
    at = bisect_left(stretches, start, key=lambda stretch: stretch[1])
    return at < len(stretches) and stretches[at][0] <= through


def _all(store: EventStore, scope: Scope, session_id: str) -> Iterator[Header]:
    query = Query(scope=scope, session_id=session_id, kinds=KINDS, limit=PAGE_ITEMS_MAX)
    while page := store.headers(query):
        yield from page
        query = msgspec.structs.replace(
            query, after=TimelinePoint(page[-1].ts_ms, page[-1].position)
        )
