"""Fading: how much of a memory is left without use, computed on demand and never stored.

Facts unused for a long time are archived; using one restores it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from treering.memory.events import fact_change_event
from treering.model.memories import FadeReceipt

if TYPE_CHECKING:
    from treering.derive.fact_rows import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory

DAY_MS: Final = 86_400_000
CONSTANT_DAYS: Final = 90
"""The time constant: after this time without use a memory keeps 1/e of its strength."""
UNUSED_DAYS: Final = 30
"""A memory used within this time does not fade."""
ARCHIVED_BELOW: Final = 0.1
USES_MAX: Final = 20
"""Further uses do not strengthen a memory."""
RECENT_DAYS: Final = 30
"""The time constant of recency in ranking."""


def strength(*, importance: float, uses: int, accessed_ms: int, now_ms: int) -> float:
    """Return the strength of a memory, from 0 to 1; ``importance`` is from 0 to 1."""
    days = max(now_ms - accessed_ms, 0) / DAY_MS
    return math.exp(-days / CONSTANT_DAYS) * (1 + importance + min(uses / USES_MAX, 1)) / 3


def is_unused(accessed_ms: int, now_ms: int) -> bool:
    """Return whether a memory has been unused long enough to fade."""
    return now_ms - accessed_ms > UNUSED_DAYS * DAY_MS


def faded(
    confidence: float, *, importance: float, uses: int, accessed_ms: int, now_ms: int
) -> float:
    """Return the confidence that is left in a memory."""
    if not is_unused(accessed_ms, now_ms):
        return confidence
    return confidence * strength(
        importance=importance, uses=uses, accessed_ms=accessed_ms, now_ms=now_ms
    )


CHUNK: Final = 1_000


def fade(
    scope_memory: ScopeMemory, recorder: Recorder, *, now_ms: int, dry_run: bool
) -> FadeReceipt:
    """Archive faded facts.

    The caller holds the lock and has refreshed the memory.
    """
    current = [row for row in scope_memory.fold.state.facts.values() if row.state == "current"]
    due = [row for row in current if has_faded(row, now_ms)]
    if not dry_run:
        for at in range(0, len(due), CHUNK):
            part = due[at : at + CHUNK]
            stating_events = scope_memory.fold.events_at([row.position for row in part])
            events = []
            for row in part:
                stated = stating_events.get(row.position)
                if stated is not None:
                    events.append(
                        fact_change_event(
                            scope_memory.scope,
                            "memory.archived",
                            row.id,
                            session=stated.session_id,
                            user=stated.user_id,
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
    """Return whether a fact has faded so much that it should be archived."""
    return is_unused(row.accessed_ms, now_ms) and (
        strength(
            importance=row.importance / 10,
            uses=row.uses,
            accessed_ms=row.accessed_ms,
            now_ms=now_ms,
        )
        < ARCHIVED_BELOW
    )
