"""The content of events parsed from a log, before they have a key and a session."""

from __future__ import annotations

from typing import Any

import msgspec

from treering.formats.loose import text_of, without_none
from treering.spine.words import describe, shorten


class EventContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one event."""

    kind: str
    summary: str
    payload: dict[str, Any]
    refs: dict[str, Any] | None = None
    source: str | None = None
    first: str | None = None


def observation(observed: str, record: dict[str, Any]) -> EventContent:
    """Return an observation that holds the whole record."""
    rest = {at: value for at, value in record.items() if at != "record"}
    return EventContent(
        kind="ops.observation",
        summary=shorten(observed),
        payload={"record": observed, **rest},
        refs={"observed": shorten(observed, 100)},
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
