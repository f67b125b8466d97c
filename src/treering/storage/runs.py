"""States of runs: open from their first event to the one that ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from treering.errors import RunClosed
from treering.model.kinds import RUN_ENDS
from treering.model.scopes import Scope
from treering.model.views import OpenRun, owner_in
from treering.storage.leases import LeaseOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.records import Draft
    from treering.model.events import Header

Item = TypeVar("Item", bound="Header")

RUN_OPEN: Final = 0
RUN_ENDED: Final = 1
_STATES: Final = {"ended": RUN_ENDED, "failed": 2, "interrupted": 3}
FAILED_STATES: Final = frozenset({_STATES["failed"], _STATES["interrupted"]})
RUN_KINDS: Final = frozenset({"run.started", *RUN_ENDS})
OPEN_RUNS_MAX: Final = 10_000
"""Open runs that are listed: those with an owner first, then those of the oldest sessions."""
RUN_PAGE: Final = 1_000


def state_after(kind: str) -> int:
    """Return the state that an event of ``kind`` leaves its run in."""
    end = RUN_ENDS.get(kind)
    return RUN_OPEN if end is None else _STATES[end]


def open_run(
    scope: str, session_id: str, run_id: str, first_seq: int, start: str | None, seen_ms: int
) -> OpenRun:
    """Return an open run; ``start`` is the id of its start, if that is not a UUID."""
    owner = owner_in(start)
    return OpenRun(
        scope=Scope(scope),
        session_id=session_id,
        run_id=run_id,
        first_seq=first_seq,
        # Others may give ids that look alike.
        owner=owner if owner and LeaseOwner.parse(owner) else None,
        seen_ms=seen_ms,
    )


def events_of_run(
    read: Callable[..., list[Item]],
    bounds: Callable[[Scope, str, str], tuple[int, int]],
    scope: Scope,
    session_id: str,
    run_id: str,
) -> Iterator[Item]:
    """Return the events of a run in order, from pages of its session.

    ``bounds`` returns the first and the last seq of the run; without a run, the last is lower.
    """
    first, last = bounds(scope, session_id, run_id)
    after = first - 1
    while after < last and (page := read(scope, session_id, after_seq=after, limit=RUN_PAGE)):
        yield from (part for part in page if part.run_id == run_id and part.seq <= last)
        after = page[-1].seq


def check_run(draft: Draft, state: int | None) -> None:
    """Raise RunClosed if a run in ``state`` cannot take ``draft``; None is a run not seen yet.

    A run that counts its own events has been seen unless this is its first one.
    """
    if state is None and draft.least_run_seq > 1:
        raise RunClosed(f"run {draft.run_id} was erased", hint="start a new run")
    if state is not None and draft.kind == "run.started":
        raise RunClosed(
            f"run {draft.run_id} has started before", hint="give each attempt its own id"
        )
    if state:
        raise RunClosed(
            f"run {draft.run_id} has ended and takes no more events", hint="start a new run"
        )
