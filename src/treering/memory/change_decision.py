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
from itertools import islice
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.errors import Unavailable
from treering.lazy import lazy_pattern
from treering.memory.change_features import (
    CHARACTERS_MAX,
    ChangeReader,
    is_english,
    is_surely_english,
    leaves_alone,
    numbered_things,
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
CROWD: Final = 0.35
"""How much more is needed for each factor of e in their number: among many, some fit by chance."""
DOUBT: Final = 1.0
"""How far below what is needed is still too near to leave it at that: somebody should look."""
AGAINST: Final = -1.15
MODEL_AGAINST: Final = -0.5
"""The log odds below which what a rule ends is in doubt: of signs and network, with a model."""
SUREST: Final = 3.0
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
"""How near others have to be if a statement has no word of change."""
SILENT_COMPARED_MAX: Final = 2
"""Nearest statements that the small network reads without a word of change."""
FEW: Final = 200
"""The number of statements up to which the small network reads those without a word of change.

Among more, some fit by chance, and most statements have none.
"""
NOTHING_SAID: Final = -2.0
"""What the signs come to where they say nothing of two statements."""


class Shares(NamedTuple):
    """How much the log odds of the signs and of what has read both statements count together."""

    signs: float
    read: float
    added: float
    silent: float
    """How much less it is without a word of change: most statements that have none end nothing."""

    def of(self, signs: float | None, read: float, *, is_silent: bool) -> float:
        """Return their log odds together."""
        said = NOTHING_SAID if signs is None else signs
        return self.signs * said + self.read * read + self.added - self.silent * is_silent


WITH_NETWORK: Final = Shares(0.4, read=0.7, added=0.35, silent=0.5)
WITH_MODEL: Final = Shares(0.48, read=0.6, added=0.7, silent=1.0)
"""Chosen by pairs that what reads was not fitted on.

For the network they are ``HELD`` of ``scripts/fit_small_change_model.py``, for the model those of
update_everyday.txt.
"""
SIGNS_FROM: Final = -1.5
"""The sum of the signs from which the small network is asked.

With less they speak against a change: "I sold my piano" leaves "My cousin plays chess".
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

    def near_from(self, text: str, *, known: int) -> float | None:
        """Return the cosine from which a statement is compared with others; None for never.

        There are ``known`` others.
        """
        is_silent = not speaks_of_change(text)
        is_left = is_silent and self._model is None and known > FEW
        if is_left or not _is_read(text) or _is_ruled(text):
            return None
        return SILENT_NEAR_FROM if is_silent else NEAR_FROM

    def changed(self, text: str, earlier: Mapping[str, str], *, known: int) -> ChangeVerdict | None:
        """Return the one of ``earlier`` that a statement fits best, if it changes or may change it.

        They are texts by key, the nearest first, found among ``known`` statements.
        """
        if not _is_read(text) or _is_ruled(text):
            return None
        is_silent = not speaks_of_change(text)
        most = SILENT_COMPARED_MAX if is_silent and self._model is None else COMPARED_MAX
        keys = [
            key
            for key, old in islice(earlier.items(), most)
            if _is_read(old)
            and not leaves_alone(text, old)
            and (not is_silent or self._may_speak_of(old, text))
        ]
        if self._model is not None:
            keys = keys[:MODEL_COMPARED_MAX]
        if not keys:
            return None
        wanted = ONE_FROM + CROWD * log(max(known, 1))
        olds = [earlier[key] for key in keys]
        odds, by = self._odds(text, olds, least=wanted - DOUBT, is_silent=is_silent)
        decided = [(one, key) for one, key in zip(odds, keys, strict=True) if one is not None]
        if not decided:
            return None
        best, key = max(decided)
        if best < wanted - DOUBT:
            return None
        signs = (*by, *self._reasons(text, earlier[key]))[:REASONS_SHOWN]
        return ChangeVerdict(key, is_certain=best >= wanted, signs=signs)

    def _may_speak_of(self, earlier: str, text: str) -> bool:
        """Return whether a statement without a word of change may be about what another is."""
        is_known = self._model is not None or is_surely_english(f"{text} {earlier}")
        # What is said of one thing leaves others alone.
        one, other = numbered_things(text), numbered_things(earlier)
        is_other = bool(one and other and one != other)
        return is_known and not is_other and self._reader.share_subject(text, earlier)

    def disputes(self, text: str, earlier: str) -> bool:
        """Whether what two statements say speaks against a change that a rule takes them for."""
        if not (_is_read(text) and _is_read(earlier)) or _is_ruled(text):
            return False
        [odds], by = self._odds(text, [earlier])
        return odds is not None and odds < (MODEL_AGAINST if by else AGAINST)

    def _odds(
        self,
        text: str,
        earlier: Sequence[str],
        *,
        least: float | None = None,
        is_silent: bool = False,
    ) -> tuple[list[float | None], tuple[str, ...]]:
        """Return the log odds that a statement changes each earlier one, and who says so.

        They are None where nothing is said, and where they cannot reach ``least``.
        """
        signs = [
            None if (added := self._added(text, old)) is None else sum(added.values())
            for old in earlier
        ]
        if (read := self._read_by_model(text, earlier)) is not None:
            both = zip(signs, read, strict=True)
            return [WITH_MODEL.of(*one, is_silent=is_silent) for one in both], (MODEL_REASON,)
        if self._network is None:
            return signs, ()
        highest = [WITH_NETWORK.of(one, SUREST, is_silent=is_silent) for one in signs]
        asked = [
            at
            for at, one in enumerate(signs)
            if least is None or (highest[at] >= least and (one is None or one >= SIGNS_FROM))
        ]
        read = self._network.change_scores(_REASON.sub("", text), [earlier[at] for at in asked])
        found: list[float | None] = [None] * len(earlier)
        for at, one in zip(asked, read, strict=True):
            found[at] = WITH_NETWORK.of(signs[at], min(one, SUREST), is_silent=is_silent)
        return found, ()

    def _read_by_model(self, text: str, earlier: Sequence[str]) -> Sequence[float] | None:
        """Return what a model says; None without one."""
        if self._model is None or not earlier:
            return None
        try:
            return self._model.change_scores(text, earlier)
        except Unavailable:
            return None

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
    return 0 < len(text) <= CHARACTERS_MAX and is_english(text)


def _is_ruled(text: str) -> bool:
    """Return whether rules know better what a statement ends: who has died is still a sister."""
    ended = ended_thing(text)
    return ended is not None and ended.kind != "thing"
