"""Patience: how much of a log may be looked at in vain, so that none takes longer than its size.

What is whole is read however long it takes. What is torn is searched for records after the tear,
and lines that belong together are tried as one; a log of nothing but tears would have that done
again at each of them. So each byte that is new earns a part of a step, and a step in vain costs
one. Where none are left, a tear goes to the end of its line.
"""

from __future__ import annotations

from typing import Final

STEPS_MAX: Final = 100_000
"""Steps that are saved up, and that there are to begin with: a tenth of a second's."""
BYTES_A_STEP: Final = 8
STEPS_A_LINE: Final = 4
"""What it costs to take a line again."""


class Patience:
    """Steps that are left for a log that is read from ``offset`` on."""

    def __init__(self, offset: int = 0) -> None:
        self.left = STEPS_MAX
        self._reached = offset

    def renew(self, offset: int, end: int) -> None:
        """Earn by a line from ``offset`` to ``end``, and all before it, unless it is known."""
        earned = (end - self._reached) // BYTES_A_STEP
        if earned > 0:
            self._reached += earned * BYTES_A_STEP
            most = max(STEPS_MAX, (end - offset) // BYTES_A_STEP)
            self.left = min(self.left + earned, most)

    def spend(self, steps: int) -> None:
        """Note steps that led to nothing."""
        self.left -= steps
