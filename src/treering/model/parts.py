"""The safe part of each kind's content, as a type: facts and sizes, never a text.

It is kept in an event's refs and may be shown to whoever asks; the payload, which holds the texts,
is private. ``safe_part`` takes from refs what the kind's type names, and nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from treering.model.codec import sound_fields
from treering.model.tools import Reason, Status


class SafePart(msgspec.Struct, frozen=True, kw_only=True):
    """What may be told of an event of any kind: nothing but that it happened."""

    def as_refs(self) -> dict[str, Any]:
        """Return what is known, by name, as refs keep it."""
        found = msgspec.structs.asdict(self)
        return {name: value for name, value in found.items() if value is not None}

    def as_payload(self) -> dict[str, Any]:
        """Return the same, spelt as the event envelope spells it."""
        return {envelope_name(name): value for name, value in self.as_refs().items()}


class RunStarted(SafePart, frozen=True, kw_only=True):
    """A run began."""

    entry_point: str | None = None
    """What set it off: cli, auto-reply, cron, planner, hook, …"""
    runtime: str | None = None
    """What carries it out: pi, sdk, cli, …"""
    model: str | None = None
    provider: str | None = None


class RunEnded(SafePart, frozen=True, kw_only=True):
    """A run is over: it ended well, failed or was interrupted."""

    duration_ms: int | None = None
    tool_calls: int | None = None
    reason: str | None = None
    """Why it did not end well: failed, interrupted, crashed, closed, …"""
    error_class: str | None = None


class Said(SafePart, frozen=True, kw_only=True):
    """Somebody said something, or a piece of it came."""

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
    """A tool call has its outcome."""

    call_id: str | None = None
    tool: str | None = None
    status: Status | None = None
    duration_ms: int | None = None
    output_bytes: int | None = None
    error_class: str | None = None
    is_synthetic: bool | None = None
    reason: Reason | None = None
    late: bool | None = None
    """It came after a synthetic outcome, which is the one that counts."""
    outcome: str | None = None
    """Of a late one: the event id of the outcome that counts."""
    run: str | None = None
    """Of a late one: the run of its call, which takes no more events."""


class CompactionReported(SafePart, frozen=True, kw_only=True):
    """A compaction began or ended."""

    will_retry: bool | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    messages: int | None = None
    """How many messages the summary stands for."""
    messages_before: int | None = None
    """How many messages a model was shown before it, the summary before it counted."""
    messages_after: int | None = None


class Noted(SafePart, frozen=True, kw_only=True):
    """A warning, an error, an alert: something to look at."""

    code: str | None = None
    error_class: str | None = None


class Blocked(SafePart, frozen=True, kw_only=True):
    """Something was not allowed."""

    tool: str | None = None
    call_id: str | None = None
    code: str | None = None
    """Why: not_permitted, gate, …"""


class Delivered(SafePart, frozen=True, kw_only=True):
    """A message was sent on to somebody."""

    deliverer: str | None = None
    characters: int | None = None
    chunk: int | None = None
    """Which piece of a longer message, from 1."""
    media: int | None = None
    """How many files went with it."""


class Observed(SafePart, frozen=True, kw_only=True):
    """Something outside was seen to happen."""

    hook: str | None = None
    """The hook that was triggered, as ``type:action``."""


class UsageReported(SafePart, frozen=True, kw_only=True):
    """A provider said what a call used."""

    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    total_tokens: int | None = None


class ContextAssembled(SafePart, frozen=True, kw_only=True):
    """A model was shown a part of the session."""

    dialect: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    tokens: int | None = None
    """What it was expected to cost."""
    estimated_tokens: int | None = None
    """The same before any calibration."""
    messages: int | None = None
    events: int | None = None
    repairs: int | None = None
    """How often something was mended or cut."""


class ContextCompacted(SafePart, frozen=True, kw_only=True):
    """Older messages are told in a summary from now on."""

    through_seq: int | None = None
    """Up to here."""
    from_tokens: int | None = None
    to_tokens: int | None = None
    messages: int | None = None
    """How many the summary stands for."""
    by: str | None = None
    """What wrote it: structure, or a model."""


class SessionUndone(SafePart, frozen=True, kw_only=True):
    """The last turns are hidden from now on."""

    from_seq: int | None = None
    turns: int | None = None


class SessionRedone(SafePart, frozen=True, kw_only=True):
    """What was undone is shown again."""

    undone_seq: int | None = None
    turns: int | None = None


class SessionForked(SafePart, frozen=True, kw_only=True):
    """A session began with the past of another."""

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
    """A session was taken from a log that its agent wrote."""

    format: str | None = None
    """How the log is written: claude-code, codex, …"""


class SessionClosed(SafePart, frozen=True, kw_only=True):
    """A session was closed."""

    reason: str | None = None
    pruned: bool | None = None
    """Whether a sweep closed it to expire what it holds."""


class InboxTaken(SafePart, frozen=True, kw_only=True):
    """A message was taken from the inbox by the run that carries this event."""

    message: str | None = None
    """The event id of the message."""
    attempt: int | None = None
    """From 1: how often it has been taken."""
    settled_seq: int | None = None
    """Every message up to this seq is done with."""


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
    "session.forked": SessionForked,
    "session.opened": SessionOpened,
    "session.imported": SessionImported,
    "session.closed": SessionClosed,
    "inbox.received": Said,
    "inbox.taken": InboxTaken,
}
"""The type of each kind's safe part; other kinds have the empty one."""


def safe_part(kind: str, refs: Any) -> SafePart:
    """Return what the type of ``kind`` names, as far as ``refs`` hold it and it is what it says."""
    part = PARTS.get(kind, SafePart)
    try:
        return msgspec.convert(refs, part) if isinstance(refs, dict) else part()
    except msgspec.ValidationError:
        return part(**sound_fields(part, refs))


def part_of(kind: str, payload: Any) -> SafePart:
    """Return what may be told of a ``payload`` that is about to be recorded.

    Names are accepted as refs spell them and as the envelope does.
    """
    part = PARTS.get(kind, SafePart)
    if not isinstance(payload, dict):
        return part()
    found = {
        name: payload[spelling]
        for name in part.__struct_fields__
        for spelling in (name, envelope_name(name))
        if spelling in payload
    }
    if part is Said and isinstance(payload.get("text"), str):
        found.setdefault("characters", len(payload["text"]))
    return safe_part(kind, found)


@cache
def envelope_name(name: str) -> str:
    """Return the envelope's spelling of a part's field."""
    first, *rest = name.split("_")
    return _CAMEL.get(name) or first + "".join(word.capitalize() for word in rest)


_CAMEL: Final[dict[str, str]] = {"tool": "toolName", "call_id": "toolCallId", "characters": "chars"}
"""Names that the envelope spells otherwise."""
