"""The runs of a scope: the newest at a glance, page by page, and one of them from start to end."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import KeyMissing, NotFound
from treering.ledger import tool_calls
from treering.ledger.paging import read_page
from treering.model.events import Event, Header
from treering.model.fields import TIME_MS_MAX
from treering.model.kinds import RUN_ENDS
from treering.model.parts import RunEnded, RunStarted, safe_part
from treering.model.queries import (
    PAGE_ITEMS_MAX,
    Page,
    Query,
    TimelinePoint,
    check_limit,
    items_of,
    make_cursor,
)
from treering.model.scopes import Scope
from treering.model.sessions import settings_of
from treering.model.tools import ToolQuery, ToolRecord
from treering.spine.closing import BEYOND_DELTAS
from treering.spine.sink_queue import safe_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.ledger.ports import EventStore
    from treering.model.carried import SafeEvent

PAGES_MAX: Final = 200
"""How far back runs are searched at once: about 100,000 of them."""
FAILING: Final = frozenset({"failed", "interrupted"})

_KINDS: Final = ("run.started", *RUN_ENDS)
_DATED: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""An id that begins with the milliseconds of its making: a UUID of version 7."""
_EARLIER_MS: Final = 60_000
_LATER_MS: Final = 600_000
"""How long after its id was made a run may have started: it may have waited for its turn."""


class RunOutline(msgspec.Struct, frozen=True, kw_only=True):
    """One run at a glance."""

    run_id: str
    session_id: str
    agent_id: str
    state: str
    """open, ended, failed or interrupted."""
    started_ms: int
    duration_ms: int | None
    """None while it is open."""
    events: int
    """How many it has had, deltas counted."""
    tool_calls: int
    entry_point: str | None
    runtime: str | None
    model: str | None
    provider: str | None
    reason: str | None
    """Why it did not end well."""
    error_class: str | None


class RunMoment(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run."""

    seq: int
    run_seq: int | None
    offset_ms: int
    """Since the run started."""
    ts_ms: int
    event_id: str
    kind: str
    source: str
    summary: str
    part: dict[str, Any]
    """What is known of it without its private content."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run from start to end: its first and its last events, and its tool calls."""

    scope: str
    run: RunOutline
    kept: int
    """How many of its events are in the ledger."""
    events: list[RunMoment]
    head: int
    """How many of these come before those that are left out."""
    left_out: int
    calls: list[ToolRecord]
    """Its first tool calls."""
    calls_left_out: int


class RunStarts:
    """The starts of runs, the newest first, each with its end if the run has ended."""

    def __init__(self, store: EventStore, query: Query) -> None:
        self._store = store
        self._query = msgspec.structs.replace(
            query, kinds=_KINDS, backwards=True, limit=PAGE_ITEMS_MAX
        )
        self.next_cursor: str | None = None
        """Where to continue, if it stopped before the oldest run."""

    def after(self, cursor: str | None = None) -> Iterator[tuple[Header, Header | None]]:
        """Yield starts and ends, continuing after ``cursor``."""
        ends: dict[tuple[str, str | None], Header] = {}
        self.next_cursor = cursor
        for _ in range(PAGES_MAX):
            page = read_page(self._store, Header, self._query, self.next_cursor)
            self.next_cursor = page.next_cursor
            for header in reversed(page.items):
                key = (header.session_id, header.run_id)
                if header.kind in RUN_ENDS:
                    ends[key] = header
                elif header.run_id is not None:
                    yield header, ends.pop(key, None)
            if not page.has_more:
                return

    def cursor_after(self, started: Header) -> str:
        """Return the cursor that continues after ``started``."""
        return make_cursor(self._query, TimelinePoint(started.ts_ms, started.position))


def list_runs(
    store: EventStore, query: Query, *, failing: bool, after: str | None
) -> Page[RunOutline]:
    """Return a page of runs, the newest first; ``after`` continues with earlier ones."""
    check_limit(query.limit)
    starts = RunStarts(store, query)
    outlines: list[RunOutline] = []
    last = None
    for started, ended in starts.after(after):
        if failing and ended is not None and RUN_ENDS[ended.kind] not in FAILING:
            continue
        outline = outline_run(store, started, ended)
        if failing and outline.state not in FAILING:
            continue
        if len(outlines) == query.limit and last is not None:
            return Page(items=outlines, has_more=True, next_cursor=starts.cursor_after(last))
        outlines.append(outline)
        last = started
    more = starts.next_cursor
    return Page(items=outlines, has_more=more is not None, next_cursor=more)


def list_run_ids(store: EventStore, query: Query, *, after: str | None) -> Page[str]:
    """Return a page of the ids of runs, the newest first."""
    check_limit(query.limit)
    starts = RunStarts(store, query)
    ids: list[str] = []
    last = None
    for started, _ in starts.after(after):
        if len(ids) == query.limit and last is not None:
            return Page(items=ids, has_more=True, next_cursor=starts.cursor_after(last))
        ids.append(started.run_id or "")
        last = started
    more = starts.next_cursor
    return Page(items=ids, has_more=more is not None, next_cursor=more)


def is_dated(run_id: str) -> bool:
    """Whether an id says when it was made, so that its run is found without a search."""
    return _DATED.fullmatch(run_id) is not None


def find_run(
    store: EventStore, scope: Scope, run_id: str, *, session_id: str | None
) -> tuple[Header, Header | None]:
    """Return the start of a run, and its end if it has one. Raise NotFound."""
    query = Query(scope=scope, session_id=session_id)
    if (around := _around(query, run_id)) is not None:
        for started, ended in RunStarts(store, around).after():
            if started.run_id == run_id:
                return started, ended
    starts = RunStarts(store, query)
    for started, ended in starts.after():
        if started.run_id == run_id:
            return started, ended
    raise unknown_run(scope, run_id, session_id, is_cut=starts.next_cursor is not None)


def unknown_run(scope: Scope, run_id: str, session_id: str | None, *, is_cut: bool) -> NotFound:
    """Return the error for a run that is not there, or not among those that were searched."""
    searched = f"session {session_id} of scope {scope}" if session_id else f"scope {scope}"
    if is_cut:
        return NotFound(
            f"no run {run_id} among the latest of {searched}; earlier ones were not searched",
            hint="name its session with --session, or find it with treering trace list --until",
        )
    return NotFound(
        f"no run {run_id} in {searched}",
        hint=f"treering trace list --scope {scope} shows the runs of the scope",
    )


def outline_run(store: EventStore, started: Header, ended: Header | None) -> RunOutline:
    """Return a run at a glance; its events are counted if its end does not say how many."""
    opening, closing = _opening(started), _closing(ended)
    events, calls = _number(ended) if ended else None, closing.tool_calls
    if events is None or calls is None:
        events = calls = 0
        for header in store.reader.by_run(Header, *_place(started)):
            events = max(events + 1, _number(header) or 0)
            calls += header.kind == "tool.call"
            ended = header if header.kind in RUN_ENDS else ended
        closing = _closing(ended)
    duration_ms = closing.duration_ms
    if duration_ms is None and ended is not None:
        duration_ms = max(0, ended.ts_ms - started.ts_ms)
    return RunOutline(
        run_id=started.run_id or "", session_id=started.session_id, agent_id=started.agent_id,
        state="open" if ended is None else RUN_ENDS[ended.kind], started_ms=started.ts_ms,
        duration_ms=duration_ms, events=events, tool_calls=calls, entry_point=opening.entry_point,
        runtime=opening.runtime, model=opening.model, provider=opening.provider,
        reason=closing.reason, error_class=closing.error_class,
    )  # fmt: skip


def view_run(
    store: EventStore, started: Header, *, limit: int, progress: Callable[[int], None] | None = None
) -> RunView:
    """Return the run that began with ``started``: its first and last events, ``limit`` in all."""
    head: list[RunMoment] = []
    tail: deque[RunMoment] = deque(maxlen=limit - limit // 2)
    event_count, ended = 0, None
    for event, header in safe_events(
        store.reader.by_run(Header, *_place(started)), _key(store, started)
    ):
        event_count += 1
        ended = header if header.kind in RUN_ENDS else ended
        moment = _moment(event, header, started)
        (head if len(head) < limit // 2 else tail).append(moment)
    calls: list[ToolRecord] = []
    call_count = 0
    for record in _calls(store, started, progress):
        call_count += 1
        if call_count <= limit:
            calls.append(record)
    return RunView(
        scope=started.scope,
        run=outline_run(store, started, ended),
        kept=event_count,
        events=[*head, *tail],
        head=len(head),
        left_out=event_count - len(head) - len(tail),
        calls=calls,
        calls_left_out=call_count - len(calls),
    )


def safe_events(
    headers: Iterable[Header], session_key: str | None
) -> Iterator[tuple[SafeEvent, Header]]:
    """Yield the events of a run without private content, numbered in order."""
    number = 0
    for header in headers:
        number = header.run_seq or number + 1
        yield msgspec.structs.replace(safe_event(header, session_key), run_seq=number), header


def _key(store: EventStore, started: Header) -> str | None:
    """Return the name that another system knows the run's session by, if it can be read."""
    scope, session_id, _ = _place(started)
    query = Query(scope=scope, session_id=session_id, kinds=("session.opened",), limit=1)
    with contextlib.suppress(KeyMissing):
        opened = store.reader.by_time(Event, query)
        return settings_of(opened[0].payload).key if opened else None
    return None


def _around(query: Query, run_id: str) -> Query | None:
    """Return ``query`` for the time around a UUID of version 7; None for other ids."""
    dated = _DATED.fullmatch(run_id)
    at_ms = TIME_MS_MAX + 1 if dated is None else int(dated[1] + dated[2], 16)
    if at_ms > TIME_MS_MAX:
        return None
    return msgspec.structs.replace(
        query, since_ms=max(1, at_ms - _EARLIER_MS), until_ms=min(at_ms + _LATER_MS, TIME_MS_MAX)
    )


def _number(header: Header) -> int | None:
    """Return an event's number in its run; None if a recorder outside gave it one far beyond."""
    number = header.run_seq
    return None if number is None or number >= BEYOND_DELTAS else number


def _opening(started: Header) -> RunStarted:
    part = safe_part(started.kind, started.refs)
    return part if isinstance(part, RunStarted) else RunStarted()


def _closing(ended: Header | None) -> RunEnded:
    part = None if ended is None else safe_part(ended.kind, ended.refs)
    return part if isinstance(part, RunEnded) else RunEnded()


def _moment(event: SafeEvent, header: Header, started: Header) -> RunMoment:
    return RunMoment(
        seq=header.seq,
        run_seq=header.run_seq,
        offset_ms=header.ts_ms - started.ts_ms,
        ts_ms=header.ts_ms,
        event_id=header.event_id,
        kind=header.kind,
        source=header.source,
        summary=header.summary,
        part=event.part.as_refs(),
    )


def _calls(
    store: EventStore, started: Header, progress: Callable[[int], None] | None
) -> Iterator[ToolRecord]:
    scope, session_id, run_id = _place(started)
    query = ToolQuery(scope=scope, session_id=session_id, run_id=run_id, limit=PAGE_ITEMS_MAX)
    return items_of(
        lambda after: tool_calls.read_page(store, query, after=after, progress=progress)
    )


def _place(started: Header) -> tuple[Scope, str, str]:
    return Scope(started.scope), started.session_id, started.run_id or ""
