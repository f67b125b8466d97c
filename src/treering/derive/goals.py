"""Goals, from the events that add, update and remove them."""

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
from treering.model.views import Goal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.derive.entity_log import EntityState, Verb
    from treering.model.events import Event

_VERBS: Final[dict[str, Verb]] = {
    "goal.added": "begin",
    "goal.updated": "change",
    "goal.removed": "end",
}
_FIELDS: Final = ("description", "status", "parent", "progress")
_TOUCHED: Final = "touched"


def goals(events: Sequence[Event], *, run_id: str | None = None) -> list[Goal]:
    """Return the goals left at the end of a timeline, in the order they were added.

    Adding an id again replaces the goal in place. Hidden, erased and anonymous events are ignored,
    and so are updates of unknown goals: if the event that added a goal is erased, the goal is gone.
    """
    return entities_in(GOALS, {event.seq: event for event in visible(events, run_id=run_id)})


def _mention(event: Event) -> EntityChange | None:
    verb = _VERBS.get(event.kind)
    content = fields_of(event)
    subject = name_in(content, "id")
    if verb is None or subject is None:
        return None
    fields = tuple(field for field in _FIELDS if _is_stated(field, content))
    return EntityChange(event.seq, subject, verb, (*fields, _TOUCHED))


def _value(subject: str, entity_state: EntityState, events: dict[int, Event]) -> Goal:
    fields: dict[str, Any] = {
        field: fields_of(events[entity_state.fields[field][0]])[field]
        for field in _FIELDS
        if field in entity_state.fields
    }
    return Goal(
        id=subject,
        description=fields.get("description", ""),
        status=fields.get("status", "active"),
        parent=name_in(fields, "parent"),
        progress=fields.get("progress"),
        created_ms=events[entity_state.begun].ts_ms,
        updated_ms=events[entity_state.fields[_TOUCHED][0]].ts_ms,
        event_ids=evidence(entity_state, events),
    )


def _is_stated(field: str, content: dict[str, Any]) -> bool:
    if field in {"description", "status"}:
        return isinstance(content.get(field), str)
    return field in content


GOALS: Final = FunctionalType(frozenset(_VERBS), _mention, _value)
