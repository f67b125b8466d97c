"""What somebody says has changed, ended or holds at present, as statements of facts.

Only what a later statement can change again is taken here: a place, an amount, a time, a role.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_attributes import attribute_of, is_slot
from treering.rules.claim_changes import lost_possession, plain_change
from treering.rules.claim_endings import ended_thing
from treering.rules.claim_times import is_day, is_schedule, is_time
from treering.rules.claim_words import VERBS, third_person, word_set
from treering.rules.claims import USER, read_claim

_AMOUNT: Final = lazy_pattern(
    r"(?:[$€£] ?\d[\d.,]*[kKmM]?|\d[\d.,]*[kKmM]?(?:%| ?(?:euros?|dollars?|pounds?|francs?|usd|eur"
    r"|chf|gbp|kg|kilos?|lbs|km|miles?|hours?|minutes?|seconds?|ms|days?|weeks?|months?|years?|percent"
    r"|requests?|people|users?|characters?|columns?|spaces?|gb|mb|points?|cm|square met\w+)\b))"
    r"(?: (?:per|an?|each|of|at) [\w ]+)?"
)
_NOUN: Final = r"(?P<noun>[\w'/-]+(?: [\w'/-]+){0,5}?)"
_OWNED: Final = lazy_pattern(rf"(?P<whose>My|Our|The|my|our|the) {_NOUN} is (?P<value>\S.*)")
_CALLED: Final = lazy_pattern(
    r"(?:The|Our|My|This|the|our|my|this) (?P<noun>project|product|company|app|team|band|boat|shop"
    r"|startup|repo|main branch) is (?:called|named) (?P<value>[\w][\w .'&-]*)"
)
_LEAVES: Final = lazy_pattern(
    r"(?:My|Our|The|my|our|the) [\w' -]+? (?:leaves|departs|starts|begins|ends|opens|closes"
    r"|arrives) (?P<rest>\S.*)"
)
_MAIL: Final = lazy_pattern(
    r"(?:please )?(?:use|write to|reach me at|contact me at|email me at) (?P<mail>\S+@\S+\.\w+)",
    re.IGNORECASE,
)
_BARE: Final = lazy_pattern(r"(?P<noun>[A-Z][a-z]+(?: [a-z]+)?) is (?P<rest>(?:at|on|every) \S.*)")
_ROLE: Final = lazy_pattern(
    r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)? is (?:now )?(?:the|our|my) (?:[a-z]+ ){0,2}"
    r"(?:lead|leader|manager|designer|tester|owner|boss|developer|engineer|doctor"
    r"|lawyer|accountant|architect|ceo|cto|cfo|director|coach|teacher|maintainer|contact|landlord"
    r"|therapist|dentist|assistant|admin|intern|reviewer)(?: (?:of|for|at) .+)?"
)
_OFFICE: Final = lazy_pattern(
    r"(?:My|Our|my|our) (?P<noun>office|home|flat|apartment|house|school|gym|desk|insurance|car"
    r" insurance|bank account|account|server|shop|studio) is (?P<rest>(?:in|on|at|with|near) \S.*)"
)
_HELD_SLOTS: Final = word_set("commute plan weight age grade education residence employer spouse")
_RUNS: Final = word_set(
    "build job run command process task request deploy deployment pipeline operation prompt test"
    " tests query download upload script workflow action server session commit transaction timer"
)
"""What is started and cancelled all the time where programs are written."""
_PROJECT: Final = word_set(
    "project repo repository codebase app application api backend frontend service site website"
    " server database tests team company branch deadline release launch meeting budget price rate"
    " limit timeout port version plan licence license"
)
_REFERENCE: Final = lazy_pattern(r"\b(?:it|this|that|these|those|them|here|there)\b", re.IGNORECASE)
_WORDS_MAX: Final = 18


class ChangeStatement(NamedTuple):
    """A statement of what has changed or holds."""

    text: str
    importance: int
    is_dated: bool = False
    """Whether words such as "yesterday" in it are to be replaced by dates."""


def read_change_statement(clause: str) -> ChangeStatement | None:
    """Return what a clause says has changed or ended; None if nothing, or nothing that lasts."""
    if len(clause.split()) > _WORDS_MAX or _REFERENCE.search(clause) is not None:
        return None
    return _ended(clause) or _changed(clause)


def read_present(clause: str) -> ChangeStatement | None:
    """Return what a clause says holds at present: an amount, a time, a role, a name, a place."""
    if len(clause.split()) > _WORDS_MAX or _REFERENCE.search(clause) is not None:
        return None
    return _of_thing(clause) or _of_role(clause) or _of_speaker(clause)


def _ended(clause: str) -> ChangeStatement | None:
    ended, lost = ended_thing(clause), lost_possession(clause)
    thing = lost if ended is None else ended.text
    if thing is None or (ended is not None and ended.kind == "goal"):
        return None
    if not _RUNS.isdisjoint(thing.lower().split()):
        return None
    return ChangeStatement(_without_speaker(clause), 6, is_dated=True)


def _changed(clause: str) -> ChangeStatement | None:
    change = plain_change(clause)
    if change is None:
        return None
    claim = read_claim(clause)
    is_own = (claim.subject or "").split(" ", 1)[0] == USER
    is_named = bool(claim.subject) and not _PROJECT.isdisjoint((claim.subject or "").split())
    noun = (claim.attribute or "").removeprefix("time of ")
    about_work = is_slot(noun) or not _PROJECT.isdisjoint(noun.split())
    said_own = re.match(r"(?:I|we|my|our)\b|.*\b(?:my|our)\b", clause, re.IGNORECASE) is not None
    is_amount = _AMOUNT.fullmatch(claim.value or "") is not None
    if claim.attribute is None or not (claim.single_valued or change.former or is_amount):
        return None
    about_life = claim.attribute in _HELD_SLOTS or claim.attribute.startswith("time of ")
    if not (is_named or about_work or about_life or (is_own and said_own)):
        return None
    # Without a former value the plain statement says it all.
    is_plain = change.former is None and _OWNED.fullmatch(change.text) is not None
    return ChangeStatement(
        _without_speaker(change.text if is_plain else clause), 6, is_dated=not is_plain
    )


def _of_thing(clause: str) -> ChangeStatement | None:
    mail = _MAIL.fullmatch(clause)
    if mail is not None:
        return ChangeStatement(f"Email is {mail['mail']}", 7)
    called = _CALLED.fullmatch(clause)
    if called is not None:
        return ChangeStatement(f"The {called['noun']} is called {called['value']}", 6)
    leaves = _LEAVES.fullmatch(clause)
    if leaves is not None:
        is_timed = is_schedule(leaves["rest"]) or is_day(leaves["rest"])
        return ChangeStatement(_without_speaker(clause), 6) if is_timed else None
    bare = _BARE.fullmatch(clause)
    if bare is not None:
        is_timed = is_time(bare["rest"]) or is_day(bare["rest"])
        return ChangeStatement(clause, 6) if is_timed else None
    if _OFFICE.fullmatch(clause) is not None:
        return ChangeStatement(_without_speaker(clause), 6)
    owned = _OWNED.fullmatch(clause)
    if owned is None:
        return None
    value = re.sub(r"^(?:planned|scheduled|due|set) (?:for|on|at) ", "on ", owned["value"])
    value = value.removeprefix("now ")
    is_timed = is_time(value) or is_day(value)
    is_amount = _AMOUNT.fullmatch(value) is not None and (
        owned["whose"].lower() != "the" or _is_known(owned["noun"])
    )
    return ChangeStatement(_without_speaker(clause), 6) if is_timed or is_amount else None


def _is_known(noun: str) -> bool:
    head = re.split(r" (?:of|for|in|on) ", noun)[0]
    return is_slot(attribute_of(head)) or head.rsplit(" ", 1)[-1].lower() in _PROJECT


def _of_role(clause: str) -> ChangeStatement | None:
    role = _ROLE.fullmatch(clause)
    return None if role is None else ChangeStatement(clause.replace(" now ", " "), 6)


def _of_speaker(clause: str) -> ChangeStatement | None:
    """Read "I take the bus to work": a verb about something that everybody has once."""
    speaker, _, said = clause.partition(" ")
    verb, _, rest = said.partition(" ")
    if speaker not in {"I", "We", "we"} or VERBS.get(verb) != verb or not rest:
        return None
    attribute = read_claim(clause).attribute or ""
    if verb == "bank" and rest.startswith("with "):
        return ChangeStatement(f"Bank is {rest[5:]}", 6)
    if attribute not in _HELD_SLOTS and attribute != "report to":
        return None
    return ChangeStatement(f"{third_person(verb).capitalize()} {rest}", 6)


def _without_speaker(clause: str) -> str:
    """Return a clause without its speaker."""
    sentence = re.sub(
        r"^(?:(?:I|We|we)(?: have)?|My|Our|my|our) (?:finally |just |recently )?", "", clause
    )
    return sentence[:1].upper() + sentence[1:]
