"""Trails: which events still matter for things that are added, changed and removed.

A trail holds the seqs of events, never their texts. What they say is read from the events, so an
erasure reaches all that is told of them.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec

from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from treering.model.events import Event, Header

    EventsAt = Callable[[Sequence[int]], Iterable[Event]]
    """Reads the events at some seqs, in order; those that are gone are left out."""

SLACK: Final = 256
"""A trail may grow by so many seqs, and to twice its length, before it is cleared."""

Verb = Literal["begin", "change", "count", "touch", "end"]
"""begin: add or replace; change, count: what is there; touch: change or begin; end: remove."""

Value_co = TypeVar("Value_co", covariant=True)


class EntityChange(msgspec.Struct, frozen=True, gc=False):
    """What one event does to one thing."""

    seq: int
    subject: str
    verb: Verb
    fields: tuple[str, ...] = ()
    """What it states of it."""
    times: int = 1
    """For how many events it stands."""


class EntityState(msgspec.Struct, gc=False):
    """What has become of one thing so far."""

    first: int
    """The seq that gave it its place among the others."""
    begun: int
    fields: dict[str, tuple[int, int]]
    """The last seq that states each field, and for how many events it stands."""


class EntityType(Protocol[Value_co]):
    """A sort of thing that events tell of."""

    @property
    def kinds(self) -> Collection[str]:
        """Return the kinds of events that tell of it."""

    def mention(self, event: Event, /) -> EntityChange | None:
        """Return what ``event`` does; None if it cannot be understood."""

    def value(
        self, subject: str, entity_state: EntityState, events: dict[int, Event], /
    ) -> Value_co:
        """Return the thing itself, told with its events."""


class EntityLog(msgspec.Struct, array_like=True):
    """The seqs that matter for one noun, up to some point of a timeline."""

    kept: list[tuple[int, int]] = []
    """Those that count, rising, and for how many events each stands."""
    waiting: dict[int, list[int]] = {}
    """Those of runs that have not ended, by the run's number."""
    cleared: int = 0
    """How long it was when it was last cleared."""

    def take(self, header: Header, kinds: Collection[str], *, hidden: bool) -> None:
        """Follow one event. Those that were erased or are hidden do not count."""
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
        """Whether it pays to clear it."""
        return len(self.kept) > 2 * self.cleared + SLACK

    @property
    def waiting_events(self) -> int:
        """Return how many events wait for their runs to end."""
        return sum(map(len, self.waiting.values()))

    def clear(self, noun: EntityType[Any], read: EventsAt) -> None:
        """Drop what no longer matters, whatever comes next."""
        waiting = [seq for seqs in self.waiting.values() for seq in seqs]
        # What waits may yet come between: of things that it tells of, everything stays.
        unsettled = {found.subject for found in map(noun.mention, read(waiting)) if found}
        mentions: list[EntityChange] = []
        matter: dict[int, int] = {}
        for mention in changes_in(noun, self.kept, read):
            if mention.subject in unsettled:
                matter[mention.seq] = mention.times
            else:
                mentions.append(mention)
        for entity_state in entity_states(mentions).values():
            for seq, times in (
                (entity_state.first, 1),
                (entity_state.begun, 1),
                *entity_state.fields.values(),
            ):
                matter[seq] = max(matter.get(seq, 1), times)
        self.kept = sorted(matter.items())
        self.cleared = len(self.kept)

    def of(self, run_id: str | None) -> EntityLog:
        """Return what counts for a run: its own events do, although it has not ended."""
        own = [] if run_id is None else self.waiting.get(run_number(run_id), [])
        return EntityLog(kept=sorted([*self.kept, *((seq, 1) for seq in own)]))

    def values(self, noun: EntityType[Value_co], read: EventsAt) -> list[Value_co]:
        """Return the things that the trail tells of, in the order they were added."""
        times = dict(self.kept)
        events = {event.seq: event for event in read(list(times))}
        return told(noun, events, times)


class FunctionalType(Generic[Value_co]):
    """A noun made of functions."""

    def __init__(
        self,
        kinds: Collection[str],
        mention: Callable[[Event], EntityChange | None],
        value: Callable[[str, EntityState, dict[int, Event]], Value_co],
    ) -> None:
        self.kinds = kinds
        self.mention = mention
        self.value = value


def told(
    noun: EntityType[Value_co], events: dict[int, Event], times: dict[int, int] | None = None
) -> list[Value_co]:
    """Return the things that ``events``, by seq and all of them counting, tell of."""
    kept = list((times or dict.fromkeys(events, 1)).items())
    found = entity_states(
        changes_in(noun, kept, lambda seqs: (events[s] for s in seqs if s in events))
    )
    return [noun.value(subject, entity_state, events) for subject, entity_state in found.items()]


def entity_states(mentions: Iterable[EntityChange]) -> dict[str, EntityState]:
    """Return what became of each thing that is there in the end, in the order they were added."""
    found: dict[str, EntityState] = {}
    for mention in mentions:
        subject, seq, verb = mention.subject, mention.seq, mention.verb
        entity_state = found.get(subject)
        if verb == "end":
            found.pop(subject, None)
        elif entity_state is None:
            if verb in {"begin", "touch"}:
                stated = dict.fromkeys(mention.fields, (seq, 1))
                found[subject] = EntityState(first=seq, begun=seq, fields=stated)
        elif verb == "begin":
            entity_state.begun = seq
            entity_state.fields = dict.fromkeys(mention.fields, (seq, 1))
        else:
            for field in mention.fields:
                _, before = entity_state.fields.get(field, (0, 0))
                entity_state.fields[field] = seq, mention.times + before if verb == "count" else 1
    return found


def changes_in(
    noun: EntityType[Any], kept: Sequence[tuple[int, int]], read: EventsAt
) -> Iterator[EntityChange]:
    """Return what the events at ``kept`` do, those that were erased left out."""
    times = dict(kept)
    for event in read(list(times)):
        found = None if event.redacted else noun.mention(event)
        if found is not None:
            count = times[event.seq]
            yield found if count == 1 else msgspec.structs.replace(found, times=count)


@lru_cache(maxsize=1_024)
def run_number(run_id: str) -> int:
    """Return a number that stands for a run and does not tell its name."""
    return int.from_bytes(hashlib.blake2b(run_id.encode(), digest_size=8).digest())


def stated(event: Event) -> dict[str, Any]:
    """Return what an event says of a thing by name, in its payload or else in its refs."""
    found: dict[str, Any] = {}
    for part in (event.refs, event.payload):
        if isinstance(part, dict):
            found.update(part)
    return found


def name_in(content: dict[str, Any], *fields: str) -> str | None:
    """Return the first of ``fields`` that holds a name: a text, or a number as text."""
    for field in fields:
        value = content.get(field)
        if (isinstance(value, str) and value) or type(value) is int:
            return str(value)
    return None


def evidence(entity_state: EntityState, events: dict[int, Event]) -> tuple[str, ...]:
    """Return the ids of the events that say what a course is, in order."""
    seqs = {entity_state.begun, *(seq for seq, _ in entity_state.fields.values())}
    return tuple(events[seq].event_id for seq in sorted(seqs))
