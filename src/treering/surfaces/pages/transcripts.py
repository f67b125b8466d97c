"""A session on a page: its cover, then its turns."""

from __future__ import annotations

from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import NotFound
from treering.model.events import Event, Header
from treering.model.fields import MILLISECONDS_MIN, TIME_MS_MAX
from treering.model.parts import SessionOpened, safe_part
from treering.model.sessions import SessionOutline
from treering.model.views import Counts, TurnView, Usage
from treering.surfaces.pages.blocks import SubagentBlock
from treering.surfaces.pages.entries import PageEntry, entries
from treering.surfaces.pages.wording import spent_text
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.tools import ToolRecord

LINKS_MAX: Final = 100
"""How many forks, and how many subagents, a cover names."""
SPAWN_PAGES_MAX: Final = 20
"""Pages of openings that are searched for a session's subagents."""
BACKWARDS_EVENTS_MAX: Final = 5_000
"""Turns that are read from the end of a session; for more it is read from its beginning."""


class PageCover(msgspec.Struct, frozen=True, kw_only=True):
    """The overview of a session, at the top of a page."""

    scope: str
    session: SessionOutline
    counts: Counts
    usage: Usage
    is_approximate: bool
    """Whether the log that its last turn was imported from does not tell when that was."""
    failing_calls: int
    """The number of its tool calls that failed, or have no result of the tool itself."""
    forks: list[str]
    spawned: dict[str, str | None]
    """Sessions of subagents that its agent started, and the tool calls that did."""
    subagents: dict[str, SubagentBlock] = {}
    """The same sessions, with their totals."""

    def subagent(self, call_id: str) -> SubagentBlock | None:
        """Return the session that a tool call began, if it began one."""
        began = next((name for name, call in self.spawned.items() if call == call_id), None)
        return None if began is None else self.subagents.get(began)


class TurnHead(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn begins."""

    number: int
    """In the session, from 1."""
    turn: TurnView


class PageExtent(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a session is shown: from one seq to another, and the turns in it."""

    first_seq: int = 1
    last_seq: int | None = None
    first_turn: int = 1
    turns: int | None = None
    """How many of the last turns of the session; all, if None."""


def read_cover(ledger: Ledger, session: Session) -> PageCover:
    """Return the cover of a session."""
    statistics = ledger.tool_statistics(session.scope, session_id=session.session_id)
    counts = session.summary()
    spawned = spawned_sessions(ledger, session)
    return PageCover(
        scope=session.scope,
        session=session.outline(),
        counts=counts,
        usage=session.usage(),
        is_approximate=any(turn.is_approximate for turn in session.turns(last=1)),
        failing_calls=sum(tool.failed + tool.synthetic for tool in statistics),
        forks=_forks(ledger, session)[:LINKS_MAX],
        spawned=spawned,
        subagents={name: _card(ledger, session.scope, name) for name in spawned},
    )


def _card(ledger: Ledger, scope: str, session_id: str) -> SubagentBlock:
    handle = ledger.session(session_id, scope=scope, agent="reader")
    outline, counts, used = handle.outline(), handle.summary(), handle.usage()
    state = "" if outline.state in {"open", "idle"} else outline.state
    facts = (
        state,
        counted(counts.turns, "turn"),
        counted(counts.tool_calls, "tool call") if counts.tool_calls else "",
        spent_text(used.total),
    )
    return SubagentBlock(
        session_id=session_id,
        title=outline.title or "",
        agent=outline.agent or "",
        facts=tuple(filter(None, facts)),
    )


def whole() -> PageExtent:
    """Return all of a session."""
    return PageExtent()


def one_turn(session: Session, cover: PageCover, number: int) -> PageExtent:
    """Return one turn, counted from 1. Raises NotFound."""
    count = cover.counts.turns
    turn = None
    if 1 <= number <= count:
        behind = count - number
        near_end = behind < number
        turns = session.turns(last=behind + 1) if near_end else session.turns()
        turn = next(islice(turns, 0 if near_end else number - 1, None), None)
    if turn is None:
        hint = f"it has {count}, and they count from 1" if count else "it has no turns yet"
        raise NotFound(f"session {session.session_id} has no turn {number}", hint=hint)
    return PageExtent(
        first_seq=turn.first_seq,
        last_seq=turn.last_seq,
        first_turn=number,
        turns=count - number + 1,
    )


def last_turns(session: Session, cover: PageCover, count: int) -> PageExtent:
    """Return the last turns; all of them, if there are fewer."""
    turn = next(session.turns(last=count), None)
    if turn is None or count >= cover.counts.turns:
        return whole()
    first = cover.counts.turns - count + 1
    return PageExtent(first_seq=turn.first_seq, first_turn=first, turns=count)


def pieces(
    ledger: Ledger, session: Session, extent: PageExtent, *, with_payloads: bool
) -> Iterator[TurnHead | PageEntry]:
    """Return what is on the page, in order, a little at a time."""
    turns = enumerate(session.turns(last=extent.turns), start=extent.first_turn)
    coming = next(turns, None)
    read = _read(session, extent, with_payloads=with_payloads)
    fetch = event_fetcher(ledger, session, with_payloads=with_payloads)
    for entry in entries(read, find=call_finder(ledger), fetch=fetch):
        while coming is not None and entry.event.seq >= coming[1].first_seq:
            yield TurnHead(number=coming[0], turn=coming[1])
            coming = next(turns, None)
        yield entry


def _read(session: Session, extent: PageExtent, *, with_payloads: bool) -> Iterator[Header]:
    ask: Callable[..., Iterator[Header]] = session.events if with_payloads else session.headers
    last = next(session.headers(last=1), None)
    behind = 0 if last is None else last.seq - extent.first_seq + 1
    is_near = extent.first_seq > 1 and behind <= BACKWARDS_EVENTS_MAX
    events = ask(last=max(behind, 0)) if is_near else ask()
    begun = dropwhile(lambda event: event.seq < extent.first_seq, events)
    end = extent.last_seq
    return begun if end is None else takewhile(lambda event: event.seq <= end, begun)


def call_finder(ledger: Ledger) -> Callable[[Header, str], ToolRecord | None]:
    """Return a function that finds the record of a call, by its event and call id."""

    def find(event: Header, call_id: str) -> ToolRecord | None:
        page = ledger.tool_calls(
            event.scope, session_id=event.session_id, call_id=call_id, first=100
        )
        return next(
            (record for record in page.items if record.call_event_id == event.event_id), None
        )

    return find


def event_fetcher(
    ledger: Ledger, session: Session, *, with_payloads: bool
) -> Callable[[str], Header | None]:
    """Return a function that finds an event by its id."""

    def fetch(event_id: str) -> Header | None:
        try:
            event = ledger.event(session.scope, event_id)
        except NotFound:
            return None
        return event if with_payloads else _bare(event)

    return fetch


def _bare(event: Event) -> Header:
    """Return an event without its private content."""
    return Header(*(getattr(event, name) for name in Header.__struct_fields__))


def _forks(ledger: Ledger, session: Session) -> list[str]:
    """Return the sessions that were forked from this one, not from its forks."""
    waiting = [ledger.family(session.scope, session.session_id)]
    while waiting:
        node = waiting.pop()
        if node.session.session_id == session.session_id:
            return [fork.session.session_id for fork in node.forks]
        waiting += node.forks
    return []


def spawned_sessions(ledger: Ledger, session: Session) -> dict[str, str | None]:
    """Return the sessions that were opened for its subagents since it began, with their calls."""
    counts = session.summary()
    calls_by_session: dict[str, str | None] = {}
    cursor = None
    # A time outside the valid range, from an odd clock, bounds nothing.
    first_ms = counts.first_ms or 0
    since = first_ms if MILLISECONDS_MIN <= first_ms <= TIME_MS_MAX else None
    for _ in range(SPAWN_PAGES_MAX):
        page = ledger.headers(
            session.scope, kinds=["session.opened"], since_ms=since, first=1_000, after=cursor
        )
        for header in page.items:
            part = safe_part(header.kind, header.refs)
            if isinstance(part, SessionOpened) and part.spawned_by == session.session_id:
                calls_by_session[header.session_id] = part.spawned_call
        cursor = page.next_cursor
        if cursor is None or len(calls_by_session) >= LINKS_MAX:
            break
    return dict(islice(calls_by_session.items(), LINKS_MAX))
