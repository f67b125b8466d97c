"""First-person statements as facts about the user.

"I live in Ghent" becomes "Lives in Ghent". Only forms that say something lasting are recognised: a
memory full of junk is worse than one with gaps.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from treering.rules.claim_attributes import attribute_of, is_slot, names_slot
from treering.rules.claim_times import is_repeated, is_schedule, is_time
from treering.rules.claim_words import VERBS, third_person
from treering.rules.claims import read_claim
from treering.rules.fact_categories import Category, category_of, names_kin
from treering.rules.fact_changes import ChangeStatement, read_change_statement, read_present
from treering.rules.fact_conventions import read_convention
from treering.rules.fact_experiences import read_experience
from treering.rules.fact_forms import (
    ALONE,
    ANOTHER_VERB,
    CALL,
    CHEER,
    CONDITION,
    CUT,
    DESCRIBED,
    ENDED,
    EVENTS,
    FIRST,
    GIVEN_UP,
    HABITS,
    HARD_WORK,
    HELD,
    HELD_EVENT,
    HERE,
    KEPT,
    LASTING,
    LIST,
    LOCAL,
    MINE,
    NEVER,
    NOT_ANY_MORE,
    OFTEN,
    ORDERS,
    PAST,
    PAST_TAILS,
    PROJECT,
    STANDING,
    STATE,
    SUPPOSED,
    TAIL,
    VAGUE,
    WANTED,
    WHEN,
)
from treering.rules.fact_holdings import read_holding

_WORDS_MAX: Final = 28


class Statement(NamedTuple):
    """A fact as it was said, in normal form."""

    text: str
    category: Category
    importance: int
    confidence: float
    is_dated: bool = False
    """Whether words such as "yesterday" in it are to be replaced by dates."""


def read_statement(clause: str) -> Statement | None:
    """Return the fact that a clause states about its speaker, or None."""
    listed = LIST.search(clause)
    # "The one, the other, and the third" is not cut before its last part.
    head, rest = (
        ("", clause) if listed is None else (clause[: listed.end()], clause[listed.end() :])
    )
    clause_text = TAIL.sub("", (head + CUT.sub("", rest.strip(" .!"))).strip(" ,.!"))
    clause_text = WANTED.sub("", clause_text)
    if not clause_text or len(clause_text.split()) > _WORDS_MAX:
        return None
    convention = read_convention(clause_text)
    if convention is not None:
        text = _of_user(convention.text)
        return Statement(text, "technical", convention.importance, 0.8)
    if SUPPOSED.search(clause_text) is not None:
        return None
    called = CALL.fullmatch(clause_text)
    if called is not None:
        return Statement(f"Name is {called['name']}", "personal", 9, 0.95)
    clause_text = _no_longer(clause_text)
    return (
        _standing(clause_text)
        or _ended(clause_text)
        or _told(read_change_statement(clause_text))
        or _first(clause_text)
        or _mine(clause_text)
        or _of_project(clause_text)
        or _told(read_present(clause_text))
        or _experience(clause_text)
        or _holding(clause_text)
    )


def _told(stated: ChangeStatement | None) -> Statement | None:
    if stated is None:
        return None
    text = _of_user(stated.text)
    return Statement(text, category_of(text), stated.importance, 0.8, stated.is_dated)


def _standing(clause: str) -> Statement | None:
    """Read a standing order."""
    match = STANDING.fullmatch(clause)
    if match is None:
        return None
    rest = match["rest"]
    if match["onward"]:
        inner = read_statement(rest)
        if inner is not None:
            return inner
    how = "Never" if match["not"] or (match["how"] or "").lower() == "never" else "Always"
    denied = NEVER.match(rest)
    if denied is not None:
        how, rest = "Never", rest[denied.end() :]
    order = CONDITION.sub("", rest)
    if HERE.search(order) is not None or CHEER.match(rest) is not None:
        return None
    if rest.split(" ", 1)[0].lower() not in ORDERS:
        return None
    return Statement(_of_user(f"{how} {rest}"), "preference", 8, 0.9)


def _no_longer(clause: str) -> str:
    """Return a clause with "not any more" as "no longer", and with its subject."""
    match = NOT_ANY_MORE.fullmatch(clause)
    if match is not None:
        verb = third_person(match["verb"]) if match["does"] else match["verb"]
        clause = f"{match['head']}no longer {verb}{match['rest']}"
    is_short = clause.lower().startswith("no longer ") and STATE.match(clause[10:]) is not None
    return f"I am {clause[0].lower()}{clause[1:]}" if is_short else clause


def _ended(clause: str) -> Statement | None:
    """Read a statement that something ended, if it would be a fact."""
    match = ENDED.fullmatch(_given_up(clause))
    if match is None:
        return None
    helping, how, rest = (match["helping"] or "").lower(), match["how"].lower(), match["rest"]
    before = f"I {helping if helping != 'can ' else ''}{rest}"
    was = _first(before) or _experience(before)
    if was is None:
        return None
    if helping == "can ":
        return was._replace(text=_of_user(f"Can {how} {rest}"))
    if was.text.startswith("Is "):
        return was._replace(text=f"Is {how} {was.text[3:]}")
    if rest.startswith("have "):
        return was._replace(text=_of_user(f"No longer has {rest[5:]}"))
    if how == "not":
        return None
    return was._replace(text=f"No longer {was.text[0].lower()}{was.text[1:]}")


def _given_up(clause: str) -> str:
    """Return "I stopped smoking" as "I no longer smoke", unless it says when."""
    match = GIVEN_UP.fullmatch(clause)
    verb = None if match is None else VERBS.get(match["doing"].lower())
    if match is None or verb is None or WHEN.search(match["rest"]) is not None:
        return clause
    return f"I no longer {verb}{match['rest']}"


def _first(clause: str) -> Statement | None:
    """Read a clause that begins with "I" or "we"."""
    match = FIRST.fullmatch(clause)
    if match is None:
        return None
    verb, rest = match["verb"].lower(), match["rest"] or ""
    if LOCAL.match(rest) is not None or HERE.search(rest) is not None:
        return None
    adverbs = [adverb for adverb in match["adverbs"].lower().split() if adverb in KEPT]
    denied = (match["denied"] or "").lower()
    if not denied and verb in {"am", "was", "are", "were", "have"}:
        return _have(rest) if verb == "have" else _am(verb, rest)
    return _act(adverbs, denied, verb, rest)


def _act(adverbs: list[str], denied: str, verb: str, rest: str) -> Statement | None:
    if denied:
        return _denied(denied, verb, rest)
    if verb in PAST:
        return None if adverbs else _past(verb, rest)
    if VERBS.get(verb, verb) != verb or verb.endswith("ed"):
        return None
    if not rest and verb not in ALONE:
        return None
    rest = ANOTHER_VERB.sub("", rest)
    text = " ".join((*adverbs, third_person(verb), rest))
    lasting = LASTING.get(verb)
    if lasting is not None and not (verb == "work" and HARD_WORK.match(rest) is not None):
        return _statement(text, "schedule", 6) if is_repeated(rest) else _statement(text, *lasting)
    if verb in EVENTS and is_schedule(rest):
        return _statement(text, "schedule", 6)
    if (adverbs or verb in HABITS) and (is_repeated(rest) or OFTEN.intersection(adverbs)):
        return _statement(text, "habit", 5)
    return None


def _denied(denied: str, verb: str, rest: str) -> Statement | None:
    helping = "Cannot" if denied.startswith("can") else "Does not"
    text = f"{helping} {verb} {rest}"
    if verb in LASTING:
        return _statement(text, *LASTING[verb])
    if verb in EVENTS and is_schedule(rest):
        return _statement(text, "schedule", 6)
    if verb == "have" and HELD.fullmatch(rest) is not None:
        return _statement(text, "relationship", 6)
    return None


def _past(verb: str, rest: str) -> Statement | None:
    first = rest.split(" ", 1)[0]
    if not rest or first not in PAST_TAILS.get(verb, {first}):
        return None
    if verb == "joined" and not rest[0].isupper():
        return None
    if verb in {"stopped", "quit"} and not first.endswith("ing"):
        return None
    return _statement(f"{verb} {rest}", *PAST[verb])._replace(is_dated=True)


def _am(verb: str, rest: str) -> Statement | None:
    if STATE.match(rest) is None and read_claim(f"Is {rest}").attribute != "occupation":
        return None
    be = "Was" if verb in {"was", "were"} else "Is"
    if be == "Was" and not rest.startswith("born "):
        return None
    for doing, does in (("living ", "Lives "), ("working ", "Works ")):
        if rest.startswith(doing):
            return _statement(
                does + rest.removeprefix(doing), category_of(does + rest[len(doing) :]), 7
            )
    text = f"{be} {rest}"
    return _statement(text, category_of(text), 9 if rest.startswith(("allergic", "intol")) else 7)


def _have(rest: str) -> Statement | None:
    rest = rest.removeprefix("got ")
    if is_repeated(rest):
        match = HELD_EVENT.fullmatch(rest)
        return None if match is None else _statement(match["event"], "schedule", 7)
    if HELD.fullmatch(rest) is None:
        return None
    named = re.sub(r",? (?:called|who is (?:called|named)|whose name is) ", " named ", rest)
    return _statement(f"has {named}", category_of(f"has {named}"), 6)


def _mine(clause: str) -> Statement | None:
    """Read a clause that begins with "my" or "our"."""
    match = MINE.fullmatch(clause)
    if match is None:
        return None
    noun, verb, rest = match["noun"], match["verb"].lower(), match["rest"]
    if LOCAL.match(rest) is not None or HERE.search(rest) is not None:
        return None
    attribute = attribute_of(noun)
    text = f"{noun} {verb} {rest}"
    if verb in {"is", "are"} and is_time(rest):
        return _statement(text, "schedule", 7)
    if VAGUE.match(rest) is not None:
        return None
    if names_kin(noun):
        is_described = verb not in {"is", "are", "was"} or DESCRIBED.match(rest) is not None
        return _statement(text, "relationship", 7) if is_described else None
    if verb == "is" and is_slot(attribute) and names_slot(attribute, rest):
        weight = 9 if attribute in {"name", "date of birth", "timezone"} else 6
        return _statement(text, category_of(text), weight)
    return None


def _of_project(clause: str) -> Statement | None:
    match = PROJECT.fullmatch(clause)
    if match is None or HERE.search(match["rest"]) is not None:
        return None
    text = f"The {match['noun'].lower()} {match['rest']}"
    return _statement(text, "schedule" if is_schedule(text) else "technical", 6)


def _experience(clause: str) -> Statement | None:
    experience = read_experience(clause)
    if experience is None:
        return None
    text = _of_user(experience.text)
    category = category_of(text)
    return Statement(text, category, experience.importance, 0.7, experience.is_dated)


def _holding(clause: str) -> Statement | None:
    held = read_holding(clause)
    if held is None:
        return None
    text = _of_user(held)
    return Statement(text, category_of(text), 5, 0.7)


def _statement(text: str, category: Category, importance: int) -> Statement:
    return Statement(_of_user(text.strip()), category, importance, 0.85)


def _of_user(text: str) -> str:
    """Return a text about the user instead of by the user."""
    for mine, theirs in (
        (" my ", " their "),
        (" our ", " their "),
        (" me ", " them "),
        (" us ", " them "),
        (" myself", " themselves"),
    ):
        text = text.replace(mine, theirs)
    text = re.sub(r" (?:me|us)$", " them", text)
    return text[:1].upper() + text[1:]
