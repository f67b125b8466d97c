"""Runs that are under way, and what is said of one that was cut short."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.model.scopes import Scope

INTERRUPT_TITLE: Final = "turn interrupted"
INTERRUPT_CONTENT: Final = (
    "The previous turn was interrupted. Tools that were running may have done part of their work."
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
