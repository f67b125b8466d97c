"""Events as they are indexed and shown in searches: with their secrets masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.search_texts import WIDE_CHARACTERS_MAX
from treering.model.codec import content_of, encode

if TYPE_CHECKING:
    from treering.ledger.ports import ContentGuard
    from treering.model.events import Event

_CLIPPED: Final = 4 * WIDE_CHARACTERS_MAX
"""Of longer strings only the beginning and the end are indexed."""


def masked(guard: ContentGuard, event: Event) -> Event:
    """Return an event with its secrets masked, whatever it was recorded with."""
    payload = event.payload
    if event.payload_bytes > _CLIPPED:
        payload = _clipped(payload)
    refs = None if event.refs is None else encode(event.refs)
    content = content_of(event.summary, refs, None if payload is None else encode(payload))
    if not guard.suspicious(content):
        return event if payload is event.payload else _with(event, payload=payload)
    return _with(
        event,
        summary=guard.mask_text(event.summary),
        refs=None if event.refs is None else guard.mask_value(event.refs),
        payload=None if payload is None else guard.mask_value(payload),
    )


def _with(event: Event, **changes: Any) -> Event:
    return msgspec.structs.replace(event, **changes)


def _clipped(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _CLIPPED:
        return f"{value[: _CLIPPED // 2]}\n…\n{value[-_CLIPPED // 2 :]}"
    if isinstance(value, dict):
        return {key: _clipped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clipped(item) for item in value]
    return value
