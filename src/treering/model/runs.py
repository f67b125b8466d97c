"""Runs that are under way, and what is said of one that was cut short."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from treering.errors import InvalidInput
from treering.model.scopes import Scope

RunState = Literal["open", "ended", "failed", "interrupted"]

COMPACTION: Final = "compaction"
"""The entry point, and the reason of the end, of a run that only compacts its session."""

INTERRUPT_TITLE: Final = "turn interrupted"
INTERRUPT_CONTENT: Final = (
    "The previous turn was interrupted. Tools that were running may have done part of their work."
)


def start_id(run_id: str, owner: str) -> str:
    """Return the event id of a run's start: it names the owner, and outlives a redaction."""
    return f"{run_id}@{owner}"


def owner_in(event_id: str | None) -> str | None:
    """Return the owner that the id of a run's start names, if it names one."""
    return (event_id or "").partition("@")[2] or None


def taken_number(number: int, run_id: str, last: int) -> InvalidInput:
    """Return the error for a number in a run that is not above those that the run has."""
    return InvalidInput(
        f"run_seq {number} of run {run_id} is taken: it has come to {last}",
        hint="leave run_seq out to have it given",
    )


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has begun and not ended."""

    scope: Scope
    session_id: str
    run_id: str
    first_seq: int
    owner: str | None
    """The process that carries it out, if it said so."""
    seen_ms: int
    """When the session last heard from anybody."""


class OpenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that has no outcome."""

    call_id: str
    tool: str
    event_id: str
    ts_ms: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message of an inbox, taken to be dealt with."""

    event_id: str
    text: str
    content: dict[str, Any]
    """What came with the text."""
    attempt: int
    """From 1: how often it has been taken."""
    ts_ms: int
