"""Claims: what one sentence says, as subject, attribute and value.

Two current claims with one key and two values contradict each other. A key is only made where the
attribute holds one value at a time: someone lives in one place and speaks many languages. Nothing
is guessed: what cannot be told is None.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.claim_attributes import (
    attribute_of,
    is_of_many,
    is_slot,
    names_attribute,
    names_slot,
)
from treering.derive.claim_cues import UNMARKED, unmarked
from treering.derive.claim_forms import (
    divided_of,
    is_title,
    labelled,
    possessed,
    reversed_of,
    titled,
)
from treering.derive.claim_predicates import (
    PredicateMeaning,
    occasion,
    read_predicate,
    scheduled,
    value_in,
)
from treering.derive.claim_times import is_day, is_occasion, is_schedule, is_time
from treering.derive.claim_words import SAID_OF, VERBS, normal, spelt, trimmed, word_set
from treering.lazy import lazy_pattern

if TYPE_CHECKING:
    from treering.derive.claim_cues import Marked

CLAIM_CHARACTERS_MAX: Final = 1_000
"""What comes later in a statement is not read."""
USER: Final = "user"
"""The subject of what is said in the first person, of the user, or of nobody."""

_FIRST_PERSON: Final = lazy_pattern(r"(?:I|we|(?:the |this )?user)\s+(?=\S)", re.IGNORECASE)
_OWN: Final = lazy_pattern(r"(?:my|our|(?:the )?user's)\s+(?=\S)", re.IGNORECASE)
_KIN: Final = lazy_pattern(
    r"(?:wife|husband|partner|spouse|son|daughter|child|mother|father|mom|mum|dad|brother|sister"
    r"|boss|manager|dog|cat|roommate|girlfriend|boyfriend|fianc[eé]e?)\b",
    re.IGNORECASE,
)
_CALL: Final = lazy_pattern(r"(?:please )?call me (?=\S)", re.IGNORECASE)
_PRONOUNS: Final = word_set("he she it they this that these those there who which what here you")
_NOT_SUBJECTS: Final = word_set("if when while because although though since unless")
_MORE: Final = lazy_pattern(r"(?:a|an) ", re.IGNORECASE)
_TOLD: Final = lazy_pattern(r"(?:located|based|situated|found) (?:in|at) (?=\S)", re.IGNORECASE)
_SUBJECT_WORDS_MAX: Final = 14

TEXTS_HELD: Final = 4_096
"""A fact is read several times while it is compared with others."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a sentence says of whom."""

    subject: str | None = None
    """In the spelling by which it is compared; ``user`` for the user."""
    attribute: str | None = None
    value: str | None = None
    """As it was written."""
    negated: bool = False
    """Whether it says that this is not so, or no longer."""
    single_valued: bool = False
    """Whether the attribute holds one value at a time."""
    changed: bool = False
    """Whether it says that something is no longer as it was."""
    corrected: bool = False
    """Whether it takes back what was said before."""
    replaced: str | None = None
    """The value that it names as the former one."""


@lru_cache(maxsize=TEXTS_HELD)
def read_claim(text: str) -> Claim:
    """Read a sentence as a claim."""
    text = text[:CLAIM_CHARACTERS_MAX].strip()
    named = _of_title(spelt(text))
    if named is not None:
        return _claim(*named, UNMARKED)
    marked = unmarked(text)
    subject, reading = _read(marked.text, denied=marked.negated)
    if reading is None:
        return _claim(subject, PredicateMeaning("", "", single=False), marked)
    return _claim(subject, reading, marked)


def claim_key(claim: Claim) -> str | None:
    """Return the key that contradicting claims share, or None if there is none.

    What is denied has no key: not to live in one town does not contradict to live in another.
    """
    slot = claim_slot(claim)
    return slot if claim.single_valued and not claim.negated else None


def claim_slot(claim: Claim) -> str | None:
    """Return subject and attribute as one text, whether the attribute holds one value or many."""
    if claim.subject is None or claim.attribute is None:
        return None
    return f"{claim.subject} :: {claim.attribute}"


def _claim(subject: str | None, reading: PredicateMeaning, marked: Marked) -> Claim:
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
    """Read what is said of a name that is plain to see, whatever its words mean elsewhere."""
    noun = possessed(text)
    if noun is not None and is_title(noun[0]) and not _MORE.match(noun[2]):
        return normal(noun[0]), PredicateMeaning(noun[1], value_in(noun[2])[1], single=True)
    title = titled(text)
    if title is None or _KIN.fullmatch(title[0]) is not None:
        return None
    reading = read_predicate(title[1])
    return None if reading is None else (normal(title[0]), reading)


def _read(text: str, *, denied: bool) -> tuple[str | None, PredicateMeaning | None]:
    """Return the subject of a sentence and what is said of it, as far as either can be told."""
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
    label = labelled(text)
    if label is not None:
        return USER, PredicateMeaning(
            attribute_of(label[0]), label[1], single=is_slot(attribute_of(label[0]))
        )
    word = text.split(" ", 1)[0].lower()
    # "Does not like fish" is "like fish" by now.
    if word in SAID_OF or word == "born" or (denied and word in VERBS):
        return USER, read_predicate(text if word != "born" else f"was {text}")
    kin = _KIN.match(text)
    if kin is not None or word in {"favourite", "favorite"} or is_slot(word):
        return _of_own(text)
    return _of_own(text) if _is_of_slot(text) else _of_named(text)


def _is_of_slot(text: str) -> bool:
    """Return whether a sentence begins with a name of several words for what the user has once."""
    noun, is_there, _ = text.partition(" is ")
    return bool(is_there) and noun.count(" ") in {1, 2} and names_attribute(noun)


def _of_own(text: str) -> tuple[str | None, PredicateMeaning | None]:
    """Read "wife is Ann", "favourite colour is blue", "dog is called Max", "wife works at Acme"."""
    noun, verb, rest = _at_verb(text)
    if verb is None:
        return USER, scheduled(text) if is_schedule(text) else None
    attribute = attribute_of(noun)
    if VERBS[verb] == "be" and not _MORE.match(rest) and "years old" not in rest:
        if (is_time(rest) or is_day(rest)) and not is_slot(attribute):
            return USER, scheduled(text)
        value = rest.removeprefix("called ").removeprefix("named ")
        if names_slot(attribute, value) or (is_of_many(attribute) and value[:1].isupper()):
            return USER, PredicateMeaning(
                attribute, value_in(value)[1], names_slot(attribute, value)
            )
    return f"{USER} {normal(noun)}", read_predicate(f"{verb} {rest}")


def _of_the(text: str) -> tuple[str | None, PredicateMeaning | None] | None:
    """Read "the author of Emma is Jane Austen", "the database is PostgreSQL"."""
    found = divided_of(text)
    if found is None:
        return None
    subject, attribute, value, rest = found
    if subject is None:
        if (is_time(value) or is_day(value)) and not is_slot(attribute):
            return USER, scheduled(text)
        if not names_slot(attribute, value) or _MORE.match(value):
            return normal(attribute), read_predicate(f"is {value}")
        return USER, PredicateMeaning(attribute, value, single=True)
    told = _TOLD.match(value)
    if told is None and rest is not None:
        # "The capital of France was founded by …" says something of the capital.
        return rest, read_predicate(f"was {value}")
    value = value_in(value[told.end() :] if told else value)[1]
    return normal(subject), PredicateMeaning(
        attribute, value, not _MORE.match(value) or is_slot(attribute)
    )


def _of_named(text: str) -> tuple[str | None, PredicateMeaning | None]:
    """Read a sentence whose subject ends where its verb stands."""
    noun = possessed(text)
    if noun is not None:
        owner, attribute, value = noun
        if not _MORE.match(value):
            return normal(owner), PredicateMeaning(attribute, value_in(value)[1], single=True)
    subject, verb, rest = _at_verb(text)
    if verb is None:
        is_told = is_schedule(text) or is_occasion(text)
        return (USER, occasion(text)) if is_told else (None, None)
    if VERBS[verb] == "be" and (is_time(rest) or is_day(rest)):
        return USER, scheduled(text)
    back = reversed_of(subject, verb, rest)
    if back is not None and not is_of_many(back[1]):
        return normal(back[0]), PredicateMeaning(back[1], subject, single=True)
    named: str | None = normal(subject)
    if named in _PRONOUNS or subject.split(" ", 1)[0].lower() in _NOT_SUBJECTS:
        named = None
    return named, read_predicate(f"{verb} {rest}")


def _at_verb(text: str) -> tuple[str, str | None, str]:
    """Return what stands before the verb of a sentence, the verb, and what stands behind."""
    parts = text.split(" ", _SUBJECT_WORDS_MAX)
    for known in (SAID_OF, VERBS):
        for at in range(1, len(parts) - 1):
            if parts[at] in known and not parts[at].endswith("ing"):
                return " ".join(parts[:at]), parts[at], " ".join(parts[at + 1 :])
    return text, None, ""
