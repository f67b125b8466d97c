"""The signs by which a statement may change an earlier one.

Rules know the sentences that they were written for. Here two statements are compared by many weak
signs instead: what they share, which kinds of values differ, how near the meanings of their words
are. And the words of the later one are read as phrases in which what the earlier one names has no
name: "moved from [it] to", "a [its] friend". ``change_weights`` says how much each sign and each
phrase counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_attributes import holds_many, is_person
from treering.rules.claim_endings import is_standing
from treering.rules.claim_outlines import (
    DETERMINERS,
    PRONOUNS,
    is_content,
    is_owner,
    key_set,
    keys_of,
    noun_phrase,
    outline,
)
from treering.rules.claim_words import word_set

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.alignment import Aligner
    from treering.rules.claim_outlines import OutlineWord, SentenceOutline

    Vector = NDArray[np.float32]
    Cosines = list[list[float]]
    """Of the words of an earlier statement, a row each, with those of a later one."""

EXCHANGED_FROM: Final = 0.35
OTHERWISE_EXCHANGED_FROM: Final = 0.15
"""The cosine from which a word may stand for another: of the same subject, and otherwise."""
PREDICATES_FROM: Final = 0.3
"""The cosine from which two predicates may be about the same, if no words are."""
FAR_FROM: Final = 0.25
"""Words with a lower cosine have nothing to do with each other."""
CHARACTERS_MAX: Final = 400
"""Longer statements say more than one thing."""
_STATEMENTS_HELD: Final = 1_024
_NUMBERED: Final = lazy_pattern(
    r"^(?:(?:the|my|our|his|her|their) )?([a-z]+ \d+)"
    r"(?= (?:is|are|was|were|has|have|will|can|needs|uses)\b)"
    r"|\bof (?!about|over|under|nearly|around|almost|up|some)([a-z]+ \d+)\b"
)
_BAD: Final = lazy_pattern(
    r"\b(?:not|no|never|without|none|cannot|nor|hates?|hated|dislikes?|can't|cannot|afraid|scared"
    r"|fear|terrified|allergic|unable|avoids?|refuses?|off|stopped|quit|broken|closed|mess|lack"
    r"|unemployed|worried|sick|bad|slow|unpaid|missing|down|isn't)\b|n't\b",
    re.IGNORECASE,
)
"""What says that something is not so, or not well."""
_AIM: Final = lazy_pattern(
    r"\b(?:looking|wants?|planning|plans?|planned|saving|waiting|hopes?|going to|needs?|goal"
    r"|learning|reading|training)\b",
    re.IGNORECASE,
)
"""What is over as soon as it is reached."""
_FOREIGN: Final = word_set(
    "der das und ist ich nicht eine mein meine wir sind nach wohne wohnt lebe lebt arbeite arbeitet"
    " que una soy vivo vive yo muy por tengo tiene trabajo trabaja je suis une dans nous avec"
    " habite travaille não meu minha uma moro mora tenho trabalho che sono een niet ik mijn og jeg"
    " ikke jag inte och hij wij heb heeft wordt naar haben wird auf elle chez notre votre estoy"
)
"""Words that show that a statement is in another language."""
_ENGLISH: Final = word_set(
    "i i'm i've is are am was the my our your his her their we it it's has have with at of for from"
    " and by now this that these as under every"
)
"""Words that most English statements have, and few of other languages."""
_LATIN_END: Final = "\u0250"
_CHANGE: Final = word_set(
    "left sold quit took went got became bought gave broke fell rose grew cut put split shut found"
    " began chose threw withdrew lost came tore rewrote taken gone given broken fallen risen grown"
    " begun chosen thrown withdrawn torn let born brought drew drawn froze frozen laid set shrank"
    " shrunk slid stuck tied fled rebuilt undone redid redone outgrew outgrown made sent paid"
    " built done won wrote lent beat kept held sought caught taught swapped woke"
    " woken hid hidden dealt bred swore sworn stole stolen spent blew blown tore flew"
    " flown forgot forgotten overtook retook retaken underwent driven unfrozen wore worn"
    " starts start begins begin stops stop replaces replace takes take leaves leave moves joins"
    " runs another extra new now longer more anymore nowadays lately starting effective since"
    " finally again back instead favour favor turns going over behind done correction history not"
    " no never without none cannot nor"
)
"""Irregular pasts, what says since when something holds, and what says that it is not so."""
_DEEDS: Final = word_set(
    "created founded developed invented produced directed published composed performed designed"
    " located based situated named educated employed headquartered associated affiliated liked"
    " loved enjoyed wanted needed used lived worked played watched visited called died married"
)
"""Regular pasts that say what somebody or something is, or what was done once."""
_BORN: Final = word_set("born arrived")
_SIDES: Final = tuple(
    word_set(sides)
    for sides in (
        "front back rear", "left right", "upstairs downstairs", "upper lower", "top bottom",
        "inner outer", "indoor outdoor", "north south east west", "summer winter spring autumn",
        "northern southern eastern western", "morning afternoon evening",
    )
)  # fmt: skip
"""Words that tell things of one name apart: a front door and a back door are two."""
_SEVERAL: Final = key_set(
    "friend cousin sister brother aunt uncle niece nephew neighbour neighbor daughter son grandson"
    " granddaughter classmate"
)
"""Persons of whom one may have more than one."""
_PERSONAL: Final = word_set("my our his her their")
_RUMOUR: Final = lazy_pattern(
    r"^(?:there(?:'s| is| are) (?:\w+ )?(?:rumou?rs?|gossip|talk)|rumou?r has it)\b", re.IGNORECASE
)
_CONTINUES: Final = lazy_pattern(r"\b(?:has|have|'ve|'s) (?:been )?\w+.* since\b", re.IGNORECASE)
_OWN: Final = word_set("i we my our me us")
_GROUPS: Final = key_set("team family company club")
_EDGES: Final = '.,;:!?()"'
_VALUES: Final = frozenset({"number", "time", "name"})
"""Kinds of words of which one may stand for any other."""
_SINCE: Final = word_set("last this since next from as of")
"""Before a time that says since when something holds, not what holds."""


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
    head: int | None
    """Which of its words is the object of its verb."""
    renewed: int | None
    """Which of its words is said to be new."""
    is_bad: bool
    is_aim: bool


class ChangeReader:
    """Reads the signs of a change, with the vectors of single words."""

    def __init__(self, aligner: Aligner) -> None:
        self._vector, self._embed = aligner.vector, aligner.embed
        self._statement = lru_cache(maxsize=_STATEMENTS_HELD)(self._read)

    def signs(self, new: str, old: str) -> dict[str, float] | None:
        """Return the signs that a statement changes an earlier one; None if they say nothing."""
        if max(len(new), len(old)) > CHARACTERS_MAX or not is_standing(old):
            return None
        later, earlier = self._statement(new), self._statement(old)
        if not later.keys or not earlier.keys:
            return None
        # Lists: of so few words they are faster than arrays.
        cosines = (earlier.vectors @ later.vectors.T).tolist()
        signs = {
            "cosine": float(later.vector @ earlier.vector),
            **_of_subjects(later, earlier),
            **_of_values(later, earlier),
            **_of_meaning(later, earlier, cosines),
            **_of_words(later, earlier, cosines),
        }
        if later.keys & earlier.keys <= earlier.subject and _are_far(signs):
            # "I stopped the server" says nothing about the port that it runs on.
            return None
        return {**signs, **_together(signs, earlier)}

    def share_subject(self, new: str, old: str) -> bool:
        """Return whether two statements may be about the same."""
        later, earlier = self._statement(new), self._statement(old)
        one, other = later.subject, earlier.subject
        if not one or not other or other <= later.keys:
            return True
        # "The red crane" and "the blue crane" are two things.
        return one <= other or other <= one

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
            vectors=np.array(vectors, np.float32),
            predicate=self._embed(predicate) if predicate else None,
            vector=self._embed(text),
            head=_object_at(whole, contents),
            renewed=_renewed_at(whole, contents),
            is_bad=any(map(_is_bad, text.split())),
            is_aim=_AIM.search(text) is not None,
        )


def leaves_alone(new: str, old: str) -> bool:
    """Return whether the form of a statement shows that an earlier one stays as it is.

    It is about another thing or person of the same name, a rumour, or since when the same holds.
    """
    if _RUMOUR.match(new):
        return True
    later, earlier = outline(new), outline(old)
    if _CONTINUES.search(new) and not _BAD.search(new):
        return keys_of(earlier.contents()) - _SEVERAL <= keys_of(later.contents())
    return _is_another(later, earlier) or _is_of_others(later, earlier)


def _is_another(later: SentenceOutline, earlier: SentenceOutline) -> bool:
    """Return whether another thing or person is told apart by a word: the back door, my friend Jo.

    What an earlier statement is not about may well be exchanged: one shift for another.
    """
    said, subject = {word.text for word in later.words}, earlier.subject()
    for side, noun in pairwise(subject):
        others = next((sides for sides in _SIDES if side.text in sides), frozenset())
        if others and side.text not in said:
            after = (two for two, what in pairwise(later.words) if what.key == noun.key)
            if any(word.text in others for word in after):
                return True
    one, other = keys_of(subject), keys_of(later.subject())
    names = {word.key for word in subject if word.kind == "name"}
    return bool(
        one & other & _SEVERAL
        and names
        and names.isdisjoint(keys_of(later.contents()))
        and any(word.kind == "name" and word.key not in one for word in later.subject())
    )


def _is_of_others(later: SentenceOutline, earlier: SentenceOutline) -> bool:
    """Return whether it is about what somebody else has: my parents, and my wife's parents."""
    words = earlier.words[: earlier.verb_at]
    own = {noun.key for whose, noun in pairwise(words) if whose.text in _PERSONAL}
    of_others = {noun.key for owner, noun in pairwise(later.words) if is_owner(owner)}
    return bool(own & of_others)


def speaks_of_change(text: str) -> bool:
    """Return whether a statement has a word that one of change needs; most have none."""
    spoken = (word.strip(_EDGES) for word in text.lower().split())
    return any(
        word in _CHANGE or (word.endswith(("ed", "n't")) and word not in _DEEDS) for word in spoken
    )


def phrases_of(new: str, old: str = "") -> frozenset[str]:
    """Return the words of a statement, alone and in pairs, as an earlier one leaves them.

    What the earlier one names is ``§``, another name ``N``, a number ``9``. All are quoted.
    """
    known = keys_of(outline(old).contents())
    words = ["^", *(_masked(word, known) for word in outline(new).words), "$"]
    said = (*words[1:-1], *map(" ".join, pairwise(words)))
    return frozenset(f'"{phrase}"' for phrase in said)


def _masked(word: OutlineWord, known: frozenset[str]) -> str:
    if not is_content(word):
        return word.text
    owner = "'s" if is_owner(word) else ""
    if word.key in known:
        return f"§{owner}"
    if word.kind == "number":
        return "9"
    return f"N{owner}" if word.kind == "name" else word.text


@lru_cache(maxsize=_STATEMENTS_HELD)
def is_english(text: str) -> bool:
    """Return whether nothing shows that a statement is in another language than English."""
    if not text.isascii() and any(one >= _LATIN_END and one.isalpha() for one in text):
        return False
    return _FOREIGN.isdisjoint(word.strip(_EDGES) for word in text.lower().split())


@lru_cache(maxsize=8_192)
def _is_bad(word: str) -> bool:
    return _BAD.search(word) is not None


def numbered_things(text: str) -> frozenset[str]:
    """Return what a statement is about by a number, as in "Order 4411 is …" and "of country 2"."""
    return frozenset(match[1] or match[2] for match in _NUMBERED.finditer(text.lower()))


def is_surely_english(text: str) -> bool:
    """Return whether a statement has one of the words that most English ones have."""
    return not _ENGLISH.isdisjoint(word.strip(_EDGES) for word in text.lower().split())


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
        "of another": float(_is_of_another(later, earlier)),
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


def _of_meaning(
    later: ComparedStatement, earlier: ComparedStatement, cosines: Cosines
) -> dict[str, float]:
    """Return signs of how near the words of two statements are."""
    added = [at for at, word in enumerate(later.contents) if word.key not in earlier.keys]
    gone = [
        (row, word)
        for row, word in zip(cosines, earlier.contents, strict=True)
        if word.key not in later.keys
    ]
    has_equal = not earlier.keys.isdisjoint(later.keys - (later.subject & earlier.subject))
    # A number is near every other number.
    nearest = max((max(row) for row, word in gone if word.kind != "number"), default=0.0)
    return {
        "nearest": 1.0 if has_equal else nearest,
        "exchanged": max((row[at] for row, _ in gone for at in added), default=0.0),
        "predicates near": (
            0.0
            if later.predicate is None or earlier.predicate is None
            else float(later.predicate @ earlier.predicate)
        ),
    }


def _of_words(
    later: ComparedStatement, earlier: ComparedStatement, cosines: Cosines
) -> dict[str, float]:
    """Return signs of how well the words of each statement are met in the other."""
    rows = [
        _met_by(row, word, later) if word.kind in _VALUES or word.key in later.keys else row
        for row, word in zip(cosines, earlier.contents, strict=True)
    ]
    columns = list(zip(*rows, strict=True))
    own = [at for at, word in enumerate(later.contents) if word.key not in later.subject]
    said = [
        row
        for row, word in zip(rows, earlier.contents, strict=True)
        if word.key not in earlier.subject
    ]
    met = [max(columns[at]) for at in own] or [0.0]
    kept = [max(row) for row in said] or [0.0]
    # What is said of a shared subject: whether its own words have to do with each other.
    inner = max((row[at] for row in said for at in own), default=0.0)
    head = 0.0 if later.head is None else max(columns[later.head])
    headed = later.head is not None
    inner_head = 0.0 if later.head is None else max((row[later.head] for row in said), default=0.0)
    renewed = 0.0 if later.renewed is None else max(columns[later.renewed])
    return {
        "met": sum(met) / len(met),
        "least met": min(met),
        "unmet": sum(one < FAR_FROM for one in met) / len(met),
        "kept": sum(kept) / len(kept),
        "least kept": min(kept),
        "inner": inner,
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


def _met_by(row: list[float], word: OutlineWord, later: ComparedStatement) -> list[float]:
    """Return how well the words of a statement meet one that is equal, or of their kind."""
    return [
        1.0
        if word.key == other.key
        else max(cosine, 0.5)
        if word.kind == other.kind and word.kind in _VALUES
        else cosine
        for cosine, other in zip(row, later.contents, strict=True)
    ]


def _are_far(signs: dict[str, float]) -> bool:
    """Return whether what is said of one thing twice has nothing to do with each other."""
    is_same = signs["only the subject shared"] > 0
    least = EXCHANGED_FROM if is_same else OTHERWISE_EXCHANGED_FROM
    return signs["exchanged"] < least and signs["predicates near"] < PREDICATES_FROM


def _together(signs: dict[str, float], earlier: ComparedStatement) -> dict[str, float]:
    """Return signs that count only together."""
    aim = float(earlier.is_aim)
    near = signs["predicates near"]
    return {
        "of the subject, near": signs["subject said"] * near,
        "of a person, near": signs["named person"] * near,
        "only the subject, exchanged": signs["only the subject shared"] * signs["exchanged"],
        "nothing shared, near": signs["nothing shared"] * near,
        "well exchanged": max(signs["exchanged"] - 0.4, 0.0),
        "aim": aim,
        "aim reached": aim * max(signs["share of old"], signs["exchanged"]),
        "short": float(len(earlier.contents) <= 2),
        "subject, inner": max(signs["same subject"], signs["subject said"]) * signs["inner"],
        "subject, unmet": max(signs["same subject"], signs["subject said"]) * signs["object unmet"],
        "its object, unmet": signs["subject is its object"] * signs["object unmet"],
        "its object, of an object": signs["subject is its object"]
        * signs["has object"]
        * (1 - signs["object inner"]),
        "turned good, shared": signs["turned good"] * max(signs["words shared"], signs["inner"]),
        "turned bad, shared": signs["turned bad"] * max(signs["words shared"], signs["inner"]),
        "constant": 1.0,
    }
