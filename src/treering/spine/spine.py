"""The spine: every event goes through it, to the ledger first and then to each sink."""

from __future__ import annotations

import atexit
import contextlib
import logging
import weakref
from typing import TYPE_CHECKING, Any, Final

from treering.errors import DuplicateEvent, InvalidInput, TreeringError
from treering.model.parts import RunStarted, ToolReturned, safe_part
from treering.model.scopes import parse_scope
from treering.model.tools import SyntheticPolicy
from treering.spine.asking import Gates
from treering.spine.carrier import Carrier
from treering.spine.closing import close_run
from treering.spine.courses import Course
from treering.spine.entries import Results
from treering.spine.lifecycle import active_run, begin
from treering.spine.ports import Gate
from treering.spine.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from treering.model.events import Header, NewEvent
    from treering.model.runs import Message, OpenRun
    from treering.model.scopes import Scope
    from treering.spine.entries import Entry
    from treering.spine.ports import (
        Journal,
        Occasion,
        Preparation,
        Sink,
        SinkStatus,
        Timeline,
        Verdict,
    )

_log = logging.getLogger("treering.spine")

CLOSE_S: Final = 5.0
"""How long sinks have, in all, for what waits for them when the ledger is closed."""


class Spine:
    """Carries what happens, in order, to the ledger and then to the sinks. A ledger has one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._carrier = Carrier(journal)
        self._gates = Gates()
        self.results = Results(self._gates.persist, SyntheticPolicy())
        """Makes the outcomes of tools."""
        self._courses: dict[str, Course] = {}
        self._recovered: set[Scope] = set()
        self._closed = False
        _open_spines.add(self)

    def add(self, sinks: Sequence[Sink], synthetic: SyntheticPolicy | None = None) -> None:
        """Have ``sinks`` hear of what comes from now on; durable ones of all that they lack."""
        if synthetic is not None:
            self.results = Results(self._gates.persist, synthetic)
        for sink in sinks:
            self._carrier.add(sink)
            if isinstance(sink, Gate):
                self._gates.add(sink)

    def run(
        self,
        session: Timeline,
        *,
        agent: str | None = None,
        entry_point: str | None = None,
        runtime: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        turn_id: str | None = None,
        wait_seconds: float | None = None,
    ) -> Run:
        """Return a run of ``session``: a context manager, or to be started and ended.

        A session has one at a time. Another waits for ``wait_seconds``, which goes by the session's
        mode if it is not given, and is refused then.
        """
        if wait_seconds is not None and not (
            isinstance(wait_seconds, int | float) and wait_seconds >= 0
        ):
            raise InvalidInput(
                f"wait_seconds is {wait_seconds!r}", hint="give a number of seconds, 0 or more"
            )
        started = RunStarted(
            entry_point=entry_point, runtime=runtime, model=model, provider=provider
        )
        return Run(
            Course(
                self, session, agent=agent, turn_id=turn_id, wait_s=wait_seconds, started=started
            )
        )

    def take(
        self,
        session: Timeline,
        next_message: Callable[[], tuple[Message | None, Sequence[Entry]]],
    ) -> Run | None:
        """Return a run that has begun with the next message of an inbox; None if there is none.

        Raises RunActive if the session is busy with another.
        """
        course = Course(self, session, agent=None, turn_id=None, wait_s=0.0, started=RunStarted())
        found: list[Message] = []

        def opening() -> Sequence[Entry] | None:
            message, entries = next_message()
            found[:] = [] if message is None else [message]
            return entries if found else None

        return None if course.begin(opening) is None else Run(course, found[0])

    def follow(self, scope: str) -> None:
        """Bring durable sinks up to date with a scope, and keep them so; a run does it itself."""
        self._carrier.follow(parse_scope(scope))

    def status(self) -> list[SinkStatus]:
        """Return how each sink is doing: what it took, what failed, what was lost."""
        return self._carrier.status()

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Wait until the sinks have all that was recorded; return False if that took too long."""
        return self._carrier.flush(timeout_s)

    def interrupt(self, scope: Scope, session_id: str, why: str) -> Header | None:
        """Abort the run of a session, whichever process it belongs to; return the mark it left."""
        active = active_run(self._journal, self.close_gone, scope, session_id)
        if active is None:
            return None
        own = self._courses.get(active.run_id)
        if own is not None and own.is_here:
            return own.boundary if own.interrupt_from_outside("interrupted", boundary=why) else None
        recorded = close_run(
            self._journal, self.append, self.results, active, reason="interrupted", boundary=why
        )
        return recorded[-1] if recorded else None

    def recover(self, scope: Scope | None = None) -> int:
        """Close the runs of processes that are gone; return how many.

        Those that came here in a copy are left alone: more of them may come.
        """
        closed = 0
        for run in self._journal.open_runs(scope):
            if run.owner is None or self._journal.is_elsewhere(run.owner):
                continue
            if not self._journal.is_gone(run.owner, run.seen_ms):
                continue
            try:
                closed += bool(self.close_gone(run))
            except TreeringError as error:
                # Its key is not here, for instance. It is no reason to refuse everything else.
                _log.warning("run %s of a process that is gone stays open: %s", run.run_id, error)
        return closed

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Interrupt what still runs, let the sinks have what waits, and stop."""
        if self._closed:
            return
        self._closed = True
        for course in list(self._courses.values()):
            if course.is_here:
                # Nobody is left to be told; the next one who opens the ledger closes it then.
                with contextlib.suppress(TreeringError):
                    course.interrupt_from_outside("closed")
        self._carrier.close(timeout_s)

    # What runs need.

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record ``events``, all or none, and carry them to the sinks in their order."""
        return self._carrier.append(events, expected_seq=expected_seq)

    def append_new(self, event: NewEvent) -> Header:
        """Record one event whose id must be new. Raises DuplicateEvent if it is known already."""
        new: list[Header] = []
        header = self._carrier.append([event], tell=lambda kept, _: new.append(kept))[0]
        if not new:
            raise DuplicateEvent(
                f"event_id already exists: {header.event_id}",
                hint="give another id, or leave it out to have one made",
            )
        return header

    def carry_transient(self, event: NewEvent) -> None:
        """Carry to the sinks what is not kept."""
        self._carrier.carry_transient(event)

    def begin(
        self, course: Course, make: Callable[[], list[NewEvent] | None], *, wait_s: float
    ) -> list[Header] | None:
        """Record the beginning of a run, when its session has no other."""
        session = course.session
        self._carrier.follow(session.scope)
        if session.scope not in self._recovered:
            # Once more by scope: whoever is held to scopes sees nothing without naming one.
            self._recovered.add(session.scope)
            self.recover(session.scope)
        headers = begin(
            self._journal, self.append, self.close_gone,
            place=(session.scope, session.session_id), make=make, wait_s=wait_s,
        )  # fmt: skip
        if headers is not None:
            self._courses[course.run_id] = course
        return headers

    def forget(self, course: Course) -> None:
        """Take note that a run is over."""
        self._courses.pop(course.run_id, None)

    def is_over(self, course: Course) -> bool:
        """Whether somebody has closed a run, in whichever process."""
        session = course.session
        open_runs = self._journal.open_runs(session.scope, session.session_id)
        return all(other.run_id != course.run_id for other in open_runs)

    def headers_of(self, course: Course) -> Iterable[Header]:
        """Return what the ledger holds of a run, in order."""
        session = course.session
        return self._journal.run_headers(session.scope, session.session_id, course.run_id)

    def outcome_of(self, course: Course, call_id: str) -> str | None:
        """Return the id of the event that is the outcome of a call of a run."""
        for header in self.headers_of(course):
            part = safe_part(header.kind, header.refs)
            if isinstance(part, ToolReturned) and part.call_id == call_id:
                return header.event_id
        return None

    def close_gone(self, run: OpenRun) -> list[Header]:
        """Close the run of a process that is gone, and the calls that it left open."""
        return close_run(self._journal, self.append, self.results, run, reason="crashed")

    def owner(self) -> str:
        """Return the name under which this process carries out its runs."""
        return self._journal.owner()

    def prepare(self, occasion: Occasion, prompt: str | None) -> Preparation:
        """Ask the gates what to add to a run."""
        return self._gates.before_run(occasion, prompt)

    def ask_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any) -> Verdict:  # noqa: A002
        """Ask the gates whether a tool may run."""
        return self._gates.before_tool(occasion, tool, call_id, input)

    def ask_sending(self, occasion: Occasion, text: str, to: str | None) -> Verdict:
        """Ask the gates whether a message may be sent."""
        return self._gates.before_sending(occasion, text, to)


_open_spines: weakref.WeakSet[Spine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End what is under way when the interpreter ends."""
    for spine in list(_open_spines):
        spine.close()
