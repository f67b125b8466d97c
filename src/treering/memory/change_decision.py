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
REASONS_SHOWN: Final = 3
REASONS: Final = {
    "it speaks of a change": (
        "now", "turned", "done", "clauses", "begins", "passed", "further", "deed", "known verb",
        "ended", "changed", "set", "begun", "renewed", "plain, now",
    ),
    "both are about the same": (
        "same subject", "both of the user", "one of the user", "subject said", "named person",
        "of the subject, near", "of a person, near", "subject, inner", "subject, topic",
    ),
    "it is about what the other names": (
        "subject is its object", "plain, its object", "its object, passed", "object",
        "passed, said", "known, object",
    ),
    "they share words": (
        "share of old", "share of new", "words shared", "all of rest said", "name shared",
    ),
    "one value takes the place of another": (
        "exchanged", "well exchanged", "name differs", "number differs", "same unit",
        "time differs", "predicates near",
    ),
    "they have one topic": (
        "one topic", "passed, topic", "now, topic", "past, topic", "user, topic", "known, topic",
        "inner",
    ),
    "good and bad have changed": (
        "turned good", "turned bad", "turned good, shared", "turned bad, shared",
    ),
    "what was planned was done": ("aim", "aim reached"),
}  # fmt: skip
"""What is shown of a decision, and the signs behind each reason."""
COMPARED_MAX: Final = 8
"""Nearest statements that are compared."""
NEAR_FROM: Final = 0.12
"""Statements with a lower cosine are not."""


class ChangeVerdict(NamedTuple):
    """Which earlier statement another changes, or may change."""

    key: str
    is_certain: bool
    signs: tuple[str, ...]
    """What counted most for it, of REASONS."""


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
        return ChangeVerdict(key, is_certain=total >= wanted, signs=_reasons(added))

    def _added(self, text: str, earlier: str) -> dict[str, float] | None:
        """Return what each sign adds to the sum."""
        signs = self._reader.signs(text, earlier)
        if signs is None:
            return None
        return {name: weight * signs[name] for name, weight in WEIGHTS.items()}


def _reasons(added: Mapping[str, float]) -> tuple[str, ...]:
    """Return what spoke for a change, the weightiest first."""
    sums = {reason: sum(added[name] for name in names) for reason, names in REASONS.items()}
    spoke = [reason for reason in sorted(sums, key=lambda each: -sums[each]) if sums[reason] > 0]
    return tuple(spoke[:REASONS_SHOWN])
