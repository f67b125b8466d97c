"""Events: as submitted (NewEvent), the part safe to show (Header), with private content (Event)."""

from __future__ import annotations

from typing import Any, Final, TypedDict

import msgspec

SCHEMA_VERSION: Final = 1
SUMMARY_CHARACTERS_MAX: Final = 1_000
NAME_CHARACTERS_MAX: Final = 200
"""Longest event, session, run, turn, agent or user id."""
REDACTED: Final = "[REDACTED]"
"""Replaces erased text."""


class EventFields(TypedDict, total=False):
    """Fields of an event that only few callers state."""

    run_id: str | None
    run_seq: int | None
    turn_id: str | None
    source: str | None
    origin: str | None
    visibility: str | None


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as submitted by its author; the ledger adds order, time and integrity."""

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
    """If given, it makes the append idempotent; by default a UUIDv7."""
    ts_ms: int | None = None
    """When it happened; defaults to now."""
    run_id: str | None = None
    run_seq: int | None = None
    turn_id: str | None = None
    user_id: str | None = None
    """The person it is about."""
    source: str | None = None
    origin: str | None = None
    """The component that reported it, as that component names itself."""
    visibility: str | None = None


class FirstEvent(NewEvent, frozen=True, kw_only=True):
    """An event that has to be the first of its session: otherwise its append raises Conflict."""


class KeyedEvent(NewEvent, frozen=True, kw_only=True):
    """An event of a state kind that is found by keys: ``refs`` has ``records`` and ``at``.

    That is the name of the records, and the keys. They are stored as they are given: a guard
    refuses one that looks like a secret.
    """

    expected: dict[str, str] = {}
    """The version that each key must have when this one is recorded, "" if none at all."""


class Header(msgspec.Struct, frozen=True, gc=False):
    """The part of a recorded event that is safe to show. Its type has no payload."""

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
