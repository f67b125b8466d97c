"""The numbers of events in runs: unique and increasing, whichever way the events come."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput, InvalidScope, OutcomeUnknown, TreeringError
from treering.locks import Lock, Locks
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

_scope_of = lru_cache(maxsize=1_024)(parse_scope)


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
            places = self._places(events, own, fill=fill)
            last = self._last_numbers(events, places, own)
            numbers = self._numbers(events, places, last)
            before = {run: course.last_run_seq for run, course in own.items()}
            self._reserve(own, last)
            try:
                headers = append(events, numbers=numbers)
            except TreeringError as error:
                if not isinstance(error, OutcomeUnknown):
                    for run, course in own.items():
                        course.note_numbers((), before[run])
                raise
            for run, course in own.items():
                course.note_numbers([one for one in headers if one.run_id == run], before[run])
            self._note(own, last)
            return headers

    def _append_one(
        self, event: NewEvent, events: Sequence[NewEvent], append: Append
    ) -> list[Header]:
        """Append one event of a run that is not carried out here: what most callers do."""
        place = self._place(event)
        if place is None:
            return append(events)
        if self._pid != os.getpid():
            self._renew()
        lock = self._locks[hash(place[2]) % STRIPES]
        with lock.guard, lock:
            last = self._last_numbers(events, (place,), {})
            number = self._next(place, event, last)
            self._reserve({}, last)
            headers = append(events) if number is None else append(events, numbers=(number,))
            self._note({}, last)
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

    def _places(
        self, events: Sequence[NewEvent], own: Mapping[str, Course], *, fill: bool
    ) -> list[Place | None]:
        """Return where the run of each event is; None for an event that needs no number."""
        known: dict[tuple[str, str, str | None], Place | None] = {}
        places: list[Place | None] = []
        for event in events:
            if own and event.run_id in own and parse_kind(event.kind).name in RUN_ENDS:
                raise InvalidInput(
                    f"run {event.run_id} is under way here, and ends once",
                    hint="use run.end(), run.fail() or session.interrupt()",
                )
            place: Place | None = None
            if type(event.run_id) is str and (fill or event.run_id in own):
                stated = (event.scope, event.session_id, event.run_id)
                try:
                    place = known[stated]
                except KeyError:
                    place = known[stated] = self._place(event)
                except TypeError:
                    place = None  # A scope or a session that is refused.
            places.append(place)
        return places

    def _last_numbers(
        self,
        events: Sequence[NewEvent],
        places: Sequence[Place | None],
        own: Mapping[str, Course],
    ) -> dict[Place, int]:
        """Return the number that each run has come to; the journal is asked once for all."""
        last: dict[Place, int] = {}
        unknown: dict[Scope, list[tuple[str, str]]] = {}
        for event, place in zip(events, places, strict=True):
            if place is None or place in last:
                continue
            number = own[place[2]].last_run_seq if place[2] in own else self._last.get(place)
            if number is None and (event.kind != "run.started" or event.event_id is not None):
                unknown.setdefault(place[0], []).append(place[1:])
            last[place] = number or 0  # A run that begins here has none, or is refused.
        for scope, runs in unknown.items():
            for (session_id, run_id), number in self._journal.last_run_seqs(scope, runs).items():
                last[scope, session_id, run_id] = number
        return last

    def _numbers(
        self,
        events: Sequence[NewEvent],
        places: Sequence[Place | None],
        last: dict[Place, int],
    ) -> list[int | None]:
        """Return the numbers that events are given; None where one says its own, or needs none."""
        return [
            None if place is None else self._next(place, event, last)
            for event, place in zip(events, places, strict=True)
        ]

    def _next(self, place: Place, event: NewEvent, last: dict[Place, int]) -> int | None:
        before = last[place]
        number = event.run_seq
        if number is None:
            last[place] = before + 1
            return before + 1
        if type(number) is not int:
            return None
        if number > before:
            last[place] = number
            return None
        if not self._is_known(place[0], event):
            raise InvalidInput(
                f"run_seq {number} of run {event.run_id} is taken: it has come to {before}",
                hint="leave run_seq out to have it given",
            )
        return None

    def _place(self, event: NewEvent) -> Place | None:
        """Return where the run of an event is; None if it has none, or one that is refused."""
        if type(event.run_id) is not str or type(event.session_id) is not str:
            return None
        try:
            return _scope_of(event.scope), event.session_id, event.run_id
        except (InvalidScope, TypeError):
            return None

    def _is_known(self, scope: Scope, event: NewEvent) -> bool:
        """Whether an event is appended again: then it keeps its number, whatever came since."""
        return event.event_id is not None and self._journal.is_known(scope, event.event_id)

    def _reserve(self, own: Mapping[str, Course], last: Mapping[Place, int]) -> None:
        """Have no number given twice, also if nobody is told that the events were recorded."""
        for place, number in last.items():
            if (course := own.get(place[2])) is not None:
                course.reserve(number)
            else:
                self._last.pop(place, None)  # Looked up again, unless it is noted.

    def _note(self, own: Mapping[str, Course], last: Mapping[Place, int]) -> None:
        if len(self._last) > RUNS_MAX:
            self._last.clear()
        for place, number in last.items():
            if place[2] not in own:
                self._last[place] = number
