"""Messages for a model with their images, files and audio, independent of any provider.

Their types keep them valid: a call cannot be separated from its result.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from treering.model.tools import Reason

Mark = Literal["checkpoint", "interrupt", "overflow", "summary", "system", "developer"]
"""What a message is that the user did not write: a boundary, a summary of earlier messages, or an
instruction of the system or developer."""
INSTRUCTIONS: frozenset[Mark | None] = frozenset({"system", "developer"})
"""Marks of messages that contain instructions."""

Maker = Literal["anthropic", "gemini", "openai"]
"""The provider whose models accept a thought back."""


class Thought(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A model's thought, signed or encrypted by its provider, to be returned unchanged."""

    maker: Maker
    model: str | None = None
    """The model that thought it; None if unknown."""
    block: dict[str, Any]
    """The block in the provider's format."""
    event_id: str


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call by the model."""

    call_id: str
    """Not empty, and unique in its context."""
    tool: str
    arguments: Any
    """A JSON value; an object, unless the model gave something else."""
    event_id: str
    thoughts: tuple[Thought, ...] = ()
    """The thoughts directly before it."""


class Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool's result, or a synthetic one."""

    call_id: str
    tool: str
    output: str
    is_error: bool = False
    reason: Reason | None = None
    """Why it is synthetic, if it is."""
    event_id: str | None = None
    """None if it was created for this context only."""
    media: tuple[Media, ...] = ()


class UserMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user, or a mark in the role of the user."""

    text: str
    seq: int
    event_ids: tuple[str, ...] = ()
    mark: Mark | None = None
    media: tuple[Media, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the model: text, or calls with one result each, in the same order."""

    text: str
    seq: int
    event_ids: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    """The thoughts before its text or, without a text, before its first call."""


ModelMessage = UserMessage | AssistantMessage


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """A repair or cut made while converting events to messages."""

    code: RepairCode
    event_id: str | None = None
    """The affected event."""
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
"""The kinds of repairs, which docs/how-to/context.md explains."""

MediaSort = Literal["image", "file", "audio", "video"]


class Media(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attachment: its content, or a link to it."""

    sort: MediaSort
    mime: str = ""
    """Such as image/png; empty if unknown."""
    data: str | None = None
    """Its content in base64."""
    url: str | None = None
    name: str | None = None
    """The file's name."""
    tokens: int = 0
    """Its cost with the requested provider."""

    @property
    def size(self) -> int:
        """Return its size in bytes; 0 if it is only a link."""
        if self.data is None:
            return 0
        return len(self.data) // 4 * 3 - self.data.count("=", -2)

    def placeholder(self) -> str:
        """Return a text that replaces it where it cannot be shown."""
        details = [self.mime or self.sort]
        if self.name:
            details.append(self.name)
        if self.url:
            details.append(self.url[:_URL_CHARACTERS_MAX])
        elif self.data is not None:
            details.append(f"{self.size:,} bytes")
        return f"[{self.sort} not shown: {', '.join(details)}]"


_URL_CHARACTERS_MAX: Final = 300
