"""Entity logs: which events still matter for things that are added, changed and removed.

A log holds seqs, never text. The content is read from the events, so an erasure takes effect
everywhere.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from treering.model.events import Event, Header

    EventsAt = Callable[[Sequence[int]], Iterable[Event]]
    """Reads the events at some seqs, in order, without those that are gone."""

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
