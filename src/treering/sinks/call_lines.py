"""The tool calls of a run, as lines of its trace: one when the outcome is known, or at the end."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any, Final

OPEN_CALLS_MAX: Final = 10_000
"""How many calls without an outcome are remembered; of others, the start is not told."""

_STARTED: Final = ("toolCallId", "toolName", "inputShape", "inputBytes")


class CallLines:
    """Pairs the starts of calls with their outcomes, in the spelling of the event envelope."""

    def __init__(self) -> None:
        self._open: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._waiting = 0

    def start(self, envelope: dict[str, Any]) -> None:
        """Remember that a call began."""
        if self._waiting < OPEN_CALLS_MAX:
            told = {name: _payload(envelope).get(name) for name in _STARTED}
            start = {"at": envelope["at"], "seq": envelope["seq"], "payload": told}
            self._open[_call_id(envelope)].append(start)
            self._waiting += 1

    def outcome(self, envelope: dict[str, Any]) -> dict[str, Any]:
        """Return the line of the call that ``envelope`` is the outcome of."""
        started = self._open.get(_call_id(envelope))
        return _line(started[-1] if started else None, envelope)

    def close(self, envelope: dict[str, Any]) -> None:
        """Forget the call that ``envelope`` is the outcome of: the latest of its id."""
        call_id = _call_id(envelope)
        if self._open.get(call_id):
            self._open[call_id].pop()
            self._waiting -= 1

    def still_open(self) -> list[dict[str, Any]]:
        """Return the lines of the calls that have no outcome, in the order they began."""
        found = [envelope for calls in self._open.values() for envelope in calls]
        return [_line(envelope, None) for envelope in sorted(found, key=lambda one: one["seq"])]


def elapsed_ms(start: str, end: str) -> int:
    """Return the time between two instants, such as the envelope gives."""
    between = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0, round(between.total_seconds() * 1_000))


def _line(start: dict[str, Any] | None, end: dict[str, Any] | None) -> dict[str, Any]:
    called, returned = _payload(start), _payload(end)
    status = returned.get("status") or ("open" if end is None else None)
    return {
        "toolCallId": called.get("toolCallId") or returned.get("toolCallId"),
        "name": called.get("toolName") or returned.get("toolName"),
        "status": status,
        "startedAt": None if start is None else start["at"],
        "endedAt": None if end is None else end["at"],
        "durationMs": _duration(start, end),
        "inputShape": called.get("inputShape"),
        "inputBytes": called.get("inputBytes"),
        "outputBytes": returned.get("outputBytes"),
        "errorClass": returned.get("errorClass"),
        # Earlier ledgers say so only by the status.
        "isSynthetic": bool(returned.get("isSynthetic")) or status == "synthetic",
        "reason": returned.get("reason"),
    }


def _duration(start: dict[str, Any] | None, end: dict[str, Any] | None) -> int | None:
    told = _payload(end).get("durationMs")
    if told is not None or start is None or end is None:
        return told if isinstance(told, int) else None
    return elapsed_ms(start["at"], end["at"])


def _call_id(envelope: dict[str, Any]) -> str:
    return str(_payload(envelope).get("toolCallId", ""))


def _payload(envelope: dict[str, Any] | None) -> dict[str, Any]:
    found = {} if envelope is None else envelope["payload"]
    return found if isinstance(found, dict) else {}
