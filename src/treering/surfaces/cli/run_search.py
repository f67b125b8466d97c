"""One run, found by its id or a short id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.errors import NotFound
from treering.model.fields import TIME_MS_MAX
from treering.surfaces.cli.run_outlines import PAGES_MAX, Starts
from treering.surfaces.cli.short_ids import ShortIds, for_people

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.events import Header
    from treering.model.scopes import Scope

SHORT_PAGES_MAX: Final = 10
"""Pages of runs that are compared to shorten ids: 5,000 runs, a third of a second."""

_DATED: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""An id that begins with the milliseconds of its making: a UUID of version 7."""
_EARLIER_MS: Final = 60_000
_LATER_MS: Final = 600_000
"""How long after its id was made a run may have started: it may have waited for its turn."""


def find_run(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    pages_max: int = PAGES_MAX,
) -> Header:
    """Return the start of the run with this id or short id. Raise NotFound unless there is one."""
    dated = _find_dated(ledger, scope, text, session_id)
    if dated is not None:
        return dated
    starts = Starts(ledger, scope, session_id=session_id, pages_max=pages_max)
    found: dict[str, Header] = {}
    for started, _ in starts.after():
        run_id = started.run_id or ""
        if run_id == text:
            return started
        found.setdefault(run_id, started)
    whole = ShortIds(found).find(text, "run")
    if whole is None:
        raise _unknown(scope, text, session_id, is_cut=starts.next_cursor is not None)
    return found[whole]


def short_runs(ledger: Ledger, scope: Scope, *, pages_max: int = SHORT_PAGES_MAX) -> ShortIds:
    """Return the ids of the runs of a scope, to show people; none if there are too many."""

    def ids() -> list[str]:
        starts = Starts(ledger, scope, pages_max=pages_max)
        found = [started.run_id or "" for started, _ in starts.after()]
        return [] if starts.next_cursor else found

    return for_people(ids)


def _find_dated(ledger: Ledger, scope: Scope, text: str, session_id: str | None) -> Header | None:
    """Return the start of a run whose id is a UUID of version 7, read around its time; or None."""
    dated = _DATED.fullmatch(text)
    if dated is None:
        return None
    at_ms = int(dated[1] + dated[2], 16)
    if at_ms > TIME_MS_MAX:
        return None
    starts = Starts(
        ledger,
        scope,
        session_id=session_id,
        since_ms=max(1, at_ms - _EARLIER_MS),
        until_ms=min(at_ms + _LATER_MS, TIME_MS_MAX),
    )
    return next((started for started, _ in starts.after() if started.run_id == text), None)


def _unknown(scope: Scope, text: str, session_id: str | None, *, is_cut: bool) -> NotFound:
    of = f"session {session_id} of scope {scope}" if session_id else f"scope {scope}"
    if is_cut:
        return NotFound(
            f"no run {text} among the latest of {of}; earlier ones were not searched",
            hint="name its session with --session, or find it with treering trace list --until",
        )
    return NotFound(
        f"no run {text} in {of}",
        hint=f"treering trace list --scope {scope} shows the runs of the scope",
    )
