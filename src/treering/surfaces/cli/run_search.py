"""One run, found by its id or a short id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.errors import NotFound
from treering.ledger.runs import is_dated, unknown_run
from treering.model.queries import PAGE_ITEMS_MAX
from treering.surfaces.cli.short_ids import ShortIds, for_people

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

RUNS_MAX: Final = 100_000
"""How many runs are searched for a short id: the latest ones."""
SHORT_RUNS_MAX: Final = 5_000
"""Runs that are compared to shorten ids, which takes a third of a second."""


def find_run_id(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    runs_max: int = RUNS_MAX,
) -> str:
    """Return the id of the run with this id or short id. Raise NotFound unless there is one."""
    if is_dated(text):
        try:
            return ledger.run(scope, text, session_id=session_id).run_id
        except NotFound:
            pass  # It may still be the beginning of an id.
    ids, is_cut = _latest_ids(ledger, scope, session_id, runs_max=runs_max, until=text)
    run_id = ShortIds(ids).find(text, "run")
    if run_id is None:
        raise unknown_run(scope, text, session_id, is_cut=is_cut)
    return run_id


def short_runs(ledger: Ledger, scope: Scope, *, runs_max: int = SHORT_RUNS_MAX) -> ShortIds:
    """Return the ids of the runs of a scope, to show people; none if there are too many."""

    def ids() -> list[str]:
        latest, is_cut = _latest_ids(ledger, scope, None, runs_max=runs_max)
        return [] if is_cut else latest

    return for_people(ids)


def _latest_ids(
    ledger: Ledger, scope: Scope, session_id: str | None, *, runs_max: int, until: str | None = None
) -> tuple[list[str], bool]:
    """Return the ids of the latest runs, up to ``until``, and whether there are earlier ones."""
    ids: list[str] = []
    cursor = None
    while len(ids) < runs_max:
        first = min(runs_max - len(ids), PAGE_ITEMS_MAX)
        page = ledger.run_ids(scope, session_id=session_id, limit=first, after=cursor)
        if until in page.items:
            return [until or ""], False
        ids += page.items
        cursor = page.next_cursor
        if cursor is None:
            return ids, False
    return ids, True
