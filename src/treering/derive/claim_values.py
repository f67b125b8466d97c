"""Values of claims, compared: which says the same as another, more, less or something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from treering.derive.claim_attributes import embraces
from treering.derive.claim_words import base, lettered, normal, word_set, words
from treering.derive.claims import USER

if TYPE_CHECKING:
    from treering.derive.claims import Claim

Compared: TypeAlias = Literal["equal", "narrower", "wider", "other"]

EMPTY: Final = word_set(
    "i we my our user user's me is am are was were be been do does did has have had will would can"
    " could should not never no longer any more anymore now currently still also really actually"
    " always usually very much of to that this it in on at for and"
)
_UNSAID: Final = EMPTY | {"every", "each"}
"""On Sundays is every Sunday."""
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


def joined(text: str) -> str:
    """Return a text folded, with each phrase that has a name of one word as that."""
    folded = text.casefold()
    for phrase, word in _PHRASES:
        folded = folded.replace(phrase, word)
    return normal(folded)


def one_word(word: str) -> str:
    """Return the word that stands for all that mean the same."""
    plain = base(word)
    return _SYNONYMS.get(plain, plain)


def compared(one: Claim, other: Claim) -> Compared:
    """Compare the values of two claims: the narrower one says all of the other, and more."""
    new, old = one.value or "", other.value or ""
    if embraces(one.attribute, new, old):
        return "wider"
    if embraces(other.attribute, old, new):
        return "narrower"
    return _told(new, old)


def _told(new: str, old: str) -> Compared:
    """Compare two values by their words."""
    one, other = normal(new), normal(old)
    if one == other:
        return "equal"
    if not one or not other:
        return "narrower" if one else "wider"
    first = [one_word(word) for word in words(joined(lettered(new))) if word not in _UNSAID] or [
        one
    ]
    second = [one_word(word) for word in words(joined(lettered(old))) if word not in _UNSAID] or [
        other
    ]
    if sorted(first) == sorted(second):
        return "equal"
    if set(first) > set(second):
        return "narrower"
    return "wider" if set(first) < set(second) else "other"


def may_be_part(one: Claim, other: Claim) -> bool:
    """Return whether a longer value may be the shorter one told in full.

    Of the user it usually is; of the world "Ireland" and "Kingdom of Ireland" are two values, and
    only what follows a comma or stands in brackets is an addition.
    """
    new, old = one.value or "", other.value or ""
    if (
        one.subject == USER
        or embraces(one.attribute, new, old)
        or embraces(one.attribute, old, new)
    ):
        return True
    short, long = sorted((normal(new), normal(old)), key=len)
    return long.startswith((f"{short},", f"{short} ("))
