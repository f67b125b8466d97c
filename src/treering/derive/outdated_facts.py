"""Removes outdated facts from the summaries of episodes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.episodes import Episode

SHARED_WITH_EVIDENCE: Final = 0.5
"""A sentence that cites evidence of an outdated fact repeats it if it shares half of its words."""
SHARED: Final = 0.8
"""Any other sentence repeats it if it shares this part of its words."""

TEXTS_HELD: Final = 8_192
TERMS_MIN: Final = 4
"""Fewer words of a summary say nothing."""


class Outdated(msgspec.Struct, frozen=True):
    """A fact that no longer holds."""

    text: str
    evidence: frozenset[str]


def without_outdated(episode: Episode, outdated: Sequence[Outdated]) -> str:
    """Return the summary of an episode without sentences that repeat outdated facts.

    Empty if nothing else is left.
    """
    if not outdated:
        return episode.summary
    outdated_words = [(one, _words(one.text)) for one in outdated]
    sentences = [
        sentence.text
        for sentence in episode.sentences
        if not any(
            _tells(sentence.text, sentence.event_ids, one, words) for one, words in outdated_words
        )
    ]
    if len(sentences) < len(episode.sentences) and len(_words(" ".join(sentences))) < TERMS_MIN:
        # The ending alone says nothing without its subject.
        return ""
    return " ".join(sentences)


def _tells(text: str, event_ids: Sequence[str], outdated: Outdated, words: frozenset[str]) -> bool:
    if not words:
        return False
    shared = len(words & _words(text)) / len(words)
    cites = not outdated.evidence.isdisjoint(event_ids)
    return shared >= (SHARED_WITH_EVIDENCE if cites else SHARED)


@lru_cache(maxsize=TEXTS_HELD)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))
