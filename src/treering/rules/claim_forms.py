"""Sentences in which a noun names the attribute: "the author of Emma is Jane Austen"."""

from __future__ import annotations

import re
from typing import Final

from treering.lazy import lazy_pattern
from treering.rules.claim_attributes import attribute_of
from treering.rules.claim_words import FINITE_VERBS, VERBS, normal, word_set

_COPULA: Final = lazy_pattern(r" (is|was|are|were) ")
_ASIDE: Final = lazy_pattern(r",| (?:who|which|that|because|if|when|but|and) ")
_NAME_OF: Final = lazy_pattern(
    r"(?:name of (?:the )?)?(?:current |present |new )?(?=\S)", re.IGNORECASE
)
_GOVERNMENT: Final = lazy_pattern(r"head of (?:the )?(?P<subject>.+) government", re.IGNORECASE)
_RELATIVE: Final = lazy_pattern(
    r"(?P<noun>[^\W\d_][^,]*?) (?P<how>where|that|which|who|in which|at which|for which|with which"
    r"|on which) (?P<rest>\S.*)"
)
_COMPOUND: Final = lazy_pattern(
    r"(?P<noun>(?:[a-z]+ )?(?:head of (?:state|government)|(?:place|date|city|country|year|cause)"
    r" of"
    r" (?:birth|death|origin|citizenship|foundation|residence|burial)|field of (?:work|study)"
    r"|language of work|type of music|line of work|(?:member|chief|head|chair|secretary) of staff"
    r"|board of directors|(?:country|place) of \w+))"
    r" (?:of|in|for) (?P<subject>\S.*)",
    re.IGNORECASE,
)
_OF: Final = lazy_pattern(
    r"(?P<noun>[^\W\d_][^,]*?) (?:of|for|in|on|at|behind) (?:the (?=[a-z]))?(?P<subject>\S.*)"
)
_OFFICES: Final = lazy_pattern(
    r"(?:vice |deputy |prime |foreign |first )?(?:president|minister|chancellor|king|queen|emperor"
    r"|empress|mayor|governor|ceo|cto|cfo|coo|pope|premier|speaker|chair\w*|director|secretary"
    r"|sultan|prince|princess|duke|head|leader|capital|official|monarch|general|minister \w+)\b",
    re.IGNORECASE,
)
_POSSESSED: Final = lazy_pattern(
    r"(?P<owner>.+?)'s? (?P<noun>[a-z][\w-]*(?: [a-z][\w-]*){0,4}?) (?:is|was|are|were)"
    r" (?P<value>\S.*)"
)
_LABEL: Final = lazy_pattern(r"(?P<noun>[^\W\d_][\w-]*(?: [\w-]+){0,2}): ?(?P<value>\S.*)")
_BACK: Final = lazy_pattern(
    r"the (?:current |new |present )?(?P<noun>[A-Za-z][\w -]*?) of (?P<subject>\S.*)", re.IGNORECASE
)
_CHARGE: Final = lazy_pattern(
    r"(?:in charge of|responsible for) (?:the |our )?(?P<subject>\S.*)", re.IGNORECASE
)
_DONE: Final = (
    r"(?:\w+ed|born|written|made|sung|built|known|given|held|led|run|won|taken) "
    r"(?:by|in|on|at|with|for|to|as|from) "
)
_PARTICIPLE: Final = lazy_pattern(_DONE)
_TITLED: Final = lazy_pattern(
    rf"(?P<name>[^\W_a-z].*?)(?= (?:is|was|are|were) (?:{_DONE}|an? [a-z]+ of |famous for )"
    r"| (?:plays|speaks|works|worked|died|lives) (?:the|in|for|at|as) )"
)
_SMALL: Final = word_set(
    "of the in to a an and on for by with at from von van de la du der di da del al or as vs & el"
    " le"
    " les y e"
)
_NO_NAMES: Final = word_set(
    "i we he she it they this that these those there user who now currently still also recently"
    " formerly previously nowadays already just"
)


def read_title(text: str) -> tuple[str, str] | None:
    """Return a title and what is said about it, if its capitals make it recognisable.

    Titles of books and songs are full of words that mean something elsewhere ("Never Let Me Go", "I
    Am Legend"); the statement begins after them.
    """
    match = _TITLED.match(text)
    if match is None:
        return None
    return (match["name"], text[match.end() + 1 :]) if is_title(match["name"]) else None


def is_title(name: str) -> bool:
    """Return whether a name is written as a title: every significant word capitalised."""
    parts = name.split(" ")
    if (len(parts) == 1 and parts[0].lower() in _NO_NAMES) or (
        len(parts) == 2 and parts[0] in {"My", "Our", "The"}
    ):
        return False
    return all(part[:1].isupper() or part in _SMALL or not part[:1].islower() for part in parts)


def read_noun_of(text: str) -> tuple[str | None, str, str, str | None] | None:
    """Split the text after "the" into subject, attribute and value, or return None.

    The subject is None if there is only a noun. The last part is all text before "is" if the value
    is a participle ("was founded by").
    """
    for copula in _copulas(text):
        left, value = text[: copula.start()], text[copula.end() :]
        done = normal(left) if _PARTICIPLE.match(value) else None
        divided = _divided(left)
        if divided is None:
            return None
        subject, attribute = divided
        return subject, attribute, value, done
    return None


def read_possessive(text: str) -> tuple[str, str, str] | None:
    """Return owner, attribute and value of "Ann's husband is Bob", or None."""
    match = _POSSESSED.fullmatch(text) if "'" in text else None
    if match is None:
        return None
    return match["owner"], attribute_of(match["noun"]), match["value"]


def read_label(text: str) -> tuple[str, str] | None:
    """Return noun and value of "Timezone: CET", or None."""
    match = _LABEL.fullmatch(text) if ":" in text else None
    return None if match is None else (match["noun"], match["value"])


def read_reversed(subject: str, verb: str, rest: str) -> tuple[str, str] | None:
    """Return subject and attribute of "Ann is the mayor of Ghent", whose value comes first."""
    if verb.lower() not in {"is", "was"} or not subject[:1].isupper():
        return None
    charge = _CHARGE.fullmatch(rest)
    if charge is not None:
        return charge["subject"], "be in charge of"
    match = _BACK.fullmatch(rest)
    if match is None or _ASIDE.search(rest) is not None:
        return None
    compound = _COMPOUND.fullmatch(rest[4:])
    if compound is not None:
        return compound["subject"], attribute_of(compound["noun"])
    return match["subject"], attribute_of(match["noun"])


def _copulas(text: str) -> list[re.Match[str]]:
    """Return the occurrences of "is", most likely first.

    A title may contain one ("The author of What is Life is …"), so the last counts, unless an aside
    comes before it.
    """
    copulas = list(_COPULA.finditer(text))
    while len(copulas) > 1 and (
        _ASIDE.search(text, copulas[-2].end(), copulas[-1].start() + 1) is not None
        or copulas[-1].end() >= len(text)
    ):
        copulas.pop()
    return copulas[::-1]


def _divided(left: str) -> tuple[str | None, str] | None:
    start = _NAME_OF.match(left)
    noun = left[start.end() :] if start is not None else left
    government = _GOVERNMENT.fullmatch(noun)
    if government is not None:
        return government["subject"], "head of government"
    compound = _COMPOUND.fullmatch(noun)
    if compound is not None:
        return compound["subject"], attribute_of(compound["noun"])
    if noun[:1].isupper() and not _OFFICES.match(noun):
        return None
    relative = _RELATIVE.fullmatch(noun)
    if relative is not None:
        return _related(relative)
    match = _OF.fullmatch(noun)
    if match is not None:
        return match["subject"], attribute_of(match["noun"])
    return None, attribute_of(noun)


def _related(match: re.Match[str]) -> tuple[str, str]:
    """Split "company that produced Emma" and "university where Ann was educated".

    An unknown verb stays with the subject: both together still name one slot.
    """
    parts = match["rest"].split(" ")
    noun, how = match["noun"], match["how"]
    if parts[0] in VERBS and len(parts) > 1:
        subject_at = next((at for at, part in enumerate(parts[1:], 1) if not _is_joint(part)), 1)
        verb = " ".join(parts[:subject_at])
        return " ".join(parts[subject_at:]), attribute_of(f"{noun} {how} {verb}")
    for at in range(1, len(parts)):
        if parts[at] in FINITE_VERBS:
            return " ".join(parts[:at]), attribute_of(f"{noun} {how} {' '.join(parts[at:])}")
    return match["rest"], attribute_of(f"{noun} {how}")


def _is_joint(word: str) -> bool:
    return word in VERBS or word in {"in", "by", "at", "for", "on", "to", "with", "the"}
