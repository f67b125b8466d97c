"""Whether a statement changes an earlier one, where no rule knows.

A weighted sum of signs and phrases says how likely it is, with weights fitted by
``scripts/fit_changes.py``. Where a model reads both statements, its odds and the sum count
together. Both know English only, and both dispute what a rule takes for a change by mistake.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.errors import Unavailable
from treering.memory.change_features import (
    CHARACTERS_MAX,
    ChangeReader,
    is_english,
    phrases_of,
    speaks_of_change,
)
from treering.rules.claim_endings import ended_thing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.memory.alignment import Aligner
    from treering.memory.ports import ChangeModel

FITTED: Final = "change_weights.txt"
ONE_FROM: Final = 0.75
"""The log odds from which the only earlier statement is changed."""
CROWD: Final = 0.3
"""How much more is needed for each factor of e in their number: among many, some fit by chance."""
SILENT: Final = 1.0
"""How much more is needed without a word of change: most statements that have none end nothing."""
DOUBT: Final = 1.0
"""How far below what is needed is still too near to leave it at that: somebody should look."""
AGAINST: Final = -1.25
MODEL_AGAINST: Final = -0.5
"""The log odds below which even what a rule takes for a change is in doubt: signs, and both."""
OF_MODEL: Final = 0.6
OF_SIGNS: Final = 0.48
OF_BOTH: Final = 0.8
"""How much the log odds of a model and those of the signs count together, and what is added.

Fitted on ``CHECKED`` of ``scripts/fit_changes.py``, when neither was fitted on these sets.
"""
PHRASES: Final = "it speaks of a change"
REASONS: Final = {
    PHRASES: (),
    "both are about the same": (
        "same subject", "both of the user", "one of the user", "subject said", "named person",
        "of the subject, near", "of a person, near", "subject, inner",
    ),
    "it is about what the other names": (
        "subject is its object", "object", "inner", "met", "kept", "object inner",
    ),
    "they share words": (
        "share of old", "share of new", "words shared", "all of rest said", "name shared",
    ),
    "one value takes the place of another": (
        "exchanged", "well exchanged", "name differs", "number differs", "same unit",
        "time differs", "predicates near",
    ),
    "good and bad have changed": (
        "turned good", "turned bad", "turned good, shared", "turned bad, shared",
    ),
    "what was planned was done": ("aim", "aim reached"),
}  # fmt: skip
"""What is shown of a decision, and the signs behind each reason; phrases are behind the first."""
REASONS_SHOWN: Final = 3
MODEL_REASON: Final = "a model that read both takes it for a change"
DISPUTED: Final = ("a rule takes it for a change, and what both say speaks against it",)
COMPARED_MAX: Final = 8
"""Nearest statements that are compared."""
MODEL_COMPARED_MAX: Final = 4
"""Nearest statements that the model reads."""
NEAR_FROM: Final = 0.12
"""Statements with a lower cosine are not compared."""
SILENT_NEAR_FROM: Final = 0.35
"""How near others have to be for the model if a statement has no word of change."""


class ChangeVerdict(NamedTuple):
    """Which earlier statement another changes, or may change."""

    key: str
    is_certain: bool
    signs: tuple[str, ...]
    """What counted most for it, of REASONS."""


class ChangeJudge:
    """Decides which earlier statement another changes."""

    def __init__(self, aligner: Aligner, model: ChangeModel | None = None) -> None:
        self._reader = ChangeReader(aligner)
        self._model = model

    def near_from(self, text: str) -> float | None:
        """Return the cosine from which others are compared with a statement; None for never."""
        is_silent = not speaks_of_change(text)
        if (is_silent and self._model is None) or not _is_read(text) or _is_ruled(text):
            return None
        return SILENT_NEAR_FROM if is_silent else NEAR_FROM

    def changed(self, text: str, earlier: Mapping[str, str], *, known: int) -> ChangeVerdict | None:
        """Return the one of ``earlier`` that a statement fits best, if it changes or may change it.

        They are texts by key, the nearest first, found among ``known`` statements.
        """
        if not _is_read(text) or _is_ruled(text):
            return None
        is_silent = not speaks_of_change(text)
        keys = [
            key
            for key, old in earlier.items()
            # What is said of one thing without a word of change leaves others alone.
            if _is_read(old) and (not is_silent or self._reader.share_subject(text, old))
        ]
        keys = keys[: COMPARED_MAX if self._model is None else MODEL_COMPARED_MAX]
        odds, by = self._odds(text, [earlier[key] for key in keys])
        decided = [(one, key) for one, key in zip(odds, keys, strict=True) if one is not None]
        if not decided:
            return None
        best, key = max(decided)
        wanted = ONE_FROM + CROWD * log(max(known, 1)) + SILENT * is_silent
        if best < wanted - DOUBT:
            return None
        signs = (*by, *self._reasons(text, earlier[key]))[:REASONS_SHOWN]
        return ChangeVerdict(key, is_certain=best >= wanted, signs=signs)

    def disputes(self, text: str, earlier: str) -> bool:
        """Whether what two statements say speaks against a change that a rule takes them for."""
        if not (_is_read(text) and _is_read(earlier)) or _is_ruled(text):
            return False
        [odds], by = self._odds(text, [earlier])
        return odds is not None and odds < (MODEL_AGAINST if by else AGAINST)

    def _odds(
        self, text: str, earlier: Sequence[str]
    ) -> tuple[list[float | None], tuple[str, ...]]:
        """Return the log odds that a statement changes each earlier one, and who says so.

        They are None where neither signs nor a model say anything.
        """
        sums = [
            None if (added := self._added(text, old)) is None else sum(added.values())
            for old in earlier
        ]
        if self._model is None or not earlier:
            return sums, ()
        try:
            scores = self._model.change_scores(text, earlier)
        except Unavailable:
            return sums, ()
        both = zip(scores, sums, strict=True)
        odds = [OF_MODEL * one + OF_SIGNS * (other or 0.0) + OF_BOTH for one, other in both]
        return [*odds], (MODEL_REASON,)

    def _added(self, text: str, earlier: str) -> dict[str, float] | None:
        """Return what each sign, and all phrases together, add to the log odds."""
        signs, weights = self._reader.signs(text, earlier), fitted_weights()
        if signs is None:
            return None
        said = sum(weights.get(phrase, 0.0) for phrase in phrases_of(text, earlier))
        return {PHRASES: said, **{name: weights[name] * value for name, value in signs.items()}}

    def _reasons(self, text: str, earlier: str) -> list[str]:
        """Return what spoke for a change, the weightiest first."""
        added = self._added(text, earlier) or {}
        sums = {
            reason: sum(added.get(name, 0.0) for name in names or (PHRASES,))
            for reason, names in REASONS.items()
        }
        spoke = [reason for reason in sums if sums[reason] > 0]
        return sorted(spoke, key=lambda each: -sums[each])


@cache
def fitted_weights() -> dict[str, float]:
    """Return how much each sign and each phrase counts."""
    lines = files(__package__).joinpath(FITTED).read_text(encoding="utf-8").splitlines()
    split = (line.split(" ", 1) for line in lines)
    return {name: float(weight) for weight, name in split}


def _is_read(text: str) -> bool:
    return len(text) <= CHARACTERS_MAX and is_english(text)


def _is_ruled(text: str) -> bool:
    """Return whether rules know better what a statement ends: who has died is still a sister."""
    ended = ended_thing(text)
    return ended is not None and ended.kind != "thing"
