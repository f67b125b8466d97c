"""Goals, schedules and memory records of a session, from the events that change them.

Adding an id again replaces the goal or schedule in place, and resets a schedule's count. Events
without an id are ignored, and so are updates of unknown entities: if the event that added a goal is
erased, the goal is gone. A memory stored elsewhere is known from its first event here; refused and
merely recalled memories are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.derive.entity_log import EntityChange, EntityType, evidence, fields_of, name_in
from treering.model.views import Goal, MemoryRecord, Schedule

if TYPE_CHECKING:
    from treering.derive.entity_log import EntityState, Verb
    from treering.model.events import Event
    from treering.model.views import MemoryState

_GOAL_VERBS: Final[dict[str, Verb]] = {
    "goal.added": "begin",
    "goal.updated": "change",
    "goal.removed": "end",
}
_GOAL_FIELDS: Final = ("description", "status", "parent", "progress")
_TOUCHED: Final = "touched"
_SCHEDULE_VERBS: Final[dict[str, Verb]] = {
    "schedule.added": "begin",
    "schedule.fired": "count",
    "schedule.removed": "end",
}
_FIRED: Final = "fired"
_MEMORY_STATES: Final[dict[str, MemoryState]] = {
    "memory.stored": "kept",
    "memory.revised": "kept",
    "memory.restored": "kept",
    "memory.superseded": "superseded",
    "memory.archived": "archived",
    "memory.forgotten": "forgotten",
}
_MEMORY_FIELDS: Final = ("key", "category")
_STATE: Final = "state"


def _goal_change(event: Event) -> EntityChange | None:
    verb = _GOAL_VERBS.get(event.kind)
    content = fields_of(event)
    subject = name_in(content, "id")
    if verb is None or subject is None:
        return None
    fields = tuple(field for field in _GOAL_FIELDS if _is_stated(field, content))
    return EntityChange(event.seq, subject, verb, (*fields, _TOUCHED))


def _is_stated(field: str, content: dict[str, Any]) -> bool:
    if field in {"description", "status"}:
        return isinstance(content.get(field), str)
    return field in content


def _goal(subject: str, entity_state: EntityState, events: dict[int, Event]) -> Goal:
    fields = _fields(_GOAL_FIELDS, entity_state, events)
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


def _schedule_change(event: Event) -> EntityChange | None:
    verb = _SCHEDULE_VERBS.get(event.kind)
    subject = name_in(fields_of(event), "id", "job_id")
    if verb is None or subject is None:
        return None
    return EntityChange(event.seq, subject, verb, (_FIRED,) if verb == "count" else ())


def _schedule(subject: str, entity_state: EntityState, events: dict[int, Event]) -> Schedule:
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


def _memory_change(event: Event) -> EntityChange | None:
    content = fields_of(event)
    subject = name_in(content, "id", "memory_id")
    if event.kind not in _MEMORY_STATES or subject is None:
        return None
    fields = tuple(field for field in _MEMORY_FIELDS if isinstance(content.get(field), str))
    verb: Verb = "begin" if event.kind == "memory.stored" else "touch"
    return EntityChange(event.seq, subject, verb, (*fields, _STATE))


def _memory(subject: str, entity_state: EntityState, events: dict[int, Event]) -> MemoryRecord:
    fields = _fields(_MEMORY_FIELDS, entity_state, events)
    last = events[entity_state.fields[_STATE][0]]
    return MemoryRecord(
        id=subject,
        key=fields.get("key"),
        category=fields.get("category"),
        state=_MEMORY_STATES[last.kind],
        created_ms=events[entity_state.begun].ts_ms,
        updated_ms=last.ts_ms,
        event_ids=evidence(entity_state, events),
    )


def _fields(
    names: tuple[str, ...], entity_state: EntityState, events: dict[int, Event]
) -> dict[str, Any]:
    """Return the fields that were set, each from the last event that set it."""
    return {
        name: fields_of(events[entity_state.fields[name][0]])[name]
        for name in names
        if name in entity_state.fields
    }


GOALS: Final = EntityType(frozenset(_GOAL_VERBS), _goal_change, _goal)
SCHEDULES: Final = EntityType(frozenset(_SCHEDULE_VERBS), _schedule_change, _schedule)
MEMORIES: Final = EntityType(frozenset(_MEMORY_STATES), _memory_change, _memory)
