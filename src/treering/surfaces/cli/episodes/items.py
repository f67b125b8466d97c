"""Events as items of a receipt, in the fields that programs of earlier ledgers read."""

from __future__ import annotations

from typing import Any, Final

from treering.model.events import Event, Header
from treering.surfaces.cli.output import iso_time

ITEM_SCHEMA: Final = "openclaw-mem.episodic.v0"


def item(event: Header) -> dict[str, Any]:
    """Return the item for ``event``; it has a payload only if the event was asked for with one."""
    fields = {
        "id": event.position,
        "event_id": event.event_id,
        "ts_ms": event.ts_ms,
        "scope": event.scope,
        "session_id": event.session_id,
        "agent_id": event.agent_id,
        "type": event.kind,
        "summary": event.summary,
        "refs": event.refs,
        "redacted": event.redacted,
        "schema_version": ITEM_SCHEMA,
        "created_at": iso_time(event.recorded_ms),
    }
    if isinstance(event, Event):
        fields["payload"] = event.payload
    return fields
