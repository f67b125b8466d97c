"""The numbers of events in runs: unique and increasing, whichever way the events come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput, InvalidScope, OutcomeUnknown, TreeringError
from treering.locks import Lock, Locks
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from treering.model.events import Header, NewEvent
    from treering.spine.courses import Course
    from treering.spine.ports import Journal

    Append = Callable[..., list[Header]]
    """Appends events; takes ``numbers`` for those that do not say theirs."""
    Place = tuple[Scope, str, str]
    """The scope, the session and the id of a run."""

STRIPES: Final = 64
RUNS_MAX: Final = 10_000
"""Runs whose last number is remembered; then it starts afresh."""


class Numbering:
    """Numbers events of runs that are appended from outside of their run. Notices forks.

    A run that is carried out here numbers its own events; what others append to it is numbered
    with its lock held. Two processes that append to one run at once may give a number twice.
    """

    def __init__(self, journal: Journal, courses: Mapping[str, Course]) -> None:
        self._journal = journal
        self._courses = courses
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._locks = [Lock() for _ in range(STRIPES)]
        self._last: dict[Place, int] = {}

    def append(self, events: Sequence[NewEvent], append: Append, *, fill: bool) -> list[Header]:
        """Append ``events``, those of runs with a number; only of runs here, unless ``fill``.

        Raises InvalidInput if a number that is given is not above those that the run has, or if
        an event would end a run that is carried out here.
        """
        if len(events) == 1:
            event = events[0]
            if event.run_id is None:
                return append(events)
            is_foreign = type(event.run_id) is str and event.run_id not in self._courses
            if fill and is_foreign:
                return self._append_one(event, events, append)
        runs = {event.run_id for event in events if type(event.run_id) is str}
        courses = self._courses_of(runs) if self._courses else ()
        if not courses and not (fill and runs):
            return append(events)
        held = self._locks_of(runs, courses)
        with held, held:
            held.take()
            own = {course.run_id: course for course in courses if course.is_open}
            counts, counted = self._counts(events, own, fill=fill)
            numbers = [
                None if count is None else self._next(count, event)
                for event, count in zip(events, counted, strict=True)
            ]
            before = {run: course.last_run_seq for run, course in own.items()}
            self._reserve(own, counts)
            try:
                headers = append(events, numbers=numbers)
            except TreeringError as error:
                if not isinstance(error, OutcomeUnknown):
                    for run, course in own.items():
                        course.note_numbers((), before[run])
                raise
            for run, course in own.items():
                course.note_numbers([one for one in headers if one.run_id == run], before[run])
            self._note(own, counts)
            return headers

    def _append_one(
        self, event: NewEvent, events: Sequence[NewEvent], append: Append
    ) -> list[Header]:
        """Append one event of a run that is not carried out here: what most callers do."""
        place = _place(event)
        if place is None:
            return append(events)
        if self._pid != os.getpid():
            self._renew()
        lock = self._locks[hash(place[2]) % STRIPES]
        with lock.guard, lock:
            last = self._last.pop(place, None)  # Looked up again, unless it is noted.
            given = event.run_seq
            if last is not None and type(given) is int and given > last:
                headers = append(events)
            else:
                count = _Count(place, last or 0)
                if last is None and _may_be_known(event):
                    self._look_up({place: count}, (place,))
                number = self._next(count, event)
                headers = append(events) if number is None else append(events, numbers=(number,))
                given = count.last
            if len(self._last) > RUNS_MAX:
                self._last.clear()
            self._last[place] = given
            return headers

    def _courses_of(self, runs: set[str]) -> list[Course]:
        known = (self._courses.get(run) for run in runs)
        here = [course for course in known if course is not None and course.is_here]
        return sorted(here, key=lambda course: course.run_id)

    def _locks_of(self, runs: set[str], courses: Sequence[Course]) -> Locks:
        """Return what keeps others from numbering events of the same runs, in one order."""
        if self._pid != os.getpid():
            self._renew()  # A thread that is not here may hold what the parent had.
        stripes = sorted({hash(run) % STRIPES for run in runs})
        return Locks(
            [
                *(course.lock for course in courses),
                *(self._locks[stripe] for stripe in stripes),
            ]
        )

    def _counts(
        self, events: Sequence[NewEvent], own: Mapping[str, Course], *, fill: bool
    ) -> tuple[dict[Place, _Count], list[_Count | None]]:
        """Return the count of each run, and that of each event; None for one without a number."""
        counts: dict[Place, _Count] = {}
        counted: list[_Count | None] = []
        unknown: list[Place] = []
        known: dict[tuple[str, str, str], _Count | None] = {}
        for event in events:
            run_id, count = event.run_id, None
            if own and run_id in own and parse_kind(event.kind).name in RUN_ENDS:
                raise InvalidInput(
                    f"run {run_id} is under way here, and ends once",
                    hint="use run.end(), run.fail() or session.interrupt()",
                )
            if type(run_id) is str and (fill or run_id in own):
                stated = (event.scope, event.session_id, run_id)
                try:
                    count = known[stated]
                except KeyError:
                    count = known[stated] = self._count(event, own, counts, unknown)
                except TypeError:
                    pass  # A scope or a session that is refused.
            counted.append(count)
        self._look_up(counts, unknown)
        return counts, counted

    def _count(
        self,
        event: NewEvent,
        own: Mapping[str, Course],
        counts: dict[Place, _Count],
        unknown: list[Place],
    ) -> _Count | None:
        """Return the count of the run of ``event``, which is entered if it is not there."""
        place = _place(event)
        if place is None or place in counts:
            return None if place is None else counts[place]
        last = own[place[2]].last_run_seq if place[2] in own else self._last.get(place)
        if last is None and _may_be_known(event):
            unknown.append(place)
        count = counts[place] = _Count(place, last or 0)
        return count

    def _look_up(self, counts: Mapping[Place, _Count], unknown: Iterable[Place]) -> None:
        """Have the journal say what runs have come to; it is asked once for all of a scope."""
        by_scope: dict[Scope, list[tuple[str, str]]] = {}
        for scope, session_id, run_id in unknown:
            by_scope.setdefault(scope, []).append((session_id, run_id))
        for scope, runs in by_scope.items():
            for (session_id, run_id), number in self._journal.last_run_seqs(scope, runs).items():
                counts[scope, session_id, run_id].last = number

    def _next(self, count: _Count, event: NewEvent) -> int | None:
        """Return the number that ``event`` is given; None if it says its own."""
        number = event.run_seq
        if number is None:
            count.last += 1
            return count.last
        if type(number) is not int:
            return None
        if number > count.last:
            count.last = number
        elif not self._is_known(count.place[0], event):
            raise InvalidInput(
                f"run_seq {number} of run {event.run_id} is taken: it has come to {count.last}",
                hint="leave run_seq out to have it given",
            )
        return None

    def _is_known(self, scope: Scope, event: NewEvent) -> bool:
        """Whether an event is appended again: then it keeps its number, whatever came since."""
        return event.event_id is not None and self._journal.is_known(scope, event.event_id)

    def _reserve(self, own: Mapping[str, Course], counts: Mapping[Place, _Count]) -> None:
        """Have no number given twice, also if nobody is told that the events were recorded."""
        for place, count in counts.items():
            if (course := own.get(place[2])) is not None:
                course.reserve(count.last)
            else:
                self._last.pop(place, None)  # Looked up again, unless it is noted.

    def _note(self, own: Mapping[str, Course], counts: Mapping[Place, _Count]) -> None:
        if len(self._last) > RUNS_MAX:
            self._last.clear()
        for place, count in counts.items():
            if place[2] not in own:
                self._last[place] = count.last


class _Count:
    """How far the numbers of a run have come."""

    __slots__ = ("last", "place")

    def __init__(self, place: Place, last: int) -> None:
        self.place = place
        self.last = last


def _place(event: NewEvent) -> Place | None:
    """Return where the run of an event is; None if it has none, or one that is refused."""
    if type(event.run_id) is not str or type(event.session_id) is not str:
        return None
    try:
        return parse_scope(event.scope), event.session_id, event.run_id
    except (InvalidScope, TypeError):
        return None


def _may_be_known(event: NewEvent) -> bool:
    """Whether its run may have numbers: one that begins here has none, or is refused."""
    return event.kind != "run.started" or event.event_id is not None
