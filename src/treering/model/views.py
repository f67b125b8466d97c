"""What is told of a session: its turns, goals, schedules, memories, usage and counts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec

from treering.model.runs import RunState

MemoryState = Literal["kept", "archived", "superseded", "forgotten"]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What calls of models used."""

    calls: int = 0
    input_tokens: int = 0
    """All that was sent, also what came from a cache or went into one."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that came from a cache."""
    cache_write_tokens: int = 0
    """The part of the input that went into a cache."""
    total_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    """At list prices of the time; None if the price of any of it is not known."""


class ModelUsage(Spent, frozen=True, kw_only=True):
    """What calls of one model used."""

    model: str | None
    provider: str | None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a session used, whatever became of it: money was spent on runs that failed, too."""

    total: Spent
    failed: Spent
    """The part of it that runs used which failed or were interrupted."""
    by_model: tuple[ModelUsage, ...]
    """All of it, by the model's name."""
    failed_by_model: tuple[ModelUsage, ...]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One user input and all it caused, up to the next; it begins with the run that took the input.

    It has no payload, by type: see the events from ``first_seq`` to ``last_seq``.
    """

    first_seq: int
    last_seq: int
    started_ms: int
    ended_ms: int
    """When the last event of it happened that is known so far."""
    input_event_id: str
    prompt: str
    """The summary of the input."""
    turn_id: str | None
    run_ids: tuple[str, ...]
    """In the order they were heard of; a turn that was tried again has several."""
    state: RunState | None
    """What became of the last run that began in it, or else was heard of; None if none was."""
    is_undone: bool
    tool_calls: int
    usage: tuple[ModelUsage, ...]


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A goal that was added and not removed."""

    id: str
    description: str
    status: str
    parent: str | None
    """The id of the goal that it is a part of."""
    progress: Any
    created_ms: int
    updated_ms: int
    event_ids: tuple[str, ...]
    """The events that say all this, in order."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done at times, added and not removed."""

    id: str
    schedule_type: str | None
    prompt: str | None
    spec: Any
    """When, in the scheduler's own words."""
    created_ms: int
    fired: int
    """How often, since it was added."""
    last_fired_ms: int | None
    event_ids: tuple[str, ...]
    """The events that say all this, in order: of all times it fired, the last."""


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a session did to one memory, without the memory's text."""

    id: str
    key: str | None
    category: str | None
    state: MemoryState
    created_ms: int
    updated_ms: int
    event_ids: tuple[str, ...]
    """The events that say all this, in order."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what a session holds."""

    events: int
    by_kind: dict[str, int]
    erased: int
    """Events whose content was redacted or has expired."""
    turns: int
    """Inputs of the user, undone ones included."""
    tool_calls: int
    open_runs: int
    first_ms: int | None
    """The earliest time that any event tells."""
    last_ms: int | None
