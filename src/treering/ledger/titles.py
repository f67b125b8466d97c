"""Titles: what sessions were called last, found in the session or among all of its scope."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import KeyMissing
from treering.model.queries import PAGE_ITEMS_MAX, Query, TimelinePoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ports import EventStore
    from treering.ledger.records import SessionHead
    from treering.model.events import Event
    from treering.model.scopes import Scope

TITLES_MAX: Final = 20_000
"""Titles of a scope that are read at once, the latest; older ones are looked up one by one."""
SESSION_EVENTS_MAX: Final = 50_000
"""A session is looked through for its title if it has no more: that takes a few milliseconds."""
SESSION_PAGE: Final = 2


class Titles:
    """The latest titles of the sessions of a scope; unreadable ones are left out."""

    def __init__(self, store: EventStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._all: dict[str, str] | None = None
        self._has_older = False

    def of_one(self, head: SessionHead) -> str | None:
        """Return the title of one session, without reading others unless it is very long."""
        if head.head_seq - (head.cut.seq if head.cut else 0) > SESSION_EVENTS_MAX:
            return self.of_many(head)
        return self._in_session(head.session_id)

    def of_many(self, head: SessionHead) -> str | None:
        """Return the title of a session; those of all others are read, once, beside it."""
        if self._all is None:
            self._all = self._in_scope()
        title = self._all.get(head.session_id)
        return self._in_session(head.session_id) if title is None and self._has_older else title

    def _in_session(self, session_id: str) -> str | None:
        with contextlib.suppress(KeyMissing):
            for page in self._pages(self._query(session_id=session_id, limit=SESSION_PAGE)):
                for event in reversed(page):
                    if (title := _title_of(event)) is not None:
                        return title
        return None

    def _in_scope(self) -> dict[str, str]:
        titles: dict[str, str] = {}
        seen = 0
        with contextlib.suppress(KeyMissing):
            for page in self._pages(self._query(limit=min(PAGE_ITEMS_MAX, TITLES_MAX))):
                for event in reversed(page):
                    if (title := _title_of(event)) is not None:
                        titles.setdefault(event.session_id, title)
                seen += len(page)
                if seen >= TITLES_MAX:
                    self._has_older = True
                    break
        return titles

    def _query(self, *, session_id: str | None = None, limit: int) -> Query:
        return Query(
            scope=self._scope,
            session_id=session_id,
            kinds=("session.titled",),
            limit=limit,
            backwards=True,
        )

    def _pages(self, query: Query) -> Iterator[list[Event]]:
        """Return pages of events, the latest first; each of them reads forwards."""
        while page := self._store.reader.events(query):
            yield page
            query = msgspec.structs.replace(
                query, after=TimelinePoint(page[0].ts_ms, page[0].position)
            )


def _title_of(event: Event) -> str | None:
    payload = event.payload if isinstance(event.payload, dict) else {}
    title = payload.get("title")
    return title if isinstance(title, str) and title and not event.redacted else None
