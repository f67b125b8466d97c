"""Retellings: events that tell others in other words, and must go when those are erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.queries import PAGE_ITEMS_MAX, Place, Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ports import EventStore
    from treering.model.events import Header
    from treering.model.scopes import Scope

KINDS: Final = ("context.compacted", "episode.written")
"""Their refs say up to which seq, and from where on, they tell what happened."""


def retellings(
    store: EventStore, scope: Scope, session_id: str, *, first_seq: int, last_seq: int
) -> Iterator[str]:
    """Return the ids of events that retell what a session recorded from ``first_seq`` on.

    Those of sessions that were forked from it behind that are among them.
    """
    waiting = [(session_id, first_seq, last_seq)]
    while waiting:
        name, first, last = waiting.pop()
        for header in _all(store, scope, name):
            if not header.redacted and _tells(header, first, last):
                yield header.event_id
        for fork in store.forks(scope, name):
            cut = store.cut(scope, fork)
            if cut is not None and cut.seq >= first:
                waiting.append((fork, first, min(last, cut.seq)))


def _tells(header: Header, first: int, last: int) -> bool:
    """Whether a retelling is of anything between two seqs; one that does not say, of all before."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    through, start = refs.get("through_seq"), refs.get("from_seq")
    through = through if type(through) is int else header.seq - 1
    start = start if type(start) is int else 0
    return through >= first and start <= last


def _all(store: EventStore, scope: Scope, session_id: str) -> Iterator[Header]:
    query = Query(scope=scope, session_id=session_id, kinds=KINDS, limit=PAGE_ITEMS_MAX)
    while page := store.headers(query):
        yield from page
        query = msgspec.structs.replace(query, after=Place(page[-1].ts_ms, page[-1].position))
