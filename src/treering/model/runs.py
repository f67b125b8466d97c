"""Open runs and calls, and the texts for interrupted ones."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from treering.errors import InvalidInput
from treering.model.scopes import Scope

RunState = Literal["open", "ended", "failed", "interrupted"]

COMPACTION: Final = "compaction"
"""The entry point and end reason of a run that only compacts its session."""

INTERRUPT_TITLE: Final = "turn interrupted"
INTERRUPT_CONTENT: Final = (
    "The previous turn was interrupted. Tools that were running may have done part of their work."
)


def start_id(run_id: str, owner: str) -> str:
    """Return the event id of a run's start, which contains the owner and survives a redaction."""
    return f"{run_id}@{owner}"


def owner_in(event_id: str | None) -> str | None:
    """Return the owner in the id of a run's start, or None."""
    return (event_id or "").partition("@")[2] or None


def taken_number(number: int, run_id: str, last: int) -> InvalidInput:
    """Return the error for a run_seq that is not above the run's last one."""
    return InvalidInput(
        f"run_seq {number} of run {run_id} is taken: its last is {last}",
        hint="omit run_seq to have it assigned",
    )


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has started but not ended."""

    scope: Scope
    session_id: str
    run_id: str
    first_seq: int
    owner: str | None
    """The process that executes it, if known."""
    seen_ms: int
    """The time of the session's last event."""


class OpenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call without an outcome."""

    call_id: str
    tool: str
    event_id: str
    ts_ms: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message taken from an inbox."""

    event_id: str
    text: str
    content: dict[str, Any]
    """The other fields of the message."""
    attempt: int
    """How often it has been taken, from 1."""
    ts_ms: int
