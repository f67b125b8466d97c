"""The safe part of each kind's content, as a type: facts and sizes, never text.

It is stored in an event's refs and may be shown to anybody; the payload, which holds the texts, is
private. ``safe_part`` takes only the fields of the kind's type from refs.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal, TypedDict

import msgspec

from treering.model.codec import valid_fields
from treering.model.tools import Reason, Status

TimeNote = Literal["approximate"]
"""What refs say of a time that a log does not tell, under ``time``."""


class SafePart(msgspec.Struct, frozen=True, kw_only=True):
    """The public facts of an event; by default only that it happened."""

    def as_refs(self) -> dict[str, Any]:
        """Return the known facts by name, as stored in refs."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not None}

    def as_payload(self) -> dict[str, Any]:
        """Return the known facts under their envelope names."""
        return {envelope_name(name): value for name, value in self.as_refs().items()}


class RunDetails(TypedDict, total=False):
    """How a run came about, as callers state it."""

    entry_point: str | None
    runtime: str | None
    model: str | None
    provider: str | None


class RunStarted(SafePart, frozen=True, kw_only=True):
    """A run began."""

    entry_point: str | None = None
    """What triggered it: cli, auto-reply, cron, planner, hook, …"""
    runtime: str | None = None
    """What executes it: pi, sdk, cli, …"""
    model: str | None = None
    provider: str | None = None


class RunEnded(SafePart, frozen=True, kw_only=True):
    """A run succeeded, failed or was interrupted."""

    duration_ms: int | None = None
    tool_calls: int | None = None
    reason: str | None = None
    """Why it did not succeed: failed, interrupted, crashed, closed, …"""
    error_class: str | None = None


class Said(SafePart, frozen=True, kw_only=True):
    """A message, or a delta of one."""

    characters: int | None = None
    model: str | None = None
    provider: str | None = None
    stop_reason: str | None = None


class ToolCalled(SafePart, frozen=True, kw_only=True):
    """A tool is about to run."""

    call_id: str | None = None
    tool: str | None = None
    input_shape: str | None = None
    input_bytes: int | None = None


class ToolReturned(SafePart, frozen=True, kw_only=True):
    """A tool call has an outcome."""

    call_id: str | None = None
    tool: str | None = None
    status: Status | None = None
    duration_ms: int | None = None
    output_bytes: int | None = None
    error_class: str | None = None
    is_synthetic: bool | None = None
    reason: Reason | None = None
    late: bool | None = None
    """Whether it came after a synthetic outcome, which remains the valid one."""
    outcome: str | None = None
    """For a late result: the event id of the valid outcome."""
    run: str | None = None
    """For a late result: the run of its call, which is closed."""
    time: TimeNote | None = None
    """``approximate`` if the log it was imported from does not tell its time."""


class CompactionReported(SafePart, frozen=True, kw_only=True):
    """A compaction began or ended."""

    will_retry: bool | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    messages: int | None = None
    """The number of messages that the summary replaces."""
    messages_before: int | None = None
    """The number of messages shown to the model before, including an earlier summary."""
    messages_after: int | None = None


class Noted(SafePart, frozen=True, kw_only=True):
    """A warning, an error or an alert."""

    code: str | None = None
    error_class: str | None = None


class Blocked(SafePart, frozen=True, kw_only=True):
    """An action was not allowed."""

    tool: str | None = None
    call_id: str | None = None
    code: str | None = None
    """Why: not_permitted, gate, …"""


class Delivered(SafePart, frozen=True, kw_only=True):
    """A message was delivered to somebody."""

    deliverer: str | None = None
    characters: int | None = None
    chunk: int | None = None
    """The number of this part of a longer message, from 1."""
    media: int | None = None
    """The number of files sent with it."""


class Observed(SafePart, frozen=True, kw_only=True):
    """An external event was observed."""

    hook: str | None = None
    """The hook that was triggered, as ``type:action``."""


class UsageReported(SafePart, frozen=True, kw_only=True):
    """A provider reported a call's usage."""

    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    total_tokens: int | None = None


class ContextAssembled(SafePart, frozen=True, kw_only=True):
    """A context was assembled for a model."""

    dialect: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    tokens: int | None = None
    """The expected cost."""
    estimated_tokens: int | None = None
    """The expected cost before calibration."""
    messages: int | None = None
    events: int | None = None
    repairs: int | None = None
    """The number of repairs and cuts."""


class ContextCompacted(SafePart, frozen=True, kw_only=True):
    """A summary replaces older messages from now on."""

    through_seq: int | None = None
    """The last seq that it replaces."""
    from_tokens: int | None = None
    to_tokens: int | None = None
    messages: int | None = None
    """The number of messages that it replaces."""
    by: str | None = None
    """What wrote it: structure, or a model."""


class SessionUndone(SafePart, frozen=True, kw_only=True):
    """The last turns are hidden from now on."""

    from_seq: int | None = None
    turns: int | None = None


class SessionRedone(SafePart, frozen=True, kw_only=True):
    """Undone turns are shown again."""

    undone_seq: int | None = None
    turns: int | None = None


class SessionHidden(SafePart, frozen=True):
    """Which single events are hidden."""

    seqs: list[int] = []


class SessionForked(SafePart, frozen=True, kw_only=True):
    """A session began with the events of another."""

    parent: str | None = None
    at_seq: int | None = None
    at_event: str | None = None
    channel: str | None = None
    mode: str | None = None


class SessionOpened(SafePart, frozen=True, kw_only=True):
    """A session began."""

    channel: str | None = None
    mode: str | None = None
    spawned_by: str | None = None
    spawned_call: str | None = None


class SessionImported(SafePart, frozen=True, kw_only=True):
    """A session was imported from an agent's log."""

    format: str | None = None
    """The format of the log: claude-code, codex, …"""


class SessionClosed(SafePart, frozen=True, kw_only=True):
    """A session was closed."""

    reason: str | None = None
    pruned: bool | None = None
    """Whether a sweep closed it to expire its content."""


class InboxTaken(SafePart, frozen=True, kw_only=True):
    """The run of this event took a message from the inbox."""

    message: str | None = None
    """The event id of the message."""
    attempt: int | None = None
    """How often it has been taken, from 1."""
    settled_seq: int | None = None
    """Every message up to this seq is done."""


PARTS: Final[dict[str, type[SafePart]]] = {
    "run.started": RunStarted,
    "run.ended": RunEnded,
    "run.failed": RunEnded,
    "run.interrupted": RunEnded,
    "conversation.user": Said,
    "conversation.assistant": Said,
    "assistant.delta": Said,
    "tool.call": ToolCalled,
    "tool.result": ToolReturned,
    "compaction.started": CompactionReported,
    "compaction.ended": CompactionReported,
    "ops.alert": Noted,
    "ops.warning": Noted,
    "ops.error": Noted,
    "ops.blocked": Blocked,
    "ops.receipt": Delivered,
    "ops.observation": Observed,
    "usage.reported": UsageReported,
    "context.assembled": ContextAssembled,
    "context.compacted": ContextCompacted,
    "session.undone": SessionUndone,
    "session.redone": SessionRedone,
    "session.hidden": SessionHidden,
    "session.forked": SessionForked,
    "session.opened": SessionOpened,
    "session.imported": SessionImported,
    "session.closed": SessionClosed,
    "inbox.received": Said,
    "inbox.taken": InboxTaken,
}
"""The type of each kind's safe part; other kinds have the empty one."""


def is_approximate(refs: Any) -> bool:
    """Return whether an event has a time that its log does not tell."""
    return isinstance(refs, dict) and refs.get("time") == "approximate"


def safe_part(kind: str, refs: Any) -> SafePart:
    """Return the safe part for ``kind``, with the fields of ``refs`` that have the right type."""
    part = PARTS.get(kind, SafePart)
    try:
        return msgspec.convert(refs, part) if isinstance(refs, dict) else part()
    except msgspec.ValidationError:
        return part(**valid_fields(part, refs))


def part_of(kind: str, payload: Any) -> SafePart:
    """Return the safe part of a ``payload`` that is about to be recorded.

    Names are accepted as in refs and as in the envelope.
    """
    part = PARTS.get(kind, SafePart)
    if not isinstance(payload, dict):
        return part()
    fields = {
        name: payload[spelling]
        for name in part.__struct_fields__
        for spelling in (name, envelope_name(name))
        if spelling in payload
    }
    if part is Said and isinstance(payload.get("text"), str):
        fields.setdefault("characters", len(payload["text"]))
    return safe_part(kind, fields)


@cache
def envelope_name(name: str) -> str:
    """Return the envelope's name of a part's field."""
    first, *rest = name.split("_")
    return _CAMEL.get(name) or first + "".join(word.capitalize() for word in rest)


_CAMEL: Final[dict[str, str]] = {"tool": "toolName", "call_id": "toolCallId", "characters": "chars"}
"""Names that are different in the envelope."""
