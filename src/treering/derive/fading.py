"""Fading: what is left of a memory that nobody uses. Computed when asked, never written down."""

from __future__ import annotations

import math
from typing import Final

DAY_MS: Final = 86_400_000
CONSTANT_DAYS: Final = 90
"""The time constant: unused for so long, a memory keeps 1/e of what it had."""
UNUSED_DAYS: Final = 30
"""Nothing fades before it was unused for so long."""
ARCHIVED_BELOW: Final = 0.1
USES_MAX: Final = 20
"""More uses keep a memory no longer."""
RECENT_DAYS: Final = 30
"""The time constant of recency, in ranking."""


def strength(*, importance: float, uses: int, accessed_ms: int, now_ms: int) -> float:
    """Return the factor by which a memory has faded; ``importance`` is from 0 to 1."""
    days = max(now_ms - accessed_ms, 0) / DAY_MS
    return math.exp(-days / CONSTANT_DAYS) * (1 + importance + min(uses / USES_MAX, 1)) / 3


def is_unused(accessed_ms: int, now_ms: int) -> bool:
    """Whether a memory has been unused for so long that it fades."""
    return now_ms - accessed_ms > UNUSED_DAYS * DAY_MS


def faded(
    confidence: float, *, importance: float, uses: int, accessed_ms: int, now_ms: int
) -> float:
    """Return what is left of the confidence in a memory."""
    if not is_unused(accessed_ms, now_ms):
        return confidence
    return confidence * strength(
        importance=importance, uses=uses, accessed_ms=accessed_ms, now_ms=now_ms
    )
