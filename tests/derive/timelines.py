"""Timelines for tests: events as a ledger gives them, numbered as they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sinks.carried_events import recorded

if TYPE_CHECKING:
    from treering import Event


def told(kind: str, run_id: str | None = None, /, **payload: Any) -> dict[str, Any]:
    """Return what ``timeline`` needs for an event with a payload."""
    return {"kind": kind, "run_id": run_id, "payload": payload or None}


def asked(run_id: str | None = None, text: str = "hello") -> dict[str, Any]:
    """Return what ``timeline`` needs for an input of the user."""
    return {"kind": "conversation.user", "run_id": run_id, "summary": text}


def undone(from_seq: int) -> dict[str, Any]:
    """Return what ``timeline`` needs for an undo."""
    return {"kind": "session.undone", "run_id": None, "refs": {"from_seq": from_seq, "turns": 1}}


def redone(undone_seq: int) -> dict[str, Any]:
    """Return what ``timeline`` needs for a redo."""
    return {"kind": "session.redone", "run_id": None, "refs": {"undone_seq": undone_seq}}


def erased(event: dict[str, Any]) -> dict[str, Any]:
    """Return the same event after its content was erased."""
    return {**event, "payload": None, "refs": None, "summary": "[REDACTED]", "redacted": True}


def timeline(*events: dict[str, Any]) -> list[Event]:
    """Return the events in order, with seqs from 1; each happens 10 ms after the one before."""
    return [recorded(seq=seq, **event) for seq, event in enumerate(events, start=1)]
