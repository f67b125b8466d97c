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
from treering.derive.claim_outlines import DETERMINERS, clause_outlines, keys_of, outline
from treering.derive.claim_words import VERBS, word_set
from treering.lazy import lazy_pattern

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
_CHARACTERS_MAX: Final = 400
"""Longer statements say more than one thing."""
_STATEMENTS_HELD: Final = 1_024
_NOW: Final = lazy_pattern(
    r"\b(?:now|no longer|no more|any ?more|any longer|from now on|these days|nowadays|as of|lately"
    r"|going forward|from (?:this|next|today|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
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
    r"\b(?:also|too(?=[.!,]|$)|as well|additionally|in addition|besides|another|either|second|other"
    r"|on top|still|for now|added|once|used to|before|grew up|was raised)\b|^(?:Was|Were) ",
    re.IGNORECASE,
)
"""What says that the rest stays, or what was before."""
_OPEN: Final = lazy_pattern(
    r"\b(?:tried|try|might|may|maybe|consider(?:s|ed|ing)?|thinking (?:of|about)|if|whether|would"
    r"|could|almost|nearly|yet|some ?day|one day|perhaps|talk of)\b"
)
"""What says that nothing is decided."""
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
_PASTS: Final = word_set(
    "left sold quit took went got became bought gave broke fell rose grew cut put split shut found"
    " began chose threw withdrew lost came tore rewrote taken gone given broken fallen risen grown"
    " begun chosen thrown withdrawn torn let born brought drew drawn froze frozen laid set shrank"
    " shrunk slid stuck tied fled rebuilt undone"
)
"""Irregular pasts of verbs after which something is otherwise."""
_DEEDS: Final = word_set(
    "visited watched played presented called asked cooked cleaned attended travelled traveled used"
    " worked lived liked loved enjoyed wanted tried helped thanked talked walked listened learned"
    " studied named based located founded created developed invented produced directed published"
    " composed performed designed written built needed tired interested excited situated related"
    " associated affiliated employed educated headquartered married owned released recorded"
    " happened occurred existed looked waited hoped believed needed required supported included"
    " celebrated marked received earned served seemed appeared stayed remained showed discussed"
    " mentioned reported noticed missed skipped watered returned borrowed shared fixed tested"
    " reviewed answered paid shipped died baked painted"
)
"""Regular pasts of verbs that leave what is known as it is, if nothing else says otherwise."""
_ENGLISH: Final = frozenset(VERBS) - word_set("is was be die do had have") | word_set(
    "the my our are were has and with from for now this she he they their his her by not any"
    " this these since instead again"
)
"""Words that show that a statement is English: the signs are read in no other language."""
_KIN: Final = word_set(
    "son daughter child children brother sister sibling cousin nephew niece uncle aunt friend"
    " colleague wife husband partner mother father mom mum dad parents neighbour neighbor"
    " girlfriend boyfriend grandmother grandfather"
)
_TRIGGERS: Final = _PASTS | word_set(
    "now longer more anymore any from these nowadays as lately going starting effective since last"
    " finally this again back after turns actually instead rather place favour favor so already"
    " correction will be down up out off over had not no never without none cannot nor new"
)
_EDGES: Final = '.,;:!?()"'
_RULED: Final = frozenset({"tie", "person"})
"""What the rules for endings know better: who has died is still somebody's sister."""
_SINCE: Final = word_set("last this since next from as of")
"""Before a time that says since when something holds, not what holds."""
_AUXILIARIES: Final = word_set("has have had was were is are been got")
_CUES: Final = {
    "ended": "cancelled quit stopped ended over gone left dropped abandoned scrapped discontinued"
    " retired resigned sold removed closed dissolved terminated expired finished divorced fired",
    "changed": "switched changed replaced moved migrated swapped renamed transferred converted"
    " upgraded traded became turned reassigned",
    "set": "raised increased lowered reduced cut bumped extended shortened doubled postponed"
    " rescheduled delayed pushed slipped",
    "begun": "joined started hired promoted bought got married adopted elected appointed accepted"
    " arrived opened fixed repaired found",
}
"""Words of change, by what they say; other words are known by how near they are in meaning."""


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
        self.change = lru_cache(maxsize=_STATEMENTS_HELD)(self._change)
        self._statement = lru_cache(maxsize=_STATEMENTS_HELD)(self._read)

    def signs(self, new: str, old: str) -> dict[str, float] | None:
        """Return the signs that a statement changes an earlier one; None if it does not."""
        change = self.change(new)
        if change is None or len(old) > _CHARACTERS_MAX or not is_standing(old):
            return None
        later, earlier = self._statement(new), self._statement(old)
        if not later.keys or not earlier.keys:
            return None
        if change.words and change.words <= earlier.keys:
            # "Write docs for new endpoints" and "Write tests for new endpoints".
            return None
        if change.is_only_denied and not earlier.rest & later.keys:
            return None
        if _is_of_another(later, earlier):
            return None
        signs = change.signs | {"cosine": float(later.vector @ earlier.vector)}
        signs |= _of_subjects(later, earlier) | _of_values(later, earlier)
        signs |= _of_meaning(later, earlier)
        if later.keys & earlier.keys <= earlier.subject and _are_far(signs):
            # "I stopped the server" says nothing about the port that it runs on.
            return None
        return signs | _together(signs, earlier, old)

    def _change(self, text: str) -> SaidChange | None:
        """Return what a statement says of a change; None if it speaks of none."""
        if len(text) > _CHARACTERS_MAX or not _may_change(text):
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
        plain = [word for word in words if word.kind in {"word", "verb"} and word.text.isalpha()]
        nearest = {name: self._nearness(name, plain) for name in _CUES}
        said = frozenset(
            {words[at].key for at in pasts}
            | {word.key for word in words[:2] if word.text == "new"}
            | {word.key for word in plain if word.text.endswith("ing") and _is_near(word, nearest)}
        )
        is_now, is_turned, is_denied = (
            pattern.search(text) is not None for pattern in (_NOW, _TURNED, _DENIED)
        )
        if not (said or is_now or is_turned or is_denied):
            return None
        signs = {
            "now": float(is_now),
            "turned": float(is_turned),
            "denied": float(is_denied),
            "past": float(bool(pasts)),
            "done": float(any(words[at - 1].text in _AUXILIARIES for at in pasts if at)),
            "clauses": float(len(clause_outlines(text)) > 1),
            "gained": float(_GAINED.search(text) is not None),
            "once": float(_ONCE.search(text) is not None),
        }
        for name, near in nearest.items():
            signs[name] = max(near.values(), default=0.0)
        is_said = is_now or is_turned
        return SaidChange(
            signs, frozenset() if is_said else said, is_only_denied=not (is_said or said)
        )

    def _nearness(self, name: str, words: Sequence[OutlineWord]) -> dict[str, float]:
        """Return how near words are to the words of change that say the same."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        if name not in self._cues:
            self._cues[name] = np.stack([self._vector(word) for word in _CUES[name].split()])
        if not words:
            return {}
        vectors = np.stack([self._vector(word.text) for word in words])
        cosines = (vectors @ self._cues[name].T).max(axis=1).tolist()
        return {word.key: cosine for word, cosine in zip(words, cosines, strict=True)}

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
        )


def _may_change(text: str) -> bool:
    """Return whether a statement has a word that one of change needs; most have none."""
    spoken = (word.strip(_EDGES) for word in text.lower().split())
    return any(word in _TRIGGERS or word.endswith(("ed", "ing", "n't")) for word in spoken)


def _is_past(word: OutlineWord, before: tuple[OutlineWord, ...]) -> bool:
    """Return whether a word says that something was done; "a shared studio" does not."""
    if word.kind == "name" or (before and before[-1].text in DETERMINERS):
        return False
    is_regular = word.text.endswith("ed") and len(word.text) > 4 and word.text not in _DEEDS
    return is_regular or word.text in _PASTS


def _is_near(word: OutlineWord, nearest: dict[str, dict[str, float]]) -> bool:
    return any(near[word.key] >= CUE_FROM for near in nearest.values())


def _is_of_another(later: ComparedStatement, earlier: ComparedStatement) -> bool:
    """Return whether two statements are plainly about two people."""
    of_user = not later.subject
    names = earlier.subject & earlier.names
    if of_user and names and earlier.subject == names and not names & later.keys:
        # "Ben uses Slack" and "I switched from Slack to Teams".
        return True
    head = later.outline.subject()[-1:]
    return bool(head) and head[0].text in _KIN and head[0].key not in earlier.keys


def _of_subjects(later: ComparedStatement, earlier: ComparedStatement) -> dict[str, float]:
    """Return signs of whether two statements are about the same."""
    new, old = later.subject, earlier.subject
    old_names = old & (earlier.names | earlier.numbers)
    new_names = new & (later.names | later.numbers)
    head = later.outline.subject()[-1:]
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
        "another person": float(
            bool(head) and is_person(head[0].key) and head[0].key not in earlier.keys
        ),
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
        "constant": 1.0,
    }
