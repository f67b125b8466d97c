"""Whether a statement changes an earlier one, where no rule knows: a weighted sum of signs.

The weights are fitted by ``scripts/fit_changes.py``. The sum is the same every time.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.memory.change_features import ChangeReader
from treering.memory.change_weights import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.memory.alignment import Aligner

ONE_FROM: Final = -2.0
"""The sum from which the only earlier statement is changed."""
CROWD: Final = 0.5
"""How much more is needed for each factor of e in their number: among many, some fit by chance."""
DOUBT: Final = 1.0
"""How far below a sum is still too near to leave it at that: somebody should look."""
SIGNS_SHOWN: Final = 3
"""Signs that are told of a decision: those that added most."""
COMPARED_MAX: Final = 8
"""Nearest statements that are compared."""
NEAR_FROM: Final = 0.12
"""Statements with a lower cosine are not."""


class ChangeVerdict(NamedTuple):
    """Which earlier statement another changes, or may change."""

    key: str
    is_certain: bool
    signs: tuple[str, ...]
    """The signs that counted most for it."""


class ChangeJudge:
    """Decides which earlier statement another changes."""

    def __init__(self, aligner: Aligner) -> None:
        self._reader = ChangeReader(aligner)

    def speaks_of_change(self, text: str) -> bool:
        """Return whether a statement may change another at all; most do not."""
        return self._reader.change(text) is not None

    def changed(self, text: str, earlier: Mapping[str, str], *, known: int) -> ChangeVerdict | None:
        """Return the one of ``earlier`` that a statement fits best, if it changes or may change it.

        They are texts by key, found among ``known`` statements.
        """
        fitting = [
            (sum(added.values()), key, added)
            for key, old in earlier.items()
            if (added := self._added(text, old)) is not None
        ]
        if not fitting:
            return None
        total, key, added = max(fitting, key=lambda each: each[0])
        wanted = ONE_FROM + CROWD * log(max(known, 1))
        if total < wanted - DOUBT:
            return None
        most = sorted(added, key=lambda name: -added[name])[:SIGNS_SHOWN]
        return ChangeVerdict(key, is_certain=total >= wanted, signs=tuple(most))

    def _added(self, text: str, earlier: str) -> dict[str, float] | None:
        """Return what each sign adds to the sum."""
        signs = self._reader.signs(text, earlier)
        if signs is None:
            return None
        return {name: weight * signs[name] for name, weight in WEIGHTS.items()}
