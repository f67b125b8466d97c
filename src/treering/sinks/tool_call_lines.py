"""A run's tool calls as lines of its trace, written with the outcome or at the end."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any, Final

import msgspec

from treering.model.envelopes import ToolCallFailed, ToolCallFinished, ToolCallStarted

OPEN_CALLS_MAX: Final = 10_000
"""The number of open calls that are remembered; others have no start in their line."""

Started = ToolCallStarted[Any]
Outcome = ToolCallFinished[Any] | ToolCallFailed[Any]


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a call."""

    at: str
    seq: int
    call_id: str | None
    tool: str | None
    input_shape: str | None
    input_bytes: int | None


class CallLines:
    """Pairs the starts of calls with their outcomes, under the envelope's names."""

    def __init__(self) -> None:
        self._open: defaultdict[str, list[_Start]] = defaultdict(list)
        self._waiting = 0

    def start(self, envelope: Started) -> None:
        """Remember the start of a call."""
        if self._waiting < OPEN_CALLS_MAX:
            payload = envelope.payload
            self._open[payload.tool_call_id or ""].append(
                _Start(
                    at=envelope.at,
                    seq=envelope.seq,
                    call_id=payload.tool_call_id,
                    tool=payload.tool_name,
                    input_shape=payload.input_shape,
                    input_bytes=payload.input_bytes,
                )
            )
            self._waiting += 1

    def outcome(self, envelope: Outcome) -> dict[str, Any]:
        """Return the line of the call whose outcome is ``envelope``."""
        started = self._open.get(envelope.payload.tool_call_id or "")
        return _line(started[-1] if started else None, envelope)

    def close(self, envelope: Outcome) -> None:
        """Forget the call whose outcome is ``envelope``: the latest with its id."""
        call_id = envelope.payload.tool_call_id or ""
        if self._open.get(call_id):
            self._open[call_id].pop()
            self._waiting -= 1

    def still_open(self) -> list[dict[str, Any]]:
        """Return the lines of calls without an outcome, in the order of their starts."""
        starts = [start for calls in self._open.values() for start in calls]
        return [_line(start, None) for start in sorted(starts, key=lambda start: start.seq)]


def elapsed_ms(start: str, end: str) -> int:
    """Return the milliseconds between two times as in envelopes."""
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
        # Earlier ledgers only have the status.
        "isSynthetic": bool(returned and returned.is_synthetic) or status == "synthetic",
        "reason": returned and returned.reason,
    }


def _duration(start: _Start | None, end: Outcome | None) -> int | None:
    reported = None if end is None else end.payload.duration_ms
    if reported is not None or start is None or end is None:
        return reported if isinstance(reported, int) else None
    return elapsed_ms(start.at, end.at)
