"""The tool calls of a run, as lines of its trace: one when the outcome is known, or at the end."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any, Final

import msgspec

from treering.model.envelopes import ToolCallFailed, ToolCallFinished, ToolCallStarted

OPEN_CALLS_MAX: Final = 10_000
"""How many calls without an outcome are remembered; of others, the start is not told."""

Started = ToolCallStarted[Any]
Outcome = ToolCallFinished[Any] | ToolCallFailed[Any]


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of the start of a call."""

    at: str
    seq: int
    call_id: str | None
    tool: str | None
    input_shape: str | None
    input_bytes: int | None


class CallLines:
    """Pairs the starts of calls with their outcomes, in the spelling of the event envelope."""

    def __init__(self) -> None:
        self._open: defaultdict[str, list[_Start]] = defaultdict(list)
        self._waiting = 0

    def start(self, envelope: Started) -> None:
        """Remember that a call began."""
        if self._waiting < OPEN_CALLS_MAX:
            told = envelope.payload
            self._open[told.tool_call_id or ""].append(
                _Start(
                    at=envelope.at,
                    seq=envelope.seq,
                    call_id=told.tool_call_id,
                    tool=told.tool_name,
                    input_shape=told.input_shape,
                    input_bytes=told.input_bytes,
                )
            )
            self._waiting += 1

    def outcome(self, envelope: Outcome) -> dict[str, Any]:
        """Return the line of the call that ``envelope`` is the outcome of."""
        started = self._open.get(envelope.payload.tool_call_id or "")
        return _line(started[-1] if started else None, envelope)

    def close(self, envelope: Outcome) -> None:
        """Forget the call that ``envelope`` is the outcome of: the latest of its id."""
        call_id = envelope.payload.tool_call_id or ""
        if self._open.get(call_id):
            self._open[call_id].pop()
            self._waiting -= 1

    def still_open(self) -> list[dict[str, Any]]:
        """Return the lines of the calls that have no outcome, in the order they began."""
        found = [start for calls in self._open.values() for start in calls]
        return [_line(start, None) for start in sorted(found, key=lambda one: one.seq)]


def elapsed_ms(start: str, end: str) -> int:
    """Return the time between two instants, such as the envelope gives."""
    between = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0, round(between.total_seconds() * 1_000))


def _line(start: _Start | None, end: Outcome | None) -> dict[str, Any]:
    returned = None if end is None else end.payload
    status = "open" if returned is None else returned.status
    return {
        "toolCallId": (start and start.call_id) or (returned and returned.tool_call_id),
        "name": (start and start.tool) or (returned and returned.tool_name),
        "status": status,
        "startedAt": start and start.at,
        "endedAt": end and end.at,
        "durationMs": _duration(start, end),
        "inputShape": start and start.input_shape,
        "inputBytes": start and start.input_bytes,
        "outputBytes": returned and returned.output_bytes,
        "errorClass": returned and returned.error_class,
        # Earlier ledgers say so only by the status.
        "isSynthetic": bool(returned and returned.is_synthetic) or status == "synthetic",
        "reason": returned and returned.reason,
    }


def _duration(start: _Start | None, end: Outcome | None) -> int | None:
    told = None if end is None else end.payload.duration_ms
    if told is not None or start is None or end is None:
        return told if isinstance(told, int) else None
    return elapsed_ms(start.at, end.at)
