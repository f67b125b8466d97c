"""What no longer holds, taken out of what episodes tell."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.episodes import Episode

SHARED_WITH_EVIDENCE: Final = 0.5
"""A sentence that cites an event of an outdated fact tells it, if it shares half of its words."""
SHARED: Final = 0.8
"""Any other sentence of the same person tells it, if it shares so many."""

TEXTS_HELD: Final = 8_192
TERMS_MIN: Final = 4
"""So many words are to be left of a summary for it to say something."""


class Outdated(msgspec.Struct, frozen=True):
    """A fact that no longer holds."""

    text: str
    evidence: frozenset[str]


def without_outdated(episode: Episode, outdated: Sequence[Outdated]) -> str:
    """Return the summary of an episode without the sentences that tell what no longer holds.

    Nothing, if that is all it tells.
    """
    if not outdated:
        return episode.summary
    known = [(one, _words(one.text)) for one in outdated]
    kept = [
        sentence.text
        for sentence in episode.sentences
        if not any(_tells(sentence.text, sentence.event_ids, one, words) for one, words in known)
    ]
    if len(kept) < len(episode.sentences) and len(_words(" ".join(kept))) < TERMS_MIN:
        # How it ended says nothing without what it was about.
        return ""
    return " ".join(kept)


def _tells(text: str, event_ids: Sequence[str], outdated: Outdated, words: frozenset[str]) -> bool:
    if not words:
        return False
    shared = len(words & _words(text)) / len(words)
    cites = not outdated.evidence.isdisjoint(event_ids)
    return shared >= (SHARED_WITH_EVIDENCE if cites else SHARED)


@lru_cache(maxsize=TEXTS_HELD)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))
