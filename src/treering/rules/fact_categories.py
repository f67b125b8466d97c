"""The categories of facts."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from treering.lazy import lazy_pattern
from treering.rules.claim_times import is_schedule
from treering.rules.claim_words import word_set
from treering.rules.claims import USER, read_claim

Category: TypeAlias = Literal[
    "preference", "personal", "work", "habit", "relationship", "technical", "schedule"
]

_KIN: Final = word_set(
    "wife husband partner spouse fiance fiancé fiancee fiancée girlfriend boyfriend son daughter"
    " child children kid kids sons daughters twin twins baby mother father mom mum dad parent"
    " parents brother brothers sister sisters sibling siblings grandmother grandfather grandma"
    " grandpa grandson granddaughter uncle aunt cousin nephew niece friend friends roommate"
    " flatmate neighbor neighbour dog dogs cat cats pet pets puppy kitten horse parrot hamster"
    " rabbit"
)
"""People and animals in somebody's life."""
_WORK: Final = word_set(
    "job title role boss manager company employer team colleague colleagues office client salary"
    " career degree phd university occupation profession"
)
_TECHNICAL: Final = word_set(
    "database db editor ide shell terminal os laptop computer stack framework language linter"
    " formatter branch ci cd repo repository codebase api server port version docker python"
    " javascript typescript rust java linux macos windows keyboard browser cloud project backend"
    " frontend test tests cluster service merge npm pnpm yarn git code vim neovim emacs"
)
_TECHNICAL_STEMS: Final = ("deploy", "commit")
_TECHNICAL_PHRASES: Final = lazy_pattern(
    r"\b(?:operating system|package manager|build tool)\b", re.IGNORECASE
)
_BY_ATTRIBUTE: Final[dict[str, Category]] = {
    "spouse": "relationship", "employer": "work", "occupation": "work", "education": "work",
    "like": "preference", "prefer": "preference", "diet": "preference", "name": "personal",
    "residence": "personal", "age": "personal", "date of birth": "personal",
    "place of birth": "personal", "origin": "personal", "email": "personal", "phone": "personal",
    "timezone": "personal", "address": "personal", "citizenship": "personal",
    "speak": "personal", "use": "technical", "editor": "technical", "database": "technical",
}  # fmt: skip
_STANDING: Final = lazy_pattern(r"(?:always|never|from now on|wants?|prefers?) ", re.IGNORECASE)
_HABIT: Final = word_set("always usually never often typically normally every daily weekly")
_WORD: Final = lazy_pattern(r"\w+")


def category_of(text: str) -> Category:
    """Return the category of a statement."""
    claim = read_claim(text)
    attribute = claim.attribute or ""
    if attribute.startswith(("prefer ", "favourite ")):
        return "preference"
    if attribute.startswith("time of ") or is_schedule(text):
        return "schedule"
    category = _BY_ATTRIBUTE.get(attribute)
    if category is not None and claim.subject == USER:
        return category
    if attribute.startswith(("version of ", "use for ")):
        return "technical"
    words = _WORD.findall(text.lower())
    if not _KIN.isdisjoint(words):
        return "relationship"
    if _STANDING.match(text) is not None:
        return "preference"
    if _is_technical(text, words):
        return "technical"
    if not _WORK.isdisjoint(words):
        return "work"
    if not _HABIT.isdisjoint(words):
        return "habit"
    return "work" if attribute.startswith("work") else "personal"


def names_kin(text: str) -> bool:
    """Return whether a text names people or animals in somebody's life."""
    return not _KIN.isdisjoint(_WORD.findall(text.lower()))


def _is_technical(text: str, words: list[str]) -> bool:
    return (
        not _TECHNICAL.isdisjoint(words)
        or any(word.startswith(_TECHNICAL_STEMS) for word in words)
        or _TECHNICAL_PHRASES.search(text) is not None
    )
