"""Records the pi agent from the JSON lines that ``pi --mode json`` prints.

    record_pi(spine, session, process.stdout)

A PiRecorder records events that come one by one, for example from pi-agent-core's subscribers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.adapters.pi_recorder import PiRecorder
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.sessions import Session
    from treering.spine.dispatcher import Spine

__all__ = ["BadLine", "PiReceipt", "PiRecorder", "record_pi"]

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest line to read; pi repeats the whole message in every update."""
BAD_LINES_MAX: Final = 100


class BadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be recorded."""

    line: int
    """Counted from 1."""
    message: str


class PiReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of recording a stream of lines."""

    lines: int
    runs: int
    bad: int
    """The number of lines that could not be recorded; each left a warning."""
    bad_lines: tuple[BadLine, ...]
    """The first of these lines."""


def record_pi(
    spine: Spine,
    session: Session,
    lines: Iterable[str | bytes],
    *,
    agent: str | None = None,
    entry_point: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    wait_s: float | None = None,
) -> PiReceipt:
    """Record a whole stream of pi's JSON lines as they arrive.

    A line that is not an event leaves a warning with its number, and recording continues. If the
    stream ends before the agent does, the run is interrupted. Raises RunInterrupted if the session
    is interrupted meanwhile: then stop pi.
    """
    bad: list[BadLine] = []
    number = refused = 0
    recorder = PiRecorder(
        spine,
        session,
        agent=agent,
        entry_point=entry_point,
        model=model,
        provider=provider,
        wait_s=wait_s,
    )
    with recorder:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                recorder.take(_event(line))
            except InvalidInput as error:
                refused += 1
                recorder.warn(f"line {number}: {error}", code="bad_line", line=number)
                if len(bad) < BAD_LINES_MAX:
                    bad.append(BadLine(line=number, message=str(error)))
    return PiReceipt(lines=number, runs=recorder.runs, bad=refused, bad_lines=tuple(bad))


def _event(line: str | bytes) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        raise InvalidInput(
            f"the line is longer than {LINE_BYTES_MAX} bytes", hint="pass one event per line"
        )
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}", hint="run pi with --mode json") from None
    if not isinstance(event, dict):
        raise InvalidInput("not an event", hint="run pi with --mode json")
    return event
