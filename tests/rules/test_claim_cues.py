"""Cues within a sentence."""

from __future__ import annotations

import re
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import rounds
from treering.rules import claim_cues
from treering.rules.claim_cues import extract_cues

WITHIN: Final = (
    "_GROWN", "_PLANNED", "_REASON", "_CHANGED", "_NOT_BUT", "_FORMER", "_CEASED", "_USED_TO",
    "_DENIED", "_CAPITAL_NOT", "_ABLE", "_AGAIN", "_ADVERBS",
)  # fmt: skip
PATTERNS: Final = [getattr(claim_cues, name) for name in WITHIN]
WORDS: Final = sorted(
    {word for pattern in PATTERNS for word in re.findall(r"[A-Za-z]{2,}", pattern.pattern)}
)
OTHERS: Final = [word for word in WORDS if word.lower() not in claim_cues._CUES]
"""Words of cues that alone are none."""


@settings(max_examples=rounds(100, times=30))
@given(
    st.lists(st.sampled_from([*OTHERS, "Ann", "tea", "I", "is", "more"]), max_size=8),
    st.sampled_from([" ", ", ", "; "]),
)
def test_without_a_word_of_a_cue_no_cue_is_found(words: list[str], between: str) -> None:
    sentence = between.join(words)

    assert [pattern.pattern for pattern in PATTERNS if pattern.search(sentence)] == []


def test_every_cue_is_found_by_its_word() -> None:
    for sentence, text, negated in [
        ("Ann does not eat nuts", "Ann eat nuts", True),
        ("Ann no longer eats nuts", "Ann eats nuts", True),
        ("Ann currently eats nuts", "Ann eats nuts", False),
        ("Ann eats nuts these days", "Ann eats nuts", False),
        ("Ann eats nuts because the cook likes them", "Ann eats nuts", False),
        ("Ann has learned to like nuts", "Ann like nuts", False),
        ("Ann eats nuts", "Ann eats nuts", False),
    ]:
        found = extract_cues(sentence)

        assert (found.text, found.negated) == (text, negated)
