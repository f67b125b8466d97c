"""Whether a statement changes an earlier one, where no rule knows.

A weighted sum of signs and phrases says how likely it is, with weights fitted by
``scripts/fit_changes.py``. A model reads both statements where there is one, and a small network
where there is none; their odds and the sum count together. All know English only, and they
dispute what a rule takes for a change by mistake.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.errors import Unavailable
from treering.lazy import lazy_pattern
from treering.memory.change_features import (
    CHARACTERS_MAX,
    ChangeReader,
    is_english,
    phrases_of,
    speaks_of_change,
)
from treering.memory.ports import ChangeScorer
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
NETWORK_AGAINST: Final = -2.0
"""The log odds below which what a rule ends is in doubt: of signs, with a model, the network."""
SUREST: Final = 4.5
"""The highest log odds of the small network that count. It is asked only where it matters."""
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


class Shares(NamedTuple):
    """How much the log odds of each count together, and what is added."""

    signs: float
    network: float
    added: float
    model: float = 0.0


WITH_NETWORK: Final = Shares(0.64, network=0.57, added=-0.6)
WITH_MODEL: Final = Shares(0.48, network=0.0, added=0.8, model=0.6)
"""Fitted on ``CHECKED`` of ``scripts/fit_changes.py``, when nothing was fitted on these sets.

For the network it would be best to add 0.4, but a change that is missed does less harm than one
that is none. Beside a model it is not asked: it was fitted on statements about one thing, and has
an opinion on those about different things, too.
"""
SIGNS_FROM: Final = -1.0
"""The sum of the signs from which the small network is asked.

With less they speak against a change: "I switched from Slack to Teams" leaves "Ben uses Slack".
"""
_REASON: Final = lazy_pattern(r"(?<=\w),? because\b.*", re.IGNORECASE | re.DOTALL)
"""Why something was done says nothing about what it changes."""


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
        embedder = aligner.embedder
        self._network = embedder if isinstance(embedder, ChangeScorer) else None
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
        wanted = ONE_FROM + CROWD * log(max(known, 1)) + SILENT * is_silent
        odds, by = self._odds(text, [earlier[key] for key in keys], least=wanted - DOUBT)
        decided = [(one, key) for one, key in zip(odds, keys, strict=True) if one is not None]
        if not decided:
            return None
        best, key = max(decided)
        if best < wanted - DOUBT:
            return None
        signs = (*by, *self._reasons(text, earlier[key]))[:REASONS_SHOWN]
        return ChangeVerdict(key, is_certain=best >= wanted, signs=signs)

    def disputes(self, text: str, earlier: str) -> bool:
        """Whether what two statements say speaks against a change that a rule takes them for."""
        if not (_is_read(text) and _is_read(earlier)) or _is_ruled(text):
            return False
        [odds], by = self._odds(text, [earlier], least=None)
        if by or odds is None or odds < AGAINST:
            return odds is not None and odds < (MODEL_AGAINST if by else AGAINST)
        [odds], _ = self._odds(text, [earlier], least=NETWORK_AGAINST)
        return odds is not None and odds < NETWORK_AGAINST

    def _odds(
        self, text: str, earlier: Sequence[str], *, least: float | None
    ) -> tuple[list[float | None], tuple[str, ...]]:
        """Return the log odds that a statement changes each earlier one, and who says so.

        They are None where nothing is said, and any below ``least`` where they cannot reach it;
        without ``least`` the small network is not asked.
        """
        signs = [
            None if (added := self._added(text, old)) is None else sum(added.values())
            for old in earlier
        ]
        read = self._read_by_model(text, earlier)
        if read is None and (self._network is None or least is None):
            return signs, ()
        shares = WITH_NETWORK if read is None else WITH_MODEL
        odds = [
            None
            if one is None and read is None
            else shares.signs * (one or 0.0) + shares.model * other + shares.added
            for one, other in zip(signs, read or [0.0] * len(earlier), strict=True)
        ]
        if least is None or read is not None:
            return odds, (MODEL_REASON,)
        missing = least - shares.network * SUREST
        asked = {
            at: one
            for at, (one, total) in enumerate(zip(odds, signs, strict=True))
            if one is not None and total is not None and total >= SIGNS_FROM and one >= missing
        }
        scores = self._read_by_network(text, [earlier[at] for at in asked])
        for (at, one), score in zip(asked.items(), scores, strict=True):
            odds[at] = one + shares.network * score
        return odds, ()

    def _read_by_model(self, text: str, earlier: Sequence[str]) -> Sequence[float] | None:
        """Return what a model says; None without one."""
        if self._model is None or not earlier:
            return None
        try:
            return self._model.change_scores(text, earlier)
        except Unavailable:
            return None

    def _read_by_network(self, text: str, earlier: Sequence[str]) -> Sequence[float]:
        """Return what the small network says; nothing speaks for or against it without one."""
        if self._network is None:
            return [0.0] * len(earlier)
        scores = self._network.change_scores(_REASON.sub("", text), earlier)
        return [min(one, SUREST) for one in scores]

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
