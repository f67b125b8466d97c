"""One run as it went: what happened when, and how its tools did."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from treering.model.kinds import RUN_ENDS
from treering.sinks.call_lines import CallLines
from treering.sinks.runs import RunOutline, outline, safe_events_of

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.events import Header


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
    """One run as it went: its first and its last events, and its tools."""

    scope: str
    run: RunOutline
    kept: int
    """How many of its events are in the ledger."""
    events: list[Moment]
    head: int
    """How many of these come before those that are left out."""
    left_out: int
    tools: list[dict[str, Any]]


def rundown(ledger: Ledger, started: Header, *, limit: int) -> Rundown:
    """Read the run that began with ``started``; of its events, the first and last so many."""
    calls = CallLines()
    tools: list[dict[str, Any]] = []
    head: list[Moment] = []
    tail: deque[Moment] = deque(maxlen=limit - limit // 2)
    kept, ended = 0, None
    for event, header in safe_events_of(ledger, started):
        kept += 1
        ended = header if header.kind in RUN_ENDS else ended
        envelope = event.envelope()
        if event.kind == "tool.call" and envelope is not None:
            calls.start(envelope)
        elif event.kind == "tool.result" and envelope is not None:
            if len(tools) < limit:
                tools.append(calls.outcome(envelope))
            calls.close(envelope)
        moment = Moment(
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
        (head if len(head) < limit // 2 else tail).append(moment)
    return Rundown(
        scope=started.scope,
        run=outline(ledger, started, ended),
        kept=kept,
        events=[*head, *tail],
        head=len(head),
        left_out=kept - len(head) - len(tail),
        tools=[*tools, *calls.still_open()][:limit],
    )
