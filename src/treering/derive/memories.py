"""Memory records of a session, from its memory events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.derive.entity_log import (
    EntityChange,
    FunctionalType,
    entities_in,
    evidence,
    fields_of,
    name_in,
)
from treering.derive.visible import visible
from treering.model.views import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.derive.entity_log import EntityState, Verb
    from treering.model.events import Event
    from treering.model.views import MemoryState

_STATES: Final[dict[str, MemoryState]] = {
    "memory.stored": "kept",
    "memory.revised": "kept",
    "memory.restored": "kept",
    "memory.superseded": "superseded",
    "memory.archived": "archived",
    "memory.forgotten": "forgotten",
}
_FIELDS: Final = ("key", "category")
_STATE: Final = "state"


def memories(events: Sequence[Event], *, run_id: str | None = None) -> list[MemoryRecord]:
    """Return what a timeline did to each memory, in the order they were first mentioned.

    A memory stored elsewhere is known from its first event here. Hidden, erased and anonymous
    events are ignored, and so are refused and merely recalled memories.
    """
    return entities_in(MEMORIES, {event.seq: event for event in visible(events, run_id=run_id)})


def _mention(event: Event) -> EntityChange | None:
    content = fields_of(event)
    subject = name_in(content, "id", "memory_id")
    if event.kind not in _STATES or subject is None:
        return None
    fields = tuple(field for field in _FIELDS if isinstance(content.get(field), str))
    verb: Verb = "begin" if event.kind == "memory.stored" else "touch"
    return EntityChange(event.seq, subject, verb, (*fields, _STATE))


def _value(subject: str, entity_state: EntityState, events: dict[int, Event]) -> MemoryRecord:
    fields: dict[str, Any] = {
        field: fields_of(events[entity_state.fields[field][0]])[field]
        for field in _FIELDS
        if field in entity_state.fields
    }
    last = events[entity_state.fields[_STATE][0]]
    return MemoryRecord(
        id=subject,
        key=fields.get("key"),
        category=fields.get("category"),
        state=_STATES[last.kind],
        created_ms=events[entity_state.begun].ts_ms,
        updated_ms=last.ts_ms,
        event_ids=evidence(entity_state, events),
    )


MEMORIES: Final = FunctionalType(frozenset(_STATES), _mention, _value)
