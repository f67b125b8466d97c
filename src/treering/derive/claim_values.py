"""Compares the values of claims: equal, narrower, wider or different."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from treering.derive.claim_attributes import is_less_specific
from treering.derive.claim_words import base, mark_letters, normal, word_set, words
from treering.derive.claims import USER

if TYPE_CHECKING:
    from treering.derive.claims import Claim

ValueComparison: TypeAlias = Literal["equal", "narrower", "wider", "other"]

EMPTY: Final = word_set(
    "i we my our user user's me is am are was were be been do does did has have had will would can"
    " could should not never no longer any more anymore now currently still also really actually"
    " always usually very much of to that this it in on at for and"
)
_IGNORED: Final = EMPTY | {"every", "each"}
""""On Sundays" equals "every Sunday"."""
_SYNONYMS: Final = {
    "love": "like", "enjoy": "like", "adore": "like", "prefer": "like", "favourite": "like",
    "favorite": "like", "reside": "live", "js": "javascript", "ts": "typescript",
    "postgres": "postgresql", "nyc": "new-york-city", "color": "colour", "big": "large",
    "kid": "child", "children": "child", "automobile": "car", "job": "work",
    "vscode": "vs-code", "k8s": "kubernetes", "py": "python",
}  # fmt: skip
_PHRASES: Final = (
    ("new york city", "nyc"),
    ("vs code", "vscode"),
    ("visual studio code", "vscode"),
)


def join_phrases(text: str) -> str:
    """Return a text in lower case, with each known phrase as one word."""
    folded = text.casefold()
    for phrase, word in _PHRASES:
        folded = folded.replace(phrase, word)
    return normal(folded)


def canonical_word(word: str) -> str:
    """Return the canonical word for its synonyms."""
    plain = base(word)
    return _SYNONYMS.get(plain, plain)


def compare_values(one: Claim, other: Claim) -> ValueComparison:
    """Compare the values of two claims; the narrower one says all of the other, and more."""
    new, old = one.value or "", other.value or ""
    if is_less_specific(one.attribute, new, old):
        return "wider"
    if is_less_specific(other.attribute, old, new):
        return "narrower"
    return _compare_words(new, old)


def _compare_words(new: str, old: str) -> ValueComparison:
    """Compare two values by their words."""
    one, other = normal(new), normal(old)
    if one == other:
        return "equal"
    if not one or not other:
        return "narrower" if one else "wider"
    first = [
        canonical_word(word)
        for word in words(join_phrases(mark_letters(new)))
        if word not in _IGNORED
    ] or [one]
    second = [
        canonical_word(word)
        for word in words(join_phrases(mark_letters(old)))
        if word not in _IGNORED
    ] or [other]
    if sorted(first) == sorted(second):
        return "equal"
    if set(first) > set(second):
        return "narrower"
    return "wider" if set(first) < set(second) else "other"


def may_be_part(one: Claim, other: Claim) -> bool:
    """Return whether a longer value may be the shorter one in full.

    About the user it usually is. About the world "Ireland" and "Kingdom of Ireland" are two values;
    only text after a comma or in brackets is an addition.
    """
    new, old = one.value or "", other.value or ""
    if (
        one.subject == USER
        or is_less_specific(one.attribute, new, old)
        or is_less_specific(one.attribute, old, new)
    ):
        return True
    short, long = sorted((normal(new), normal(old)), key=len)
    return long.startswith((f"{short},", f"{short} ("))
