"""The numbers of events in runs: unique and increasing, whichever way the events come."""

from __future__ import annotations

import contextlib
import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput, InvalidScope
from treering.model.events import NumberedEvent
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from treering.model.events import Header, NewEvent
    from treering.spine.courses import Course
    from treering.spine.ports import Journal

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
        self._locks = [threading.RLock() for _ in range(STRIPES)]
        self._last: dict[Place, int] = {}

    def append(
        self,
        events: Sequence[NewEvent],
        append: Callable[[Sequence[NewEvent]], list[Header]],
        *,
        fill: bool,
    ) -> list[Header]:
        """Append ``events``, those of runs with a number; only of runs here, unless ``fill``.

        Raises InvalidInput if a number that is given is not above those that the run has, or if
        an event would end a run that is carried out here.
        """
        runs = {event.run_id for event in events if type(event.run_id) is str}
        courses = [self._courses[run] for run in sorted(runs & self._courses.keys())]
        courses = [course for course in courses if course.is_here]
        if not courses and not (fill and runs):
            return append(events)
        with self._held(runs, courses):
            own = {course.run_id: course for course in courses if course.is_open}
            last: dict[Place, int] = {}
            numbered = [self._numbered(event, own, last, fill=fill) for event in events]
            headers = append(numbered)
            self._note(headers, own, last)
            return headers

    @contextlib.contextmanager
    def _held(self, runs: set[str], courses: Sequence[Course]) -> Iterator[None]:
        """Keep others from numbering events of the same runs."""
        if self._pid != os.getpid():
            self._renew()  # A thread that is not here may hold what the parent had.
        if len(runs) == 1 and not courses:
            with self._locks[hash(next(iter(runs))) % STRIPES]:
                yield
            return
        with contextlib.ExitStack() as held:
            for course in courses:
                held.enter_context(course.lock)
            for stripe in sorted({hash(run) % STRIPES for run in runs}):
                held.enter_context(self._locks[stripe])
            yield

    def _numbered(
        self, event: NewEvent, own: Mapping[str, Course], last: dict[Place, int], *, fill: bool
    ) -> NewEvent:
        if own and event.run_id in own and parse_kind(event.kind).name in RUN_ENDS:
            raise InvalidInput(
                f"run {event.run_id} is under way here, and ends once",
                hint="use run.end(), run.fail() or session.interrupt()",
            )
        place = self._place(event)
        if place is None or not (fill or place[2] in own):
            return event
        before = last.get(place)
        if before is None:
            before = self._last_of(place, event, own)
        number = event.run_seq
        if number is None:
            last[place] = before + 1
            return NumberedEvent.of(event, before + 1)
        if type(number) is int and number <= before and not self._is_known(place[0], event):
            raise InvalidInput(
                f"run_seq {number} of run {event.run_id} is taken: it has come to {before}",
                hint="leave run_seq out to have it given",
            )
        last[place] = max(before, number) if type(number) is int else before
        return event

    def _place(self, event: NewEvent) -> Place | None:
        """Return where the run of an event is; None if it has none, or one that is refused."""
        if type(event.run_id) is not str or type(event.session_id) is not str:
            return None
        try:
            return _scope_of(event.scope), event.session_id, event.run_id
        except (InvalidScope, TypeError):
            return None

    def _last_of(self, place: Place, event: NewEvent, own: Mapping[str, Course]) -> int:
        course = own.get(place[2])
        if course is not None:
            return course.last_run_seq
        known = self._last.get(place)
        if known is not None:
            return known
        if event.kind == "run.started" and event.event_id is None:
            return 0  # It begins here, or is refused.
        headers = self._journal.run_headers(*place)
        return max((header.run_seq or 0 for header in headers), default=0)

    def _is_known(self, scope: Scope, event: NewEvent) -> bool:
        """Whether an event is appended again: then it keeps its number, whatever came since."""
        return event.event_id is not None and self._journal.is_known(scope, event.event_id)

    def _note(
        self, headers: Sequence[Header], own: Mapping[str, Course], last: Mapping[Place, int]
    ) -> None:
        if len(self._last) > RUNS_MAX:
            self._last.clear()
        for place, number in last.items():
            if place[2] not in own:
                self._last[place] = number
        for header in headers:
            if header.run_id is not None and header.run_id in own:
                own[header.run_id].note(header)
            elif header.kind in RUN_ENDS and header.run_id is not None:
                self._last.pop((Scope(header.scope), header.session_id, header.run_id), None)
