"""Claims: what a sentence says, as subject, attribute and value.

Two current claims with the same key and different values contradict each other. Only attributes
that hold one value at a time have a key: a person lives in one place and speaks many languages.
Nothing is guessed: what cannot be read is None.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from treering.lazy import lazy_pattern
from treering.rules.claim_attributes import (
    attribute_of,
    is_of_many,
    is_slot,
    names_attribute,
    names_slot,
)
from treering.rules.claim_changes import is_past, lost_possession, plain_change
from treering.rules.claim_cues import NO_CUES, extract_cues
from treering.rules.claim_endings import parted_sentence
from treering.rules.claim_forms import (
    is_title,
    read_label,
    read_noun_of,
    read_possessive,
    read_reversed,
    read_title,
)
from treering.rules.claim_outlines import clause_outlines, has_clauses
from treering.rules.claim_predicates import (
    PredicateMeaning,
    occasion,
    read_predicate,
    scheduled,
    value_in,
)
from treering.rules.claim_times import is_day, is_occasion, is_schedule, is_time
from treering.rules.claim_words import (
    FINITE_VERBS,
    VERBS,
    normal,
    normalise_characters,
    trimmed,
    word_set,
)
from treering.rules.fact_languages import foreign_claim

if TYPE_CHECKING:
    from treering.rules.claim_cues import SentenceCues

CLAIM_CHARACTERS_MAX: Final = 1_000
"""The rest of a statement is not read."""
USER: Final = "user"
"""The subject of sentences in the first person, about the user, or without a subject."""

POSSESSION: Final = "possession"
"""The attribute of a claim that something is gone, whatever verb said that it was there."""

_FIRST_PERSON: Final = lazy_pattern(r"(?:I|we|(?:the |this )?user)\s+(?=\S)", re.IGNORECASE)
_OWN: Final = lazy_pattern(r"(?:my|our|his|her|their|(?:the )?user's)\s+(?=\S)", re.IGNORECASE)
_KIN: Final = lazy_pattern(
    r"(?:wife|husband|partner|spouse|son|daughter|child|mother|father|mom|mum|dad|brother|sister"
    r"|boss|manager|dog|cat|roommate|girlfriend|boyfriend|fianc[eé]e?|nephew|niece|cousin|uncle|aunt"
    r"|friend|grandson|granddaughter|puppy|kitten|horse|baby)\b",
    re.IGNORECASE,
)
_BY_WHOM: Final = lazy_pattern(r"^(?:with|by|from) (?=[A-Z])")
""""My insurance is with Allianz"."""
_CALL: Final = lazy_pattern(r"(?:please )?call me (?=\S)", re.IGNORECASE)
_PRONOUNS: Final = word_set("he she it they this that these those there who which what here you")
_NOT_SUBJECTS: Final = word_set("if when while because although though since unless")
_PARTICIPLES: Final = word_set("born based married employed")
"""What a statement about the user may begin with, without "is"."""
_INDEFINITE: Final = lazy_pattern(r"(?:a|an) ", re.IGNORECASE)
_LOCATED: Final = lazy_pattern(r"(?:located|based|situated|found) (?:in|at) (?=\S)", re.IGNORECASE)
_PLACED: Final = lazy_pattern(
    r"(?:located|based|situated|found|hosted|kept|stored) (?:in|at|on) (?=\S)"
    r"|(?:in|at|on) (?=[A-Z])"
)
_SUBJECT_WORDS_MAX: Final = 14

TEXTS_HELD: Final = 10_000
"""Cached: a fact is read several times while it is compared with others."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a sentence says about whom."""

    subject: str | None = None
    """In the form used for comparison; ``user`` for the user."""
    attribute: str | None = None
    value: str | None = None
    """As written."""
    negated: bool = False
    """Whether it says that this is not so, or no longer."""
    single_valued: bool = False
    """Whether the attribute holds one value at a time."""
    changed: bool = False
    """Whether it says that something changed."""
    corrected: bool = False
    """Whether it takes back an earlier statement."""
    replaced: str | None = None
    """The value it names as the former one."""


@lru_cache(maxsize=TEXTS_HELD)
def read_claim(text: str) -> Claim:
    """Read a sentence as a claim."""
    text = text[:CLAIM_CHARACTERS_MAX].strip()
    if is_past(text):
        return Claim()
    parted = parted_sentence(text)
    now = None if parted is None else read_claim(parted.rest)
    if now is not None and now.attribute is not None:
        return msgspec.structs.replace(now, changed=True)
    gone = lost_possession(text)
    if gone is not None:
        return Claim(subject=USER, attribute=POSSESSION, value=gone, negated=True, changed=True)
    change = plain_change(text)
    if change is not None:
        plain = _read_plain(change.text)
        replaced = change.former or plain.replaced
        return msgspec.structs.replace(plain, changed=True, replaced=replaced)
    plain = _read_plain(text)
    if plain.attribute is not None:
        return plain
    return _read_foreign(text) or _read_last_clause(text) or plain


def _read_last_clause(text: str) -> Claim | None:
    """Return what the last clause of a sentence says, if that can hold only one value."""
    if not has_clauses(text):
        return None
    *others, last = clause_outlines(text) or [None]
    claim = read_claim(last.text()) if others and last is not None else Claim()
    is_change = claim.single_valued and not claim.negated
    return msgspec.structs.replace(claim, changed=True) if is_change else None


def _read_foreign(text: str) -> Claim | None:
    claim = foreign_claim(text)
    if claim is None:
        return None
    attribute, value, single, negated = claim
    return Claim(
        subject=USER, attribute=attribute, value=value, single_valued=single, negated=negated
    )


def _read_plain(text: str) -> Claim:
    named = _of_title(normalise_characters(text))
    if named is not None:
        return _claim(*named, NO_CUES)
    marked = extract_cues(text)
    subject, reading = _read(marked.text, denied=marked.negated)
    if reading is None:
        return _claim(subject, PredicateMeaning("", "", single=False), marked)
    return _claim(subject, reading, marked)


def claim_key(claim: Claim) -> str | None:
    """Return the key that contradicting claims share, or None.

    A negated claim has no key: not living in one town does not contradict living in another.
    """
    slot = claim_slot(claim)
    return slot if claim.single_valued and not claim.negated else None


def claim_slot(claim: Claim) -> str | None:
    """Return subject and attribute as one text, for attributes with one or many values."""
    if claim.subject is None or claim.attribute is None:
        return None
    return f"{claim.subject} :: {claim.attribute}"


def _claim(subject: str | None, reading: PredicateMeaning, marked: SentenceCues) -> Claim:
    return Claim(
        subject=subject,
        attribute=reading.attribute or None,
        value=trimmed(reading.value) or None,
        negated=marked.negated != reading.negative,
        single_valued=reading.single,
        changed=marked.changed or reading.replaced is not None,
        corrected=marked.corrected,
        replaced=trimmed(reading.replaced) if reading.replaced else marked.replaced,
    )


def _of_title(text: str) -> tuple[str, PredicateMeaning] | None:
    """Read a sentence about a recognisable title, whatever its words mean elsewhere."""
    noun = read_possessive(text)
    if noun is not None and is_title(noun[0]) and not _INDEFINITE.match(noun[2]):
        return normal(noun[0]), PredicateMeaning(noun[1], value_in(noun[2])[1], single=True)
    title = read_title(text)
    if title is None or _KIN.match(title[0]) is not None:
        return None
    reading = read_predicate(title[1])
    return None if reading is None else (normal(title[0]), reading)


def _read(text: str, *, denied: bool) -> tuple[str | None, PredicateMeaning | None]:
    """Return the subject of a sentence and what is said about it; None for what cannot be read."""
    called = _CALL.match(text)
    if called is not None:
        return USER, PredicateMeaning("name", text[called.end() :], single=True)
    first = _FIRST_PERSON.match(text)
    if first is not None:
        return USER, read_predicate(text[first.end() :])
    own = _OWN.match(text)
    if own is not None:
        return _of_own(text[own.end() :])
    if text[:4].lower() == "the ":
        return _of_the(text[4:]) or _of_named(text)
    label = read_label(text)
    if label is not None:
        return USER, PredicateMeaning(
            attribute_of(label[0]), label[1], single=names_slot(attribute_of(label[0]), label[1])
        )
    word = text.split(" ", 1)[0].lower()
    # The negation was removed: "Does not like fish" is "like fish" here.
    is_state = word in _PARTICIPLES and " " in text
    if word in FINITE_VERBS or is_state or (denied and word in VERBS):
        return USER, read_predicate(f"is {text[:1].lower()}{text[1:]}" if is_state else text)
    kin = _KIN.match(text)
    if kin is not None or word in {"favourite", "favorite"} or is_slot(word):
        return _of_own(text)
    return _of_own(text) if _is_of_slot(text) else _of_named(text)


def _is_of_slot(text: str) -> bool:
    """Return whether a sentence begins with a phrase for something the user has once."""
    noun, is_there, _ = text.partition(" is ")
    return bool(is_there) and noun.count(" ") in {1, 2} and names_attribute(noun)


def _of_own(text: str) -> tuple[str | None, PredicateMeaning | None]:
    """Read "wife is Ann", "favourite colour is blue", "dog is called Max", "wife works at Acme"."""
    noun, verb, rest = _at_verb(text)
    if verb is None:
        return USER, scheduled(text) if is_schedule(text) else None
    attribute = attribute_of(noun)
    is_aged = _KIN.match(noun) is not None and rest.isdecimal()
    if (
        VERBS[verb] == "be"
        and not is_aged
        and not _INDEFINITE.match(rest)
        and "years old" not in rest
    ):
        if (is_time(rest) or is_day(rest)) and not is_slot(attribute):
            return USER, scheduled(text)
        value = _BY_WHOM.sub("", rest.removeprefix("called ").removeprefix("named "))
        if names_slot(attribute, value) or (is_of_many(attribute) and value[:1].isupper()):
            return USER, PredicateMeaning(
                attribute, value_in(value)[1], names_slot(attribute, value)
            )
    return f"{USER} {normal(noun)}", read_predicate(f"{verb} {rest}")


def _of_the(text: str) -> tuple[str | None, PredicateMeaning | None] | None:
    """Read "the author of Emma is Jane Austen", "the database is PostgreSQL"."""
    parts = read_noun_of(text)
    if parts is None:
        return None
    subject, attribute, value, rest = parts
    if subject is None:
        if (is_time(value) or is_day(value)) and not is_slot(attribute):
            return USER, scheduled(text)
        is_placed = _PLACED.match(value) is not None
        if is_placed or not names_slot(attribute, value) or _INDEFINITE.match(value):
            return normal(attribute), read_predicate(f"is {value}")
        return USER, PredicateMeaning(attribute, value, single=True)
    located = _LOCATED.match(value)
    if located is None and rest is not None:
        # "The capital of France was founded by …" is about the capital.
        return rest, read_predicate(f"was {value}")
    value = value_in(value[located.end() :] if located else value)[1]
    return normal(subject), PredicateMeaning(
        attribute, value, not _INDEFINITE.match(value) or is_slot(attribute)
    )


def _of_named(text: str) -> tuple[str | None, PredicateMeaning | None]:
    """Read a sentence whose subject ends at its verb."""
    noun = read_possessive(text)
    if noun is not None:
        owner, attribute, value = noun
        if not _INDEFINITE.match(value):
            return normal(owner), PredicateMeaning(attribute, value_in(value)[1], single=True)
    subject, verb, rest = _at_verb(text)
    if verb is None:
        is_event = is_schedule(text) or is_occasion(text)
        return (USER, occasion(text)) if is_event else (None, None)
    if VERBS[verb] == "be" and (is_time(rest) or is_day(rest)):
        return USER, scheduled(text)
    back = read_reversed(subject, verb, rest)
    if back is not None and not is_of_many(back[1]):
        return normal(back[0]), PredicateMeaning(back[1], subject, single=True)
    named: str | None = normal(subject)
    if named in _PRONOUNS or subject.split(" ", 1)[0].lower() in _NOT_SUBJECTS:
        named = None
    return named, read_predicate(f"{verb} {rest}")


def _at_verb(text: str) -> tuple[str, str | None, str]:
    """Return the text before the verb of a sentence, the verb, and the text after it."""
    parts = text.split(" ", _SUBJECT_WORDS_MAX)
    for forms in (FINITE_VERBS, VERBS):
        for at in range(1, len(parts) - 1):
            if parts[at] in forms and not parts[at].endswith("ing"):
                return " ".join(parts[:at]), parts[at], " ".join(parts[at + 1 :])
    return text, None, ""
