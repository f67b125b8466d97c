"""Events on their way to sinks: a safe one and a private one, which are different types.

A sink that asked for safe events is handed a SafeEvent, and that has no place for a payload, nor
for the summary and refs of an event that is private.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.model.parts import SafePart
from treering.model.times import instant

ENVELOPE_VERSION: Final = 1
ENVELOPE_KINDS: Final = {
    "run.started": "lifecycle.started",
    "run.ended": "lifecycle.ended",
    "run.failed": "lifecycle.failed",
    "run.interrupted": "lifecycle.failed",
    "assistant.delta": "assistant.delta",
    "conversation.assistant": "assistant.final",
    "tool.call": "tool.call.started",
    "tool.result": "tool.call.finished",
    "compaction.started": "compaction.phase",
    "compaction.ended": "compaction.phase",
    "ops.warning": "warning",
}
"""The kinds that the envelope knows, by the name they are stored under."""
ENVELOPE_SOURCES: Final = frozenset({"kernel", "runtime", "tool-ledger", "hook-adapter"})


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

    def _envelope(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        kind = ENVELOPE_KINDS.get(self.kind)
        if kind is None or self.run_id is None or self.run_seq is None:
            return None
        if self.kind == "tool.result" and getattr(self.part, "status", None) != "ok":
            kind = "tool.call.failed"
        if kind == "compaction.phase":
            payload = {"phase": "start" if self.kind == "compaction.started" else "end", **payload}
        found: dict[str, Any] = {
            "version": ENVELOPE_VERSION,
            "runId": self.run_id,
            "seq": self.run_seq,
            "at": instant(self.ts_ms),
            "agentId": self.agent_id,
            "sessionId": self.session_id,
        }
        if self.session_key is not None:
            found["sessionKey"] = self.session_key
        source = self.origin if self.origin in ENVELOPE_SOURCES else "runtime"
        return found | {
            "source": source,
            "visibility": self.visibility,
            "kind": kind,
            "payload": payload,
        }


class SafeEvent(Carried, frozen=True, kw_only=True):
    """An event as it may be shown to anybody."""

    summary: str | None
    """None if the event is private."""
    refs: Any
    """None if the event is private."""

    def envelope(self) -> dict[str, Any] | None:
        """Return the event in its stable envelope; None for a kind that the envelope lacks."""
        return self._envelope(self.part.as_payload())


class PrivateEvent(Carried, frozen=True, kw_only=True):
    """An event with its private content, for those who asked for it."""

    summary: str
    refs: Any
    payload: Any

    def envelope(self) -> dict[str, Any] | None:
        """Return the event in its stable envelope, private content included."""
        content = self.payload if isinstance(self.payload, dict) else {"content": self.payload}
        private = {} if self.payload is None else content
        return self._envelope({**private, **self.part.as_payload()})
