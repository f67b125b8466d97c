"""How runs begin: one at a time in a session, whichever process they belong to."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from treering.errors import RunActive

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.locks import Lock
    from treering.model.events import Header, NewEvent
    from treering.model.runs import OpenRun
    from treering.model.scopes import Scope
    from treering.spine.ports import Journal

    Append = Callable[..., list[Header]]
    """Records events; takes an ``expected_seq``."""

PAUSE_S: Final = 0.01
PAUSE_S_MAX: Final = 0.2
BEGINNING_S: Final = 5.0
"""How long one who only begins is waited for, also where nobody wants to wait for a run."""


def begin(
    journal: Journal,
    append: Append,
    close_gone: Callable[[OpenRun], object],
    *,
    place: tuple[Scope, str],
    make: Callable[[], list[NewEvent] | None],
    wait_s: float,
    lock: Lock,
    is_left: Callable[[OpenRun], bool],
) -> list[Header] | None:
    """Record what ``make`` gives, as the beginning of a session's only run.

    ``make`` is asked when nothing else runs, and may say None: then nothing begins. Raises
    RunActive if another run is still under way after ``wait_s``.
    """
    started, pause_s = time.monotonic(), PAUSE_S
    name = f"beginning in {place[1]} of {place[0]}"
    while True:
        # One at a time looks and begins: among threads by the lock, among processes by the hold.
        letting_go = _LettingGo(journal, name)
        with lock.guard, lock, letting_go, letting_go:
            held = journal.hold(name)
            active = active_run(journal, close_gone, *place, is_left=is_left) if held else None
            if held and active is None:
                events = make()
                return None if events is None else append(events)
        patience_s = wait_s if held else max(wait_s, BEGINNING_S)
        left_s = patience_s - (time.monotonic() - started)
        if left_s <= 0:
            raise _busy(place[1], active)
        if held and _is_in_event_loop():
            raise _in_the_way(place[1])
        time.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 2, PAUSE_S_MAX)


class _LettingGo:
    """Lets go of a name at the end of a ``with``, held or not: entered twice, in any case."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name
        self._is_done = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if not self._is_done:
            self._journal.release(self._name)
            self._is_done = True


def active_run(
    journal: Journal,
    close_gone: Callable[[OpenRun], object],
    scope: Scope,
    session_id: str,
    *,
    is_left: Callable[[OpenRun], bool] = lambda _: False,
) -> OpenRun | None:
    """Return the run that a live process carries out in a session; close those of dead ones.

    So are those that came here in a copy while they were open, and those for which ``is_left``
    says that nobody can go on with them. Runs that nobody owns, such as imported ones, stand in
    nobody's way.
    """
    for run in journal.open_runs(scope, session_id):
        if run.owner is None:
            continue
        if (
            not journal.is_in_copy(run.owner)
            and not journal.is_gone(run.owner, run.seen_ms)
            and not is_left(run)
        ):
            return run
        close_gone(run)
    return None


def _is_in_event_loop() -> bool:
    """Whether to wait here would keep a whole event loop from going on."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _busy(session_id: str, active: OpenRun | None) -> RunActive:
    by = "another run that begins" if active is None else f"run {active.run_id}"
    return RunActive(
        f"session {session_id} is busy with {by}",
        hint="wait for it with wait_seconds=30, stop it with session.interrupt(),"
        " or give a sub-agent a session of its own",
    )


def _in_the_way(session_id: str) -> RunActive:
    return RunActive(
        f"session {session_id} is busy, and waiting here would stop the event loop",
        hint="begin the run in a thread: await asyncio.to_thread(run.start)",
    )
