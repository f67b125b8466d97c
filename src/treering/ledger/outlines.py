"""Sessions at a glance: title, state, and when each was last written to."""

from __future__ import annotations

import contextlib
from heapq import merge
from itertools import repeat
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import InvalidInput, KeyMissing
from treering.ledger.paging import pages_by_time
from treering.ledger.people import talking
from treering.ledger.records import FORGOTTEN, SessionHead
from treering.ledger.session_settings import settings_after_forgetting
from treering.memory.records import MEMORY_SESSION
from treering.model.events import Event, Header
from treering.model.kinds import ERASURE_KINDS, HIDING_KINDS, MEMORY_KINDS
from treering.model.queries import (
    PAGE_ITEMS_DEFAULT,
    PAGE_ITEMS_MAX,
    Page,
    Query,
    check_limit,
    pack,
    unpack,
)
from treering.model.scopes import Scope
from treering.model.sessions import (
    IDLE_MINUTES,
    SESSION_STATES,
    SessionOutline,
    SessionSettings,
    settings_of,
)
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.sessions import SessionState

HEADS_PAGE: Final = 500
FIRST_EVENTS: Final = 20
"""Events at the start of a session among which its opening and first question are looked for."""
LAST_EVENTS: Final = 50
"""Events at its end among which its state and its model are looked for."""
TITLE_CHARACTERS_MAX: Final = 80
_AFTERWARDS: Final = ERASURE_KINDS | MEMORY_KINDS | {"session.titled"}
"""What may happen to a closed session without opening it again."""
_FRAME: Final = ERASURE_KINDS | HIDING_KINDS | {"session.opened", "session.closed"}
"""Texts that mean nothing on their own."""
_UPKEEP: Final = ERASURE_KINDS | MEMORY_KINDS | {"session.closed"}
"""What sweeps and erasures write to a session that nobody else writes to."""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions are asked for, the last written to first."""

    scopes: list[Scope]
    agent: str | None = None
    since_ms: int | None = None
    """Written to at or after this time."""
    until_ms: int | None = None
    states: tuple[str, ...] = ()
    """Any of these; if none is named, all but pruned ones."""
    prefix: str | None = None
    """The beginning of the id."""
    text: str | None = None
    """Part of the title or of the id, whatever its case."""
    subagents: bool = False
    """Those among them that an agent began in another session."""
    limit: int = PAGE_ITEMS_DEFAULT


def list_sessions(
    store: EventStore, query: SessionQuery, *, after: str | None, now_ms: int
) -> Page[SessionOutline]:
    """Return one page of sessions, after the cursor ``after``. Raise InvalidInput."""
    check_limit(query.limit)
    _check_states(query.states)
    before = None if after is None else unpack(after, tuple[int])[0]
    sketches = {
        scope: Sketch(store, scope, now_ms, title_of=Titles(store, scope).of_many)
        for scope in query.scopes
    }
    prefix = query.prefix or ""
    outlines: list[tuple[int, SessionOutline]] = []
    for scope, head in _heads_of(store, query, before):
        # Times and ids first: a session that they leave out costs no read of its events.
        if not _in_time(query, head.updated_ms) or not head.session_id.startswith(prefix):
            continue
        outline = sketches[scope].outline(head)
        if _matches(query, outline):
            outlines.append((head.position, outline))
            if len(outlines) > query.limit:
                break
    has_more = len(outlines) > query.limit
    items = outlines[: query.limit]
    cursor = pack((items[-1][0],)) if has_more else None
    return Page(items=[outline for _, outline in items], has_more=has_more, next_cursor=cursor)


def _heads_of(
    store: EventStore, query: SessionQuery, before: int | None
) -> Iterator[tuple[Scope, SessionHead]]:
    """Return the sessions of several scopes at their last event, the last written to first."""
    read = _running_heads if query.states == ("running",) else heads
    streams = [zip(repeat(scope), read(store, scope, before=before)) for scope in query.scopes]
    return merge(*streams, key=lambda pair: -pair[1].position)


def _running_heads(
    store: EventStore, scope: Scope, *, before: int | None = None
) -> Iterator[SessionHead]:
    """Return the sessions with an open run, however many others the scope has."""
    names = store.reader.running_sessions(scope)
    running = [
        head
        for name in names
        if not name.startswith(MEMORY_SESSION) and (head := head_of(store, scope, name)) is not None
    ]
    running.sort(key=lambda head: -head.position)
    return (head for head in running if before is None or head.position < before)


def heads(store: EventStore, scope: Scope, *, before: int | None = None) -> Iterator[SessionHead]:
    """Return the sessions of a scope at their last event, the last written to first."""
    while page := store.sessions.heads(scope, before_position=before, limit=HEADS_PAGE):
        # Events that the memory records are nobody's conversation.
        yield from (head for head in page if not head.session_id.startswith(MEMORY_SESSION))
        before = page[-1].position


def head_of(store: EventStore, scope: Scope, session_id: str) -> SessionHead | None:
    """Return a session at its last event; None if it has no past."""
    last = store.reader.last_by_seq(Header, scope, session_id, before_seq=None, limit=1)
    if not last:
        return None
    return SessionHead(
        session_id=session_id,
        position=last[0].position,
        head_seq=last[0].seq,
        updated_ms=last[0].recorded_ms,
        cut=store.sessions.cut(scope, session_id),
    )


class Sketch:
    """Outlines sessions of one scope; shared lookups are made once."""

    def __init__(
        self,
        store: EventStore,
        scope: Scope,
        now_ms: int,
        *,
        title_of: Callable[[SessionHead], str | None] | None = None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._idle_ms = now_ms - IDLE_MINUTES * 60_000
        self._running = store.reader.running_sessions(scope)
        self._title_of = title_of or Titles(store, scope).of_one

    def outline(self, head: SessionHead) -> SessionOutline:
        """Return a session at a glance, by a few of its first and last events."""
        store, scope, name = self._store, self._scope, head.session_id
        start = head.cut.seq if head.cut else 0
        last = store.reader.last_by_seq(Header, scope, name, before_seq=None, limit=LAST_EVENTS)
        first = last[:FIRST_EVENTS]
        if len(last) == LAST_EVENTS:  # There are others before these.
            first = store.reader.by_seq(Header, scope, name, after_seq=start, limit=FIRST_EVENTS)
        settings = self._settings(name, first)
        taken_from = _imported_from(first)
        # The times in a log say more than the time of its import.
        told_ms = max((header.ts_ms for header in last), default=head.updated_ms)
        return SessionOutline(
            session_id=name,
            scope=scope,
            title=self._title_of(head) or settings.title or _first_words(first),
            state=self._state(name, head, last, told_ms if taken_from else None),
            mode=settings.mode,
            agent=_agent(first, last),
            user=talking((*first, *last)),
            model=_model(last) or _model(first),
            created_ms=first[0].ts_ms if first else head.updated_ms,
            updated_ms=head.updated_ms if taken_from is None else told_ms,
            event_count=head.head_seq - start,
            parent=head.cut.parent if head.cut else None,
            forked_seq=head.cut.seq if head.cut else None,
            spawned_by=settings.spawned_by,
            imported_from=taken_from,
            has_content=self._has_content(name, last),
        )

    def _has_content(self, name: str, last: Sequence[Header]) -> bool:
        """Whether an event of a session still says something; ``last`` is its end."""
        return any(
            not header.redacted and header.kind not in _FRAME
            for header in self._backwards(name, last)
        )

    def _settings(self, name: str, first: Sequence[Header]) -> SessionSettings:
        """Return the settings of a session; defaults if they cannot be read."""
        if not first or first[0].kind not in {"session.opened", "session.forked"}:
            gone = first and first[0].seq > 1
            return (
                gone and settings_after_forgetting(self._store, self._scope, name)
            ) or SessionSettings()
        # Without the key of a sealed scope a list still has ids, states and times.
        with contextlib.suppress(KeyMissing):
            for event in self._store.reader.events_at(self._scope, name, [first[0].seq]):
                return settings_of(event.payload)
        return SessionSettings()

    def quiet_ms(self, head: SessionHead, last: Sequence[Header] | None = None) -> int:
        """Return when somebody last wrote to a session; the ledger's own upkeep does not count.

        ``last`` is the end of the session, if it is known.
        """
        touched = self._latest(head.session_id, last, but=_UPKEEP)
        return head.updated_ms if touched is None else touched.recorded_ms

    def _state(
        self, name: str, head: SessionHead, last: Sequence[Header], told_ms: int | None
    ) -> SessionState:
        if name in self._running:
            return "running"
        touched = self._latest(name, last, but=_AFTERWARDS)
        if touched is None and name.startswith(FORGOTTEN):
            return "pruned"
        if touched is not None and touched.kind == "session.closed":
            refs = touched.refs if isinstance(touched.refs, dict) else {}
            return "pruned" if refs.get("pruned") is True else "closed"
        quiet_ms = self.quiet_ms(head, last) if told_ms is None else told_ms
        return "idle" if quiet_ms <= self._idle_ms else "open"

    def _latest(
        self, name: str, last: Sequence[Header] | None, *, but: Collection[str]
    ) -> Header | None:
        """Return the last event of a kind not in ``but``; ``last`` is as in ``quiet_ms``."""
        headers = self._backwards(name, last)
        return next((header for header in headers if header.kind not in but), None)

    def _backwards(self, name: str, last: Sequence[Header] | None) -> Iterator[Header]:
        """Yield the headers of a session, the latest first; ``last`` are those that were read."""
        page, before_seq = last, None
        while True:
            if page is None:
                page = self._store.reader.last_by_seq(
                    Header, self._scope, name, before_seq=before_seq, limit=LAST_EVENTS
                )
            if not page:
                return
            yield from reversed(page)
            before_seq, page = page[0].seq, None


def _first_words(events: Sequence[Header]) -> str | None:
    for event in events:
        if event.kind == "conversation.user" and not event.redacted:
            words = " ".join(event.summary.split())
            return shorten(words, TITLE_CHARACTERS_MAX) or None
    return None


def _imported_from(events: Sequence[Header]) -> str | None:
    refs = next((event.refs for event in events if event.kind == "session.imported"), None)
    log_format = refs.get("format") if isinstance(refs, dict) else None
    return log_format if isinstance(log_format, str) else None


def _agent(first: Sequence[Header], last: Sequence[Header]) -> str:
    return next(
        (header.agent_id for header in (*first, *last) if header.agent_id != "treering"), ""
    )


def _model(headers: Sequence[Header]) -> str | None:
    for header in reversed(headers):
        model = header.refs.get("model") if isinstance(header.refs, dict) else None
        if isinstance(model, str):
            return model
    return None


def _in_time(query: SessionQuery, updated_ms: int) -> bool:
    return (query.since_ms is None or updated_ms >= query.since_ms) and (
        query.until_ms is None or updated_ms <= query.until_ms
    )


def _matches(query: SessionQuery, outline: SessionOutline) -> bool:
    text = (query.text or "").casefold()
    return (
        _in_time(query, outline.updated_ms)
        and (query.subagents or outline.spawned_by is None)
        and (query.agent is None or outline.agent == query.agent)
        and (outline.state in query.states if query.states else outline.state != "pruned")
        and (not text or text in f"{outline.title or ''}\n{outline.session_id}".casefold())
    )


def _check_states(states: Sequence[str]) -> None:
    for state in states:
        if state not in SESSION_STATES:
            raise InvalidInput(
                f"invalid state: {state}", hint=f"use one of {', '.join(SESSION_STATES)}"
            )


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
            for page in self._pages(session_id=session_id, limit=SESSION_PAGE):
                for event in reversed(page):
                    if (title := _title_of(event)) is not None:
                        return title
        return None

    def _in_scope(self) -> dict[str, str]:
        titles: dict[str, str] = {}
        seen = 0
        with contextlib.suppress(KeyMissing):
            for page in self._pages(limit=min(PAGE_ITEMS_MAX, TITLES_MAX)):
                for event in reversed(page):
                    if (title := _title_of(event)) is not None:
                        titles.setdefault(event.session_id, title)
                seen += len(page)
                if seen >= TITLES_MAX:
                    self._has_older = True
                    break
        return titles

    def _pages(self, *, session_id: str | None = None, limit: int) -> Iterator[list[Event]]:
        """Return pages of titles, the latest first; each of them reads forwards."""
        query = Query(
            scope=self._scope,
            session_id=session_id,
            kinds=("session.titled",),
            limit=limit,
            backwards=True,
        )
        return pages_by_time(self._store, Event, query)


def _title_of(event: Event) -> str | None:
    payload = event.payload if isinstance(event.payload, dict) else {}
    title = payload.get("title")
    return title if isinstance(title, str) and title and not event.redacted else None
