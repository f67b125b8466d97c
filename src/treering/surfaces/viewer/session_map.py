"""A map of a session: its turns, its failures, and who was busy when, for the time lanes."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from treering.model.parts import ToolCalled, ToolReturned, safe_part
from treering.surfaces.pages.wording import span_text
from treering.surfaces.shared.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Header
    from treering.model.views import Counts, Spent, TurnView
    from treering.surfaces.viewer.requests import PageRequest

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
        subagents=merged(_subagents(request, session, lanes.calls)),
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


def _subagents(request: PageRequest, session: Session, calls: dict[str, int]) -> Iterable[LaneSpan]:
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
