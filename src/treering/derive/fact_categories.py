"""The categories of facts."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from treering.derive.claim_times import is_schedule
from treering.derive.claims import USER, read_claim
from treering.lazy import lazy_pattern

Category: TypeAlias = Literal[
    "preference", "personal", "work", "habit", "relationship", "technical", "schedule"
]

KIN: Final = lazy_pattern(
    r"\b(?:wife|husband|partner|spouse|fianc[eé]e?|girlfriend|boyfriend|son|daughter|child|children"
    r"|kids?|sons|daughters|twins?|baby|mother|father|mom|mum|dad|parents?|brothers?|sisters?"
    r"|siblings?|grand(?:mother|father|ma|pa|son|daughter)|uncle|aunt|cousin|nephew|niece|friends?"
    r"|roommate|flatmate|neighbou?r|dogs?|cats?|pets?|puppy|kitten|horse|parrot|hamster|rabbit)\b",
    re.IGNORECASE,
)
"""People and animals in somebody's life."""
_WORK: Final = lazy_pattern(
    r"\b(?:job|title|role|boss|manager|company|employer|team|colleagues?|office|client|salary"
    r"|career|degree|phd|university|occupation|profession)\b",
    re.IGNORECASE,
)
_TECHNICAL: Final = lazy_pattern(
    r"\b(?:database|db|editor|ide|shell|terminal|os|operating system|laptop|computer|stack"
    r"|framework|language|linter|formatter|package manager|branch|ci|cd|repo(?:sitory)?|codebase"
    r"|api|server|port|version|docker|python|javascript|typescript|rust|java|linux|macos|windows"
    r"|keyboard|browser|cloud|test runner|build tool|project|backend|frontend|tests?|deploy\w*"
    r"|cluster|service|commit\w*|merge|npm|pnpm|yarn|git|code|vim|neovim|emacs|code review)\b",
    re.IGNORECASE,
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
_HABIT: Final = lazy_pattern(
    r"\b(?:always|usually|never|often|typically|normally|every|daily|weekly)\b", re.IGNORECASE
)


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
    if KIN.search(text) is not None:
        return "relationship"
    if _STANDING.match(text) is not None:
        return "preference"
    if _TECHNICAL.search(text) is not None:
        return "technical"
    if _WORK.search(text) is not None:
        return "work"
    if _HABIT.search(text) is not None:
        return "habit"
    return "work" if attribute.startswith("work") else "personal"
