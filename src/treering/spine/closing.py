"""Closing a run from outside: it is interrupted, or its process is gone.

The events of the run say which tool calls it left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from treering.errors import Conflict, RunClosed
from treering.model.events import Header, NewEvent
from treering.model.parts import RunEnded, ToolCalled, ToolReturned, safe_part
from treering.model.views import OpenCall, OpenRun
from treering.spine.ports import Occasion
from treering.spine.run_events import CalledTool, interrupt_mark, run_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.engine import Engine
    from treering.model.tools import Reason

ATTEMPTS_MAX: Final = 4
"""How often a run is closed in one piece; one that records all the while is ended by force."""
BEYOND_DELTAS: Final = 1_000_000
"""Numbers of the run that its process may have given to deltas, which are not kept."""


def close_run(
    engine: Engine, run: OpenRun, *, reason: Reason, boundary: str | None = None
) -> list[Header]:
    """Give the open calls of a run synthetic results, and record that it was interrupted.

    ``boundary`` says why, in a mark that the next turn sees. Return what was recorded, the mark
    last: nothing, if the run was over already.
    """
    closing = _RunClosing(engine, run, reason, boundary)
    for _ in range(ATTEMPTS_MAX):
        head = engine.head_seq(run.scope, run.session_id)
        headers = closing.headers()
        if not headers:
            return []
        try:
            return engine.write(closing.whole(headers), expected_seq=head, fits=True)
        except Conflict:
            continue  # Its process continues, or others record: look again at what is open.
        except RunClosed:
            return []
    return _close_by_force(engine, closing, headers)


def _close_by_force(engine: Engine, closing: _RunClosing, headers: list[Header]) -> list[Header]:
    """End a run that keeps recording: first its end, then results for its open calls."""
    try:
        number = open_calls(headers)[1] + 2 * BEYOND_DELTAS
        recorded = engine.write(closing.end(headers, number), fits=True)
    except RunClosed:
        return []
    left = closing.late_results(closing.headers())
    if left:
        engine.write(left, fits=True)
    return recorded


class _RunClosing:
    """The events that close one run; gates are asked once for each call."""

    def __init__(self, engine: Engine, run: OpenRun, reason: Reason, boundary: str | None) -> None:
        self._engine = engine
        self._run = run
        self._reason = reason
        self._boundary = boundary
        self._prepared: dict[str, NewEvent] = {}

    def headers(self) -> list[Header]:
        """Return what the ledger holds of the run, in order."""
        run = self._run
        return list(self._engine.store.reader.by_run(Header, run.scope, run.session_id, run.run_id))

    def whole(self, headers: list[Header]) -> list[NewEvent]:
        """Return results for the open calls, the end, and the mark."""
        template = self._template(headers[0])
        calls, last = open_calls(headers)
        number = last + BEYOND_DELTAS
        results = [
            replace(self._result(template, call), run_seq=number + at)
            for at, call in enumerate(calls)
        ]
        return [*results, *self.end(headers, number + len(results))]

    def late_results(self, headers: list[Header]) -> list[NewEvent]:
        """Return results for the open calls of a run that takes no more events."""
        template = self._template(headers[0])
        link = ToolReturned(run=self._run.run_id).as_refs()
        results = [self._result(template, call) for call in open_calls(headers)[0]]
        return [replace(result, run_id=None, refs={**result.refs, **link}) for result in results]

    def end(self, headers: list[Header], run_seq: int) -> list[NewEvent]:
        """Return the end and the mark alone; the end has the number ``run_seq``."""
        template = self._template(headers[0])
        part = RunEnded(
            reason=self._reason,
            # Until its last event: the time until it was closed is not the run's.
            duration_ms=max(headers[-1].ts_ms - headers[0].ts_ms, 0),
            tool_calls=sum(header.kind == "tool.call" for header in headers),
        )
        cause = None if self._boundary is None else {"reason": self._boundary}
        events = [replace(run_end(template, "interrupted", part, cause), run_seq=run_seq)]
        if self._boundary is not None:
            events.append(interrupt_mark(template, self._boundary))
        return events

    def _result(self, template: NewEvent, call: OpenCall) -> NewEvent:
        if call.call_id not in self._prepared:
            occasion = Occasion(
                scope=template.scope,
                session_id=template.session_id,
                session_key=self._engine.session_key(template.scope, template.session_id),
                agent_id=template.agent_id,
                run_id=self._run.run_id,
            )
            called = CalledTool(occasion, template, call.tool, call.call_id, None)
            self._prepared[call.call_id] = self._engine.results.synthetic(called, self._reason)
        return self._prepared[call.call_id]

    def _template(self, first: Header) -> NewEvent:
        return NewEvent(
            scope=self._run.scope,
            session_id=first.session_id,
            kind="",
            agent_id=first.agent_id,
            summary="",
            run_id=self._run.run_id,
            turn_id=first.turn_id,
            user_id=first.user_id,
        )


def open_calls(headers: Iterable[Header]) -> tuple[list[OpenCall], int]:
    """Return the open calls of a run, in order, and its last ``run_seq``.

    Calls whose refs were erased are left out: they cannot be identified.
    """
    calls: dict[str, OpenCall] = {}
    last = 0
    for header in headers:
        last = max(last, header.run_seq or 0)
        if header.kind not in {"tool.call", "tool.result"}:
            continue
        part = safe_part(header.kind, header.refs)
        if isinstance(part, ToolCalled) and part.call_id is not None:
            calls[part.call_id] = OpenCall(
                call_id=part.call_id,
                tool=part.tool or "tool",
                event_id=header.event_id,
                ts_ms=header.ts_ms,
            )
        elif isinstance(part, ToolReturned) and part.call_id is not None:
            calls.pop(part.call_id, None)
    return list(calls.values()), last
