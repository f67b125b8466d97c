"""Fading: facts that nobody used for long are archived, and come back when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.fading import ARCHIVED_BELOW, UNUSED_DAYS, is_unused, strength
from treering.memory.events import changed
from treering.model.memories import FadeReceipt

if TYPE_CHECKING:
    from treering.derive.memory_state import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory

CHUNK: Final = 1_000


def fade(
    scope_memory: ScopeMemory, recorder: Recorder, *, now_ms: int, dry_run: bool
) -> FadeReceipt:
    """Archive what has faded. Hold the lock, and refresh before."""
    current = [row for row in scope_memory.fold.state.facts.values() if row.state == "current"]
    due = [row for row in current if has_faded(row, now_ms)]
    if not dry_run:
        for at in range(0, len(due), CHUNK):
            part = due[at : at + CHUNK]
            tellings = scope_memory.fold.tellings([row.position for row in part])
            events = []
            for row in part:
                telling = tellings.get(row.position)
                if telling is not None:
                    events.append(
                        changed(
                            scope_memory.scope,
                            "memory.archived",
                            row.id,
                            session=telling.session_id,
                            user=telling.user_id,
                            reason="unused",
                        )
                    )
            recorder.engine.append(events)
        scope_memory.refresh()
    return FadeReceipt(
        scope=scope_memory.scope,
        dry_run=dry_run,
        now_ms=now_ms,
        looked_at=len(current),
        archived=[row.id for row in due],
        below=ARCHIVED_BELOW,
        unused_days=UNUSED_DAYS,
    )


def has_faded(row: FactRow, now_ms: int) -> bool:
    """Whether so little is left of a fact that it is to be archived."""
    return is_unused(row.accessed_ms, now_ms) and (
        strength(
            importance=row.importance / 10,
            uses=row.uses,
            accessed_ms=row.accessed_ms,
            now_ms=now_ms,
        )
        < ARCHIVED_BELOW
    )
