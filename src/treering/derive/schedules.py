"""Schedules, from the events that add them, fire them and remove them."""

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
from treering.model.views import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.derive.entity_log import EntityState, Verb
    from treering.model.events import Event

_VERBS: Final[dict[str, Verb]] = {
    "schedule.added": "begin",
    "schedule.fired": "count",
    "schedule.removed": "end",
}
_FIRED: Final = "fired"


def schedules(events: Sequence[Event], *, run_id: str | None = None) -> list[Schedule]:
    """Return the schedules left at the end of a timeline, in the order they were added.

    Adding an id again replaces the schedule in place and resets its count. Hidden, erased and
    anonymous events are ignored, and so are firings of unknown schedules.
    """
    return entities_in(SCHEDULES, {event.seq: event for event in visible(events, run_id=run_id)})


def _mention(event: Event) -> EntityChange | None:
    verb = _VERBS.get(event.kind)
    subject = name_in(fields_of(event), "id", "job_id")
    if verb is None or subject is None:
        return None
    return EntityChange(event.seq, subject, verb, (_FIRED,) if verb == "count" else ())


def _value(subject: str, entity_state: EntityState, events: dict[int, Event]) -> Schedule:
    added = events[entity_state.begun]
    content = fields_of(added)
    last_seq, fired = entity_state.fields.get(_FIRED, (0, 0))
    return Schedule(
        id=subject,
        schedule_type=_text(content.get("schedule_type")),
        prompt=_text(content.get("prompt")),
        spec=content.get("spec"),
        created_ms=added.ts_ms,
        fired=fired,
        last_fired_ms=events[last_seq].ts_ms if fired else None,
        event_ids=evidence(entity_state, events),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


SCHEDULES: Final = FunctionalType(frozenset(_VERBS), _mention, _value)
