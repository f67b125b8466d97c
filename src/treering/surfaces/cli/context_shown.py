"""What a model was shown in a turn or a run, found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.errors import NotFound
from treering.spine.showing import ContextRecord
from treering.surfaces.cli.run_search import find_run_id

if TYPE_CHECKING:
    from treering.ledger.contexts import Shown
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session


def find_shown(
    ledger: Ledger, session: Session, *, turn: int | None, run_id: str | None
) -> list[Shown]:
    """Return every time that a model was shown something in a turn or a run, or the last one.

    The beginning of a run's id will do. Each says who contributed. Raises NotFound if nothing is
    known.
    """
    if run_id is None:
        found = session.shown(turn=turn)
        where = f"session {session.session_id}" if turn is None else f"turn {turn}"
    else:
        found = session.shown(run_id=run_id)
        if not found:
            # A fork has runs of other sessions in its past.
            whole = find_run_id(ledger, session.scope, run_id)
            found = session.shown(run_id=whole)
        where = f"run {run_id}"
    if not found:
        raise NotFound(
            f"what the model was shown in {where} is not recorded",
            hint="turn.context() records it; --max-tokens shows what it would be shown now",
        )
    return [_with_contributors(ledger, session, one) for one in found]


def _with_contributors(ledger: Ledger, session: Session, shown: Shown) -> Shown:
    """Return what was shown with who added to it, as the event of its assembly tells."""
    payload = ledger.event(session.scope, shown.event_id).payload
    asked = msgspec.convert(payload, ContextRecord, strict=False)
    context = msgspec.structs.replace(shown.context, contributed=asked.contributed)
    return msgspec.structs.replace(shown, context=context)
