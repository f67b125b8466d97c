"""One run as it went: what happened when, and how its tools did."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.kinds import RUN_ENDS
from treering.model.tool_records import ToolRecord
from treering.surfaces.cli.run_outlines import RunOutline, outline
from treering.surfaces.cli.run_trace import safe_events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.carried import SafeEvent
    from treering.model.events import Header

_PAGE: Final = 1_000


class Moment(msgspec.Struct, frozen=True, kw_only=True):
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


class Rundown(msgspec.Struct, frozen=True, kw_only=True):
    """One run as it went: its first and its last events, and its tool calls."""

    scope: str
    run: RunOutline
    kept: int
    """How many of its events are in the ledger."""
    events: list[Moment]
    head: int
    """How many of these come before those that are left out."""
    left_out: int
    calls: list[ToolRecord]
    """Its first tool calls."""
    calls_left_out: int


def rundown(
    ledger: Ledger,
    started: Header,
    *,
    limit: int,
    progress: Callable[[int], None] | None = None,
) -> Rundown:
    """Read the run that began with ``started``: its first and last events, ``limit`` in all."""
    head: list[Moment] = []
    tail: deque[Moment] = deque(maxlen=limit - limit // 2)
    kept, ended = 0, None
    for event, header in safe_events_of(ledger, started):
        kept += 1
        ended = header if header.kind in RUN_ENDS else ended
        moment = _moment(event, header, started)
        (head if len(head) < limit // 2 else tail).append(moment)
    calls: list[ToolRecord] = []
    calls_in_all = 0
    for record in _calls_of(ledger, started, progress):
        calls_in_all += 1
        if calls_in_all <= limit:
            calls.append(record)
    return Rundown(
        scope=started.scope,
        run=outline(ledger, started, ended),
        kept=kept,
        events=[*head, *tail],
        head=len(head),
        left_out=kept - len(head) - len(tail),
        calls=calls,
        calls_left_out=calls_in_all - len(calls),
    )


def _moment(event: SafeEvent, header: Header, started: Header) -> Moment:
    return Moment(
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


def _calls_of(
    ledger: Ledger, started: Header, progress: Callable[[int], None] | None
) -> Iterator[ToolRecord]:
    cursor = None
    while True:
        page = ledger.tool_calls(
            started.scope,
            session_id=started.session_id,
            run_id=started.run_id,
            first=_PAGE,
            after=cursor,
            progress=progress,
        )
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
