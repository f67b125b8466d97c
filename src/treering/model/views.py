"""Views of a session: its turns, goals, schedules, memories, usage, counts, and open runs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from treering.errors import InvalidInput
from treering.model.scopes import Scope

MemoryState = Literal["kept", "archived", "superseded", "forgotten"]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of model calls."""

    calls: int = 0
    input_tokens: int = 0
    """All input, including tokens read from or written to a cache."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that was read from a cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to a cache."""
    total_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    """At list prices of the time; None if any price is unknown."""


class ModelUsage(Spent, frozen=True, kw_only=True):
    """The usage of one model."""

    model: str | None
    provider: str | None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a session, including failed runs, which cost money, too."""

    total: Spent
    failed: Spent
    """The part used by runs that failed or were interrupted."""
    by_model: tuple[ModelUsage, ...]
    """All of it, by model."""
    failed_by_model: tuple[ModelUsage, ...]


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One user input and everything it caused; it begins with the run that took the input.

    Its type has no payload: see the events from ``first_seq`` to ``last_seq``.
    """

    first_seq: int
    last_seq: int
    started_ms: int
    ended_ms: int
    """The time of its last known event."""
    input_event_id: str
    prompt: str
    """The summary of the input."""
    turn_id: str | None
    run_ids: tuple[str, ...]
    """In the order they appear; a retried turn has several."""
    state: RunState | None
    """The state of the last run that began in it, or else appeared in it; None without a run."""
    is_undone: bool
    tool_calls: int
    usage: tuple[ModelUsage, ...]
    is_approximate: bool = False
    """Whether the log that it was imported from does not tell when it began."""


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A goal that was added and not removed."""

    id: str
    description: str
    status: str
    parent: str | None
    """The id of the goal that contains it."""
    progress: Any
    created_ms: int
    updated_ms: int
    event_ids: tuple[str, ...]
    """The events this is derived from, in order."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduled task that was added and not removed."""

    id: str
    schedule_type: str | None
    prompt: str | None
    spec: Any
    """Its times, in the scheduler's own format."""
    created_ms: int
    fired: int
    """How often it has fired since it was added."""
    last_fired_ms: int | None
    event_ids: tuple[str, ...]
    """The events this is derived from, in order, with only the last time it fired."""


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A session's changes to one memory, without its text."""

    id: str
    key: str | None
    category: str | None
    state: MemoryState
    created_ms: int
    updated_ms: int
    event_ids: tuple[str, ...]
    """The events this is derived from, in order."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a session."""

    events: int
    by_kind: dict[str, int]
    erased: int
    """Events whose content was redacted or has expired."""
    turns: int
    """Inputs of the user, including undone ones."""
    tool_calls: int
    open_runs: int
    first_ms: int | None
    """The earliest time of any event."""
    last_ms: int | None


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
