"""Everything about one session: what it is, its last turns, what is in force, its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.model.sessions import SessionOutline
from treering.model.views import Counts, Goal, MemoryRecord, Schedule, TurnView, Usage
from treering.surfaces.cli.sessions.list import masked

if TYPE_CHECKING:
    from treering.ledger.families import Family
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.surfaces.cli.masking import Mask


class NumberedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, and its number in the session, from 1 on."""

    number: int
    turn: TurnView


class SessionSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One session, with its last turns."""

    scope: str
    session: SessionOutline
    counts: Counts
    """With what it shares with the session that it was forked from; so are all that follow."""
    turns: list[NumberedTurn]
    turns_left_out: int
    """Earlier ones."""
    goals: list[Goal]
    schedules: list[Schedule]
    memories: list[MemoryRecord]
    usage: Usage
    forks: list[SessionOutline]
    """Sessions that were forked from it, not from its forks."""
    masked: int
    """How many of its texts held a secret, which is masked here."""


def sheet_of(ledger: Ledger, session: Session, *, last: int, mask: Mask) -> SessionSheet:
    """Read a session, with its ``last`` turns."""
    counts = session.summary()
    turns = list(session.turns(last=last))
    before = max(counts.turns - len(turns), 0)
    outline = masked(session.outline(), mask)
    forks = _forks(ledger.family(session.scope, session.session_id), session.session_id)
    return SessionSheet(
        scope=session.scope,
        session=outline,
        counts=counts,
        turns=[
            NumberedTurn(
                number=number,
                turn=msgspec.structs.replace(turn, prompt=mask.text(turn.prompt) or ""),
            )
            for number, turn in enumerate(turns, start=before + 1)
        ],
        turns_left_out=before,
        goals=[
            msgspec.structs.replace(
                goal,
                description=mask.text(goal.description) or "",
                progress=mask.value(goal.progress),
            )
            for goal in session.goals()
        ],
        schedules=[
            msgspec.structs.replace(
                schedule, prompt=mask.text(schedule.prompt), spec=mask.value(schedule.spec)
            )
            for schedule in session.schedules()
        ],
        memories=session.memories(),
        usage=session.usage(),
        forks=[masked(fork, mask) for fork in forks],
        masked=mask.masked,
    )


def _forks(family: Family, session_id: str) -> list[SessionOutline]:
    """Return the forks of one session of a family."""
    waiting = [family]
    while waiting:
        node = waiting.pop()
        if node.session.session_id == session_id:
            return [fork.session for fork in node.forks]
        waiting += node.forks
    return []
