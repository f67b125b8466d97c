"""Views of whole timelines, the plain way: all events in order, without a snapshot or a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from treering.derive.entity_log import GOALS, MEMORIES, SCHEDULES, changes_in, entity_states
from treering.derive.reports import UsageFold, report_of
from treering.derive.snapshots import EventCounter
from treering.derive.turns import LaterEnds, TurnSplitter
from treering.derive.visible import LaterChanges, visible
from treering.model.kinds import RUN_ENDS
from treering.model.queries import SessionTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering import Event, Header
    from treering.derive.entity_log import EntityType
    from treering.model.views import Counts, Goal, MemoryRecord, Schedule, TurnView, Usage

Value = TypeVar("Value")


def goals(events: Sequence[Event], *, run_id: str | None = None) -> list[Goal]:
    """Return the goals left at the end, in the order they were added."""
    return _entities(GOALS, events, run_id)


def schedules(events: Sequence[Event], *, run_id: str | None = None) -> list[Schedule]:
    """Return the schedules left at the end, in the order they were added."""
    return _entities(SCHEDULES, events, run_id)


def memories(events: Sequence[Event], *, run_id: str | None = None) -> list[MemoryRecord]:
    """Return what was done to each memory, in the order they were first mentioned."""
    return _entities(MEMORIES, events, run_id)


def _entities(
    entity_type: EntityType[Value], events: Sequence[Event], run_id: str | None
) -> list[Value]:
    shown = {event.seq: event for event in visible(events, run_id=run_id)}
    changes = changes_in(entity_type, [(seq, 1) for seq in shown], lambda _: shown.values())
    return [entity_type.value(*found, shown) for found in entity_states(changes).items()]


def counts(headers: Iterable[Header]) -> Counts:
    """Return the counts: failed runs, undone turns and erased events are counted."""
    counter = EventCounter()
    for header in headers:
        runs = {} if header.run_id is None else {header.run_id: header.kind not in RUN_ENDS}
        counter.add(
            SessionTally(
                kinds={header.kind: 1},
                erased=int(header.redacted),
                first_ms=header.ts_ms,
                last_ms=header.ts_ms,
                runs=runs,
            )
        )
    return counter.counts()


def usage(events: Iterable[Event]) -> Usage:
    """Return the usage, by model."""
    spending = UsageFold()
    for event in events:
        spending.take(event, report_of(event))
    return spending.usage()


def turns(events: Sequence[Event]) -> Iterator[TurnView]:
    """Yield the turns, in order."""
    later_changes, ends = LaterChanges(), LaterEnds()
    for event in reversed(events):
        later_changes.add(event)
        ends.add(event)
    division = TurnSplitter(later_changes.is_undone, ends.states)
    for event in events:
        turn = division.take(event, report_of(event))
        if turn is not None:
            yield turn
    last = division.rest()
    if last is not None:
        yield last
