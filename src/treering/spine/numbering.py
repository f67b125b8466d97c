"""The numbers of events that are appended by hand to runs that are under way here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import InvalidInput, OutcomeUnknown, TreeringError
from treering.locks import LockSet
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.runs import taken_number
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from treering.model.events import Header, NewEvent
    from treering.spine.ports import Journal
    from treering.spine.run_state import RunState

    Append = Callable[..., list[Header]]
    """Appends events; takes ``numbers`` for those that do not say theirs, and ``counted``."""


class Numbering:
    """Gives events of runs their numbers, whichever way they come.

    A run that is carried out here numbers its events, also those that others append to it: some
    are told to sinks and not kept, so the store does not know how far it has come. Events of all
    other runs are numbered by the store.
    """

    def __init__(self, journal: Journal, run_states: Mapping[str, RunState]) -> None:
        self._journal = journal
        self._run_states = run_states

    def append(self, events: Sequence[NewEvent], append: Append, *, fill: bool) -> list[Header]:
        """Append ``events``, those of runs with a number; only of runs here, unless ``fill``.

        Raises InvalidInput if a number that is given is not above those that the run has, or if
        an event would end a run that is carried out here.
        """
        here = self._runs_here(events) if self._run_states else ()
        if not here:
            return append(events, counted=fill)
        held = LockSet([run.lock for run in here])
        with held, held:
            held.take()
            own = {run.run_id: run for run in here if run.is_open}
            before = {run: run_state.last_run_seq for run, run_state in own.items()}
            try:
                numbers = [self._number(event, own) for event in events]
                headers = append(events, numbers=numbers, counted=fill)
            except TreeringError as error:
                if not isinstance(error, OutcomeUnknown):
                    for run, run_state in own.items():
                        run_state.note_numbers((), before[run])
                raise
            for run, run_state in own.items():
                run_state.note_numbers([one for one in headers if one.run_id == run], before[run])
            return headers

    def _runs_here(self, events: Sequence[NewEvent]) -> list[RunState]:
        """Return the runs of ``events`` that are carried out here, in one order."""
        runs = {event.run_id for event in events if type(event.run_id) is str}
        known = (self._run_states.get(run) for run in runs)
        here = [run_state for run_state in known if run_state is not None and run_state.is_here]
        return sorted(here, key=lambda run_state: run_state.run_id)

    def _number(self, event: NewEvent, own: Mapping[str, RunState]) -> int | None:
        """Return the number that ``event`` is given; None if it says its own, or has none here."""
        run_state = own.get(event.run_id) if type(event.run_id) is str else None
        if run_state is None:
            return None
        if parse_kind(event.kind).name in RUN_ENDS:
            raise InvalidInput(
                f"run {event.run_id} is under way here, and ends once",
                hint="use run.end(), run.fail() or session.interrupt()",
            )
        last, stated = run_state.last_run_seq, event.run_seq
        if stated is None:
            # No number is given twice, also if nobody is told that the events were recorded.
            run_state.reserve(last + 1)
            return last + 1
        if type(stated) is not int:
            return None
        if stated > last:
            run_state.reserve(stated)
        elif not self._is_known(event):
            raise taken_number(stated, run_state.run_id, last)
        return None

    def _is_known(self, event: NewEvent) -> bool:
        """Whether an event is appended again: then it keeps its number, whatever came since."""
        if event.event_id is None:
            return False
        return self._journal.is_known(parse_scope(event.scope), event.event_id)
