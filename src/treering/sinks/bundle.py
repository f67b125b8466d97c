"""The trace of one run: its metadata, events, tool calls, deliveries and omissions.

A safe trace is made of safe events, which have no private content to leak; a private one of private
events, with secrets masked. Both take events in order and write them at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec

from treering.model.codec import encode
from treering.model.envelopes import (
    PrivateEnvelope,
    SafeEnvelope,
    ToolCallFailed,
    ToolCallFinished,
    ToolCallStarted,
    WarningGiven,
)
from treering.model.fields import instant
from treering.model.kinds import RUN_ENDS
from treering.model.parts import Delivered, RunEnded, RunStarted
from treering.sinks.bundle_files import (
    ABOUT,
    EVENTS,
    FILES,
    PAYLOADS,
    REDACTIONS,
    TOOLS,
    TRUNCATED,
    CappedLines,
)
from treering.sinks.lines import json_page
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.ports import ContentGuard
    from treering.model.carried import Carried, PrivateEvent, SafeEvent
    from treering.sinks.bundle_files import BundleFiles, TraceLimits

OPEN_CALLS_MAX: Final = 10_000
"""The number of open calls that are remembered; others have no start in their line."""
Started = ToolCallStarted[Any]
Outcome = ToolCallFinished[Any] | ToolCallFailed[Any]

BUNDLE_VERSION: Final = 1
ERASED_IDS_MAX: Final = 1_000
"""The number of erased events listed by id; all are counted."""

_KNOWN: Final = (
    *("runId", "turnId", "scope", "sessionId", "sessionKey", "agentId"),
    *("entryPoint", "runtime", "model", "provider", "workspace", "configHash"),
    *("startedAt", "endedAt", "durationMs", "outcome", "reason", "errorClass"),
)
_COUNTED: Final = ("events", "deltas", "toolCalls", "toolsFailed", "toolsOpen", "deliveries")

Erasure = Literal["redacted", "expired"]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Information about the environment of a trace."""

    workspace: str | None = None
    config_hash: str | None = None
    """A digest of the agent's settings."""


class DeliveredLine(msgspec.Struct, frozen=True):
    """The fields of a line of ``payloads.jsonl`` that are needed to resume."""

    seq: int
    end: int


class Bundle:
    """The five files of one run. Use SafeBundle or PrivateBundle."""

    visibility: ClassVar[Literal["safe", "private"]]

    def __init__(self, files: BundleFiles, *, caps: TraceLimits, about: About) -> None:
        self.files = files
        self._lines = CappedLines(files, caps)
        self._about: dict[str, Any] = {
            "workspace": about.workspace,
            "configHash": about.config_hash,
        }
        self._calls = CallLines()
        self.counts: Counter[str] = Counter()
        self._withheld: Counter[str] = Counter()
        self._erased: Counter[str] = Counter()
        self._erased_ids: list[str] = []
        self._offset = 0
        self._run_seq = self._written_seq = 0
        self._resumed = False
        self.is_over = False

    @property
    def is_truncated(self) -> bool:
        """Return whether anything was cut or left out for lack of space."""
        return self._lines.is_truncated

    def resume(
        self,
        about: dict[str, Any],
        envelopes: Iterable[SafeEnvelope],
        delivered: Iterable[DeliveredLine],
    ) -> None:
        """Resume a trace that was begun elsewhere, from its existing lines."""
        self._resumed = True
        self._about |= about
        for envelope in envelopes:
            self._run_seq = self._written_seq = max(self._run_seq, envelope.seq)
            self._count(envelope)
            match envelope:
                case WarningGiven() if envelope.payload.code == TRUNCATED:
                    self._lines.mark_full(EVENTS)
                case ToolCallStarted():
                    self._calls.start(envelope)
                case ToolCallFinished() | ToolCallFailed():
                    self._calls.close(envelope)
        for line in delivered:
            self._run_seq = max(self._run_seq, line.seq)
            self._offset = line.end
            self.counts["deliveries"] += 1

    def finish(self) -> int:
        """Write the remaining parts, close the files, and return their total size."""
        for line in self._calls.still_open():
            self._lines.add(TOOLS, line)
            self.counts["toolsOpen"] += 1
        self.files.put(REDACTIONS, json_page(self._missing()))
        self.files.put(ABOUT, json_page(self._known()))
        size = sum(map(self.files.size, FILES))
        self.files.close()
        return size

    def _take(
        self,
        event: Carried,
        envelope: SafeEnvelope | PrivateEnvelope | None,
        delivered: dict[str, Any],
        erased: Erasure | None,
    ) -> None:
        if event.run_seq is not None and event.run_seq <= self._run_seq:
            return  # It was delivered again.
        if "runId" not in self._about:
            self._begin(event)
        if envelope is not None:
            self._add_event(event, envelope)
        if event.kind == "ops.receipt":
            self._add_delivery(event, delivered)
        if self.visibility == "safe":
            self._withheld["payloads"] += event.payload_bytes > 0
            self._withheld["summaries"] += event.visibility == "private"
        if erased is not None:
            self._erased[erased] += 1
            if len(self._erased_ids) < ERASED_IDS_MAX and event.event_id is not None:
                self._erased_ids.append(event.event_id)
        if event.kind in RUN_ENDS:
            self._end(event)
        self._run_seq = event.run_seq or self._run_seq

    def _begin(self, event: Carried) -> None:
        part = event.part if isinstance(event.part, RunStarted) else RunStarted()
        self._about |= {
            "runId": event.run_id,
            "scope": event.scope,
            "sessionId": event.session_id,
            "sessionKey": event.session_key,
            "agentId": event.agent_id,
            "turnId": event.turn_id,
            "entryPoint": part.entry_point,
            "runtime": part.runtime,
            "model": part.model,
            "provider": part.provider,
            "startedAt": instant(event.ts_ms) if event.kind == "run.started" else None,
        }
        self.files.put(ABOUT, json_page(self._known()))

    def _end(self, event: Carried) -> None:
        part = event.part if isinstance(event.part, RunEnded) else RunEnded()
        self.is_over = True
        started, ended, reported = (
            self._about.get("startedAt"),
            instant(event.ts_ms),
            part.duration_ms,
        )
        self._about |= {
            "endedAt": ended,
            "durationMs": elapsed_ms(started, ended) if started and reported is None else reported,
            "outcome": RUN_ENDS[event.kind],
            "reason": part.reason,
            "errorClass": part.error_class,
        }

    def _add_event(self, event: Carried, envelope: SafeEnvelope | PrivateEnvelope) -> None:
        if envelope.seq > self._written_seq:
            is_last = event.kind in RUN_ENDS
            self._lines.add(EVENTS, envelope.to_dict(), lambda: _facts(event), is_last=is_last)
            self._written_seq = envelope.seq
        match envelope:
            case ToolCallStarted():
                self._calls.start(envelope)
            case ToolCallFinished() | ToolCallFailed():
                self._lines.add(TOOLS, self._calls.outcome(envelope))
                self._calls.close(envelope)
        self._count(envelope)

    def _add_delivery(self, event: Carried, delivered: dict[str, Any]) -> None:
        part = event.part if isinstance(event.part, Delivered) else Delivered()
        start = self._offset if (part.chunk or 1) > 1 else 0
        end = start + (part.characters or 0)
        line = {
            "at": instant(event.ts_ms),
            "seq": event.run_seq,
            "deliverer": part.deliverer,
            "chars": part.characters,
            "chunk": part.chunk,
            "start": start,
            "end": end,
            "media": part.media,
            "bytes": event.payload_bytes,
        }
        self._lines.add(PAYLOADS, {**line, **delivered}, lambda: line)
        self._offset = end
        self.counts["deliveries"] += 1

    def _count(self, envelope: SafeEnvelope | PrivateEnvelope) -> None:
        kind = envelope.kind
        self.counts["events"] += 1
        if kind == "assistant.delta":
            self.counts["deltas"] += 1
        elif kind == "tool.call.started":
            self.counts["toolCalls"] += 1
        elif kind == "tool.call.failed":
            self.counts["toolsFailed"] += 1

    def _known(self) -> dict[str, Any]:
        """Return the metadata known so far."""
        return {
            "version": BUNDLE_VERSION,
            "treering": __version__,
            "visibility": self.visibility,
            "complete": self.is_over,
            "resumed": self._resumed,
            **{name: self._about.get(name) for name in _KNOWN},
            "counts": {name: self.counts[name] for name in _COUNTED},
            "truncated": self.is_truncated,
        }

    def _missing(self) -> dict[str, Any]:
        """Return what the trace omits, and why."""
        return {
            "version": BUNDLE_VERSION,
            "visibility": self.visibility,
            "withheld": {name: self._withheld[name] for name in ("payloads", "summaries")},
            "masked": self._lines.masked(),
            "truncated": self._lines.truncated(),
            "erased": {name: self._erased[name] for name in ("redacted", "expired")},
            "erasedEvents": self._erased_ids,
        }


class SafeBundle(Bundle):
    """A trace without private content."""

    visibility = "safe"

    def take(self, event: SafeEvent, erased: Erasure | None = None) -> None:
        """Write ``event``; ``erased`` tells whether its content was erased in the ledger."""
        self._take(event, event.envelope(), {}, erased)


class PrivateBundle(Bundle):
    """A trace with private content, its secrets masked."""

    visibility = "private"

    def __init__(
        self, files: BundleFiles, *, caps: TraceLimits, about: About, guard: ContentGuard
    ) -> None:
        super().__init__(files, caps=caps, about=about)
        self._guard = guard

    def take(self, event: PrivateEvent, erased: Erasure | None = None) -> None:
        """Write ``event``; ``erased`` tells whether its content was erased in the ledger."""
        envelope = event.envelope()
        if envelope is not None:
            envelope = self._cleaned(envelope)
        content = event.payload if event.kind == "ops.receipt" else None
        delivered = {"content": self._clean(content)} if content is not None else {}
        self._take(event, envelope, delivered, erased)

    def _cleaned(self, envelope: PrivateEnvelope) -> PrivateEnvelope:
        payload = envelope.payload.to_dict()
        clean = self._clean(payload)
        if clean is payload:
            return envelope
        masked: PrivateEnvelope = msgspec.structs.replace(
            envelope, payload=msgspec.convert(clean, type(envelope.payload))
        )
        return masked

    def _clean(self, value: Any) -> Any:
        return self._guard.mask_value(value) if self._guard.suspicious(encode(value)) else value


def _facts(event: Carried) -> dict[str, Any]:
    """Return the safe envelope of ``event``."""
    envelope = event.safe_envelope()
    return {} if envelope is None else envelope.to_dict()


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a call."""

    at: str
    seq: int
    call_id: str | None
    tool: str | None
    input_shape: str | None
    input_bytes: int | None


class CallLines:
    """Pairs the starts of calls with their outcomes, under the envelope's names."""

    def __init__(self) -> None:
        self._open: defaultdict[str, list[_Start]] = defaultdict(list)
        self._waiting = 0

    def start(self, envelope: Started) -> None:
        """Remember the start of a call."""
        if self._waiting < OPEN_CALLS_MAX:
            payload = envelope.payload
            self._open[payload.tool_call_id or ""].append(
                _Start(
                    at=envelope.at,
                    seq=envelope.seq,
                    call_id=payload.tool_call_id,
                    tool=payload.tool_name,
                    input_shape=payload.input_shape,
                    input_bytes=payload.input_bytes,
                )
            )
            self._waiting += 1

    def outcome(self, envelope: Outcome) -> dict[str, Any]:
        """Return the line of the call whose outcome is ``envelope``."""
        started = self._open.get(envelope.payload.tool_call_id or "")
        return _line(started[-1] if started else None, envelope)

    def close(self, envelope: Outcome) -> None:
        """Forget the call whose outcome is ``envelope``: the latest with its id."""
        call_id = envelope.payload.tool_call_id or ""
        if self._open.get(call_id):
            self._open[call_id].pop()
            self._waiting -= 1

    def still_open(self) -> list[dict[str, Any]]:
        """Return the lines of calls without an outcome, in the order of their starts."""
        starts = [start for calls in self._open.values() for start in calls]
        return [_line(start, None) for start in sorted(starts, key=lambda start: start.seq)]


def elapsed_ms(start: str, end: str) -> int:
    """Return the milliseconds between two times as in envelopes."""
    between = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0, round(between.total_seconds() * 1_000))


def _line(start: _Start | None, end: Outcome | None) -> dict[str, Any]:
    returned = None if end is None else end.payload
    status = "open" if returned is None else returned.status
    return {
        "toolCallId": (start and start.call_id) or (returned and returned.tool_call_id),
        "name": (start and start.tool) or (returned and returned.tool_name),
        "status": status,
        "startedAt": start and start.at,
        "endedAt": end and end.at,
        "durationMs": _duration(start, end),
        "inputShape": start and start.input_shape,
        "inputBytes": start and start.input_bytes,
        "outputBytes": returned and returned.output_bytes,
        "errorClass": returned and returned.error_class,
        # Earlier ledgers only have the status.
        "isSynthetic": bool(returned and returned.is_synthetic) or status == "synthetic",
        "reason": returned and returned.reason,
    }


def _duration(start: _Start | None, end: Outcome | None) -> int | None:
    reported = None if end is None else end.payload.duration_ms
    if reported is not None or start is None or end is None:
        return reported if isinstance(reported, int) else None
    return elapsed_ms(start.at, end.at)
