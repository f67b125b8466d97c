"""A budget for damaged logs, so that reading one takes time in proportion to its size.

Whole values are always read. After a torn value, the rest of the line is searched for records, and
following lines are tried as one value; in a log full of torn values, this would be repeated for
each. So each new byte earns a part of a step, and each unsuccessful step costs one. Without steps
left, a torn value is skipped to the end of its line.
"""

from __future__ import annotations

from typing import Final

STEPS_MAX: Final = 100_000
"""The most steps that are saved up, and the initial number: a tenth of a second."""
BYTES_A_STEP: Final = 8
STEPS_A_LINE: Final = 4
"""The cost of reading a line again."""


class Patience:
    """The steps left for a log that is read from ``offset`` on."""

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
        """Spend unsuccessful steps."""
        self.left -= steps
