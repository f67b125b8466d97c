"""The numbers of events that are appended by hand to runs that are under way here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import InvalidInput
from treering.model.kinds import RUN_ENDS, parse_kind
from treering.model.scopes import parse_scope
from treering.model.views import taken_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.engine import Engine
    from treering.model.events import Header, NewEvent
    from treering.spine.run_state import RunState


class RunNumbers:
    """Gives one append its numbers in runs that are carried out here. Their locks are held.

    Such a run numbers all its events, also those that others append to it: some are handed to
    sinks and not kept, so the store does not know how far it has come. Events of all other runs are
    numbered by the store.
    """

    def __init__(self, engine: Engine, run_states: Sequence[RunState]) -> None:
        self._engine = engine
        self._runs = {run.run_id: run for run in run_states if run.is_open}
        self._before = {run_id: run.last_run_seq for run_id, run in self._runs.items()}

    def next(self, event: NewEvent) -> int | None:
        """Return the number that ``event`` is given; None if it states its own, or is of no run.

        Raises InvalidInput if it states one that is taken, or would end the run.
        """
        run_state = self._runs.get(event.run_id) if type(event.run_id) is str else None
        if run_state is None:
            return None
        if parse_kind(event.kind).name in RUN_ENDS:
            raise InvalidInput(
                f"run {event.run_id} is open here, and ends only once",
                hint="use run.end(), run.fail() or session.interrupt()",
            )
        last, stated = run_state.last_run_seq, event.run_seq
        if stated is None:
            # No number is given twice, even if nobody learns that the events were recorded.
            run_state.reserve(last + 1)
            return last + 1
        if type(stated) is not int:
            return None
        if stated > last:
            run_state.reserve(stated)
        elif not self._is_repeat(event):
            raise taken_number(stated, run_state.run_id, last)
        return None

    def take_back(self) -> None:
        """Give the same numbers to the next events: these were not recorded."""
        for run_id, run_state in self._runs.items():
            run_state.note_numbers((), self._before[run_id])

    def note(self, headers: Sequence[Header]) -> None:
        """Continue after the recorded events."""
        for run_id, run_state in self._runs.items():
            own = [header for header in headers if header.run_id == run_id]
            run_state.note_numbers(own, self._before[run_id])

    def _is_repeat(self, event: NewEvent) -> bool:
        """Whether an event is appended again: then it keeps its number, whatever came since."""
        if event.event_id is None:
            return False
        return bool(self._engine.store.reader.find_ids(parse_scope(event.scope), [event.event_id]))
