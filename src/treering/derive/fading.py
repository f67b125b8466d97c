"""Fading: how much of a memory is left without use. Computed on demand, never stored."""

from __future__ import annotations

import math
from typing import Final

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
