"""Runs as the ledger holds them, at a glance: the newest of a scope, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.kinds import RUN_ENDS
from treering.model.parts import RunEnded, RunStarted, safe_part
from treering.model.queries import Query, TimelinePoint, make_cursor
from treering.spine.closing import BEYOND_DELTAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.model.scopes import Scope
    from treering.surfaces.cli.opening import Span

PAGES_MAX: Final = 200
"""How far back runs are searched at once: about 100,000 of them."""
FAILING: Final = frozenset({"failed", "interrupted"})

_KINDS: Final = ("run.started", *RUN_ENDS)
_PAGE: Final = 1_000


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


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs of a scope, the newest first, and how to go on."""

    runs: list[RunOutline]
    has_more: bool
    next_cursor: str | None


class Starts:
    """The starts of runs of a scope, the newest first, each with its end if that came later."""

    def __init__(
        self,
        ledger: Ledger,
        scope: Scope,
        *,
        session_id: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        pages_max: int = PAGES_MAX,
    ) -> None:
        self._ledger = ledger
        self._query = Query(
            scope=scope,
            session_id=session_id,
            kinds=_KINDS,
            since_ms=since_ms,
            until_ms=until_ms,
            backwards=True,
        )
        self._pages_max = pages_max
        self.next_cursor: str | None = None
        """Where to go on, if it stopped before the first run of all."""

    def after(self, cursor: str | None = None) -> Iterator[tuple[Header, Header | None]]:
        """Give them, from ``cursor`` on."""
        ends: dict[tuple[str, str | None], Header] = {}
        asked = self._query
        self.next_cursor = cursor
        for _ in range(self._pages_max):
            page = self._ledger.query(
                asked.scope,
                session_id=asked.session_id,
                kinds=asked.kinds,
                since=asked.since_ms,
                until=asked.until_ms,
                last=_PAGE,
                after=self.next_cursor,
            )
            self.next_cursor = page.next_cursor
            for header in reversed(page.items):
                key = (header.session_id, header.run_id)
                if header.kind in RUN_ENDS:
                    ends[key] = header
                elif header.run_id is not None:
                    yield header, ends.pop(key, None)
            if not page.has_more:
                return

    def cursor_behind(self, started: Header) -> str:
        """Return the cursor after ``started``."""
        return make_cursor(self._query, TimelinePoint(started.ts_ms, started.position))


def recent_runs(
    ledger: Ledger,
    scope: Scope,
    *,
    session_id: str | None = None,
    span: Span,
    only_failing: bool = False,
    limit: int,
    cursor: str | None = None,
    pages_max: int = PAGES_MAX,
) -> RunList:
    """Return the latest runs of a scope; ``cursor`` continues with earlier ones."""
    found: list[RunOutline] = []
    starts = Starts(
        ledger,
        scope,
        session_id=session_id,
        since_ms=span.since_ms,
        until_ms=span.until_ms,
        pages_max=pages_max,
    )
    last = None
    for started, ended in starts.after(cursor):
        if only_failing and ended is not None and RUN_ENDS[ended.kind] not in FAILING:
            continue
        run = outline(ledger, started, ended)
        if only_failing and run.state not in FAILING:
            continue
        if len(found) == limit and last is not None:
            return RunList(runs=found, has_more=True, next_cursor=starts.cursor_behind(last))
        found.append(run)
        last = started
    more = starts.next_cursor
    return RunList(runs=found, has_more=more is not None, next_cursor=more)


def _number(header: Header) -> int | None:
    """Return an event's number in its run; None if it was given it from outside, far beyond."""
    number = header.run_seq
    return None if number is None or number >= BEYOND_DELTAS else number


def outline(ledger: Ledger, started: Header, ended: Header | None = None) -> RunOutline:
    """Return a run at a glance; it is read through if its end does not tell all."""
    begun, over = _begun(started), _over(ended)
    events, tool_calls = _number(ended) if ended else None, over.tool_calls
    if events is None or tool_calls is None:
        events = tool_calls = 0
        for header in ledger.run_headers(started.scope, started.session_id, started.run_id or ""):
            events = max(events + 1, _number(header) or 0)
            tool_calls += header.kind == "tool.call"
            ended = header if header.kind in RUN_ENDS else ended
        over = _over(ended)
    duration_ms = over.duration_ms
    if duration_ms is None and ended is not None:
        duration_ms = max(0, ended.ts_ms - started.ts_ms)
    return RunOutline(
        run_id=started.run_id or "",
        session_id=started.session_id,
        agent_id=started.agent_id,
        state="open" if ended is None else RUN_ENDS[ended.kind],
        started_ms=started.ts_ms,
        duration_ms=duration_ms,
        events=events,
        tool_calls=tool_calls,
        entry_point=begun.entry_point,
        runtime=begun.runtime,
        model=begun.model,
        provider=begun.provider,
        reason=over.reason,
        error_class=over.error_class,
    )


def _begun(started: Header) -> RunStarted:
    part = safe_part(started.kind, started.refs)
    return part if isinstance(part, RunStarted) else RunStarted()


def _over(ended: Header | None) -> RunEnded:
    part = None if ended is None else safe_part(ended.kind, ended.refs)
    return part if isinstance(part, RunEnded) else RunEnded()
