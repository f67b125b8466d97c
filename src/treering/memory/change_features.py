"""The signs by which a statement may change an earlier one.

Rules know the sentences that they were written for. Here two statements are compared by many weak
signs instead: what they share, which kinds of values differ, how near the meanings of their words
are, and whether the later one speaks of a change at all. ``change_weights`` says how much each
sign counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.derive.claim_attributes import holds_many, is_person
from treering.derive.claim_endings import ended_thing, is_standing
from treering.derive.claim_outlines import (
    DETERMINERS,
    PRONOUNS,
    clause_outlines,
    key_of,
    key_set,
    keys_of,
    noun_phrase,
    outline,
)
from treering.derive.claim_updates import CHANGE_VERBS
from treering.derive.claim_words import VERBS, word_set
from treering.lazy import lazy_pattern
from treering.memory.change_words import CUES, DEEDS, MANY_AT_A_TIME, ONE_AT_A_TIME, PASTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.derive.claim_outlines import OutlineWord, SentenceOutline
    from treering.memory.alignment import Aligner

    Vector = NDArray[np.float32]

CUE_FROM: Final = 0.55
"""The cosine from which a word means about the same as a word of change."""
EXCHANGED_FROM: Final = 0.35
OTHERWISE_EXCHANGED_FROM: Final = 0.15
"""The cosine from which a word may stand for another: of the same subject, and otherwise."""
PREDICATES_FROM: Final = 0.3
"""The cosine from which two predicates may be about the same, if no words are."""
TOPIC_FROM: Final = 0.5
"""The cosine from which a word is about the topic of another."""
TOPIC_SURE: Final = 0.8
"""How much two statements have to be about a topic to have to do with each other by it alone."""
FAR_FROM: Final = 0.25
"""Words with a lower cosine have nothing to do with each other."""
CHARACTERS_MAX: Final = 400
"""Longer statements say more than one thing."""
_STATEMENTS_HELD: Final = 1_024
_NOW: Final = lazy_pattern(
    r"\b(?:now|no longer|no more|any ?more|any longer|from now on|these days|nowadays|as of|lately"
    r"|going forward|from here on|by now|for the first time"
    r"|from (?:this|next|today|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:jan|febr)uary|march|april|may|june|july|august|(?:septem|octo|novem|decem)ber)"
    r"|starting|effective|since|at last|finally|this (?:term|week|month|year|season|spring|summer"
    r"|autumn|winter))\b",
    re.IGNORECASE,
)
"""What says that something holds from now on."""
_TURNED: Final = lazy_pattern(
    r"\b(?:again|back(?= (?:to|from|at|in|on|with|home)\b|[.,!]|$)|after all|turns? out|turned out"
    r"|actually|instead|rather than|in place of"
    r"|in favou?r of|so|already|correction|will|to be|(?:is|are|am|'m|'re|'s|going|went|gone|come"
    r"|came) (?:down|up|out|off|over)|had to|(?:down|up) to)\b",
    re.IGNORECASE,
)
"""What says that something is otherwise than it was."""
_MORE: Final = lazy_pattern(
    r"\b(?:also|too(?=[.!,]|$)|as well|additionally|in addition|besides|either|on top|still"
    r"|for now|added|used to|grew up|was raised)\b|^(?:Was|Were) ",
    re.IGNORECASE,
)
"""What says that the rest stays, or what was before."""
_OPEN: Final = lazy_pattern(
    r"\b(?:tried|try|might|may|maybe|consider(?:s|ed|ing)?|thinking (?:of|about)|if|whether|would"
    r"|could|almost|nearly|yet|some ?day|one day|perhaps|talk of)\b"
)
"""What says that nothing is decided."""
_BEGINS: Final = word_set(
    "start starts begin begins starting becoming getting seeing switching moving leaving quitting"
    " stepping stop stops replaces replace takes take heading joining going coming"
)
"""What says that something is about to be otherwise, or is becoming so."""
_PASSED: Final = lazy_pattern(
    r"\b(?:(?<='s )history|(?:is|are) history|behind (?:me|us|him|her|them)|done with"
    r"|is done|are done|over(?=[.,!]|$| and)"
    r"|over (?:my|her|his|their|the)|out of|off the|paid off|last day|gave (?:my |her |his )?notice"
    r"|packed (?:it )?in|jacked|no need|don't need|lapse[ds]?|got rid|gave up|given up|ripped out"
    r"|dropped|ditched|dumped|scrapped|banned|cut out|put down|passed away|broke up|fell"
    r" through|call(?:ed)? off|pulled the plug|wound up|shut|without an?|no more|never again"
    r"|grew out|outgrown?|backed out|moved out|handed (?:over|back)|got out of|let go|laid off"
    r"|walked away|sold|gone|bailed|expired|cancell?ed|quit|stopped|retired|left|finished"
    r"|passed)\b",
    re.IGNORECASE,
)
"""What says that something is over."""
_FURTHER: Final = word_set("another second other extra new")
"""What may say that there is one more, or another one."""
_BAD: Final = lazy_pattern(
    r"\b(?:not|no|never|without|none|cannot|nor|hates?|hated|dislikes?|can't|cannot|afraid|scared"
    r"|fear|terrified|allergic|unable|avoids?|refuses?|off|stopped|quit|broken|closed|mess|lack"
    r"|unemployed|worried|sick|bad|slow|unpaid|missing|down|isn't)\b|n't\b",
    re.IGNORECASE,
)
"""What says that something is not so, or not well."""
_DENIED: Final = lazy_pattern(r"\b(?:not|no|never|without|none|cannot|nor)\b|n't\b", re.IGNORECASE)
_AIM: Final = lazy_pattern(
    r"\b(?:looking|wants?|planning|plans?|planned|saving|waiting|hopes?|going to|needs?|goal"
    r"|learning|reading|training)\b",
    re.IGNORECASE,
)
"""What is over as soon as it is reached."""
_ONCE: Final = lazy_pattern(
    r"\b(?:today|tonight|yesterday|this (?:morning|afternoon|evening)|ago|last \w+|in \d{4})\b"
)
"""What says when something happened, which may have been for a day."""
_GAINED: Final = lazy_pattern(
    r"\b(?:adopted|bought|got|gotten|joined|hired|won|built|signed|started|began|took up|acquired"
    r"|ordered|planted|received|welcomed|opened|launched) (?:an?|two|three|some|new|more|\w+ing)\b",
    re.IGNORECASE,
)
"""What says that there is one more."""
_LOST: Final = lazy_pattern(
    r"\b(?:sold|lost|gave away|threw (?:out|away)|returned|broke|dropped) (?:an?|some|two|three)\b",
    re.IGNORECASE,
)
"""What says that one of several is gone."""
_WEAKLY: Final = (_BEGINS | _FURTHER | DEEDS) - {"died"}
"""Words that say little of a change by themselves."""
_ENGLISH: Final = frozenset(VERBS) - word_set("is was be die do had have") | word_set(
    "the my our are were has and with from for now this she he they their his her by not any"
    " this these since instead again"
)
"""Words that show that a statement is English: the signs are read in no other language."""
_FOREIGN: Final = word_set(
    "der das und ist ich nicht eine mein meine wir sind nach wohne wohnt lebe lebt arbeite arbeitet"
    " que una soy vivo vive yo muy por tengo tiene trabajo trabaja je suis une dans nous avec"
    " habite travaille não meu minha uma moro mora tenho trabalho che sono een niet ik mijn og jeg"
    " ikke jag inte och"
)
"""Words that show that a statement is in another language."""
_LATIN_END: Final = "\u0250"
_TRIGGERS: Final = PASTS | word_set(
    "starts start begins begin stop stops replaces replace takes take another second other extra"
    " here behind done "
    "now longer more anymore any from these nowadays as lately going starting effective since last"
    " finally this again back after turns actually instead rather place favour favor so already"
    " correction will be down up out off over had not no never without none cannot nor new"
)
_BORN: Final = word_set("born arrived")
_OWN: Final = word_set("i we my our me us")
_GROUPS: Final = key_set("team family company club")
_EDGES: Final = '.,;:!?()"'
_RULED: Final = frozenset({"tie", "person"})
"""What the rules for endings know better: who has died is still somebody's sister."""
_SINCE: Final = word_set("last this since next from as of")
"""Before a time that says since when something holds, not what holds."""
_VERBS: Final = CHANGE_VERBS | key_set(
    "join start begin adopt buy hire marry born turn become land graduate heal recover outgrow"
    " take convert translate rename lose pass settle return reverse undo restore merge"
    " inherit elect appoint name assign reassign swap trade cure wean evict expel ban forbid allow"
    " enable disable lift grow shrink move promote demote transfer switch stopped quit tear shave"
    " cave dump bail close end die break split separate ship submit publish launch win pay redo"
    " flip wipe cave dissolve resume relapse crash smash steal stolen write-off cut dye bleach"
)
"""Verbs after which something is otherwise; others say what somebody did."""
_AUXILIARIES: Final = word_set("has have had was were is are been got")


class ComparedStatement(NamedTuple):
    """What a statement says, as far as it is compared."""

    outline: SentenceOutline
    contents: tuple[OutlineWord, ...]
    keys: frozenset[str]
    subject: frozenset[str]
    rest: frozenset[str]
    """The keys of what is neither its subject nor its verb."""
    numbers: frozenset[str]
    units: frozenset[str]
    times: frozenset[str]
    """Without those that say since when something holds."""
    names: frozenset[str]
    vectors: Vector
    """One row for each meaningful word."""
    predicate: Vector | None
    """The vector of all but its subject."""
    vector: Vector
    topics: Vector
    """How much each meaningful word is about each topic."""
    head: int | None
    """Which of its words is the object of its verb."""
    renewed: int | None
    """Which of its words is said to be new."""
    is_bad: bool


class SaidChange(NamedTuple):
    """What a statement says of a change, whatever it changes."""

    signs: dict[str, float]
    words: frozenset[str]
    """The keys of its words of change, if nothing else says that something changed."""
    is_only_denied: bool
    """Whether all that it says is that something is not so."""


class ChangeReader:
    """Reads the signs of a change, with the vectors of single words."""

    def __init__(self, aligner: Aligner) -> None:
        self._vector, self._embed = aligner.vector, aligner.embed
        self._cues: dict[str, Vector] = {}
        self._topics: tuple[Vector, list[int], dict[str, set[int]]] | None = None
        self._topics_of = lru_cache(maxsize=_STATEMENTS_HELD)(self._word_topics)
        self.change = lru_cache(maxsize=_STATEMENTS_HELD)(self._change)
        self._statement = lru_cache(maxsize=_STATEMENTS_HELD)(self._read)

    def signs(self, new: str, old: str) -> dict[str, float] | None:
        """Return the signs that a statement changes an earlier one; None if it does not."""
        change = self.change(new)
        if change is None or len(old) > CHARACTERS_MAX or not is_standing(old):
            return None
        later, earlier = self._statement(new), self._statement(old)
        if not later.keys or not earlier.keys:
            return None
        if change.words and change.words <= earlier.keys:
            # "Write docs for new endpoints" and "Write tests for new endpoints".
            return None
        if _is_of_another(later, earlier):
            return None
        signs = change.signs | {"cosine": float(later.vector @ earlier.vector)}
        signs |= _of_subjects(later, earlier) | _of_values(later, earlier)
        signs |= _of_meaning(later, earlier) | _of_topics(later, earlier)
        if (
            later.keys & earlier.keys <= earlier.subject
            and signs["one topic"] < TOPIC_SURE
            and _are_far(signs)
        ):
            # "I stopped the server" says nothing about the port that it runs on.
            return None
        signs |= {"only denied": float(change.is_only_denied and not earlier.rest & later.keys)}
        return signs | _together(signs, earlier, old)

    def is_silent(self, text: str) -> bool:
        """Return whether no word of a statement says that something changed."""
        change = self.change(text)
        return change is None or change.signs["only a deed"] > 0

    def share_subject(self, new: str, old: str) -> bool:
        """Return whether two statements may be about the same."""
        later, earlier = self._statement(new), self._statement(old)
        one, other = later.subject, earlier.subject
        names, others = one & later.names, other & earlier.names
        if names and others and not (names <= others or others <= names):
            return False
        return not one or not other or bool(one & other) or other <= later.keys

    def _change(self, text: str) -> SaidChange | None:
        """Return what a statement says of a change; None if it speaks of none."""
        if len(text) > CHARACTERS_MAX or not _may_change(text):
            return None
        if _MORE.search(text) or _OPEN.search(text):
            return None
        ended = ended_thing(text)
        if ended is not None and ended.kind in _RULED:
            return None
        words = outline(text).words
        pasts = [at for at, word in enumerate(words) if _is_past(word, words[:at])]
        if not pasts and _ENGLISH.isdisjoint(word.text for word in words):
            return None
        is_now, is_turned, is_denied, is_passed = (
            pattern.search(text) is not None for pattern in (_NOW, _TURNED, _DENIED, _PASSED)
        )
        said = {words[at].key for at in pasts}
        said |= {word.key for word in words if word.text in _WEAKLY}
        plain = [word for word in words if word.kind in {"word", "verb"} and word.text.isalpha()]
        lasting = [word for word in plain if word.text.endswith("ing")]
        if not (said or lasting or is_now or is_turned or is_denied or is_passed):
            return None
        nearest = self._nearest(plain)
        said |= {word.key for word in lasting if _is_near(word, nearest)}
        if not (said or is_now or is_turned or is_denied or is_passed):
            return None
        is_begun, is_further, is_deed = (
            any(word.text in listed for word in words) for listed in (_BEGINS, _FURTHER, DEEDS)
        )
        signs = {
            "now": float(is_now),
            "turned": float(is_turned),
            "denied": float(is_denied),
            "past": float(bool(pasts)),
            "done": float(any(words[at - 1].text in _AUXILIARIES for at in pasts if at)),
            "clauses": float(len(clause_outlines(text)) > 1),
            "gained": float(_GAINED.search(text) is not None),
            "lost one": float(_LOST.search(text) is not None),
            "once": float(_ONCE.search(text) is not None),
            "begins": float(is_begun),
            "passed": float(is_passed),
            "further": float(is_further),
            "deed": float(is_deed),
            "only a deed": float(
                is_deed and not pasts and not (is_now or is_turned or is_passed or is_denied)
            ),
            "known verb": float(any(word.key in _VERBS for word in words)),
            "plain past": float(bool(pasts) and all(words[at].key not in _VERBS for at in pasts)),
            "length": min(len(words), 16) / 16,
        }
        for name, near in nearest.items():
            signs[name] = max(near.values(), default=0.0)
        is_said = is_now or is_turned or is_passed
        return SaidChange(
            signs,
            frozenset() if is_said else frozenset(said),
            is_only_denied=not (is_said or said),
        )

    def _nearest(self, words: Sequence[OutlineWord]) -> dict[str, dict[str, float]]:
        """Return how near words are to the words of change that say the same, by what they say."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        if not words:
            return {name: {} for name in CUES}
        vectors = np.stack([self._vector(word.text) for word in words])
        nearest = {}
        for name, listed in CUES.items():
            if name not in self._cues:
                self._cues[name] = np.stack([self._vector(word) for word in listed.split()]).T
            cosines = (vectors @ self._cues[name]).max(axis=1).tolist()
            nearest[name] = {word.key: near for word, near in zip(words, cosines, strict=True)}
        return nearest

    def _read(self, text: str) -> ComparedStatement:
        import numpy as np  # noqa: PLC0415

        whole = outline(text)
        contents = whole.contents()
        keys, subject = keys_of(contents), keys_of(whole.subject())
        predicate = " ".join(word.text for word in contents if word.key not in subject)
        times = (
            word.key
            for before, word in zip((None, *whole.words), whole.words, strict=False)
            if word.kind == "time" and (before is None or before.text not in _SINCE)
        )
        vectors = [self._vector(word.text) for word in contents]
        return ComparedStatement(
            outline=whole,
            contents=contents,
            keys=keys,
            subject=subject,
            rest=keys - subject - {whole.verb()},
            numbers=frozenset(word.key for word in contents if word.kind == "number"),
            units=frozenset(
                after.key
                for word, after in pairwise(whole.words)
                if word.kind == "number" and after.kind == "word"
            ),
            times=frozenset(times),
            names=frozenset(word.key for word in contents if word.kind == "name"),
            vectors=np.stack(vectors) if vectors else np.zeros((0, 1), np.float32),
            predicate=self._embed(predicate) if predicate else None,
            vector=self._embed(text),
            topics=self._about(contents),
            head=_object_at(whole, contents),
            renewed=_renewed_at(whole, contents),
            is_bad=_BAD.search(text) is not None,
        )

    def _about(self, contents: tuple[OutlineWord, ...]) -> Vector:
        import numpy as np  # noqa: PLC0415

        none = np.zeros(len(ONE_AT_A_TIME) + len(MANY_AT_A_TIME), np.float32)
        about = [none if word.kind == "number" else self._topics_of(word.text) for word in contents]
        return np.stack(about) if about else none[None]

    def _word_topics(self, word: str) -> Vector:
        """Return how much a word is about each topic."""
        import numpy as np  # noqa: PLC0415

        if self._topics is None:
            listed = [text.split() for text in (ONE_AT_A_TIME | MANY_AT_A_TIME).values()]
            of: dict[str, set[int]] = {}
            for at, names in enumerate(listed):
                for name in names:
                    of.setdefault(key_of(name), set()).add(at)
            vectors = np.stack([self._vector(name) for names in listed for name in names])
            starts = np.cumsum([0, *(len(names) for names in listed[:-1])]).tolist()
            self._topics = vectors, starts, of
        vectors, starts, of = self._topics
        owner = word.removesuffix("'s").removesuffix("'")
        cosines = np.maximum.reduceat(vectors @ self._vector(owner), starts)
        cosines = np.where(cosines >= TOPIC_FROM, cosines, 0).astype(np.float32) * 0.8
        for at in of.get(key_of(owner), ()):
            cosines[at] = 1.0
        return cosines


def is_english(text: str) -> bool:
    """Return whether nothing shows that a statement is in another language than English."""
    if any(letter >= _LATIN_END and letter.isalpha() for letter in text):
        return False
    return _FOREIGN.isdisjoint(word.strip(_EDGES) for word in text.lower().split())


def _object_at(whole: SentenceOutline, contents: tuple[OutlineWord, ...]) -> int | None:
    """Return which of the meaningful words is the object of the verb: the last of its phrase."""
    words = whole.words
    at = whole.verb_at
    while at < len(words) and (words[at].kind in {"verb", "joint"} or at == whole.verb_at):
        at += 1
    thing = noun_phrase(words, at) or noun_phrase(words, at + 1)
    return contents.index(thing[-1]) if thing and thing[-1] in contents else None


def _renewed_at(whole: SentenceOutline, contents: tuple[OutlineWord, ...]) -> int | None:
    """Return which of the meaningful words is said to be new, or to be another one."""
    for at, word in enumerate(whole.words):
        if word.text in {"new", "another", "different"}:
            thing = noun_phrase(whole.words, at + 1 if word.text == "new" else at)
            thing = tuple(each for each in thing if each.text not in {"new", "different"})
            if thing and thing[-1] in contents:
                return contents.index(thing[-1])
    return None


def _may_change(text: str) -> bool:
    """Return whether a statement has a word that one of change needs; most have none."""
    spoken = (word.strip(_EDGES) for word in text.lower().split())
    return any(word in _TRIGGERS or word.endswith(("ed", "ing", "n't")) for word in spoken)


def _is_past(word: OutlineWord, before: tuple[OutlineWord, ...]) -> bool:
    """Return whether a word says that something was done; "a shared studio" does not."""
    if word.kind == "name" or (before and before[-1].text in DETERMINERS):
        return False
    is_regular = word.text.endswith("ed") and len(word.text) > 4 and word.text not in DEEDS
    return is_regular or word.text in PASTS


def _is_near(word: OutlineWord, nearest: dict[str, dict[str, float]]) -> bool:
    return any(near[word.key] >= CUE_FROM for near in nearest.values())


def _is_of_another(later: ComparedStatement, earlier: ComparedStatement) -> bool:
    """Return whether two statements are plainly about two people."""
    of_user = not later.subject and later.outline.words[0].text not in PRONOUNS
    names = earlier.subject & earlier.names
    if of_user and names and earlier.subject == names and not names & later.keys:
        # "Ben uses Slack" and "I switched from Slack to Teams".
        return True
    if of_user and _person(earlier) is not None and earlier.subject.isdisjoint(later.keys):
        # "My godson helps at the food bank" and "I switched banks".
        return True
    is_new = not _BORN.isdisjoint(word.text for word in later.outline.words)
    whose = _person(later)
    return whose is not None and not is_new and whose not in earlier.keys


def _person(statement: ComparedStatement) -> str | None:
    """Return the key of the noun for the person whom a statement is about; None if about none."""
    heads = [*statement.outline.subject()[-1:]]
    if statement.outline.words[0].text in DETERMINERS:
        # Where a subject ends is not always known: "My wife left Siemens".
        heads += statement.outline.words[1:2]
    return next(
        (
            word.key
            for word in heads
            if is_person(word.key) and word.key not in _GROUPS and not word.text.endswith("'s")
        ),
        None,
    )


def _is_said_of_user(statement: ComparedStatement) -> bool:
    """Return whether a statement is about the user or something of theirs."""
    return any(word.text in _OWN for word in statement.outline.words)


def _of_subjects(later: ComparedStatement, earlier: ComparedStatement) -> dict[str, float]:
    """Return signs of whether two statements are about the same."""
    new, old = later.subject, earlier.subject
    old_names = old & (earlier.names | earlier.numbers)
    new_names = new & (later.names | later.numbers)
    is_said = bool(old) and old <= later.keys
    return {
        "same subject": float(bool(new) and new == old),
        "both of the user": float(not new and not old),
        "one of the user": float(bool(new) != bool(old)),
        "subject said": float(is_said),
        "subject is its object": float(bool(new) and new <= earlier.keys - old),
        "subjects differ in part": float(
            bool(new & old) and bool(new - earlier.keys) and bool(old - later.keys)
        ),
        "name of subject gone": float(bool(old_names - later.keys)),
        "name of subject new": float(bool(new_names - earlier.keys)),
        "a person's": float(_person(earlier) is not None),
        "person named": float(
            any(is_person(word.key) and word.key not in earlier.keys for word in later.contents)
        ),
        "thing for the user": float(bool(new) and not old and not _is_said_of_user(later)),
        "named person": float(len(old) == 1 and bool(old_names) and is_said),
    }


def _of_values(later: ComparedStatement, earlier: ComparedStatement) -> dict[str, float]:
    """Return signs of what two statements share, and of which values they do not."""
    rest, verb = earlier.rest, earlier.outline.verb()
    # That both are about the same is a sign of its own.
    about = later.subject & earlier.subject
    shared = (later.keys & earlier.keys) - about
    numbers = bool(earlier.numbers - later.keys) and bool(later.numbers - earlier.keys)
    times = bool(earlier.times - later.keys) and bool(later.times - earlier.keys)
    return {
        "number differs": float(numbers),
        "same unit": float(numbers and not earlier.units.isdisjoint(later.units)),
        "time differs": float(times),
        "share of old": len(shared) / max(len(earlier.keys - about), 1),
        "share of new": len(shared) / max(len(later.keys - about), 1),
        "words shared": min(len(shared), 4) / 4,
        "all of rest said": float(bool(rest) and rest <= later.keys),
        "verb of many": float(verb != "be" and holds_many(verb)),
        "number added": float(not earlier.numbers and bool(later.numbers)),
        "number missing": float(bool(earlier.numbers) and not later.numbers),
        "time missing": float(bool(earlier.times) and not later.times),
        "name missing": float(bool(earlier.names) and not later.names),
        "name differs": float(
            bool(earlier.names - later.keys) and bool(later.names - earlier.keys)
        ),
        "name shared": float(bool(earlier.names & later.keys)),
        "nothing shared": float(not shared and not about),
        "only the subject shared": float(bool(about) and not shared),
    }


def _of_meaning(later: ComparedStatement, earlier: ComparedStatement) -> dict[str, float]:
    """Return signs of how near the words of two statements are."""
    cosines = earlier.vectors @ later.vectors.T
    added = [at for at, word in enumerate(later.contents) if word.key not in earlier.keys]
    gone = [at for at, word in enumerate(earlier.contents) if word.key not in later.keys]
    has_equal = not earlier.keys.isdisjoint(later.keys - (later.subject & earlier.subject))
    # A number is near every other number.
    words = [at for at in gone if earlier.contents[at].kind != "number"]
    nearest = float(cosines[words].max()) if words else 0.0
    return {
        "nearest": 1.0 if has_equal else nearest,
        "exchanged": float(cosines[gone][:, added].max()) if gone and added else 0.0,
        "predicates near": (
            0.0
            if later.predicate is None or earlier.predicate is None
            else float(later.predicate @ earlier.predicate)
        ),
    }


def _of_topics(later: ComparedStatement, earlier: ComparedStatement) -> dict[str, float]:
    """Return signs of whether two statements are about the same of their subject."""
    import numpy as np  # noqa: PLC0415

    ones = len(ONE_AT_A_TIME)
    # What both are about as a whole says nothing about which attribute of it they are about.
    about = earlier.subject & later.keys
    new, old = (
        each.topics[[word.key not in about for word in each.contents]].max(axis=0, initial=0)
        for each in (later, earlier)
    )
    both = np.minimum(new, old)
    one, many = float(both[:ones].max()), float(both[ones:].max())
    cosines = earlier.vectors @ later.vectors.T
    for at, word in enumerate(earlier.contents):
        for place, other in enumerate(later.contents):
            if word.key == other.key:
                cosines[at, place] = 1.0
            elif word.kind == other.kind != "word" and word.kind in {"number", "time", "name"}:
                cosines[at, place] = max(float(cosines[at, place]), 0.5)
    own = [at for at, word in enumerate(later.contents) if word.key not in later.subject]
    said = [at for at, word in enumerate(earlier.contents) if word.key not in earlier.subject]
    met = cosines.max(axis=0)[own] if own else np.zeros(1)
    kept = cosines.max(axis=1)[said] if said else np.zeros(1)
    # What is said of a shared subject: whether its own words have to do with each other.
    inner = cosines[said][:, own] if said and own else np.zeros((1, 1))
    head = 0.0 if later.head is None else float(cosines[:, later.head].max())
    headed = later.head is not None
    inner_head = (
        float(cosines[said][:, later.head].max()) if later.head is not None and said else 0.0
    )
    renewed = 0.0 if later.renewed is None else float(cosines[:, later.renewed].max())
    return {
        "one topic": one,
        "many topic": many,
        "topics apart": float(
            new.max() >= TOPIC_FROM and old.max() >= TOPIC_FROM and both.max() < TOPIC_FROM * 0.8
        ),
        "met": float(met.mean()),
        "least met": float(met.min()),
        "unmet": float((met < FAR_FROM).mean()),
        "kept": float(kept.mean()),
        "least kept": float(kept.min()),
        "inner": float(inner.max()),
        "object": head,
        "object unmet": float(headed and head < FAR_FROM),
        "has object": float(headed),
        "object inner": inner_head,
        "renewed": renewed,
        "renewed unmet": float(later.renewed is not None and renewed < 0.4),
        "turned bad": float(later.is_bad and not earlier.is_bad),
        "turned good": float(earlier.is_bad and not later.is_bad),
        "both bad": float(earlier.is_bad and later.is_bad),
    }


def _are_far(signs: dict[str, float]) -> bool:
    """Return whether what is said of one thing twice has nothing to do with each other."""
    is_same = signs["only the subject shared"] > 0
    least = EXCHANGED_FROM if is_same else OTHERWISE_EXCHANGED_FROM
    return signs["exchanged"] < least and signs["predicates near"] < PREDICATES_FROM


def _together(signs: dict[str, float], earlier: ComparedStatement, old: str) -> dict[str, float]:
    """Return signs that count only together."""
    aim = float(_AIM.search(old) is not None)
    near = signs["predicates near"]
    return {
        "of the subject, near": signs["subject said"] * near,
        "of a person, near": signs["named person"] * near,
        "only the subject, exchanged": signs["only the subject shared"] * signs["exchanged"],
        "nothing shared, near": signs["nothing shared"] * near,
        "well exchanged": max(signs["exchanged"] - 0.4, 0.0),
        "aim": aim,
        "aim reached": aim * signs["past"] * max(signs["share of old"], signs["exchanged"]),
        "short": float(len(earlier.contents) <= 2),
        "far": float(_are_far(signs) and signs["words shared"] == 0),
        "passed, said": signs["passed"]
        * max(signs["share of old"], signs["subject is its object"]),
        "passed, topic": signs["passed"] * signs["one topic"],
        "now, topic": max(signs["now"], signs["turned"]) * signs["one topic"],
        "past, topic": signs["past"] * signs["one topic"],
        "user, topic": signs["both of the user"] * signs["one topic"],
        "subject, topic": max(signs["same subject"], signs["subject said"]) * signs["one topic"],
        "subject, inner": max(signs["same subject"], signs["subject said"]) * signs["inner"],
        "subject, unmet": max(signs["same subject"], signs["subject said"]) * signs["object unmet"],
        "its object, unmet": signs["subject is its object"] * signs["object unmet"],
        "its object, of an object": signs["subject is its object"]
        * signs["has object"]
        * (1 - signs["object inner"]),
        "its object, passed": signs["subject is its object"] * signs["passed"],
        "plain, its object": signs["plain past"] * signs["subject is its object"],
        "plain, subject": signs["plain past"] * signs["same subject"],
        "plain, now": signs["plain past"] * max(signs["now"], signs["turned"]),
        "known, topic": signs["known verb"] * signs["one topic"],
        "known, object": signs["known verb"] * signs["object inner"],
        "known, share": signs["known verb"] * signs["share of old"],
        "apart, one of the user": signs["topics apart"] * signs["one of the user"],
        "turned good, shared": signs["turned good"] * max(signs["words shared"], signs["inner"]),
        "turned bad, shared": signs["turned bad"] * max(signs["words shared"], signs["inner"]),
        "constant": 1.0,
    }
