"""Whether a statement changes an earlier one, where no rule knows: a weighted sum of signs.

The weights are fitted by ``scripts/fit_changes.py``. The sum is the same every time.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final

from treering.memory.change_features import ChangeReader
from treering.memory.change_weights import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.memory.alignment import Aligner

ONE_FROM: Final = -1.8
"""The sum from which the only earlier statement is changed."""
CROWD: Final = 0.5
"""How much more is needed for each factor of e in their number: among many, some fit by chance."""
COMPARED_MAX: Final = 8
"""Nearest statements that are compared."""
NEAR_FROM: Final = 0.12
"""Statements with a lower cosine are not."""


class ChangeJudge:
    """Decides which earlier statement another changes."""

    def __init__(self, aligner: Aligner) -> None:
        self._reader = ChangeReader(aligner)

    def speaks_of_change(self, text: str) -> bool:
        """Return whether a statement may change another at all; most do not."""
        return self._reader.change(text) is not None

    def changed(self, text: str, earlier: Mapping[str, str], *, known: int) -> str | None:
        """Return the key of the one of ``earlier`` that a statement fits best, if it changes that.

        They are texts by key, found among ``known`` statements.
        """
        fitting = [
            (total, key)
            for key, old in earlier.items()
            if (total := self._total(text, old)) is not None
        ]
        if not fitting:
            return None
        total, key = max(fitting, key=lambda each: each[0])
        return key if total >= ONE_FROM + CROWD * log(max(known, 1)) else None

    def _total(self, text: str, earlier: str) -> float | None:
        """Return the sum of what each sign adds."""
        signs = self._reader.signs(text, earlier)
        if signs is None:
            return None
        return sum(weight * signs[name] for name, weight in WEIGHTS.items())
