"""What pages count, kept while the server runs: sessions, turns, usage and failures of each scope.

It is read once for the requested period, and then only what is new. After an erasure it is read
again: nothing erased stays here.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.derive.prices import PICO
from treering.derive.reports import (
    REPORT,
    Report,
    Sums,
    Tokens,
    larger_report,
    report_of,
    total_usage,
)
from treering.errors import NotFound
from treering.memory.records import MEMORY_SESSION
from treering.model.kinds import ERASURE_KINDS
from treering.model.queries import PAGE_ITEMS_MAX, items_of
from treering.model.sessions import IDLE_MINUTES, SessionOutline
from treering.model.tools import FAILING, ToolRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.derive.periods import Period
    from treering.ledger.ledger import Ledger
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.model.views import Spent

TURN: Final = "conversation.user"
FAILURES_MAX: Final = 2_000
"""How many failed calls are kept for a scope: the latest."""
_KINDS: Final = (REPORT, TURN)
_READER: Final = "viewer"


class UsedTokens(NamedTuple):
    """What one model call used, and where."""

    scope: str
    session_id: str
    ts_ms: int
    report: Report


class SessionUsage(NamedTuple):
    """Turns and usage of a whole session."""

    turns: int
    spent: Spent


class ScopeFigures:
    """The figures of one scope."""

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self._ledger = ledger
        self.scope = scope
        self._lock = threading.Lock()
        self._cursor: str | None = None
        self._since_ms = 0
        self._now_ms = 0
        self.outlines: dict[str, SessionOutline] = {}
        self.turns: dict[str, tuple[int, str]] = {}
        """Time and session of each, by event."""
        self.used: dict[object, UsedTokens] = {}
        """By call, or by event if a call has no name: repeated reports count once."""
        self.failures: list[ToolRecord] = []
        """The latest last."""
        self._whole: dict[tuple[str, int], SessionUsage] = {}
        self._by_session: tuple[Counter[str], dict[str, list[UsedTokens]]] | None = None

    def refresh(self, since_ms: int, now_ms: int) -> None:
        """Bring it up to date, and back to ``since_ms``."""
        with self._lock:
            end = self._ledger.end_cursor(self.scope)
            if self._cursor is None or since_ms < self._since_ms:
                self._read(since_ms, end)
            elif end != self._cursor:
                self._advance(end)
            for outline in [
                running for running in self.outlines.values() if running.state == "running"
            ]:
                self._outline(outline.session_id)  # Its process may have died.
            self._now_ms = now_ms

    def state_of(self, outline: SessionOutline) -> str:
        """Return the state of a session now: a session becomes idle without an event."""
        is_old = self._now_ms - outline.updated_ms > IDLE_MINUTES * 60_000
        return "idle" if outline.state == "open" and is_old else outline.state

    def usage_of(self, outline: SessionOutline) -> SessionUsage:
        """Return turns and usage of a whole session, without its subagents."""
        name = outline.session_id
        if outline.created_ms >= self._since_ms:
            with self._lock:
                if self._by_session is None:
                    self._by_session = self._sorted()
            turns, used = self._by_session
            return SessionUsage(turns[name], total_usage(sums_of(used.get(name, ()))))
        # It began before what is kept here.
        key = (name, outline.event_count)
        if key not in self._whole:
            handle = self._ledger.session(name, scope=self.scope, agent=_READER)
            self._whole[key] = SessionUsage(handle.summary().turns, handle.usage().total)
        return self._whole[key]

    def _sorted(self) -> tuple[Counter[str], dict[str, list[UsedTokens]]]:
        used: defaultdict[str, list[UsedTokens]] = defaultdict(list)
        for call in self.used.values():
            used[call.session_id].append(call)
        return Counter(session_id for _, session_id in self.turns.values()), used

    def _read(self, since_ms: int, end: str) -> None:
        self._cursor, self._since_ms = end, since_ms
        pages = items_of(
            lambda after: self._ledger.sessions(
                self.scope, since_ms=since_ms, subagents=True, limit=PAGE_ITEMS_MAX, after=after
            )
        )
        self.outlines = {outline.session_id: outline for outline in pages}
        self.turns, self.used, self._whole = {}, {}, {}
        self._by_session = None
        events = items_of(
            lambda after: self._ledger.events(
                self.scope, kinds=_KINDS, since_ms=since_ms, first=PAGE_ITEMS_MAX, after=after
            )
        )
        for event in events:
            self._take(event)
        self._read_failures()

    def _advance(self, end: str) -> None:
        changed: set[str] = set()
        has_results = False
        for event in self._ledger.follow_events(self.scope, after=self._cursor, idle_s=0):
            if event.kind in ERASURE_KINDS:
                self._read(self._since_ms, end)
                return
            changed.add(event.session_id)
            has_results |= event.kind == "tool.result"
            self._take(event)
        for session_id in changed:
            self._outline(session_id)
        if has_results:
            self._read_failures()
        self._cursor = end

    def _take(self, event: Event) -> None:
        self._by_session = None
        if event.kind == TURN:
            self.turns[event.event_id] = (event.ts_ms, event.session_id)
        elif (report := report_of(event)) is not None:
            key = event.event_id if report.call is None else (event.session_id, *report.call)
            earlier = self.used.get(key)
            if earlier is not None:
                report = larger_report(earlier.report, report)
            self.used[key] = UsedTokens(self.scope, event.session_id, event.ts_ms, report)

    def _outline(self, session_id: str) -> None:
        if session_id.startswith(MEMORY_SESSION):
            return  # What the memory records for itself is not a conversation.
        handle = self._ledger.session(session_id, scope=self.scope, agent=_READER)
        try:
            self.outlines[session_id] = handle.outline()
        except NotFound:
            self.outlines.pop(session_id, None)

    def _read_failures(self) -> None:
        self.failures = self._ledger.tool_calls(
            self.scope, status=FAILING, since_ms=self._since_ms, last=PAGE_ITEMS_MAX
        ).items[-FAILURES_MAX:]


class Catalogue:
    """The figures of all scopes of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._scopes: dict[Scope, ScopeFigures] = {}

    def of(self, scopes: Iterable[Scope], since_ms: int, now_ms: int) -> list[ScopeFigures]:
        """Return the figures of some scopes, up to date and at least from ``since_ms`` on."""
        all_figures = [
            self._scopes.setdefault(scope, ScopeFigures(self._ledger, scope)) for scope in scopes
        ]
        for figures in all_figures:
            figures.refresh(since_ms, now_ms)
        return all_figures


def used_in(figures: Iterable[ScopeFigures], period: Period) -> Iterator[UsedTokens]:
    """Return what was used in a period."""
    for figure in figures:
        for used in figure.used.values():
            if period.since_ms <= used.ts_ms <= period.until_ms:
                yield used


def sums_of(used: Iterable[UsedTokens]) -> Sums:
    """Return tokens and cost by model."""
    sums: Sums = {}
    for use in used:
        sums.setdefault(use.report.name, Tokens()).add(use.report.tokens)
    return sums


def known_cost(sums: Sums) -> tuple[Decimal, bool]:
    """Return what the calls with known prices cost, and whether those are all calls."""
    cost = sum(tokens.cost for tokens in sums.values())
    return Decimal(cost).scaleb(-PICO), not any(tokens.unpriced for tokens in sums.values())
