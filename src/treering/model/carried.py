"""Events on their way to sinks: a safe one and a private one, which are different types.

A sink that asked for safe events is handed a SafeEvent, and that has no place for a payload, nor
for the summary and refs of an event that is private.
"""

from __future__ import annotations

from typing import Any

import msgspec

from treering.model.envelopes import (
    ENVELOPE_SOURCES,
    ENVELOPE_VERSION,
    PrivateEnvelope,
    SafeEnvelope,
    private_envelope,
    safe_envelope,
)
from treering.model.kinds import ENVELOPE_KINDS, envelope_kind
from treering.model.parts import SafePart, ToolReturned
from treering.model.times import instant


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """What every sink may know of an event."""

    event_id: str | None
    """None for what is carried and not kept."""
    scope: str
    session_id: str
    session_key: str | None
    run_id: str | None
    run_seq: int | None
    """Order in the run, deltas counted."""
    seq: int | None
    """Order in the session; None for what is carried and not kept."""
    turn_id: str | None
    agent_id: str
    kind: str
    source: str
    origin: str | None
    visibility: str
    ts_ms: int
    payload_bytes: int
    part: SafePart

    @property
    def envelope_kind(self) -> str | None:
        """Return the name that its envelope has; None for a kind that has none."""
        status = self.part.status if isinstance(self.part, ToolReturned) else None
        return envelope_kind(self.kind, status)

    def envelope_of_facts(self) -> SafeEnvelope | None:
        """Return the event in its stable envelope, without private content; None if it has none."""
        fields, name = self._envelope_fields(), self.envelope_kind
        if fields is None or name is None:
            return None
        return safe_envelope(name, self.kind, self.part, fields)

    def _envelope_fields(self) -> dict[str, Any] | None:
        """Return the fields that every envelope has; None if the event has no envelope."""
        if self.kind not in ENVELOPE_KINDS or self.run_id is None or self.run_seq is None:
            return None
        return {
            "version": ENVELOPE_VERSION,
            "run_id": self.run_id,
            "seq": self.run_seq,
            "at": instant(self.ts_ms),
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "session_key": self.session_key,
            "source": self.origin if self.origin in ENVELOPE_SOURCES else "runtime",
            "visibility": self.visibility,
        }


class SafeEvent(Carried, frozen=True, kw_only=True):
    """An event as it may be shown to anybody."""

    summary: str | None
    """None if the event is private."""
    refs: Any
    """None if the event is private."""

    def envelope(self) -> SafeEnvelope | None:
        """Return the event in its stable envelope; None for a kind, or a place, that has none."""
        return self.envelope_of_facts()


class PrivateEvent(Carried, frozen=True, kw_only=True):
    """An event with its private content, for those who asked for it."""

    summary: str
    refs: Any
    payload: Any

    def envelope(self) -> PrivateEnvelope | None:
        """Return the event in its stable envelope, private content included.

        It says that it is private if it holds such content, also if the event is a safe one.
        """
        fields, name = self._envelope_fields(), self.envelope_kind
        if fields is None or name is None:
            return None
        return private_envelope(name, self.kind, self.part, self.payload, fields)
