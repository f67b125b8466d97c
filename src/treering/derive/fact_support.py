"""Whether the cited messages support a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.terms import terms
from treering.lazy import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

SUPPORT_MIN: Final = 0.5
"""The share of a statement's terms that must occur in the messages."""

_SPEAKER: Final = frozenset(terms("user person speaker they says said mentioned"))
"""Words that name the speaker."""
_DENIAL: Final = lazy_pattern(
    r"\b(?:not|no|never|none|nor|cannot|without|nothing|nobody)\b|n['\u2019]t\b"
)
_STOPPED: Final = lazy_pattern(r"\b(?:stop|stopped|quit|gave up|used to|avoid|hate|dislike)\b")
_NUMBER: Final = lazy_pattern(r"\d+")
_NAME: Final = lazy_pattern(r"(?<=[^.!?:] )[^\W\d_a-z][\w'-]*")
"""A capitalised word that does not begin a sentence."""


def is_supported(statement: str, said: Iterable[str]) -> bool:
    """Return whether ``said`` supports a statement: most of its words, all numbers and names.

    It may paraphrase, but it must not add a negation.
    """
    source = " ".join(said)
    wanted = set(terms(statement)) - _SPEAKER
    source_terms = set(terms(source))
    if not wanted or len(wanted & source_terms) < SUPPORT_MIN * len(wanted):
        return False
    if not set(_NUMBER.findall(statement)) <= set(_NUMBER.findall(source)):
        return False
    named = {term for name in _NAME.findall(statement) for term in terms(name)} - _SPEAKER
    if not named <= source_terms:
        return False
    if _DENIAL.search(statement.lower()) is None:
        return True
    lowered = source.lower()
    return _DENIAL.search(lowered) is not None or _STOPPED.search(lowered) is not None
