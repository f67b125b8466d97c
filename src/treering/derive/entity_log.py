"""Entity logs: which events still matter for things that are added, changed and removed.

A log holds seqs, never text. The content is read from the events, so an erasure takes effect
everywhere.

Goals, schedules and memory records are such things. Adding an id again replaces the goal or
schedule in place, and resets a schedule's count. Events without an id are ignored, and so are
updates of unknown entities: if the event that added a goal is erased, the goal is gone. A memory
stored elsewhere is known from its first event here; refused and merely recalled memories are
ignored.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from treering.model.kinds import RUN_ENDS
from treering.model.views import Goal, MemoryRecord, MemoryState, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from treering.model.events import Event, Header

    EventsAt = Callable[[Sequence[int]], Iterable[Event]]

    "Reads the events at some seqs, in order, without those that are gone."

SLACK: Final = 256
"""A log may grow by this many seqs, and to twice its length, before it is compacted."""

Verb = Literal["begin", "change", "count", "touch", "end"]
"""begin: add or replace; change, count: update; touch: update or add; end: remove."""

Value = TypeVar("Value")


class EntityChange(msgspec.Struct, frozen=True, gc=False):
    """What one event does to one entity."""

    seq: int
    subject: str
    verb: Verb
    fields: tuple[str, ...] = ()
    """The fields that it sets."""
    times: int = 1
    """How many events it represents."""


class EntityState(msgspec.Struct, gc=False):
    """The state of one entity so far."""

    first: int
    """The seq that determines its place in the order."""
    begun: int
    fields: dict[str, tuple[int, int]]
    """The last seq that set each field, and how many events it represents."""


class EntityType(NamedTuple, Generic[Value]):
    """A type of entity that events change."""

    kinds: Collection[str]
    """The kinds of events that change it."""
    change_of: Callable[[Event], EntityChange | None]
    """Returns what an event does; None if it cannot be read."""
    value: Callable[[str, EntityState, dict[int, Event]], Value]
    """Returns the entity of a name and a state, built from its events."""


class EntityLog(msgspec.Struct, array_like=True):
    """The seqs that matter for one type of entity, up to some point of a timeline."""

    kept: list[tuple[int, int]] = []
    """Seqs that count, ascending, and how many events each represents."""
    waiting: dict[int, list[int]] = {}
    """Seqs of open runs, by run number."""
    cleared: int = 0
    """Its length when it was last compacted."""

    def take(self, header: Header, kinds: Collection[str], *, hidden: bool) -> None:
        """Add one event. Erased and hidden events do not count."""
        if header.kind in kinds and not header.redacted and not hidden:
            if header.run_id is None:
                self.kept.append((header.seq, 1))
            else:
                self.waiting.setdefault(run_number(header.run_id), []).append(header.seq)
        end = RUN_ENDS.get(header.kind)
        if end is not None and header.run_id is not None and self.waiting:
            settled = self.waiting.pop(run_number(header.run_id), [])
            if settled and end == "ended":
                self.kept.extend((seq, 1) for seq in settled)
                self.kept.sort()

    @property
    def is_long(self) -> bool:
        """Return whether compacting it pays off."""
        return len(self.kept) > 2 * self.cleared + SLACK

    @property
    def waiting_events(self) -> int:
        """Return how many events wait for their runs to end."""
        return sum(map(len, self.waiting.values()))

    def compact(self, entity_type: EntityType[Any], read: EventsAt) -> None:
        """Drop seqs that can no longer matter."""
        waiting = [seq for seqs in self.waiting.values() for seq in seqs]
        # Pending events may still be ordered in between: keep everything about their entities.
        unsettled = {
            change.subject for change in map(entity_type.change_of, read(waiting)) if change
        }
        changes: list[EntityChange] = []
        matter: dict[int, int] = {}
        for change_of in changes_in(entity_type, self.kept, read):
            if change_of.subject in unsettled:
                matter[change_of.seq] = change_of.times
            else:
                changes.append(change_of)
        for entity_state in entity_states(changes).values():
            for seq, times in (
                (entity_state.first, 1),
                (entity_state.begun, 1),
                *entity_state.fields.values(),
            ):
                matter[seq] = max(matter.get(seq, 1), times)
        self.kept = sorted(matter.items())
        self.cleared = len(self.kept)

    def for_run(self, run_id: str | None) -> EntityLog:
        """Return the log as a run sees it: with the run's own pending events."""
        own = [] if run_id is None else self.waiting.get(run_number(run_id), [])
        return EntityLog(kept=sorted([*self.kept, *((seq, 1) for seq in own)]))

    def values(self, entity_type: EntityType[Value], read: EventsAt) -> list[Value]:
        """Return the entities in the log, in the order they were added."""
        times = dict(self.kept)
        events = {event.seq: event for event in read(list(times))}
        states = entity_states(changes_in(entity_type, self.kept, lambda _: events.values()))
        return [
            entity_type.value(subject, entity_state, events)
            for subject, entity_state in states.items()
        ]


def entity_states(changes: Iterable[EntityChange]) -> dict[str, EntityState]:
    """Return the state of each entity that exists at the end, in the order they were added."""
    states: dict[str, EntityState] = {}
    for change_of in changes:
        subject, seq, verb = change_of.subject, change_of.seq, change_of.verb
        entity_state = states.get(subject)
        if verb == "end":
            states.pop(subject, None)
        elif entity_state is None:
            if verb in {"begin", "touch"}:
                fields = dict.fromkeys(change_of.fields, (seq, 1))
                states[subject] = EntityState(first=seq, begun=seq, fields=fields)
        elif verb == "begin":
            entity_state.begun = seq
            entity_state.fields = dict.fromkeys(change_of.fields, (seq, 1))
        else:
            for field in change_of.fields:
                _, before = entity_state.fields.get(field, (0, 0))
                entity_state.fields[field] = seq, change_of.times + before if verb == "count" else 1
    return states


def changes_in(
    entity_type: EntityType[Any], kept: Sequence[tuple[int, int]], read: EventsAt
) -> Iterator[EntityChange]:
    """Yield what the events at ``kept`` do, without erased ones."""
    times = dict(kept)
    for event in read(list(times)):
        change = None if event.redacted else entity_type.change_of(event)
        if change is not None:
            count = times[event.seq]
            yield change if count == 1 else msgspec.structs.replace(change, times=count)


@lru_cache(maxsize=1_024)
def run_number(run_id: str) -> int:
    """Return a number for a run that does not reveal its name."""
    return int.from_bytes(hashlib.blake2b(run_id.encode(), digest_size=8).digest())


def fields_of(event: Event) -> dict[str, Any]:
    """Return the named fields of an event, from its refs and payload; the payload wins."""
    fields: dict[str, Any] = {}
    for part in (event.refs, event.payload):
        if isinstance(part, dict):
            fields.update(part)
    return fields


def name_in(content: dict[str, Any], *fields: str) -> str | None:
    """Return the first of ``fields`` that holds a name: a text, or a number as text."""
    for field in fields:
        value = content.get(field)
        if (isinstance(value, str) and value) or type(value) is int:
            return str(value)
    return None


def evidence(entity_state: EntityState, events: dict[int, Event]) -> tuple[str, ...]:
    """Return the ids of the events that make up an entity, in order."""
    seqs = {entity_state.begun, *(seq for seq, _ in entity_state.fields.values())}
    return tuple(events[seq].event_id for seq in sorted(seqs))


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
