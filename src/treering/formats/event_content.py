"""The content of events parsed from a log, before they have a key and a session."""

from __future__ import annotations

from typing import Any

import msgspec

from treering.formats.loose import hint_of, text_of, without_none
from treering.formats.parsed import ParsedEvent
from treering.model.codec import decode
from treering.model.views import INTERRUPT_TITLE
from treering.spine.words import describe, shorten


class EventContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one event."""

    kind: str
    summary: str
    payload: dict[str, Any]
    refs: dict[str, Any] | None = None
    source: str | None = None
    first: str | None = None
    """The key of an earlier event: see ``ParsedEvent.first``."""
    key: str | None = None
    """What identifies it within its session, if that is not its record."""
    session: str | None = None
    """Its session, if it is not that of its record."""
    ts_ms: int | None = None
    """Its time, if it is not that of its record."""


def said(role: str, text: str, *, attached: Any = None, **more: Any) -> EventContent:
    """Return what a ``user`` or an ``assistant`` said; ``attached`` are pictures and the like.

    ``more`` is kept with it, such as ``model``, ``message_id`` and ``stop_reason``; None is left
    out.
    """
    named = without_none(**more)
    refs = _among(named, "model", "stop_reason", "message_id")
    others = {"attached": attached} if attached else {}
    count = len(attached) if isinstance(attached, list) else 1
    return EventContent(
        kind=f"conversation.{role}",
        summary=shorten(text) if text.strip() else f"{count} attached",
        payload={**named, "text": text, **others},
        refs={"characters": len(text), **refs},
    )


def thought(text: str, **more: Any) -> EventContent:
    """Return what an agent thought; ``more`` is kept with it, such as its ``signature``."""
    named = without_none(**more)
    refs = _among(named, "model", "message_id")
    return EventContent(
        kind="ops.observation",
        summary="thinking",
        payload={**named, "thinking": text},
        refs={"observed": "thinking", **refs},
        source="agent",
    )


def called(call_id: str, tool: str, given: Any, **more: Any) -> EventContent:
    """Return a call of a tool; an input that is JSON in a text is decoded."""
    if isinstance(given, str):
        try:
            decoded = decode(given)
        except (msgspec.DecodeError, RecursionError):
            decoded = None
        given = decoded if isinstance(decoded, dict | list) else given
    return EventContent(
        kind="tool.call",
        summary=hint_of(tool, given),
        payload={**without_none(**more), "call_id": call_id, "name": tool, "input": given},
        refs={"call_id": call_id, "tool": tool},
    )


def outcome(
    call_id: str | None,
    tool: str | None,
    output: Any,
    *,
    failed: bool,
    duration_ms: Any = None,
    details: dict[str, Any] | None = None,
) -> EventContent:
    """Return the event for the result of a call."""
    status = "failed" if failed else "ok"
    refs = without_none(
        call_id=call_id,
        tool=tool,
        status=status,
        duration_ms=duration_ms if type(duration_ms) is int and duration_ms >= 0 else None,
    )
    payload = {"output": output, **refs}
    if tool := payload.pop("tool", None):
        payload["name"] = tool
    if failed:
        payload["error"] = describe(shorten(text_of(output) or "failed"))
        refs["error_class"] = payload["error"]["class"]
    if details:
        payload["details"] = details
    ended = "failed" if failed else "returned"
    return EventContent(
        kind="tool.result", summary=f"{tool or 'a tool'} {ended}", payload=payload, refs=refs
    )


def used(
    *,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int = 0,
    cache_creation_tokens: int = 0,
    total_tokens: int | None = None,
    model: str | None = None,
    message_id: str | None = None,
    cost_usd: float | None = None,
    stated: Any = None,
) -> EventContent | None:
    """Return the usage of a model call, or None if all numbers are 0.

    ``input_tokens`` include those from a cache and into one; ``output_tokens`` include thinking.
    Reports with the same ``message_id`` count once, by the largest. ``stated`` is the report as
    the log has it.
    """
    total = total_tokens or input_tokens + output_tokens
    cost = cost_usd if isinstance(cost_usd, int | float) and cost_usd > 0 else None
    if not total and cost is None:
        return None
    counts = without_none(
        model=model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached_tokens,
        cache_creation_tokens=cache_creation_tokens,
        total_tokens=total,
        message_id=message_id,
    )
    return EventContent(
        kind="usage.reported",
        summary="usage reported",
        payload={**counts, **without_none(cost_usd=cost, usage=stated or None)},
        refs=counts,
    )


def titled(title: str) -> EventContent:
    """Return the title of a session."""
    shown = shorten(title)
    return EventContent(kind="session.titled", summary=shown, payload={"title": shown})


def compacted(
    summary: str, *, by: str, from_tokens: int | None = None, **more: Any
) -> EventContent:
    """Return a summary that replaces all that was said before it."""
    origin = without_none(from_tokens=from_tokens or None, by=by)
    return EventContent(
        kind="context.compacted",
        summary=shorten(summary),
        payload={**without_none(**more), "summary": summary, **origin},
        refs=origin,
    )


def shortened(
    record: dict[str, Any], *, tokens_before: int | None = None, tokens_after: int | None = None
) -> EventContent:
    """Return the event for a context that an agent shortened without saying how."""
    counts = without_none(tokens_before=tokens_before or None, tokens_after=tokens_after or None)
    return EventContent(
        kind="compaction.ended",
        summary="context shortened",
        payload={**record, **counts},
        refs=counts or None,
    )


def undone(first: str, **more: Any) -> EventContent:
    """Return the event that undoes everything from the event with the key ``first``."""
    return EventContent(kind="session.undone", summary="session rewound", payload=more, first=first)


def interrupted(reason: str | None = None, **more: Any) -> EventContent:
    """Return the event for an interrupted turn."""
    return EventContent(
        kind="boundary.interrupt",
        summary=INTERRUPT_TITLE,
        payload={**without_none(**more), **without_none(title=INTERRUPT_TITLE, content=reason)},
    )


def trouble(message: str, *, code: str, **more: Any) -> EventContent:
    """Return an error that was shown."""
    return EventContent(
        kind="ops.error",
        summary=shorten(message),
        payload={**without_none(**more), "message": message, "code": code},
        refs={"code": shorten(code, 100)},
    )


def observation(observed: str, record: dict[str, Any]) -> EventContent:
    """Return an observation that holds the whole record."""
    rest = {at: value for at, value in record.items() if at != "record"}
    return EventContent(
        kind="ops.observation",
        summary=shorten(observed),
        payload={"record": observed, **rest},
        refs={"observed": shorten(observed, 100)},
    )


def placed(content: EventContent, session: str, key: str, ts_ms: int, **refs: str) -> ParsedEvent:
    """Return a content as an event; what it says itself of its session, key and time counts."""
    return ParsedEvent(
        session=content.session or session, key=content.key or key, kind=content.kind,
        summary=content.summary, ts_ms=content.ts_ms or ts_ms, payload=content.payload,
        refs={**(content.refs or {}), **refs} if refs else content.refs, source=content.source,
        first=content.first,
    )  # fmt: skip


def _among(named: dict[str, Any], *names: str) -> dict[str, Any]:
    return {at: named[at] for at in names if at in named}
