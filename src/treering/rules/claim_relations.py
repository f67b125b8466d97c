"""Relations: what a new statement does to an old one.

If both can be read as claims, the claims decide; otherwise their words and their similarity do.
Similarity alone never shows a contradiction: "likes fish" and "does not like fish" are as similar
as two sentences can be.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from treering.rules.claim_attributes import holds_many, is_less_specific, is_of_many, is_person
from treering.rules.claim_changes import plain_change
from treering.rules.claim_endings import (
    EndedThing,
    ended_thing,
    is_standing,
    names_goal,
    names_tie,
    parted_sentence,
)
from treering.rules.claim_outlines import bearers_of, is_owner, keys_of, outline
from treering.rules.claim_times import days_in
from treering.rules.claim_updates import ends_statement, update_topics
from treering.rules.claim_words import VERBS, base, mark_letters, normal, word_set, words
from treering.rules.claims import (
    CLAIM_CHARACTERS_MAX,
    POSSESSION,
    TEXTS_HELD,
    USER,
    Claim,
    claim_slot,
    read_claim,
)
from treering.rules.terms import terms

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

Relation: TypeAlias = Literal["same", "refines", "contradicts", "unrelated"]

SAME_SIMILARITY_MIN: Final = 0.9
"""From this similarity on two statements are the same, if nothing distinguishes them."""
RELATED_SIMILARITY_MIN: Final = 0.6
_VERBS: Final = frozenset(VERBS.values())
_ENGLISH: Final = _VERBS - word_set("die do be") | word_set(
    "with of from the for about than over using when while every each during because against"
)
"""Words that show that a statement is English; others also occur in German, Dutch or Portuguese."""
_HELD: Final = word_set("have own drive ride keep possess")
"""Verbs that say that somebody has something."""
_LESS: Final = re.compile(
    r"\bonly (?=\w+ \d)|,? (?:because|since (?=(?:I|we|my|our|the)\b)|due to|thanks to)\b.+$"
)
"""What says nothing about a value itself."""
_DETERMINERS: Final = word_set("the this my our their his her all")
_PLACES: Final = frozenset({
    "run on", "run with", "be run with", "be run on", "be host on", "be host at", "be host by",
    "be deploy on", "be deploy to", "be locate in", "be store in", "be store on", "be with",
    "be in", "be on", "be at", "residence",
})  # fmt: skip
_OPPOSED_SIMILARITY_MIN: Final = 0.8
_SHARED_MIN: Final = 0.6
"""The share of words that two statements have in common if one denies the other."""

_OPPOSITES: Final = frozenset(
    frozenset(pair.split("/"))
    for pair in word_set(
        "dark/light on/off tabs/spaces tab/space yes/no true/false enabled/disabled enable/disable"
        " morning/evening early/late hot/cold married/single married/divorced vegetarian/meat"
        " vegan/meat vim/emacs more/less high/low long/short left/right public/private start/stop"
        " always/never remote/office windows/linux windows/mac mac/linux metric/imperial"
        " weekday/weekend introvert/extrovert allow/forbid allowed/forbidden open/closed hard/soft"
        " black/white love/hate like/hate like/dislike sync/async monolith/microservices"
        " night/day mornings/evenings cat/dog tea/coffee formal/informal verbose/terse"
    )
)
_QUALIFYING: Final = word_set(
    "almost nearly hardly barely scarcely rarely seldom except unless without if maybe perhaps"
    " might may supposedly allegedly fake former formerly only half"
)
"""Words that weaken a statement: without them it says more, not less."""
_AMOUNT: Final = re.compile(r"[$€£]?\d")
_NUMBER: Final = re.compile(
    r"-?v?\d[\d.:,]*\w*|\w+day|one|two|three|four|five|six|seven|eight|nine|ten"
)


def relation(new: str, old: str, similarity: float) -> Relation:
    """Return what a new statement does to an old one of this ``similarity``.

    ``same``: nothing new. ``refines``: the old one, and more. ``contradicts``: both cannot be true
    now. ``unrelated``: both may be true.
    """
    first, second = _statement(new[:CLAIM_CHARACTERS_MAX]), _statement(old[:CLAIM_CHARACTERS_MAX])
    if first.words == second.words and first.claim.negated == second.claim.negated:
        return "same"
    if first.claim.attribute == POSSESSION:
        return "contradicts" if _is_lost(first.claim, second) else "unrelated"
    if (
        first.ended is not None
        and _is_over(first, first.ended, second, old)
        and not _is_of_theirs(new, old)
    ):
        return "contradicts"
    if first.ending is not None and relation(first.ending, old, similarity) == "contradicts":
        return "contradicts"
    decided = _by_former(first, second) or _by_place(first, second) or _by_claims(first, second)
    is_open = decided in {None, "unrelated"} and not second.claim.negated
    if is_open and ends_statement(new, old):
        return "contradicts"
    return decided or _by_words(first, second, similarity)


class _Statement(NamedTuple):
    claim: Claim
    slot: str | None
    words: tuple[str, ...]
    """The meaningful words, in order."""
    names: frozenset[str]
    """Those written as names."""
    ended: EndedThing | None
    """What it says is over."""
    ending: str | None
    """The clause that says what is over, before another that says what holds."""
    standing: bool
    """Whether it is about the present."""
    is_definite: bool
    """Whether it begins with "the", "my" or the like."""


@lru_cache(maxsize=TEXTS_HELD)
def _statement(text: str) -> _Statement:
    claim = read_claim(text)
    ended, parted, standing = ended_thing(text), parted_sentence(text), is_standing(text)
    is_definite = text.partition(" ")[0].lower() in _DETERMINERS
    text = text if parted is None else parted.rest
    change = plain_change(text)
    text = _LESS.sub("", text if change is None else change.text)
    meaningful = tuple(
        canonical_word(word)
        for word in words(join_phrases(mark_letters(text)))
        if word not in EMPTY
    )
    names = frozenset(
        canonical_word(word)
        for part in text.split()[1:]
        if part[:1].isupper()
        for word in words(part)
    )
    ending = None if parted is None else parted.ending
    return _Statement(
        claim, claim_slot(claim), meaningful, names, ended, ending, standing, is_definite
    )


def _by_claims(new: _Statement, old: _Statement) -> Relation | None:
    """Decide by subject, attribute and value; None if they do not decide."""
    newer, older = new.claim, old.claim
    if not _have_one_subject(newer.subject, older.subject):
        return "unrelated"
    if new.slot is None or newer.attribute != older.attribute or older.subject is None:
        return _by_events(newer, older) or _by_choice(newer, older)
    values = compare_values(newer, older)
    if newer.negated != older.negated:
        return "contradicts" if values in {"equal", "wider", "narrower"} else "unrelated"
    if values == "equal":
        return "same"
    if newer.negated or not newer.single_valued or not older.single_valued:
        return _by_many(newer, older, values)
    if values == "other" or not may_be_part(newer, older):
        return "contradicts"
    return "refines" if values == "narrower" else "same"


def _have_one_subject(one: str | None, other: str | None) -> bool:
    """Return whether two subjects may be one; "my dog Bruno" is Bruno."""
    if one is None or other is None or one == other:
        return True
    return any(
        long.startswith(f"{USER} ") and long.count(" ") == 2 and long.endswith(f" {short}")
        for long, short in ((one, other), (other, one))
    )


def _by_many(one: Claim, other: Claim, values: str) -> Relation | None:
    """Decide for attributes with many values."""
    if values == "other":
        named = {normal(one.value or ""), normal(other.value or "")}
        if named in _OPPOSITES and one.attribute in {"prefer", "use", "be"}:
            return "contradicts"
        are_amounts = all(_AMOUNT.match(claim.value or "") for claim in (one, other))
        if one.attribute == "be" and (are_amounts or _is_replaced(one, other)):
            return "contradicts"
        is_open = one.corrected or one.replaced or not holds_many(one.attribute or "")
        return None if is_open else "unrelated"
    return "refines" if values == "narrower" else "same"


def _is_replaced(one: Claim, other: Claim) -> bool:
    """Return whether a thing is said to be something else now: "Our mascot is an owl now".

    People and animals are many things at once.
    """
    noun = (one.subject or USER).removeprefix(f"{USER} ").rsplit(" ", 1)[-1]
    kinds = [
        "a"
        if (claim.value or "").startswith(("a ", "an "))
        else str((claim.value or "").count(" "))
        for claim in (one, other)
    ]
    is_thing = one.subject not in {None, USER} and not is_of_many(noun) and not is_person(noun)
    return one.changed and is_thing and kinds in (["a", "a"], ["0", "0"])


def _by_events(one: Claim, other: Claim) -> Relation | None:
    """Decide if one says more about an event than the other: with whom, on which days."""
    first, second = _event(one), _event(other)
    if one.negated != other.negated or not first or not second:
        return None
    days = {*days_in(one.value or ""), *days_in(other.value or "")}
    if not (first < second or first > second):
        return "unrelated" if first != second and first ^ second <= days else None
    values = compare_values(one, other)
    if first > second:
        return "refines" if values in {"equal", "narrower"} else "unrelated"
    if values in {"equal", "wider"}:
        return "same"
    # An hour without a day applies to every day.
    return "contradicts" if second - first <= days else "unrelated"


def _by_choice(one: Claim, other: Claim) -> Relation | None:
    """Decide if one says what is preferred to what, and the other names one of the two."""
    for choice, plain in ((one, other), (other, one)):
        pair = (choice.attribute or "").removeprefix("prefer ").split(" or ")
        value = normal(plain.value or "")
        if value not in pair or choice.negated or plain.negated:
            continue
        if plain.attribute == "like":
            # Someone who prefers tea to coffee may like both.
            return "unrelated"
        if plain.attribute == "prefer" and value != normal(choice.value or ""):
            return "contradicts"
    return None


def _event(claim: Claim) -> frozenset[str]:
    """Return the words that name the event of a claim about a time; empty for other claims."""
    attribute = claim.attribute or ""
    return frozenset(attribute.split()[2:]) if attribute.startswith("time of ") else frozenset()


def _by_former(new: _Statement, old: _Statement) -> Relation | None:
    """Decide by the value that the new statement names as the former one."""
    former = new.claim.replaced
    if former is None or not old.standing or _is_of_another(new, old):
        return None
    removed = {canonical_word(word) for word in words(join_phrases(former))} - EMPTY
    added = {canonical_word(word) for word in words(join_phrases(new.claim.value or ""))} - EMPTY
    old_words = set(old.words)
    if (
        removed
        and removed <= old_words
        and not (added and added <= old_words)
        and not old.claim.negated
    ):
        return "contradicts"
    return None


def _is_of_another(new: _Statement, old: _Statement) -> bool:
    """Return whether an old statement is about somebody who is named, and a new one is not."""
    subject, other = new.claim.subject or USER, old.claim.subject or USER
    # "Ben uses Slack" begins with whom it is about, "The app runs on Heroku" with an article.
    is_named = old.words[:1] == (canonical_word(other.split(" ", 1)[0]),) and not old.is_definite
    return subject != other and is_named and other not in subject


def _by_place(new: _Statement, old: _Statement) -> Relation | None:
    """Decide by where a thing is, runs or is kept, which wordings differ about; only a change."""
    newer, older = new.claim, old.claim
    is_moved = newer.changed and newer.subject == older.subject is not None
    if not is_moved or newer.attribute == older.attribute or newer.negated or older.negated:
        return None
    return "contradicts" if {newer.attribute, older.attribute} <= _PLACES else None


def _is_lost(gone: Claim, old: _Statement) -> bool:
    """Return whether a statement says that somebody has what is gone."""
    verb = (old.claim.attribute or " ".join(old.words)).split(" ", 1)[0]
    named = {canonical_word(word) for word in words(join_phrases(gone.value or ""))} - EMPTY
    holds = verb in _HELD and not old.claim.negated and old.claim.subject in {None, gone.subject}
    return holds and bool(named) and named <= set(old.words)


def ended_words(text: str) -> list[str]:
    """Return the words for what a statement says is over or changed, and for former values."""
    text = text[:CLAIM_CHARACTERS_MAX]
    new = _statement(text)
    if new.ended is not None:
        named = [new.ended.text]
    elif new.claim.attribute == POSSESSION or new.claim.replaced is not None:
        named = [new.claim.replaced or new.claim.value or ""]
    elif new.ending is not None:
        named = ended_words(new.ending)
    else:
        is_named = new.claim.changed and (new.claim.subject or USER).split(" ", 1)[0] != USER
        named = [new.claim.subject or ""] if is_named else []
    return list(filter(None, dict.fromkeys([*named, *update_topics(text)])))


def _is_over(new: _Statement, ended: EndedThing, old: _Statement, text: str) -> bool:
    """Return whether what is over is what a current statement is about."""
    if ended.kind == "job":
        subject = read_claim(f"{ended.text} work as a baker").subject
        return old.claim.subject == subject and old.claim.attribute in {"employer", "occupation"}
    named = {canonical_word(word) for word in words(join_phrases(ended.text))} - EMPTY
    old_words = set(old.words)
    is_named = named <= old_words or set(terms(ended.text)) <= set(terms(text))
    if not named or not is_named or old.claim.negated or not old.standing:
        return False
    if ended.kind == "goal":
        return names_goal(old_words)
    if ended.kind == "tie":
        return names_tie(old_words)
    is_itself = named.issuperset(words(old.claim.subject or ""))
    if ended.kind == "thing":
        return is_itself or not _is_of_another(new, old)
    if _is_only_owner(ended.text, text) and not (old.claim.subject and is_itself):
        return False
    # Who has died is still somebody's sister, and was born where they were.
    attribute = old.claim.attribute or ""
    is_own = (old.claim.subject or USER) == USER and not attribute.endswith("name")
    return is_own or attribute in {"age", "residence", "grade", "weight"}


def _is_only_owner(name: str, text: str) -> bool:
    """Return whether a statement names somebody only as whose something is: "Ben's dog barks"."""
    keys = keys_of(outline(name).words)
    named = [word for word in outline(text).words if word.key in keys]
    return bool(named) and all(map(is_owner, named))


def _is_of_theirs(new: str, old: str) -> bool:
    """Return whether an old statement is about a relative of whom a new one is about."""
    whom, other = outline(new).subject(), outline(old).subject()
    owners = bearers_of(other) - {word.key for word in other}
    is_theirs = bool(whom) and owners.issuperset(f"{word.key}'s" for word in whom)
    return is_theirs and is_person(other[-1].key)


def _by_words(new: _Statement, old: _Statement, similarity: float) -> Relation:
    """Decide by words, for statements similar enough to be about the same."""
    if similarity < RELATED_SIMILARITY_MIN or not new.words or not old.words:
        return "unrelated"
    new_words, old_words = set(new.words), set(old.words)
    shared = len(new_words & old_words) / max(len(new_words | old_words), 1)
    if new.claim.negated != old.claim.negated:
        near = shared >= _SHARED_MIN or similarity >= _OPPOSED_SIMILARITY_MIN
        return "contradicts" if near and _is_denied(new_words, old_words) else "unrelated"
    if new_words == old_words:
        # Only the order of the names says who owes whom.
        return "same" if _named(new, old) == _named(old, new) else "unrelated"
    if not _are_named_apart(new, old) and _is_exchanged(new, old):
        return "contradicts"
    if new.claim.corrected and shared > 0:
        return "contradicts"
    if _are_apart(new, old) or not _QUALIFYING.isdisjoint(new_words ^ old_words):
        return "unrelated"
    if not _is_english(new, old):
        # In other languages any further word may negate the rest: "isst kein Fleisch".
        return "unrelated"
    if new_words > old_words:
        return "refines"
    if new_words < old_words:
        return "same"
    distinguishing = (
        {word for word in new_words ^ old_words if _NUMBER.fullmatch(word)}
        or ((new.names - old_words) and (old.names - new_words))
        or _begin_with_others(new, old)
    )
    return "same" if similarity >= SAME_SIMILARITY_MIN and not distinguishing else "unrelated"


def _begin_with_others(new: _Statement, old: _Statement) -> bool:
    """Return whether two statements begin with different words that may be names.

    Every first word is capitalised, so only verbs are known to be none.
    """
    first, second = new.words[0], old.words[0]
    return not {first, second} & _VERBS and first not in old.words and second not in new.words


def _is_english(new: _Statement, old: _Statement) -> bool:
    """Return whether words and similarity can show that two statements are the same.

    In other languages names and negations are not recognised, and the vectors of unknown words are
    all alike.
    """
    all_words = {*new.words, *old.words}
    return all(map(str.isascii, all_words)) and bool(_ENGLISH & all_words)


def _is_denied(one: set[str], other: set[str]) -> bool:
    return one <= other or other <= one or len(one & other) / len(one | other) >= _SHARED_MIN


def _named(one: _Statement, other: _Statement) -> list[str]:
    """Return the words of a statement that are names in either, in order."""
    return [word for word in one.words if word in one.names | other.names]


def _are_apart(new: _Statement, old: _Statement) -> bool:
    """Return whether both claim one value each, of different attributes."""
    return (
        new.slot is not None
        and old.slot is not None
        and new.slot != old.slot
        and new.claim.single_valued
        and old.claim.single_valued
    )


def _are_named_apart(new: _Statement, old: _Statement) -> bool:
    """Return whether their attributes differ by more than a number."""
    new_words, old_words = ({*words(each.claim.attribute or "")} for each in (new, old))
    return _are_apart(new, old) and not all(map(_NUMBER.fullmatch, new_words ^ old_words))


def _is_exchanged(new: _Statement, old: _Statement) -> bool:
    """Return whether two otherwise equal statements differ in one word or number.

    Two subjects may do the same, so the first word never counts. What was done may be done again.
    """
    if not (new.standing and old.standing):
        return False
    if abs(len(new.words) - len(old.words)) > 1 or min(len(new.words), len(old.words)) < 2:
        return False
    edits = [
        code
        for code in SequenceMatcher(None, old.words, new.words, autojunk=False).get_opcodes()
        if code[0] != "equal"
    ]
    if len(edits) != 1 or edits[0][0] != "replace":
        return False
    _, first, last, begin, end = edits[0]
    removed, added = old.words[first:last], new.words[begin:end]
    if len(removed) == len(added) == 1 and frozenset((removed[0], added[0])) in _OPPOSITES:
        return True
    if first == 0 or not _is_settled(new.claim, old.claim):
        return False
    if all(map(_NUMBER.fullmatch, removed)) and all(map(_NUMBER.fullmatch, added)):
        return True
    are_names = old.names.issuperset(removed) and new.names.issuperset(added)
    return are_names and _is_english(new, old)


def _is_settled(new: Claim, old: Claim) -> bool:
    """Return whether neither is a claim of which many may hold at once."""
    return not any(
        claim.attribute is not None and not claim.single_valued and holds_many(claim.attribute)
        for claim in (new, old)
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
    new_text, old_text = normal(new), normal(old)
    if new_text == old_text:
        return "equal"
    if not new_text or not old_text:
        return "narrower" if new_text else "wider"
    first = [
        canonical_word(word)
        for word in words(join_phrases(mark_letters(new)))
        if word not in _IGNORED
    ] or [new_text]
    second = [
        canonical_word(word)
        for word in words(join_phrases(mark_letters(old)))
        if word not in _IGNORED
    ] or [old_text]
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
