"""Messages as a model is shown them, before any provider's spelling.

They are legal by their shape: a call cannot stand apart from its result.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from treering.model.media import Media
from treering.model.tools import Reason

Mark = Literal["checkpoint", "interrupt", "overflow", "summary", "system", "developer"]
"""What a message is that the user did not say: a boundary, the summary of what went before, or
what the system or its developer said in the midst of it."""
INSTRUCTIONS: frozenset[Mark | None] = frozenset({"system", "developer"})
"""Marks of messages that are to be followed."""

Maker = Literal["anthropic", "gemini", "openai"]
"""Whose models take a thought back."""


class Thought(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a model thought, sealed by its provider, to be given back as it was."""

    maker: Maker
    model: str | None = None
    """The one that thought it; None if nobody says."""
    block: dict[str, Any]
    """As its provider takes it back."""
    event_id: str


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool that the model wants run."""

    call_id: str
    """Not empty, and the only one in its context."""
    tool: str
    arguments: Any
    """A JSON value; an object, unless the model gave something else."""
    event_id: str
    thoughts: tuple[Thought, ...] = ()
    """What was thought right before it."""


class Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a tool gave, or what stands in for it."""

    call_id: str
    tool: str
    output: str
    is_error: bool = False
    reason: Reason | None = None
    """Why it is synthetic, if it is."""
    event_id: str | None = None
    """None if it was made up for this context alone."""
    media: tuple[Media, ...] = ()


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said, or a mark that reads as if the user said it."""

    text: str
    seq: int
    event_ids: tuple[str, ...] = ()
    mark: Mark | None = None
    media: tuple[Media, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answered: words, or calls with a result for each, in the same order."""

    text: str
    seq: int
    event_ids: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    """What was thought before its words or, without any, before its first call."""


ModelMessage = UserMessage | AssistantMessage


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was mended or cut on the way from the events to the messages."""

    code: RepairCode
    event_id: str | None = None
    """The event that it befell."""
    detail: str | None = None


RepairCode = Literal[
    "orphan_result",
    "duplicate_result",
    "missing_result",
    "moved_result",
    "duplicate_call_id",
    "missing_call_id",
    "empty_message",
    "left_out_message",
    "left_out_tool",
    "left_out_attachment",
    "dropped_thinking",
    "missing_thinking",
    "erased",
    "shortened_output",
    "restarted",
    "dropped_turn",
    "dropped_message",
    "shortened_message",
    "summarised",
    "contributor_failed",
    "contributor_dropped",
    "budget_too_small",
]
"""What a repair was; docs/context.md says what each means."""
