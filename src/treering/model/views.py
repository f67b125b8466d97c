"""Views of a session: its turns, goals, schedules, memories, usage and counts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec

from treering.model.runs import RunState

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
