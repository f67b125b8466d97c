"""Outlines: the words of a sentence with their kinds, and where its subject ends.

No grammar is known beyond that: which words only hold a sentence together, which are names,
numbers and times, and where its verb is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby, takewhile
from typing import Final, Literal, NamedTuple, TypeAlias

from treering.lazy import lazy_pattern
from treering.rules.claim_words import VERBS, expand_contractions, normalise_characters, word_set
from treering.rules.terms import terms

WordKind: TypeAlias = Literal["name", "number", "time", "word", "verb", "joint", "end"]
"""A ``joint`` holds a sentence together, an ``end`` parts its clauses."""

_IS: Final = lazy_pattern(
    r"(?<=\w)'s(?= (?:at|on|in|an?|the|now|not|no|been|being|going|back|off|over|gone|down|up)\b)"
)
_LEAD: Final = lazy_pattern(
    r"^(?:(?:so|and|but|well|ok|okay|oh|anyway|by the way|btw|fyi|good news|update|also)[,:]? )+",
    re.IGNORECASE,
)
_BEFORE: Final = lazy_pattern(
    r"^(?:After|Since|Following|Due to|Because of|For|With|Under|From|This|Starting)"
    r" (?:[\w'-]+ ){1,4}?(?=(?:the|our|my|we|I) )"
)
"""When or why, before the subject of a sentence."""
_TURNED_OUT: Final = lazy_pattern(
    r"\b(?:turn(?:s|ed) out to be|ended up being|(?:is|are) (?:going )?to be|will be)\b"
)
"""Other ways to say "is"."""
_TOKEN: Final = lazy_pattern(r"[^\s,;!?()\"]*\d(?:,\d{3})+|[^\s,;!?()\"]+|[,;!?()]")
_ENDS: Final = frozenset(",;!?()")
_CLAUSE_ENDS: Final = lazy_pattern(
    r"\s*(?:(?<!Prof)(?<!Mrs)(?<!Mr)(?<!Ms)(?<!Dr)(?<!St)\. |[;:] ?"
    r"|,(?= )(?! (?:not|to) )(?: (?:and|so|but|which|now))?| - | — "
    r"| (?:and|but|so) (?=(?:now |I |we |he |she |it |they |my |our |the |don't |doesn't |do |does"
    r" |is |are |am )|[a-z]+(?:s|ed)? (?:the|my|our|to|as|on|in|at|with|them|it|a|an|[A-Z])))\s*"
)
DETERMINERS: Final = word_set("a an the my our his her their its this that your any all some")
SPEAKERS: Final = word_set("i we me us user")
PRONOUNS: Final = word_set(
    "he she it they them him someone somebody everyone people there you ones"
)
PREPOSITIONS: Final = word_set(
    "in at on by for with of to from as near into about under within through until till before"
    " after over off out up down during between since without than like per onto against around"
    " via behind away back forward"
)
_BE: Final = word_set("is am are was were be been being")
_AUXILIARIES: Final = _BE | word_set(
    "has have had do does did will would can could should shall may might must get got gets getting"
    " going let"
)
_CONNECTIVES: Final = word_set(
    "and or but so because although though if when while that which who whose where then not no"
    " never nor both either such also too there what how why"
)
ADVERBS: Final = word_set(
    "now just finally recently already still also currently again instead longer anymore more only"
    " really actually officially eventually always usually today yesterday nowadays sadly"
    " unfortunately soon even quite very mostly mainly back all rather fully completely"
    " permanently temporarily apparently longer hereafter currently presently"
)
_JOINTS: Final = (
    DETERMINERS | SPEAKERS | PRONOUNS | PREPOSITIONS | _AUXILIARIES | _CONNECTIVES | ADVERBS
)
_NUMBERS: Final = word_set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
    " hundred thousand half dozen once twice times"
)
_TIMES: Final = word_set(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays"
    " fridays saturdays sundays january february march april may june july august september october"
    " november december noon midnight morning afternoon evening night mornings afternoons evenings"
    " nights daily nightly hourly weekly biweekly fortnightly monthly quarterly yearly annually"
    " weekday weekdays weekend weekends spring summer autumn winter tomorrow tonight every each"
    " am pm"
)
_BEFORE_NOUNS: Final = DETERMINERS | SPEAKERS | ADVERBS
_PARTICIPLE: Final = lazy_pattern(r"(?:ed|ing|[ktvz]en)$")
_CLOCK: Final = lazy_pattern(r"\d{1,2}[:.]\d\d(?:[ap]m)?|\d{1,2}(?:[ap]m|st|nd|rd|th)")
_AMOUNT: Final = lazy_pattern(r"[$€£]?\d[\d.,]*(?:[kKmM%]|[a-z]{1,3})?|v?\d+(?:\.\w+)+")
_NAME: Final = lazy_pattern(r"[A-Z].*|[#@/.~]\w.*|\w+[.@/:_]\w.*|\w+-\w*\d.*|\w+[A-Z].*|[a-z]+\d+")
_IRREGULAR: Final = {
    "left": "leave", "leaving": "leave", "leaves": "leave", "rewrote": "rewrite", "rewritten":
    "rewrite", "gone": "go", "given": "give", "taken": "take", "fell": "fall", "fallen": "fall",
    "rose": "rise", "risen": "rise", "shrank": "shrink", "shrunk": "shrink", "brought": "bring",
    "broke": "break", "broken": "break", "withdrew": "withdraw", "withdrawn": "withdraw",
    "laid": "lay", "rebuilt": "rebuild", "found": "find", "done": "do", "grown": "grow",
    "begun": "begin", "chosen": "choose", "driven": "drive", "ridden": "ride", "paid": "pay",
    "lost": "lose", "sat": "sit", "stood": "stand", "slept": "sleep", "sent": "send",
    "become": "become", "threw": "throw", "thrown": "throw", "put": "put", "cut": "cut",
    "let": "let", "set": "set", "split": "split", "shut": "shut", "people": "person",
    "children": "child", "kids": "child", "handed": "hand", "offered": "offer",
}  # fmt: skip
_VERB_FORMS: Final = frozenset(VERBS).union(_IRREGULAR) - word_set(
    "name names end ends head heads star base bases rule rules lead train trains bank rent report"
    " start plan host store air close open design release call need visit support move change left"
    " set cut put split people children kids"
)
"""Forms that are verbs wherever they stand."""


class OutlineWord(NamedTuple):
    """A word of a sentence."""

    text: str
    """In lower case."""
    key: str
    """The form used for comparison."""
    kind: WordKind
    written: str = ""


class SentenceOutline(NamedTuple):
    """The words of a sentence."""

    words: tuple[OutlineWord, ...]
    verb_at: int
    """Where its verb stands; 0 if it has no subject."""

    def contents(self, begin: int = 0, end: int | None = None) -> tuple[OutlineWord, ...]:
        """Return the meaningful words in a range."""
        return tuple(filter(is_content, self.words[begin:end]))

    def text(self) -> str:
        """Return it as written."""
        return " ".join(word.written for word in self.words)

    def subject(self) -> tuple[OutlineWord, ...]:
        """Return the meaningful words of its subject; none if it is the user."""
        return self.contents(0, self.verb_at)

    def verb(self) -> str:
        """Return the key of its verb: the one after "is" and "has", or "be" with a preposition."""
        for at, word in enumerate(self.words[self.verb_at :]):
            if word.text in PREPOSITIONS:
                return f"be {word.text}"
            if word.kind not in {"joint", "end"}:
                is_verb = at == 0 or word.kind == "verb" or _PARTICIPLE.search(word.text)
                return word.key if is_verb else "be"
        return ""

    def runs(self) -> list[tuple[OutlineWord, ...]]:
        """Return its nouns with the words before them, phrase by phrase."""
        groups = groupby(
            enumerate(self.words),
            lambda each: is_content(each[1]) and each[1].kind != "verb" and each[0] != self.verb_at,
        )
        runs = [tuple(word for _, word in group) for is_noun, group in groups if is_noun]
        if self.verb_at == 0 and self.words and self.words[0].kind == "word":
            runs += [tuple(takewhile(is_content, self.words))]
        return runs


@lru_cache(maxsize=4_096)
def outline(text: str) -> SentenceOutline:
    """Return the outline of a sentence."""
    plain = expand_contractions(normalise_characters(text)).strip()
    plain = _IS.sub(r" is", _TURNED_OUT.sub("is", _BEFORE.sub("", _LEAD.sub("", plain))))
    tokens = [token.rstrip(".:") or token for token in _TOKEN.findall(plain)]
    words = tuple(_word(token, is_first=at == 0) for at, token in enumerate(tokens))
    verb_at = _verb_at(words)
    return SentenceOutline(_named_first(words, verb_at), verb_at)


def has_clauses(text: str) -> bool:
    """Return whether a sentence may have more than one clause."""
    return _CLAUSE_ENDS.search(text) is not None


@lru_cache(maxsize=1_024)
def clause_outlines(text: str) -> tuple[SentenceOutline, ...]:
    """Return the outlines of the clauses of a sentence, each with a subject."""
    clauses: list[SentenceOutline] = []
    for part in filter(None, _CLAUSE_ENDS.split(text)):
        clause = outline(part)
        clauses.append(_continued(clauses[-1], clause) if clauses else clause)
    return tuple(clauses)


def _continued(before: SentenceOutline, clause: SentenceOutline) -> SentenceOutline:
    """Return a clause with the subject of the clause before it, if it has none of its own."""
    subject = before.words[: before.verb_at]
    if not subject or not clause.words:
        return clause
    first = clause.words[0]
    skipped = 1 if first.text in PRONOUNS else 0
    if not skipped and (clause.verb_at or first.kind not in {"verb", "joint"}):
        return clause
    rest = tuple(takewhile(lambda word: word.text in ADVERBS, clause.words[skipped:]))
    words = (*subject, *clause.words[skipped + len(rest) :])
    return SentenceOutline(words, len(subject)) if len(words) > len(subject) else clause


def is_content(word: OutlineWord) -> bool:
    """Return whether a word means something by itself."""
    return word.kind not in {"joint", "end"}


def noun_phrase(words: tuple[OutlineWord, ...], at: int) -> tuple[OutlineWord, ...]:
    """Return the noun phrase that begins at a place; empty if none does."""
    while at < len(words) and words[at].text in _BEFORE_NOUNS:
        at += 1
    return tuple(takewhile(is_content, words[at:]))


def key_set(text: str) -> frozenset[str]:
    """Return the keys of the words of a text."""
    return frozenset(map(key_of, text.split()))


def keys_of(words: tuple[OutlineWord, ...]) -> frozenset[str]:
    """Return the keys of words."""
    return frozenset(word.key for word in words)


def bearers_of(words: tuple[OutlineWord, ...]) -> frozenset[str]:
    """Return the keys of words; Ben is another in "Ben" than in "Ben's dog"."""
    return frozenset(f"{word.key}'s" if is_owner(word) else word.key for word in words)


def is_owner(word: OutlineWord) -> bool:
    """Return whether a word says whose something is."""
    return word.text.endswith(("'s", "s'"))


@lru_cache(maxsize=8_192)
def _word(token: str, *, is_first: bool) -> OutlineWord:
    lower = token.lower()
    if token in _ENDS or lower == "-":
        return OutlineWord(token, token, "end", token)
    owner = lower.removesuffix("'s").removesuffix("'")
    kind: WordKind = "word"
    if lower in _JOINTS and not (lower in {"us", "may", "it", "am"} and token.isupper()):
        kind = "joint"
    elif _CLOCK.fullmatch(lower) or (lower in _TIMES and (lower != "march" or token[0] == "M")):
        kind = "time"
    elif _AMOUNT.fullmatch(lower) or lower in _NUMBERS:
        kind = "number"
    elif _NAME.fullmatch(token) and not (is_first and token[1:].islower()):
        kind = "name"
    elif lower in _VERB_FORMS:
        kind = "verb"
    return OutlineWord(lower, key_of(owner), kind, token)


def _named_first(words: tuple[OutlineWord, ...], verb_at: int) -> tuple[OutlineWord, ...]:
    """Return words of which the first is a name, if it is a subject by itself in the singular."""
    is_alone = verb_at == 1 and words[0].kind == "word" and not words[0].text.endswith("s")
    return (words[0]._replace(kind="name"), *words[1:]) if is_alone else words


@lru_cache(maxsize=8_192)
def key_of(word: str) -> str:
    """Return the form of a word that is used for comparison."""
    verb = _IRREGULAR.get(word) or VERBS.get(word)
    before, joint, last = (verb or word).rpartition("-")
    stems = terms(last) if last.isalpha() else []
    return f"{before}{joint}{stems[0]}" if len(stems) == 1 else verb or word


def _is_third_person(words: tuple[OutlineWord, ...]) -> bool:
    """Return whether the second word is the verb of a name: "Maria handles refunds"."""
    if len(words) < 3 or words[0].kind != "word" or words[0].text.endswith("s"):
        return False
    is_form = words[1].kind == "word" and re.search(r"[^s]s$", words[1].text) is not None
    return is_form and words[2].text not in VERBS


def _verb_at(words: tuple[OutlineWord, ...]) -> int:
    """Return where the verb of a sentence stands."""
    if words and words[0].text in SPEAKERS:
        return 1
    is_named = len(words) > 1 and (words[1].text in _AUXILIARIES or words[1].kind == "verb")
    if words and words[0].text in VERBS and not is_named:
        return 0
    for at in range(1, len(words)):
        if words[at].text in _AUXILIARIES or words[at].kind == "verb":
            return at
        if words[at].kind == "end":
            break
    if _is_third_person(words):
        return 1
    for at in range(1, len(words)):
        is_form = words[at].text in _IRREGULAR or re.search(r"(?:s|ed)$", words[at].text)
        is_led = words[at + 1].kind != "word" if words[at + 1 :] else words[at].text[-1] == "d"
        if words[at].kind == "word" and is_form and is_led:
            return at
    return 0
