"""Events: what is asked for (NewEvent), what is safe to show (Header), what is private (Event)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

SCHEMA_VERSION: Final = 1
SUMMARY_CHARACTERS_MAX: Final = 1_000
NAME_CHARACTERS_MAX: Final = 200
"""Longest event, session, run, turn, agent or user id."""
REDACTED: Final = "[REDACTED]"
"""What stands in the place of erased text."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as its author states it; the ledger adds order, time and integrity."""

    scope: str
    session_id: str
    kind: str
    agent_id: str
    summary: str
    payload: Any = None
    """Private content: any JSON value."""
    refs: Any = None
    """Links that are safe to show: run ids, files, memory ids."""
    event_id: str | None = None
    """Given, it makes the append idempotent; otherwise a UUIDv7 is made."""
    ts_ms: int | None = None
    """When it happened; now, if not given."""
    run_id: str | None = None
    run_seq: int | None = None
    turn_id: str | None = None
    user_id: str | None = None
    """The person this is about."""
    source: str | None = None
    origin: str | None = None
    """The component that reported it, in its own spelling."""
    visibility: str | None = None


class Header(msgspec.Struct, frozen=True, gc=False):
    """The part of a recorded event that is safe to show. It has no payload, by type."""

    position: int
    """Order in the whole ledger."""
    seq: int
    """Order in the session: 1, 2, 3, … without gaps."""
    event_id: str
    scope: str
    session_id: str
    kind: str
    source: str
    origin: str | None
    run_id: str | None
    run_seq: int | None
    turn_id: str | None
    agent_id: str
    user_id: str | None
    ts_ms: int
    recorded_ms: int
    visibility: str
    summary: str
    refs: Any
    payload_bytes: int
    redacted: bool
    expired: bool
    schema_version: int
    content_digest: bytes
    link: bytes


class Event(Header, frozen=True, gc=False):
    """A recorded event with its private content."""

    payload: Any = None
