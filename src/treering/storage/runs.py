"""States of runs: open from their first event to the one that ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.errors import RunClosed
from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from treering.ledger.records import Draft

RUN_OPEN: Final = 0
_STATES: Final = {"ended": 1, "failed": 2, "interrupted": 3}
RUN_KINDS: Final = frozenset({"run.started", *RUN_ENDS})


def state_after(kind: str) -> int:
    """Return the state that an event of ``kind`` leaves its run in."""
    end = RUN_ENDS.get(kind)
    return RUN_OPEN if end is None else _STATES[end]


def check_run(draft: Draft, state: int | None) -> None:
    """Raise RunClosed if a run in ``state`` cannot take ``draft``; None is a run not seen yet."""
    if state is not None and draft.kind == "run.started":
        raise RunClosed(
            f"run {draft.run_id} has started before", hint="give each attempt its own id"
        )
    if state:
        raise RunClosed(
            f"run {draft.run_id} has ended and takes no more events", hint="start a new run"
        )
