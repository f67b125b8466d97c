"""Events on their way to sinks, as two types: safe and private.

A sink that asked for safe events receives a SafeEvent, which has no payload field, and no summary
or refs if the event is private.
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
)
from treering.model.envelopes import safe_envelope as build_safe_envelope
from treering.model.fields import instant
from treering.model.kinds import ENVELOPE_KINDS, envelope_kind
from treering.model.parts import SafePart, ToolReturned


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an event that every sink may see."""

    event_id: str | None
    """None for an event that is not stored."""
    scope: str
    session_id: str
    session_key: str | None
    run_id: str | None
    run_seq: int | None
    """Order in the run, including deltas."""
    seq: int | None
    """Order in the session; None for an event that is not stored."""
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
        """Return the name of its envelope, or None if its kind has none."""
        status = self.part.status if isinstance(self.part, ToolReturned) else None
        return envelope_kind(self.kind, status)

    def safe_envelope(self) -> SafeEnvelope | None:
        """Return its envelope without private content, or None if it has none."""
        fields, name = self._envelope_fields(), self.envelope_kind
        if fields is None or name is None:
            return None
        return build_safe_envelope(name, self.kind, self.part, fields)

    def _envelope_fields(self) -> dict[str, Any] | None:
        """Return the fields common to all envelopes, or None if the event has no envelope."""
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
    """An event that may be shown to anybody."""

    summary: str | None
    """None if the event is private."""
    refs: Any
    """None if the event is private."""

    def envelope(self) -> SafeEnvelope | None:
        """Return its envelope, or None if its kind has none or it is outside a run."""
        return self.safe_envelope()


class PrivateEvent(Carried, frozen=True, kw_only=True):
    """An event with its private content, for sinks that asked for it."""

    summary: str
    refs: Any
    payload: Any

    def envelope(self) -> PrivateEnvelope | None:
        """Return its envelope with private content, or None if it has none.

        Its visibility is private if it holds private content, even if the event is safe.
        """
        fields, name = self._envelope_fields(), self.envelope_kind
        if fields is None or name is None:
            return None
        return private_envelope(name, self.kind, self.part, self.payload, fields)
