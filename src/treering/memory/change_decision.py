"""Whether a statement changes an earlier one, where no rule knows: a weighted sum of signs.

The weights are fitted by ``scripts/fit_changes.py``. The sum is the same every time, and its
strongest parts are the reasons.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

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
REASONS_MAX: Final = 3


class ChangeDecision(NamedTuple):
    """The earlier statement that a statement changes, and why."""

    key: str
    reasons: tuple[str, ...]


class ChangeJudge:
    """Decides which earlier statement another changes."""

    def __init__(self, aligner: Aligner) -> None:
        self._reader = ChangeReader(aligner)

    def speaks_of_change(self, text: str) -> bool:
        """Return whether a statement may change another at all; most do not."""
        return self._reader.change(text) is not None

    def changed(
        self, text: str, earlier: Mapping[str, str], *, known: int
    ) -> ChangeDecision | None:
        """Return the one of ``earlier`` that a statement fits best, if it changes that.

        They are texts by key, found among ``known`` statements.
        """
        fitting = [
            (sum(parts.values()), key, parts)
            for key, old in earlier.items()
            if (parts := self._parts(text, old)) is not None
        ]
        if not fitting:
            return None
        total, key, parts = max(fitting, key=lambda each: each[0])
        if total < ONE_FROM + CROWD * log(max(known, 1)):
            return None
        strongest = sorted(parts, key=lambda name: -parts[name])[:REASONS_MAX]
        return ChangeDecision(key, tuple(name for name in strongest if parts[name] > 0))

    def _parts(self, text: str, earlier: str) -> dict[str, float] | None:
        """Return what each sign adds to the sum."""
        signs = self._reader.signs(text, earlier)
        if signs is None:
            return None
        return {name: weight * signs[name] for name, weight in WEIGHTS.items()}
