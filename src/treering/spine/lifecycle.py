"""How runs begin: one at a time in a session, whichever process they belong to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from treering.errors import Busy, Conflict, RunActive

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.model.events import Header, NewEvent
    from treering.model.runs import OpenRun
    from treering.model.scopes import Scope
    from treering.spine.ports import Journal

    Append = Callable[..., list[Header]]
    """Records events; takes ``expected_seq``."""

PAUSE_S: Final = 0.01
PAUSE_S_MAX: Final = 0.2
ATTEMPTS_MAX: Final = 1_000
"""How often a session may move on while we look at it, before it counts as too busy."""


def begin(
    journal: Journal,
    append: Append,
    close_gone: Callable[[OpenRun], object],
    *,
    place: tuple[Scope, str],
    make: Callable[[], list[NewEvent] | None],
    wait_s: float,
) -> list[Header] | None:
    """Record what ``make`` gives, as the beginning of a session's only run.

    ``make`` is asked when nothing else runs, and may say None: then nothing begins. Raises
    RunActive if another run is still under way after ``wait_s``.
    """
    deadline, pause_s = time.monotonic() + wait_s, PAUSE_S
    for _ in range(ATTEMPTS_MAX):
        head = journal.head_seq(*place)
        active = active_run(journal, close_gone, *place)
        while active is not None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise _busy(active)
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)
            head = journal.head_seq(*place)
            active = active_run(journal, close_gone, *place)
        events = make()
        if events is None:
            return None
        try:
            return append(events, expected_seq=head)
        except Conflict:
            continue  # Somebody recorded something meanwhile: look again.
    raise restless(place[1])


def active_run(
    journal: Journal, close_gone: Callable[[OpenRun], object], scope: Scope, session_id: str
) -> OpenRun | None:
    """Return the run that a live process carries out in a session; close those of dead ones.

    So are those that came here in a copy while they were open. Runs that nobody owns, such as
    imported ones, stand in nobody's way.
    """
    for run in journal.open_runs(scope, session_id):
        if run.owner is None:
            continue
        if not journal.is_elsewhere(run.owner) and not journal.is_gone(run.owner, run.seen_ms):
            return run
        close_gone(run)
    return None


def restless(session_id: str) -> Busy:
    """Return what to raise when a session moves on whenever it is looked at."""
    return Busy(f"session {session_id} never holds still", hint="let its other writers pause")


def _busy(active: OpenRun) -> RunActive:
    return RunActive(
        f"session {active.session_id} is busy with run {active.run_id}",
        hint="wait for it with wait_seconds=30, stop it with session.interrupt(),"
        " or give a sub-agent a session of its own",
    )
