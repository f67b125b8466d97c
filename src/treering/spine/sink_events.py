"""From recorded events to what sinks are handed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from treering.lazy import LazyModule
from treering.model.codec import decode, encode
from treering.model.events import SCHEMA_VERSION, Header
from treering.model.kinds import KINDS
from treering.model.parts import safe_part

if TYPE_CHECKING:
    from treering.model import carried
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.events import Event, NewEvent
    from treering.model.parts import SafePart
else:
    carried = LazyModule("treering.model.carried")


def safe_event(header: Header, session_key: str | None = None) -> SafeEvent:
    """Return what anybody may be shown of ``header``."""
    part = safe_part(header.kind, header.refs)
    if header.visibility == "safe":
        shown = {"part": part, "summary": header.summary, "refs": _own(header.refs)}
    else:
        shown = {"part": _without_texts(part), "summary": None, "refs": None}
    return carried.SafeEvent(**_common(header, session_key), **shown)


def private_event(event: Event, session_key: str | None = None) -> PrivateEvent:
    """Return all of ``event``."""
    return with_payload(event, event.payload, session_key)


def with_payload(header: Header, payload: Any, session_key: str | None = None) -> PrivateEvent:
    """Return all of the event that ``header`` and ``payload`` make."""
    return carried.PrivateEvent(
        **_common(header, session_key),
        part=safe_part(header.kind, header.refs),
        summary=header.summary,
        refs=_own(header.refs),
        payload=payload,
    )


def transient_header(event: NewEvent, payload_bytes: int, now_ms: int) -> Header:
    """Return the header of an event that is carried and not kept: it has no seq."""
    return Header(
        position=0,
        seq=0,
        event_id="",
        scope=event.scope,
        session_id=event.session_id,
        kind=event.kind,
        source=event.source or KINDS[event.kind].source,
        origin=event.origin,
        run_id=event.run_id,
        run_seq=event.run_seq,
        turn_id=event.turn_id,
        agent_id=event.agent_id,
        user_id=event.user_id,
        ts_ms=now_ms,
        recorded_ms=now_ms,
        visibility=event.visibility or KINDS[event.kind].visibility,
        summary=event.summary,
        refs=event.refs,
        payload_bytes=payload_bytes,
        redacted=False,
        expired=False,
        schema_version=SCHEMA_VERSION,
        content_digest=b"",
        link=b"",
    )


def _common(header: Header, session_key: str | None) -> dict[str, Any]:
    return {
        # Counted from 1: what is carried and not kept has neither.
        "event_id": header.event_id if header.seq else None,
        "seq": header.seq or None,
        "scope": header.scope,
        "session_id": header.session_id,
        "session_key": session_key,
        "run_id": header.run_id,
        "run_seq": header.run_seq,
        "turn_id": header.turn_id,
        "agent_id": header.agent_id,
        "kind": header.kind,
        "source": header.source,
        "origin": header.origin,
        "visibility": header.visibility,
        "ts_ms": header.ts_ms,
        "payload_bytes": header.payload_bytes,
    }


def _own(refs: Any) -> Any:
    """Return a copy: a sink that changes what it was handed changes nothing for others."""
    return None if refs is None else decode(encode(refs))


def _without_texts(part: SafePart) -> SafePart:
    """Return what may be shown of a private event: sizes, and words from a fixed list."""
    fields = {name: getattr(part, name) for name in _fixed_fields(type(part))}
    return type(part)(**fields)


@cache
def _fixed_fields(part: type[SafePart]) -> tuple[str, ...]:
    """Return the fields of ``part`` that cannot hold a free text."""
    fields = msgspec.structs.fields(part)
    return tuple(field.name for field in fields if str not in get_args(field.type))
