"""The transcript of a session in pages with what a word finds in it, and a map of its turns.

Pages are counted by seq: page 0 is the first ``PAGE_EVENTS`` events, and so on. So a page has the
same rows however it is reached, in a session of any length.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary

import msgspec

from treering.errors import NotFound
from treering.model.events import Event, Header
from treering.model.parts import ToolCalled, ToolReturned, safe_part
from treering.surfaces.pages.blocks_html import PageLinks, entry_html
from treering.surfaces.pages.display import (
    BAD_NOTES,
    BAD_RULES,
    EntryDisplay,
    display_entry,
    grouped,
)
from treering.surfaces.pages.entries import AHEAD_EVENTS_MAX, PageEntry, entries
from treering.surfaces.pages.tool_blocks import exit_code, sort_of
from treering.surfaces.pages.transcripts import call_finder, event_fetcher, read_cover
from treering.surfaces.pages.wording import given_of, note_of, raw_output_of, span_text, tool_of
from treering.surfaces.shared.texts import counted
from treering.surfaces.viewer.parts import Markup
from treering.surfaces.viewer.requests import PageRequest, session_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.tools import ToolRecord
    from treering.model.views import Counts, Spent, TurnView
    from treering.surfaces.pages.blocks import PictureBlock, SubagentBlock

PAGE_EVENTS: Final = 120
TEXT_CHARACTERS_MAX: Final = 12_000
"""Characters of one text of a tool; the details of its event show all of it."""
LOOKBACK_EVENTS: Final = 240
"""Events before a page that are searched for the calls whose results are in it."""
SCAN_EVENTS: Final = 2_500
"""Events that one filter request reads."""
FOUND_ROWS: Final = 60
FIND_EVENTS: Final = 10_000
HITS_MAX: Final = 2_000

RowFilter = Literal["all", "you", "failures", "edits", "thinking"]
FILTERS: Final[tuple[tuple[RowFilter, str], ...]] = (
    ("all", "Everything"),
    ("you", "You"),
    ("failures", "Failures"),
    ("edits", "Edits"),
    ("thinking", "Thinking"),
)


class FoundRows(msgspec.Struct, frozen=True, kw_only=True):
    """What a filter found, and where to continue; None at the end."""

    rows: str
    next_seq: int | None
    count: int


class FoundHits(msgspec.Struct, frozen=True, kw_only=True):
    """The events that contain a text, and where to continue; None at the end."""

    hits: list[int]
    next_seq: int | None


def opened(request: PageRequest) -> Session:
    """Return the session of the address. Raise NotFound."""
    session = request.ledger.session(
        request.names["session_id"], scope=request.the_scope, agent="viewer"
    )
    session.outline()
    return session


def page_of(seq: int) -> int:
    """Return the page that an event is on."""
    return max(seq - 1, 0) // PAGE_EVENTS


def last_seq(session: Session) -> int:
    """Return the last seq of a session."""
    last = next(session.headers(last=1), None)
    return 0 if last is None else last.seq


def page_rows(request: PageRequest, session: Session, page: int) -> Markup:
    """Return the rows of one page."""
    first = page * PAGE_EVENTS + 1
    events = _page_events(session, first, first + PAGE_EVENTS - 1)
    return _drawn(request, session, _entries(request, session, events, first), is_page=True)


def found_rows(request: PageRequest, session: Session, chosen: RowFilter, after: int) -> FoundRows:
    """Return rows after a seq that pass a filter: a part of a long session at a time."""
    wants = _wants(request, chosen)
    events = list(islice(session.events(after_seq=after), SCAN_EVENTS + AHEAD_EVENTS_MAX))
    until = events[min(len(events), SCAN_EVENTS) - 1].seq if events else after
    page_entries: list[PageEntry] = []
    for entry in _entries(request, session, _until(events, until), after + 1):
        if entry.event.seq <= until and wants(entry):
            page_entries.append(entry)
            if len(page_entries) == FOUND_ROWS:
                until = entry.event.seq
                break
    is_end = not events or until >= events[-1].seq
    return FoundRows(
        rows=str(_drawn(request, session, page_entries)),
        next_seq=None if is_end else until,
        count=len(page_entries),
    )


def found_hits(request: PageRequest, session: Session, text: str, after: int) -> FoundHits:
    """Return the events whose content, as it is shown, contains ``text`` in any case."""
    word = text.casefold()
    hits: list[int] = []
    seq = after
    count = 0
    for event in islice(session.events(after_seq=after), FIND_EVENTS):
        seq, count = event.seq, count + 1
        if event.redacted:
            continue
        if any(word in passage.casefold() for passage in _texts(event)):
            # A masked secret must not be found.
            shown = any(word in request.text(passage).casefold() for passage in _texts(event))
            hits += [seq] if shown else []
        if len(hits) >= HITS_MAX:
            break
    is_end = count < FIND_EVENTS and len(hits) < HITS_MAX
    return FoundHits(hits=hits, next_seq=None if is_end else seq)


def row_links(request: PageRequest, session: Session, *, agent: str) -> PageLinks:
    """Return the addresses of what rows refer to."""
    scope, name = session.scope, session.session_id

    def event(header: Header) -> str:
        return session_address(scope, name, event=header.event_id, open="event")

    def picture(block: PictureBlock) -> str:
        return session_address(scope, name, "/picture", event=block.event_id, number=block.number)

    return PageLinks(
        session=lambda other: session_address(scope, other),
        event=event,
        picture=picture,
        speakers={"user": "You", "assistant": request.text(agent), "thinking": "Thinking"},
    )


def _drawn(
    request: PageRequest, session: Session, found: Iterable[PageEntry], *, is_page: bool = False
) -> Markup:
    agent = session.outline().agent
    links = row_links(request, session, agent=agent)
    subagent = _subagents(request, session)
    shown = (
        display_entry(
            entry, request.mask, characters_max=TEXT_CHARACTERS_MAX, subagent=subagent(entry)
        )
        for entry in found
    )
    rows = grouped(shown) if is_page else shown
    return Markup("".join(entry_html(row, links) for row in rows if isinstance(row, EntryDisplay)))


def _subagents(
    request: PageRequest, session: Session
) -> Callable[[PageEntry], Callable[[str], SubagentBlock | None]]:
    """Return a function that finds the subagents of a call; they are read on demand."""
    covers: list[Any] = []

    def of(entry: PageEntry) -> Callable[[str], SubagentBlock | None]:
        part = safe_part("tool.call", entry.event.refs)
        name = part.tool if isinstance(part, ToolCalled) else None
        if entry.sort != "tool" or sort_of(name or "", {}) != "agent":
            return lambda _: None
        if not covers:
            covers.append(read_cover(request.ledger, session))
        find: Callable[[str], SubagentBlock | None] = covers[0].subagent
        return find

    return of


def _entries(
    request: PageRequest, session: Session, events: Iterable[Event], first: int
) -> Iterator[PageEntry]:
    """Return entries, without results of calls before ``first``, which show them."""
    earlier = _calls_before(session, first)
    fetch = event_fetcher(request.ledger, session, with_payloads=True)
    look_up = call_finder(request.ledger)
    near_end = last_seq(session) - AHEAD_EVENTS_MAX

    def find(event: Header, call_id: str) -> ToolRecord | None:
        # Near the end of the session every result was looked at: the call is open.
        return None if event.seq >= near_end else look_up(event, call_id)

    for entry in entries(events, find=find, fetch=fetch):
        if entry.sort == "tool" and entry.event.kind == "tool.result":
            part = safe_part("tool.result", entry.event.refs)
            if isinstance(part, ToolReturned) and part.call_id in earlier and not part.late:
                continue
        yield entry


def _page_events(session: Session, first: int, last: int) -> Iterator[Event]:
    return _until(
        takewhile(
            lambda event: event.seq <= last + AHEAD_EVENTS_MAX, session.events(after_seq=first - 1)
        ),
        last,
    )


def _until(events: Iterable[Event], last: int) -> Iterator[Event]:
    """Return events until ``last``, and later results, since their calls may be before it."""
    open_calls: set[str] = set()
    for event in events:
        if event.seq <= last:
            part = safe_part(event.kind, event.refs)
            if isinstance(part, ToolCalled):
                open_calls.add(part.call_id or "")
            yield event
        elif event.kind == "tool.result":
            part = safe_part(event.kind, event.refs)
            if isinstance(part, ToolReturned) and (part.call_id or "") in open_calls:
                yield event


def _calls_before(session: Session, first: int) -> set[str]:
    if first <= 1:
        return set()
    before = session.headers(after_seq=max(first - 1 - LOOKBACK_EVENTS, 0))
    call_ids = set()
    for header in takewhile(lambda header: header.seq < first, before):
        if header.kind == "tool.call":
            part = safe_part(header.kind, header.refs)
            if isinstance(part, ToolCalled) and part.call_id:
                call_ids.add(part.call_id)
    return call_ids


def _wants(request: PageRequest, chosen: RowFilter) -> Callable[[PageEntry], bool]:
    """Return the predicate of a filter."""
    mask = request.mask

    def is_failure(entry: PageEntry) -> bool:
        if entry.sort == "tool":
            if tool_of(entry, mask).status in {"failed", "synthetic"}:
                return True
            result = entry.result.payload if isinstance(entry.result, Event) else None
            return bool(exit_code(result, raw_output_of(entry, mask))[0])
        if entry.sort == "note":
            return note_of(entry.event, mask)[0] in BAD_NOTES
        return entry.sort == "rule" and entry.event.kind.startswith(BAD_RULES)

    def is_edit(entry: PageEntry) -> bool:
        name = tool_of(entry, mask).name
        return entry.sort == "tool" and sort_of(name, given_of(entry, mask)) == "edit"

    filters: dict[RowFilter, Callable[[PageEntry], bool]] = {
        "all": lambda _: True,
        "you": lambda entry: entry.sort == "user",
        "failures": is_failure,
        "edits": is_edit,
        "thinking": lambda entry: entry.sort == "thinking",
    }
    return filters[chosen]


def _texts(event: Event) -> Iterator[str]:
    yield event.summary
    waiting = [event.payload]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def event_of(request: PageRequest, event_id: str) -> Event:
    """Return an event of the request's scope. Raise NotFound."""
    try:
        return request.ledger.event(request.the_scope, event_id)
    except NotFound as error:
        raise NotFound(
            f"no event {event_id[:60]} in scope {request.the_scope}",
            hint="it may have been in another ledger",
        ) from error


SPANS_MAX: Final = 400
"""Spans of one lane; more are merged with their neighbours."""
FAILURES_MAX: Final = 5_000
TURNS_MAX: Final = 5_000
"""How many turns the outline shows: the last ones."""
KEPT_MAPS: Final = 16
TITLE_CHARACTERS: Final = 120
_MARKS: Final = {
    "context.compacted": "compaction",
    "session.undone": "undo",
    "session.redone": "redo",
}
_MODEL_KINDS: Final = frozenset({"conversation.assistant", "tool.call"})


class MapTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn in the outline."""

    number: int
    first_seq: int
    last_seq: int
    title: str
    started_ms: int
    took_ms: int
    tools: int
    failures: int
    tokens: int
    cost: float | None
    state: str
    """Empty if no run says so."""


class LaneSpan(msgspec.Struct, frozen=True, array_like=True):
    """When somebody was busy, and where that is in the transcript."""

    start_ms: int
    end_ms: int
    seq: int
    is_bad: bool = False
    is_approximate: bool = False
    """Whether the end is unknown."""


class LaneMark(msgspec.Struct, frozen=True, array_like=True):
    """A moment that divides the session."""

    at_ms: int
    seq: int
    kind: str


class SessionMap(msgspec.Struct, frozen=True, kw_only=True):
    """A map of a session."""

    last_seq: int
    facts: str
    """How much it is: turns, time, tokens, cost, tool calls."""
    turns: list[MapTurn]
    failures: list[int]
    """The seqs of calls and runs that failed."""
    you: list[LaneSpan]
    model: list[LaneSpan]
    tools: list[LaneSpan]
    subagents: list[LaneSpan]
    marks: list[LaneMark]


class MapCache:
    """A cache of maps: that of a long session takes seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawing: dict[tuple[object, ...], threading.Lock] = {}
        self._maps: WeakKeyDictionary[Ledger, OrderedDict[tuple[object, ...], SessionMap]] = (
            WeakKeyDictionary()
        )

    def map_of(self, request: PageRequest, session: Session) -> SessionMap:
        """Return the current map of a session; after an erasure, a new one."""
        counts = session.summary()
        # An erasure changes what may be shown, and not the number of events.
        key = (session.scope, session.session_id, counts.events, counts.erased, counts.last_ms)
        with self._lock:
            maps = self._maps.setdefault(request.ledger, OrderedDict())
            drawing = self._drawing.setdefault(key[:2], threading.Lock())
        # Several pages may ask for the same map: one draws it, the others wait for it.
        with drawing:
            made = maps.get(key) or session_map(request, session)
        with self._lock:
            maps[key] = made
            maps.move_to_end(key)
            while len(maps) > KEPT_MAPS:
                maps.popitem(last=False)
            if len(self._drawing) > KEPT_MAPS:
                self._drawing.clear()
        return made


MAPS: Final = MapCache()


def session_map(request: PageRequest, session: Session) -> SessionMap:
    """Return the map of a session, read once from beginning to end."""
    lanes = _Lanes()
    for header in session.headers():
        lanes.take(header)
    failures = sorted(lanes.failures)
    counts = session.summary()
    skipped = max(counts.turns - TURNS_MAX, 0)
    turns = [
        _turn(request, number, turn, failures)
        for number, turn in enumerate(session.turns(last=TURNS_MAX), skipped + 1)
    ]
    return SessionMap(
        last_seq=lanes.last_seq,
        facts=_facts(counts, session.usage().total),
        turns=turns,
        failures=failures[:FAILURES_MAX],
        you=merged(lanes.you),
        model=merged(lanes.model),
        tools=merged([*lanes.tools, *lanes.unfinished()]),
        subagents=merged(_subagent_lanes(request, session, lanes.calls)),
        marks=lanes.marks[:SPANS_MAX],
    )


def merged(spans: Iterable[LaneSpan], spans_max: int = SPANS_MAX) -> list[LaneSpan]:
    """Return at most ``spans_max`` spans: neighbours become one, which is bad if any of them is."""
    ordered = sorted(spans, key=lambda span: span.start_ms)
    size = -(-len(ordered) // spans_max) if ordered else 1
    return [_joined(ordered[at : at + size]) for at in range(0, len(ordered), size)]


def _joined(spans: Sequence[LaneSpan]) -> LaneSpan:
    first = next((span for span in spans if span.is_bad), spans[0])
    return LaneSpan(
        spans[0].start_ms,
        max(span.end_ms for span in spans),
        first.seq,
        any(span.is_bad for span in spans),
        all(span.is_approximate for span in spans),
    )


def _facts(counts: Counts, spent: Spent) -> str:
    has_times = counts.first_ms is not None and counts.last_ms is not None
    facts = (
        counted(counts.turns, "turn"),
        span_text((counts.last_ms or 0) - (counts.first_ms or 0)) if has_times else "",
        f"{spent.total_tokens:,} tokens" if spent.total_tokens else "",
        f"${spent.cost_usd:,.2f}" if spent.cost_usd is not None and spent.calls else "",
        counted(counts.tool_calls, "tool call") if counts.tool_calls else "",
    )
    return " · ".join(filter(None, facts))


def _turn(request: PageRequest, number: int, turn: TurnView, failures: Sequence[int]) -> MapTurn:
    costs = [used.cost_usd for used in turn.usage]
    priced = [cost for cost in costs if cost is not None]
    return MapTurn(
        number=number,
        first_seq=turn.first_seq,
        last_seq=turn.last_seq,
        title=" ".join(request.text(turn.prompt).split())[:TITLE_CHARACTERS],
        started_ms=turn.started_ms,
        took_ms=max(turn.ended_ms - turn.started_ms, 0),
        tools=turn.tool_calls,
        failures=bisect_right(failures, turn.last_seq) - bisect_left(failures, turn.first_seq),
        tokens=sum(used.total_tokens for used in turn.usage),
        cost=float(sum(priced)) if costs and len(priced) == len(costs) else None,
        state="undone" if turn.is_undone else turn.state or "",
    )


def _subagent_lanes(
    request: PageRequest, session: Session, calls: dict[str, int]
) -> Iterable[LaneSpan]:
    from treering.surfaces.pages.transcripts import spawned_sessions  # noqa: PLC0415

    for name, call_id in spawned_sessions(request.ledger, session).items():
        counts = request.ledger.session(name, scope=session.scope, agent="viewer").summary()
        if counts.first_ms is not None and counts.last_ms is not None:
            yield LaneSpan(counts.first_ms, counts.last_ms, calls.get(call_id or "", 1))


class _Lanes:
    """Turns headers, in order, into spans."""

    def __init__(self) -> None:
        self.last_seq = 0
        self.you: list[LaneSpan] = []
        self.model: list[LaneSpan] = []
        self.tools: list[LaneSpan] = []
        self.marks: list[LaneMark] = []
        self.failures: set[int] = set()
        self.calls: dict[str, int] = {}
        self._open: dict[str, Header] = {}
        self._since: int | None = None
        """Since when it is the model's turn."""

    def take(self, header: Header) -> None:
        self.last_seq = header.seq
        kind, at = header.kind, header.ts_ms
        if kind in {"conversation.user", "inbox.received"}:
            self.you.append(LaneSpan(at, at, header.seq))
            self._since = at
        elif kind in _MODEL_KINDS:
            if self._since is not None and at >= self._since:
                self.model.append(LaneSpan(self._since, at, header.seq))
            self._since = at if kind != "tool.call" else None
            if kind == "tool.call":
                self._call(header)
        elif kind == "tool.result":
            self._result(header)
            self._since = at
        elif kind in _MARKS or kind.startswith("boundary."):
            self.marks.append(LaneMark(at, header.seq, _MARKS.get(kind, "boundary")))
        elif kind in {"run.failed", "run.interrupted", "ops.error"}:
            self.failures.add(header.seq)

    def unfinished(self) -> Iterable[LaneSpan]:
        """Return calls without a result: only their beginning is known."""
        return [
            LaneSpan(call.ts_ms, call.ts_ms, call.seq, is_approximate=True)
            for call in self._open.values()
        ]

    def _call(self, header: Header) -> None:
        part = safe_part(header.kind, header.refs)
        name = (part.call_id if isinstance(part, ToolCalled) else None) or ""
        self._open[name] = header
        self.calls[name] = header.seq

    def _result(self, header: Header) -> None:
        part = safe_part(header.kind, header.refs)
        returned = part if isinstance(part, ToolReturned) else ToolReturned()
        call = self._open.pop(returned.call_id or "", None)
        is_bad = returned.status in {"failed", "synthetic"} or bool(returned.is_synthetic)
        seq = header.seq if call is None else call.seq
        begun = header.ts_ms if call is None else call.ts_ms
        if returned.duration_ms is not None and call is None:
            begun = header.ts_ms - returned.duration_ms
        if is_bad and not returned.late:
            self.failures.add(seq)
        approximate = call is None and returned.duration_ms is None
        self.tools.append(LaneSpan(begun, max(header.ts_ms, begun), seq, is_bad, approximate))
