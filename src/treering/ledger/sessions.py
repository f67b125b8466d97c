"""Sessions: durable timelines inside a scope, read in order and written a turn at a time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from treering.errors import Conflict, InvalidInput
from treering.ledger.drafts import check_name
from treering.ledger.turns import Turn
from treering.model.events import NewEvent
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.ports import EventStore
    from treering.model.events import Event, Header

PAGE: Final = 1_000
Item = TypeVar("Item", bound="Header")
Mode = Literal["main", "group", "queue"]
MODES: Final = ("main", "group", "queue")


class Session:
    """A handle on one timeline. Making one writes nothing."""

    def __init__(
        self,
        ledger: Ledger,
        store: EventStore,
        session_id: str,
        *,
        scope: str,
        agent: str,
        user: str | None = None,
        channel: str | None = None,
        mode: Mode = "main",
        participants: Sequence[str] = (),
        key: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self.scope = parse_scope(scope)
        self.session_id = check_name(session_id, "session_id")
        self.agent = check_name(agent, "agent")
        self.user = check_name(user, "user") if user is not None else None
        if mode not in MODES:
            raise InvalidInput(f"invalid mode: {mode}", hint=f"use {' or '.join(MODES)}")
        self._opening: dict[str, Any] = {
            "channel": channel,
            "mode": mode,
            "participants": list(participants),
            "key": key,
        }
        self._opened = False

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, scope={self.scope!r}, agent={self.agent!r})"

    def turn(self) -> Turn:
        """Begin a turn: a context manager that records one run, ended well or not."""
        return Turn(self)

    def record(
        self,
        kind: str,
        summary: str,
        *,
        payload: Any = None,
        refs: Any = None,
        event_id: str | None = None,
        ts_ms: int | None = None,
        run_id: str | None = None,
        run_seq: int | None = None,
        turn_id: str | None = None,
        source: str | None = None,
        origin: str | None = None,
        visibility: str | None = None,
    ) -> Header:
        """Append one event of any kind to the session."""
        self._open()
        event = NewEvent(
            scope=self.scope,
            session_id=self.session_id,
            kind=kind,
            agent_id=self.agent,
            summary=summary,
            payload=payload,
            refs=refs,
            event_id=event_id,
            ts_ms=ts_ms,
            run_id=run_id,
            run_seq=run_seq,
            turn_id=turn_id,
            user_id=self.user,
            source=source,
            origin=origin,
            visibility=visibility,
        )
        return self._ledger.append([event])[0]

    def headers(self, *, first: int | None = None, last: int | None = None) -> Iterator[Header]:
        """Return what is safe to show, in order: all of it, the first or the last so many."""
        return _stretch(self._headers_after, self._headers_before, first, last)

    def events(self, *, first: int | None = None, last: int | None = None) -> Iterator[Event]:
        """Return the same as ``headers``, with payloads."""
        return _stretch(self._events_after, self._events_before, first, last)

    def _headers_after(self, seq: int, limit: int) -> list[Header]:
        return self._store.session_headers(self.scope, self.session_id, after_seq=seq, limit=limit)

    def _headers_before(self, seq: int | None, limit: int) -> list[Header]:
        return self._store.last_headers(self.scope, self.session_id, before_seq=seq, limit=limit)

    def _events_after(self, seq: int, limit: int) -> list[Event]:
        return self._store.session_events(self.scope, self.session_id, after_seq=seq, limit=limit)

    def _events_before(self, seq: int | None, limit: int) -> list[Event]:
        return self._store.last_events(self.scope, self.session_id, before_seq=seq, limit=limit)

    def _open(self) -> None:
        """Record the opening, unless the session has a past."""
        if self._opened:
            return
        if not self._headers_before(None, 1):
            event = NewEvent(
                scope=self.scope,
                session_id=self.session_id,
                kind="session.opened",
                agent_id=self.agent,
                user_id=self.user,
                summary=f"session opened by {self.agent}",
                payload=self._opening,
            )
            # Another handle may be faster, and then has recorded it.
            with contextlib.suppress(Conflict):
                self._ledger.append([event], expected_seq=0)
        self._opened = True


def _stretch(
    after: Callable[[int, int], list[Item]],
    before: Callable[[int | None, int], list[Item]],
    first: int | None,
    last: int | None,
) -> Iterator[Item]:
    if first is not None and last is not None:
        raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
    if (first or 0) < 0 or (last or 0) < 0:
        raise InvalidInput("the number of events must be >= 0", hint="ask for 1 or more")
    if last is not None:
        return _backwards(before, last)
    return _forwards(after, first)


def _forwards(after: Callable[[int, int], list[Item]], count: int | None) -> Iterator[Item]:
    seq, left = 0, PAGE if count is None else count
    # A page may be short because its payloads are large; only an empty one is the end.
    while left > 0 and (page := after(seq, min(PAGE, left))):
        yield from page
        seq = page[-1].seq
        left = PAGE if count is None else left - len(page)


def _backwards(before: Callable[[int | None, int], list[Item]], count: int) -> Iterator[Item]:
    pages: list[list[Item]] = []
    seq: int | None = None
    while count > 0 and (page := before(seq, min(PAGE, count))):
        pages.append(page)
        seq = page[0].seq
        count -= len(page)
    for page in reversed(pages):
        yield from page
