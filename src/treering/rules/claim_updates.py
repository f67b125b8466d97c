"""Updates: which earlier statement a sentence of change ends, by topic, attribute and value.

A sentence of change says that something is over, that something is set to a value, or what holds
now. Nothing is known of the things themselves: they are compared by the words that name them, by
the kind of value, and by the kind of attribute that their verbs are about.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import dropwhile, pairwise, takewhile
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from treering.lazy import lazy_pattern
from treering.rules.claim_attributes import is_of_many, is_person
from treering.rules.claim_cues import undecided_clauses
from treering.rules.claim_endings import is_standing, names_goal
from treering.rules.claim_outlines import (
    DETERMINERS,
    PREPOSITIONS,
    bearers_of,
    clause_outlines,
    is_content,
    key_of,
    key_set,
    keys_of,
    noun_phrase,
    outline,
)
from treering.rules.claim_words import expand_contractions, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.rules.claim_outlines import OutlineWord, SentenceOutline


def _phrases(*phrases: str) -> dict[str, list[tuple[str, ...]]]:
    """Return phrases by their first key, the longest first."""
    keys = sorted((tuple(map(key_of, phrase.split())) for phrase in phrases), key=len, reverse=True)
    return {first: [one for one in keys if one[0] == first] for first, *_ in keys}


def _by_verb(attributes: dict[str, str]) -> dict[str, str]:
    return {key_of(verb): name for name, verbs in attributes.items() for verb in verbs.split()}


_NOW: Final = lazy_pattern(
    r"^(?:New|From|Since|After|Following|Due to|Because of|As of|Starting|Effective|With effect)\b"
    r"|\b(?:now|[Nn]o longer|any ?more|any longer|instead|[Ff]rom now on|these days|nowadays|as of"
    r"|from (?:this|next) \w+|starting (?:in|on|this|next|from|with)|since (?=[A-Z]|last|the|this"
    r"|we|I)|[Tt]urns? out|[Tt]urned out|rather than|after all|[Aa]ctually|going forward|again"
    r"|minds?|[Tt]his (?:term|week|month|year|season)|so|(?:is|are) to be|changed|switched|new"
    r"|delayed|moved|left|ended|replaced|not (?:\w+ ){1,3}until)\b"
)
"""What says that a sentence is about a new state of things."""
_SINCE_WHEN: Final = lazy_pattern(
    r",? (?:starting|beginning|effective|since|as of|from (?:this|next)) (?!now\b)[\w ]+(?=[.!]?$)"
)
"""From when on something holds, at the end of a sentence."""
_INSTEAD: Final = lazy_pattern(
    r"\b(?:instead|from now on|from (?:this|next)|rather|any ?more|going forward|starting)\b"
)
_MORE: Final = lazy_pattern(
    r"\b(?:also|too|as well|additionally|in addition|besides|another|either|second|on top|other"
    r"|still|for now|tried|try|may|maybe|if|would|could|wouldn't|couldn't|almost|nearly|yet)\b"
)
"""What says that the rest stays, or that nothing is decided."""
_LEFT: Final = _phrases(
    "give up on", "give up", "quit", "stop", "cease", "ditch", "drop", "abandon", "scrap", "leave",
    "fire", "cancel", "call off", "get rid of", "sell", "trade in", "trade", "swap", "replace",
    "move on from", "move away from", "move off", "migrate off", "migrate from",
    "migrate away from", "switch from", "switch away from", "withdraw from", "pull out of",
    "drop out of", "back out of", "step down as", "step down from", "lay off from", "lay off by",
    "part with", "part ways with", "break up with", "get over", "recover from", "hand", "pass on",
    "phase out", "retire", "finish", "complete", "unsubscribe from", "uninstall", "resign from",
    "resign as", "take off", "give away", "throw out", "throw away", "remove", "divorce",
    "decommission", "deprecate", "discontinue", "no longer", "no more", "done with", "off",
    "out of", "not need", "terminate",
)  # fmt: skip
"""Verbs whose object is over, for whom they are said of."""
_OVER: Final = _phrases(
    "gone", "off", "over", "cancelled", "ended", "finished", "closed", "sold", "removed",
    "dropped", "discontinued", "deprecated", "scrapped", "replaced", "repaired", "fixed", "solved",
    "resolved", "left", "retired", "resigned", "fired", "moved out",
    "split up", "broke up", "fell through", "came off", "history", "shut down", "closed down",
    "went away", "stepped down", "let go", "laid off", "expired", "succeeded", "superseded",
    "lifted", "reopened", "unblocked", "decommissioned", "called off", "phased out", "abandoned",
    "quit", "followed", "disbanded", "dissolved", "terminated",
)  # fmt: skip
"""What says that its subject is over."""
_OF_PEOPLE: Final = key_set("left retired resigned fired quit let laid step moved pass succeeded")
"""Of these, what people do: they stay who they are, and leave a role or a place."""
_MENDED: Final = key_set("repaired fixed solved resolved lifted reopened unblocked")
"""Of these, what ends a state of a thing, and nothing else about it."""
_ARRIVED: Final = _phrases(
    "came through", "arrived", "came", "approved", "granted", "delivered", "accepted", "is here"
)
"""What says that what was waited for is there."""
_PENDING: Final = key_set(
    "pending blocked unpaid unresolved unsolved outstanding undecided waiting missing overdue"
    " unfinished unassigned unconfirmed"
)
"""States that end when anything is done about a thing."""
_AUXILIARY: Final = word_set("has have was were is are got")
_BY_NAME: Final = key_set("drop leave lose trade take remove off")
"""Verbs that are said of any object, and end what is known only of something with a name."""
_ONGOING: Final = key_set("finish complete")
"""Verbs that end what somebody was doing."""
_GOALS: Final = key_set("need want plan have hope intend going must should supposed")
_PARTED: Final = _phrases("broke up", "split up", "separated", "divorced", "parted", "fell out")
_MOMENTS: Final = word_set("midnight noon tonight early late")
_IRREGULAR_PASTS: Final = word_set(
    "bought sold wrote built made took got found learned learnt met ran read saw sent paid went won"
    " did gave began chose"
)
_NAMING: Final = key_set("be call name")
_RENEWED: Final = key_set("change switch new")
"""What says that a thing has another value, which may come later or not at all."""
_SHIFTS: Final = _by_verb(
    {
        "made": "port rewrite reimplement rebuild redesign recode",
        "place": "move migrate relocate transfer settle resettle",
        "amount": "raise increase lower reduce cut slash bump up double halve shorten extend grow"
        " shrink drop rise fall climb jump scale trim cap limit go",
        "time": "postpone reschedule push delay bring shift slip defer",
        "name": "rename relabel rebrand",
        "any": "change switch set update upgrade downgrade turn convert adjust amend revise pass"
        " promote swap replace relicense paint",
    }
)
"""Verbs that set a thing to a value, by the kind of attribute."""
_ATTRIBUTES: Final = _by_verb(
    {
        "made": "write build make develop implement code program",
        "place": "run host live sit keep store locate base deploy stay go house reside hold work"
        " post send ship save put",
        "person": "own lead manage chair head staff maintain responsible",
        "name": "call name",
    }
)
"""The kinds of attributes that verbs are about."""
_VALUE_JOINTS: Final = {
    "made": word_set("to into in"),
    "place": word_set("to into in"),
    "amount": word_set("to until"),
    "time": word_set("to until"),
    "name": word_set("to as"),
    "any": word_set("to into with by for under until"),
}
_ENDS_VALUE: Final = word_set(
    "for because since last as after during when while so and but from by this next starting"
)
_FORMER: Final = frozenset({(",", "not"), ("instead", "of"), ("place", "of"), ("rather", "than")})
_AT: Final = word_set("in on at")
_HELD: Final = word_set("is are with by")
_OWN: Final = word_set("my our the")
_GROUPS: Final = key_set("team family company club")
_SINCE: Final = word_set("last next two three a some")
_GOES_ON: Final = DETERMINERS | word_set("of at for early late")
_SPANS: Final = key_set("second minute hour day week month year quarter")


_TRIGGERS: Final = key_set(
    "now longer anymore any instead rather used new nowadays these starting since turns turned"
    " actually again mind minds this going changed so bought wrote built made found learnt met ran"
    " read saw sent paid went won did began chose got not as down up back until after following"
).union(_LEFT, _OVER, _PARTED, _SHIFTS, _RENEWED)
_EDGES: Final = '.,;:!?()"'

_How: TypeAlias = Literal[
    "thing", "person", "doing", "slot", "goal", "clause", "state", "wish", "pending"
]


class Setting(NamedTuple):
    """A thing that is set to a value."""

    topic: tuple[OutlineWord, ...]
    """Empty if it is another one of its kind: "I transferred to the NA server"."""
    value: tuple[OutlineWord, ...]
    attribute: str


class ThingOver(NamedTuple):
    """A thing that is over."""

    thing: tuple[OutlineWord, ...]
    whose: frozenset[str] | None
    """The keys of whom it is over for; empty for the user, None for everybody."""
    near: frozenset[str] | None = None
    """The keys of the other words of a sentence that names it as a former value."""
    how: _How = "thing"
    """Whether it is somebody who left a role or a place, what somebody was doing or has done, what
    has another value now, or all that a clause says."""


class Update(NamedTuple):
    """What a sentence says has changed."""

    over: tuple[ThingOver, ...]
    settings: tuple[Setting, ...]
    clauses: tuple[SentenceOutline, ...]
    """The clauses that say what holds now."""
    is_now: bool
    """Whether it says so; else another number or time is all that they can change."""


@lru_cache(maxsize=1_024)
def read_update(text: str) -> Update | None:
    """Return what a sentence says has changed; None if it is about no change."""
    if not _may_change(text) or _MORE.search(text) is not None or is_undecided(text):
        return None
    clauses = clause_outlines(text)
    over = [one for clause in clauses for one in _things_over(clause)]
    over += _former_values(outline(text))
    settings = tuple(one for clause in clauses for one in _settings(clause))
    is_now = _NOW.search(expand_contractions(text)) is not None
    is_now = is_now or any(clause.verb().startswith("re") for clause in clauses)
    now = clause_outlines(_SINCE_WHEN.sub("", text)) if is_now or len(clauses) > 1 else ()
    is_change = over or settings or now
    return Update(tuple(over), settings, now, is_now) if is_change else None


def is_undecided(text: str) -> bool:
    """Return whether what a sentence says of a change is quoted, denied, planned or supposed."""
    is_open, others = undecided_clauses(text)
    return is_open and not any(map(_may_change, others))


def update_topics(text: str) -> list[str]:
    """Return the words by which statements that a sentence of change may end are found."""
    update = read_update(text)
    if update is None:
        return []
    named = [one.thing for one in update.over]
    named += [one.topic or tuple(filter(is_content, one.value))[-1:] for one in update.settings]
    for clause in update.clauses:
        named += [clause.subject()] + [(word,) for word in clause.contents() if _is_noun(word)]
    return list(dict.fromkeys(" ".join(word.text for word in words) for words in named if words))


def ends_statement(new: str, old: str) -> bool:
    """Return whether a sentence of change says that an earlier statement no longer holds."""
    update = read_update(new)
    if update is None or not is_standing(old):
        return False
    known = outline(old)
    if _is_of_relative(new, known):
        return False
    return (
        any(_is_over(one, known) for one in update.over)
        or any(_is_set(one, known) for one in update.settings)
        or any(_is_exchanged(clause, known, is_now=update.is_now) for clause in update.clauses)
    )


def _is_of_relative(new: str, old: SentenceOutline) -> bool:
    """Return whether a statement is about somebody whom a sentence about the user leaves out."""
    whom = old.subject()
    if not any(is_person(word.key) and word.key not in _GROUPS for word in whom):
        return False
    # "Her boss Helena works at the bank" and "I switched banks".
    later = outline(new)
    return not later.subject() and keys_of(whom).isdisjoint(keys_of(later.contents()))


# Reading a sentence of change.


def _may_change(text: str) -> bool:
    """Return whether a sentence has a word that one of change needs; most have none."""
    spoken = [word.strip(_EDGES) for word in text.lower().split()]
    return any(word.endswith("ed") or key_of(word) in _TRIGGERS for word in spoken)


def _things_over(clause: SentenceOutline) -> Iterator[ThingOver]:
    words, subject = clause.words, clause.subject()
    yield from _clause_over(clause, subject)
    is_momentary = any(word.text in _MOMENTS for word in words)
    for at, word in enumerate(words):
        after = None if is_momentary else _after(words, at, _LEFT)
        thing = () if after is None else noun_phrase(words, after)
        # "Left Deloitte to found a start-up" has no subject before what is over.
        whose = bearers_of(clause.contents(0, min(at, clause.verb_at)))
        if thing and (word.key not in _BY_NAME or any(each.kind == "name" for each in thing)):
            how: _How = "doing" if word.key in _ONGOING else "thing"
            yield ThingOver(thing, whose, how=how)
            names = tuple(each for each in thing if each.kind == "name")
            if names and how == "thing" and thing[0].kind not in {"name", "number"}:
                # "No longer licenses Origin" ends what is said of Origin in other words.
                yield ThingOver(names, whose, how=how)
        after = _after(words, at, _OVER)
        is_said = at >= clause.verb_at and not any(map(is_content, words[clause.verb_at : at]))
        if subject and is_said and after is not None and _is_last(words, after):
            yield ThingOver(subject, None, how=_how_over(word.key))
        if subject and is_said and _after(words, at, _ARRIVED) is not None:
            yield ThingOver(subject, None, how="wish")
        renewed = noun_phrase(words, at + 1) if word.key in _RENEWED else ()
        if renewed and not is_of_many(renewed[-1].key):
            yield ThingOver(renewed, None, how="slot")


def _how_over(key: str) -> _How:
    if key in _OF_PEOPLE:
        return "person"
    return "state" if key in _MENDED else "thing"


def _clause_over(clause: SentenceOutline, subject: tuple[OutlineWord, ...]) -> Iterator[ThingOver]:
    """Return what a clause as a whole says is over: what used to be, a pair, what is done."""
    words, at = clause.words, clause.verb_at
    if ("used", "to") in pairwise(word.text for word in words):
        was = tuple(word for word in clause.contents() if word.text != "used")
        yield ThingOver(was, None, how="clause")
    is_pair = any(word.text == "and" for word in words[:at])
    if is_pair and any(_after(words, later, _PARTED) for later in range(at, len(words))):
        yield ThingOver(subject, None, how="clause")
    spoken = {word.text for word in words}
    if "not" in spoken and not spoken.isdisjoint({"anymore", "more", "longer"}):
        yield ThingOver(clause.contents(), None, how="clause")
    longer = next((i for i, word in enumerate(words) if word.text == "longer"), len(words))
    if rest := clause.contents(longer + 1):
        yield ThingOver((*subject, *rest), None, how="clause")
    if subject and words[at].text in _AUXILIARY and clause.verb() != "be":
        yield ThingOver(subject, None, how="pending")
        if clause.verb().startswith("un"):
            undone = tuple(
                word._replace(key=word.key.removeprefix("un")) for word in clause.contents()
            )
            yield ThingOver(undone, None, how="clause")
    verb = words[at].text if words[at:] else ""
    if verb.endswith("ed") or verb in _IRREGULAR_PASTS:
        yield ThingOver(clause.contents(at), keys_of(subject), how="goal")


def _is_last(words: tuple[OutlineWord, ...], at: int) -> bool:
    """Return whether the words before a place are said of the subject: they have no object."""
    if at >= len(words):
        return True
    after = words[at]
    is_object = is_content(after) and after.kind != "time" and after.text not in _SINCE
    return not is_object and after.text not in _GOES_ON


def _former_values(whole: SentenceOutline) -> Iterator[ThingOver]:
    """Return what a sentence names as a former value: "from A to B", "instead of A", ", not A"."""
    words = whole.words
    for at, word in enumerate(words):
        before = words[at - 1].text if at else ""
        is_former = (before, word.text) in _FORMER or (
            word.text == "from"
            and any(each.text in {"to", "over"} for each in (*words[at:], *words[at - 3 : at]))
        )
        # "By e-mail rather than by post" has another preposition.
        after = words[at + 1 :]
        after = after[1:] if after and after[0].text in PREPOSITIONS else after
        thing = noun_phrase(after, 0) if is_former else ()
        if thing:
            yield ThingOver(thing, None, keys_of(whole.contents()) - keys_of(thing))


def _settings(clause: SentenceOutline) -> Iterator[Setting]:
    words = clause.words
    for at in range(clause.verb_at, len(words) - 1):
        is_level = words[at].text in {"down", "up", "back"} and words[at + 1].text == "to"
        attribute = "any" if is_level else _SHIFTS.get(words[at].key)
        if attribute is None and words[at].text.endswith("ed") and at > clause.verb_at:
            # Whatever was done to a thing, "to 99.9 percent" is what it came to.
            attribute = "amount"
        if attribute is None:
            continue
        joints = _VALUE_JOINTS[attribute]
        joint = next((i for i in range(at + 1, len(words)) if words[i].text in joints), len(words))
        value = tuple(takewhile(lambda word: word.text not in _ENDS_VALUE, words[joint + 1 :]))
        contents = tuple(filter(is_content, value))
        topic = noun_phrase(words, at + 1) or clause.subject()
        if not contents:
            continue
        yield Setting(topic, value, attribute)
        # "The due date of the invoice": what is set may be said of the invoice.
        of = next((i for i in range(at) if words[i].text in {"of", "for"}), at)
        if whole := noun_phrase(words, of + 1) if of < clause.verb_at else ():
            yield Setting(whole, value, "amount")
        return


def _after(
    words: tuple[OutlineWord, ...], at: int, phrases: dict[str, list[tuple[str, ...]]]
) -> int | None:
    """Return where the words after the longest phrase that begins at a place begin."""
    for phrase in phrases.get(words[at].key, ()):
        if tuple(word.key for word in words[at : at + len(phrase)]) == phrase:
            return at + len(phrase)
    return None


# Comparing it with what was known.


def _is_over(over: ThingOver, old: SentenceOutline) -> bool:
    keys, subject = keys_of(over.thing), old.subject()
    if over.how == "slot":
        is_its = keys_of(subject) - {"name"} == keys
        # "The school has a chess club" does not say which school.
        is_had = any(word.text in {"has", "have"} for word in old.words[old.verb_at :][:1])
        return is_its and not is_had and old.verb().split(" ")[0] in _NAMING
    if over.how == "goal":
        at = next((at for at, word in enumerate(old.words) if word.key in _GOALS), len(old.words))
        goal, whose = keys_of(old.contents(at + 1)), over.whose or frozenset()
        # What a sister did is not done for the user; what Ann did may be done for all.
        is_theirs = not subject and any(map(is_person, whose))
        return len(goal) > 1 and goal <= keys | whose and not is_theirs
    if over.how == "clause":
        return keys <= keys_of(old.contents())
    if not _names_whole(over.thing, old, is_part=over.whose is not None):
        return False
    if over.near is not None:
        return not over.near.isdisjoint(keys_of(old.contents()) - keys)
    if over.whose is None:
        return _says_nothing_else(over.how, old)
    is_done = over.how != "doing" or any(word.text.endswith("ing") for word in old.words)
    return is_done and _is_own(subject, over.whose, old) and not keys <= keys_of(subject)


def _says_nothing_else(how: _How, old: SentenceOutline) -> bool:
    """Return whether what a statement says of a thing that it names is over with it."""
    if how == "wish":
        return names_goal({word.text for word in old.words})
    if how == "pending":
        return not _PENDING.isdisjoint(keys_of(old.contents(old.verb_at)))
    if how == "state":
        return len(old.contents(old.verb_at)) == 1
    if how == "person":
        return not _amounts(old.words) and any(word.text in _HELD for word in old.words)
    return True


def _is_own(subject: tuple[OutlineWord, ...], whose: frozenset[str], old: SentenceOutline) -> bool:
    """Return whether a statement is about whom something is over for, or about their things."""
    if not subject:
        # What is over for a friend is not over for the user, but what a team drops is.
        return whose <= _GROUPS
    if bearers_of(subject) <= whose:
        return True
    is_somebody = is_person(subject[-1].key) and subject[-1].key not in _GROUPS
    return whose <= _GROUPS and old.words[0].text in _OWN and not is_somebody


def _is_set(setting: Setting, old: SentenceOutline) -> bool:
    topic, value, subject = keys_of(setting.topic), setting.value, keys_of(old.subject())
    rest = tuple(word for word in old.words if word.key not in topic)
    if _contents_keys(value) <= _contents_keys(rest):
        return False
    if not topic:
        return _is_other_one(value, old)
    is_named = _names_whole(setting.topic, old)
    # "The membership fee" is what membership costs; "my wife's visit" is not mine.
    is_whole = bool(subject) and subject <= topic and not any(map(is_person, topic - subject))
    is_of_it = is_named or is_whole
    if _has_time(value) or _has_time(rest):
        is_timed = _has_time(value) or "" in _amounts(value)
        return is_of_it and is_timed and _has_time(rest)
    if _amounts(value) or _amounts(rest):
        return is_of_it and _are_of_a_unit(_amounts(value), _amounts(rest))
    is_attribute = setting.attribute in {"any", _attribute(old)}
    return is_named and is_attribute and not _is_place_of_another(topic, old)


def _is_place_of_another(topic: frozenset[str], old: SentenceOutline) -> bool:
    """Return whether a statement says of another that they are at a thing: "Ana works at Acme"."""
    if not old.subject() or topic & keys_of(old.subject()):
        return False
    at = next((at for at, word in enumerate(old.words) if word.key in topic), 0)
    led = [word.text for word in old.words[:at] if word.text not in DETERMINERS]
    return bool(led) and led[-1] in PREPOSITIONS


def _is_other_one(value: tuple[OutlineWord, ...], old: SentenceOutline) -> bool:
    """Return whether a statement names another one of a kind: "the EU server", "two cups"."""
    new_run = tuple(takewhile(is_content, dropwhile(lambda word: not is_content(word), value)))
    return any(
        len(run) > 1
        and len(new_run) > 1
        and run[-1].kind == "word"
        and run[-1].key == new_run[-1].key
        and keys_of(run[:-1]).isdisjoint(keys_of(new_run))
        and {word.kind for word in run[:-1]} == {word.kind for word in new_run[:-1]}
        for run in old.runs()
    )


def _is_exchanged(clause: SentenceOutline, old: SentenceOutline, *, is_now: bool) -> bool:
    """Return whether a clause says the same as a statement, with another value."""
    new_words, old_words = clause.contents(), old.contents()
    shared = keys_of(new_words) & keys_of(old_words)
    known = shared | {clause.verb(), old.verb()}
    added = tuple(word for word in new_words if word.key not in known)
    removed = tuple(word for word in old_words if word.key not in known)
    subject, other = keys_of(clause.subject()), keys_of(old.subject())
    topic = {word.key for word in new_words if word.kind != "verb"} & shared - {clause.verb()}
    if not added or not removed:
        return False
    if is_now and subject == other and _are_of_an_attribute(clause, old):
        return True
    verbs = {clause.verb().split(" ")[0], old.verb().split(" ")[0]}
    if subject and subject == other and len(verbs) > 1 and "be" not in verbs:
        # A shop opens at one time, and closes at another.
        return False
    if not topic:
        is_timed = {word.kind for word in (*added, *removed)} == {"time"}
        return is_timed and subject == other and clause.verb() == old.verb()
    is_turned = subject <= keys_of(old_words) or other <= keys_of(new_words)
    is_same_verb = is_now and (old.verb() in shared or clause.verb() == old.verb())
    return is_turned and _are_of_a_kind(added, removed, is_same_verb=is_same_verb)


def _are_of_an_attribute(clause: SentenceOutline, old: SentenceOutline) -> bool:
    """Return whether two statements about one thing say the same of it, whatever the value."""
    # Who reassigns a thing assigns it to somebody else.
    verb, subject = clause.verb(), old.subject()
    verb = old.verb() if verb == f"re{old.verb()}" else verb
    if not subject:
        return verb == old.verb() and _is_instead(clause, old)
    if verb.startswith("be"):
        return verb == old.verb() != "be" and not is_person(subject[-1].key)
    return verb == old.verb() or _attribute(clause) == _attribute(old) is not None


def _is_instead(clause: SentenceOutline, old: SentenceOutline) -> bool:
    """Return whether a clause says what somebody does instead: of the same object, or elsewhere."""
    if _INSTEAD.search(clause.text()) is None:
        return False
    after = [_after_verb(each) for each in (clause, old)]
    objects = [keys_of(noun_phrase(words, 0)) for words in after]
    if all(objects):
        return not objects[0].isdisjoint(objects[1])
    return not any(objects) and all(after) and after[0][0].text == after[1][0].text


def _after_verb(clause: SentenceOutline) -> tuple[OutlineWord, ...]:
    verb = clause.verb()
    at = next((at for at, word in enumerate(clause.words) if word.key == verb), clause.verb_at)
    return clause.words[at + 1 :]


def _are_of_a_kind(
    added: Iterable[OutlineWord], removed: Iterable[OutlineWord], *, is_same_verb: bool
) -> bool:
    """Return whether two remainders are values of the same kind.

    Under another verb, only numbers and times are: many things have names.
    """
    kinds = {word.kind for word in added} - {"verb"}
    is_one = kinds == {word.kind for word in removed} - {"verb"} and len(kinds) == 1
    return is_one and (kinds <= {"number", "time"} or (is_same_verb and kinds == {"name"}))


def _names_whole(
    thing: tuple[OutlineWord, ...], old: SentenceOutline, *, is_part: bool = False
) -> bool:
    """Return whether a statement names a thing, and not something else that it is a part of.

    With ``is_part``, a name may be a part: who leaves Acme leaves the Acme project.
    """
    keys, nouns = keys_of(thing), frozenset(word.key for word in thing if word.kind != "verb")
    if not keys <= keys_of(old.contents()):
        return False
    if not nouns:
        # "I no longer go" is not about Go.
        return keys <= frozenset(word.key for word in old.contents() if word.kind != "name")
    is_name = any(word.kind == "name" for word in thing)
    return keys == keys_of(old.subject()) or any(
        nouns <= keys_of(run)
        and all(word.key in keys or (is_name and (is_part or word.kind == "name")) for word in run)
        for run in old.runs()
    )


def _attribute(old: SentenceOutline) -> str | None:
    """Return the kind of attribute that a statement is about."""
    for word in old.words[old.verb_at :]:
        if word.key in _ATTRIBUTES and is_content(word):
            return _ATTRIBUTES[word.key]
    is_placed = old.verb() in {"be", ""} and any(word.text in _AT for word in old.words)
    return "place" if is_placed else None


def _amounts(words: tuple[OutlineWord, ...]) -> list[str]:
    """Return the units of the amounts in a text; an amount without a unit has an empty one."""
    units = []
    for before, word, after in zip((None, *words), words, (*words[1:], None), strict=False):
        is_one = word.text in {"a", "an"} and after is not None and after.key in _SPANS
        is_version = before is not None and before.kind == "name"
        if (word.kind == "number" and not is_version) or is_one:
            units.append(after.key if after is not None and after.kind == "word" else "")
    return units


def _are_of_a_unit(one: list[str], other: list[str]) -> bool:
    return any(
        not first or not second or first == second or {first, second} <= _SPANS
        for first in one
        for second in other
    )


def _contents_keys(words: tuple[OutlineWord, ...]) -> frozenset[str]:
    return keys_of(tuple(filter(is_content, words)))


def _has_time(words: tuple[OutlineWord, ...]) -> bool:
    return any(word.kind == "time" for word in words)


def _is_noun(word: OutlineWord) -> bool:
    return word.kind in {"word", "name"}
