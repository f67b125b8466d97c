"""Endings: what a sentence says is over, alone or beside what holds now.

"I gave up Vim and use Zed" says that Vim is over and what is used. What is over ends every current
statement that names it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_words import (
    VERBS,
    expand_contractions,
    has_word_of,
    normalise_characters,
    word_set,
)

_WHO: Final = (
    r"(?:(?:I|We|we|(?:The )?[Uu]ser|[A-Z][a-z]+) )?(?:(?:have|has|had) )?"
    r"(?:(?:had to|finally|just|recently|also|decided to|already) )*"
)
_OWN: Final = r"(?:(?:my|our|the|her|his|their|a|an) )"
_WHEN: Final = (
    r"(?:,? (?:last|this|in|on|since|ago|after|because|yesterday|today|recently|for good|two|three"
    r"|a (?:week|month|year))\b.*)?"
)
_NAME: Final = r"[A-Z][\w&.'+#-]*(?: [A-Z&\d][\w&.'+#-]*)*"
_GIVEN_UP: Final = (
    r"(?:quit|Quit|gave up|Gave up|given up|[Dd]itched|[Aa]bandoned|[Cc]ancell?ed|cancel|call off"
    r"|[Cc]alled off|[Uu]nsubscribed from|[Uu]ninstalled|got rid of|parted ways with"
    r"|[Ss]tepped (?:down|back) (?:as|from)|took me off|[Dd]ropped out of|moved out of)"
)
_ENDED: Final = tuple(
    map(
        lazy_pattern,
        (
            rf"{_WHO}{_GIVEN_UP} {_OWN}?(?P<thing>[\w][\w&.'+# -]*?){_WHEN}",
            rf"{_WHO}(?:[Ss]topped|[Qq]uit) (?P<thing>\w+ing(?: [\w' -]+?)?){_WHEN}",
            rf"{_WHO}[Dd]ropped (?P<thing>{_NAME}){_WHEN}",
            (
                rf"{_WHO}(?:[Hh]anded in (?:my|her|his|their) notice at|[Rr]esigned from) {_OWN}?"
                rf"(?P<thing>[\w][\w&.' -]*?){_WHEN}"
            ),
            rf"(?:My doctor|They|The doctor) took (?:me|him|her) off (?P<thing>[\w -]+?){_WHEN}",
            rf".*\b(?:[Ii]s|am|are|was) (?:back|home) from {_OWN}?(?P<thing>[\w -]+?){_WHEN}",
            r"(?:[Mm]y|[Oo]ur) (?:old|former|previous) (?P<thing>[\w -]+?) (?:is|was) \w.*",
            (
                rf"{_OWN}?(?P<thing>[\w][\w&.' -]*?)(?<!not) (?:(?:was|is|has been|got|were) "
                rf"(?:cancell?ed|called off|dropped|discontinued)|fell through){_WHEN}"
            ),
        ),
    )
)
_GONE: Final = lazy_pattern(
    rf"(?:(?:My|Our) (?:[a-z]+ )?)?(?P<thing>{_NAME}) (?:(?:sadly|unfortunately) )?"
    rf"(?:passed away|died(?! in (?:the|[A-Z]))|is gone|stepped down|resigned|has left|left){_WHEN}"
)
_PARTED: Final = lazy_pattern(
    rf"(?P<thing>{_NAME}) and I (?:have )?(?:broke up|broken up|split up|fell out|got divorced"
    r"|divorced|separated|broke off (?:the|our) engagement|are no longer together|called it quits)"
    rf"{_WHEN}"
)
_SOUGHT: Final = lazy_pattern(
    rf"{_WHO}(?:[Ff]ound|[Gg]ot|[Ll]anded|[Rr]ented|[Hh]ired|[Bb]ought) (?:an?|our|my|the)"
    r" (?:new )?(?P<thing>[a-z]+(?: [a-z]+)?)(?: (?:at|in|with|for|from|near|on) .*)?"
)
"""What was looked for, until now."""
_RETIRED: Final = lazy_pattern(
    r"(?P<thing>I|We|[Uu]ser|(?:My|Our|my|our) [a-z]+|[A-Z][a-z]+) (?:has |have )?(?:just"
    rf" |recently )?retired{_WHEN}"
)
_MIND: Final = lazy_pattern(r"(?:I|[Ww]e) (?:have )?changed (?:my|our) minds?")
_SHIFTED: Final = lazy_pattern(
    r"(?P<thing>(?:My|Our|The|Her|His|Their) [\w' -]+?) (?:is|are) (?:moving|changing)"
    r"|(?:I|We) (?:have )?(?:renewed|replaced|changed|updated|extended|switched|upgraded)"
    r" (?P<own>(?:my|our|the) [\w' -]+|[a-z ]+s)"
)
_DENIED: Final = lazy_pattern(
    r"(?:I|[Ww]e|[A-Z][a-z]+) .*\b(?:no longer|not)\b.*\bany ?more|"
    r"(?:I|[Ww]e|[A-Z][a-z]+) (?:am |are |is )?no longer .+|.+ not .+ any ?more"
)
_JOINT: Final = lazy_pattern(
    r"\s*(?:;|:|, (?:so|and|but)(?: now)?|,| and(?: now)?| for(?= an? [A-Z]))\s+(?=\S)"
)
_SPEAKER: Final = lazy_pattern(r"(?P<who>I|[Ww]e|[A-Z][a-z]+) ")
_IT: Final = lazy_pattern(
    r"(?:(?:from|since|starting) [\w ]+? )?(?:now )?(?:it|they) (?P<rest>[a-z]+ .+)"
)
_ENDINGS: Final = (
    ("job", _RETIRED), ("tie", _PARTED), ("person", _GONE), ("goal", _SOUGHT),
)  # fmt: skip
_NEEDED: Final = word_set(
    "retired broke broken split fell divorced separated together called passed died gone stepped"
    " resigned left found got landed rented hired bought quit gave given ditched abandoned"
    " cancelled canceled cancel call unsubscribed uninstalled parted took dropped moved stopped"
    " handed back home old former previous discontinued"
)
"""Words of which every ending has one; most sentences have none."""
_GOALS: Final = word_set(
    "look looking save saving wait waiting want need search searching hope hoping apply applying"
)
_NEAR_PARTNER: Final = word_set(
    "wife husband partner girlfriend boyfriend friend fiance fiancé fiancee fiancée engaged marry"
    " dating spouse relationship roommate"
)
_PAST: Final = word_set(
    "was were went ate drank took bought wrote made led ran met got began grew kept rode swam"
    " taught became chose woke held won sold gave came used did had saw left read paid"
)
_STATES: Final = word_set("based married engaged employed enrolled located situated subscribed")
"""Participles that say what somebody is, not what they did."""
_OBJECT_NEEDED: Final = word_set("drinking eating using taking going playing watching reading")


class EndedThing(NamedTuple):
    """What a sentence says is over."""

    text: str
    """As written."""
    kind: str
    """A ``thing``, a ``person`` who has died or left, a ``tie`` between two people, the ``job`` of
    the person named, or a ``goal`` that was reached."""


class PartedSentence(NamedTuple):
    """A sentence of an ending, and what it says holds now."""

    ending: str
    rest: str


@lru_cache(maxsize=1_024)
def ended_thing(text: str) -> EndedThing | None:
    """Return what a sentence says is over; None for any other sentence."""
    text = _plain(text)
    if not has_word_of(text, _NEEDED):
        return None
    for kind, pattern in _ENDINGS:
        match = pattern.fullmatch(text)
        if match is not None and (kind == "job" or match["thing"] not in {"I", "We", "User"}):
            return EndedThing(match["thing"], kind)
    for pattern in _ENDED:
        match = pattern.fullmatch(text)
        if match is not None and match["thing"].lower() not in _OBJECT_NEEDED:
            return EndedThing(match["thing"], "thing")
    return None


@lru_cache(maxsize=1_024)
def parted_sentence(text: str) -> PartedSentence | None:
    """Split a sentence that says first what is over and then what holds; None for any other."""
    whole = _plain(text)
    for joint in _JOINT.finditer(whole):
        before, after = whole[: joint.start()], whole[joint.end() :]
        shifted = _SHIFTED.fullmatch(before)
        if not (shifted or _is_ending(before)):
            continue
        rest = _with_subject(before, after, None if shifted is None else _shifted(shifted))
        return None if rest is None else PartedSentence(before, rest)
    return None


def names_tie(words: set[str]) -> bool:
    """Return whether words are about somebody close."""
    return not _NEAR_PARTNER.isdisjoint(word.removesuffix("s").removesuffix("'") for word in words)


def names_goal(words: set[str]) -> bool:
    """Return whether words are about what somebody looks for or wants."""
    return not _GOALS.isdisjoint(words)


def is_standing(text: str) -> bool:
    """Return whether a statement is about the present, not about what somebody once did."""
    if text.partition(" ")[0].lower() in _STATES:
        return True
    for word in expand_contractions(text).split()[:8]:
        plain = word.strip(".,;:!").lower()
        if plain in _PAST:
            return False
        if plain in VERBS:
            return VERBS[plain] in {plain, "be", "have", "do"} or plain.endswith(("s", "ing"))
    return True


def _plain(text: str) -> str:
    return expand_contractions(normalise_characters(text)).strip().rstrip(".!")


def _is_ending(clause: str) -> bool:
    return (
        ended_thing(clause) is not None
        or _MIND.fullmatch(clause) is not None
        or _DENIED.fullmatch(clause) is not None
        or re.fullmatch(
            rf"{_WHO}(?:[Ss]old|[Tt]raded in|[Gg]ave away|[Ll]eft) {_OWN}?[\w&.' -]+"
            rf"|{_WHO}(?:changed|switched) [a-z]+s?",
            clause,
        )
        is not None
    )


def _shifted(match: re.Match[str]) -> str:
    """Return what a clause says has changed, as the subject of the next."""
    thing: str = match["thing"] or match["own"]
    if thing.split(" ", 1)[0].lower() not in {"my", "our", "the", "her", "his", "their"}:
        thing = f"my {thing.removesuffix('s')}"
    return thing[:1].upper() + thing[1:]


def _with_subject(before: str, after: str, shifted: str | None) -> str | None:
    """Return what follows an ending as a sentence of its own."""
    moved = _IT.fullmatch(after)
    if moved is not None:
        return None if shifted is None else f"{shifted} {moved['rest']}"
    first = after.split(" ", 1)[0]
    speaker = _SPEAKER.match(before)
    if first in VERBS and not first[:1].isupper() and speaker is not None:
        return f"{speaker['who']} {after}"
    return after[:1].upper() + after[1:]
