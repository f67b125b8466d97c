"""Whether a statement changes an earlier one, where no rule knows.

A model that reads both decides, where there is one for facts; it knows English only, and disputes
what a rule takes for a change by mistake. Otherwise a weighted sum of signs decides, with weights
fitted by ``scripts/fit_changes.py``.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.errors import Unavailable
from treering.memory.change_features import CHARACTERS_MAX, ChangeReader, is_english
from treering.memory.change_weights import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.memory.alignment import Aligner
    from treering.memory.ports import ChangeModel

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
MODEL_FROM: Final = 0.75
"""The log odds of the model from which the only earlier statement is changed."""
MODEL_SILENT: Final = 1.25
"""How much more is needed without a word of change: most statements that have none end nothing."""
MODEL_CROWD: Final = 0.3
MODEL_DOUBT: Final = 1.0
MODEL_AGAINST: Final = -2.5
"""The log odds of the model below which even what a rule takes for a change is in doubt."""
MODEL_COMPARED_MAX: Final = 4
"""Nearest statements that the model reads."""
SILENT_NEAR_FROM: Final = 0.35
"""How near others have to be for the model if a statement has no word of change."""
MODEL_REASON: Final = "a model that read both takes it for a change"
DISPUTED: Final = ("a rule takes it for a change, and a model that read both does not",)
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

    def __init__(self, aligner: Aligner, model: ChangeModel | None = None) -> None:
        self._reader = ChangeReader(aligner)
        self._model = model

    def near_from(self, text: str) -> float | None:
        """Return the cosine from which others are compared with a statement; None for never."""
        if self._reader.change(text) is not None:
            return NEAR_FROM
        return SILENT_NEAR_FROM if self._reads(text) else None

    def changed(self, text: str, earlier: Mapping[str, str], *, known: int) -> ChangeVerdict | None:
        """Return the one of ``earlier`` that a statement fits best, if it changes or may change it.

        They are texts by key, the nearest first, found among ``known`` statements.
        """
        factors = log(max(known, 1))
        if self._model is None or not self._reads(text):
            return self._by_signs(text, earlier, ONE_FROM + CROWD * factors)
        is_silent = self._reader.is_silent(text)
        wanted = MODEL_FROM + MODEL_CROWD * factors + MODEL_SILENT * is_silent
        read = {
            key: old
            for key, old in earlier.items()
            # What is said of one thing without a word of change leaves others alone.
            if is_english(old) and (not is_silent or self._reader.share_subject(text, old))
        }
        try:
            return self._by_model(self._model, text, read, wanted)
        except Unavailable:
            return self._by_signs(text, earlier, ONE_FROM + CROWD * factors)

    def disputes(self, text: str, earlier: str) -> bool:
        """Whether the model is sure that a statement leaves an earlier one alone."""
        if self._model is None or not (self._reads(text) and is_english(earlier)):
            return False
        try:
            [score] = self._model.change_scores(text, [earlier])
        except Unavailable:
            return False
        return score < MODEL_AGAINST

    def _reads(self, text: str) -> bool:
        return self._model is not None and len(text) <= CHARACTERS_MAX and is_english(text)

    def _by_model(
        self, model: ChangeModel, text: str, earlier: Mapping[str, str], wanted: float
    ) -> ChangeVerdict | None:
        keys = list(earlier)[:MODEL_COMPARED_MAX]
        if not keys:
            return None
        scores = model.change_scores(text, [earlier[key] for key in keys])
        score, key = max(zip(scores, keys, strict=True))
        if score < wanted - MODEL_DOUBT:
            return None
        added = self._added(text, earlier[key])
        signs = (MODEL_REASON, *(_reasons(added) if added is not None else ()))
        return ChangeVerdict(key, is_certain=score >= wanted, signs=signs[:REASONS_SHOWN])

    def _by_signs(
        self, text: str, earlier: Mapping[str, str], wanted: float
    ) -> ChangeVerdict | None:
        fitting = [
            (sum(added.values()), key, added)
            for key, old in earlier.items()
            if (added := self._added(text, old)) is not None
        ]
        if not fitting:
            return None
        total, key, added = max(fitting, key=lambda each: each[0])
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
