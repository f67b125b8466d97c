"""What one event says about a tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.parts import SafePart, ToolCalled, ToolReturned, safe_part
from treering.model.tools import Reason, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.model.events import Header

TOOL_KINDS: Final = ("tool.call", "tool.result")
COUNT_MAX: Final = 2**40
"""Larger sizes and durations are implausible and treated as unknown."""

Name = str | int
"""A text, or a number that represents it."""


class _Texts(dict[str, str]):
    """Every text as it is; nothing is kept."""

    def __missing__(self, text: str) -> str:
        return text


_TEXTS: Final = _Texts()


class ToolFact(msgspec.Struct, frozen=True, gc=False):
    """What one event says about a tool call."""

    position: int
    seq: int
    ts_ms: int
    is_call: bool
    call_id: Name | None
    tool: Name | None
    run: Name | None
    status: Status
    """How a result ended; ``open`` for a call."""
    reason: Reason | None = None
    duration_ms: int | None = None
    output_bytes: int | None = None
    is_timed: bool = True
    """Whether its time is known, not only approximately."""


def fact_of(header: Header) -> ToolFact | None:
    """Return what ``header`` says about a tool call; None if it is not a tool event."""
    if header.kind not in TOOL_KINDS or header.redacted:
        return None
    place = (header.position, header.seq, header.ts_ms)
    return read_fact(place, header.run_id, safe_part(header.kind, header.refs))


def read_fact(
    place: tuple[int, int, int],
    run_id: str | None,
    part: SafePart,
    names: Mapping[str, Name] = _TEXTS,
) -> ToolFact:
    """Return what a tool event says; ``place`` is its position, seq and time.

    ``names`` has what represents a text.
    """
    position, seq, ts_ms = place
    if isinstance(part, ToolReturned):
        status = _status_of(part)
        return ToolFact(
            position,
            seq,
            ts_ms,
            is_call=False,
            call_id=names[part.call_id] if part.call_id else None,
            tool=names[part.tool] if part.tool else None,
            run=names[run] if (run := run_id or part.run) else None,
            status=status,
            reason=part.reason if status == "synthetic" else None,
            duration_ms=plausible(part.duration_ms),
            output_bytes=plausible(part.output_bytes),
            is_timed=part.time is None,
        )
    called = part if isinstance(part, ToolCalled) else ToolCalled()
    return ToolFact(
        position,
        seq,
        ts_ms,
        is_call=True,
        call_id=names[called.call_id] if called.call_id else None,
        tool=names[called.tool] if called.tool else None,
        run=names[run_id] if run_id else None,
        status="open",
    )


def plausible(number: int | None) -> int | None:
    """Return a size or duration; None if it is implausible."""
    return number if number is not None and 0 <= number <= COUNT_MAX else None


def _status_of(part: ToolReturned) -> Status:
    if part.is_synthetic or part.status == "synthetic":
        return "synthetic"
    if part.status in {"ok", "failed"}:
        return part.status
    return "failed" if part.error_class else "ok"
