"""The words of claims in normal form: without case, endings, articles and contractions."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def unwrapped(pattern: str) -> str:
    """Return a pattern in one line: a line break is a space, or nothing before a bar."""
    lines = map(str.strip, pattern.strip().split("\n"))
    return "".join(line if line[0] == "|" else f" {line}" for line in lines)[1:]


_BLANKS: Final = re.compile(r"\s+")
_LETTERS: Final = re.compile(r"[a-z]+")
_EDGES: Final = ' \t\n.,;:!?"“”«»*_`'
_QUOTES: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'", "\u00a0": " "})
ARTICLES: Final = frozenset({"a", "an", "the"})
_LETTER: Final = re.compile(r"(?<=[a-z] )A(?!\S)|(?<=\w )[aA](?=[.,;:!?)]|$)")
"""An "A" that is not an article: within a sentence, or with nothing after it."""
_LEADING_ARTICLE: Final = re.compile(r"\A(?:the|an|a) (?=\S)")
_CONTRACTION: Final = re.compile(
    r"\b(?:(can)'?t|(can)not|(won)'t|(shan)'t|(\w+?)n't|(I|we|you|they)'(m|re|ve|ll)"
    r"|(he|she|it|that|there)'(s|ll))(?!\w)",
    re.IGNORECASE,
)
_TAILS: Final = {"m": "am", "re": "are", "ve": "have", "ll": "will", "s": "is"}

_BASES: Final = (
    "live reside work like love enjoy hate dislike prefer use speak know play move switch die want"
    " need own study plan teach eat drink smoke avoid visit buy support manage lead run deploy meet"
    " wake go get take have be do join marry found create write direct produce develop perform"
    " design invent discover employ educate locate headquarter base own publish release sing"
    " compose manufacture make belong represent star appear graduate attend practise practice"
    " train coach captain chair head govern rule serve start begin end close open occur happen"
    " collect read watch cook bake ride swim adopt keep grow require target depend store host"
    " listen follow choose favour favor adore commute migrate relocate upgrade downgrade replace"
    " change rename become remain stay contain include border air broadcast consist operate"
    " compete specialise specialize celebrate believe suffer stop quit call name associate"
    " affiliate pronounce build hold win sell give come weigh cycle bike walk drive bank rent learn"
    " report pay earn wear sleep"
)
_IRREGULAR: Final = {
    "is": "be", "am": "be", "are": "be", "was": "be", "were": "be", "been": "be", "being": "be",
    "has": "have", "had": "have", "does": "do", "did": "do", "spoke": "speak", "spoken": "speak",
    "knew": "know", "known": "know", "went": "go", "ate": "eat", "drank": "drink", "took": "take",
    "bought": "buy", "wrote": "write", "written": "write", "sang": "sing", "sung": "sing",
    "made": "make", "led": "lead", "ran": "run", "met": "meet", "got": "get", "began": "begin",
    "grew": "grow", "kept": "keep", "rode": "ride", "swam": "swim", "taught": "teach",
    "born": "bear", "dying": "die", "became": "become", "chose": "choose", "woke": "wake",
    "stopped": "stop", "running": "run", "planned": "plan", "quitting": "quit",
    "built": "build", "held": "hold", "won": "win", "sold": "sell", "gave": "give",
    "came": "come", "drove": "drive", "learnt": "learn",
    "swimming": "swim", "stopping": "stop", "getting": "get", "owned": "own", "chaired": "chair",
}  # fmt: skip
_NOUNS: Final = word_set(
    "names ends heads stars bases rules leads trains banks bikes cycles rents walks drives"
)
"""Forms that are more often nouns than verbs."""


def normal(text: str) -> str:
    """Return a name or value in the form used for comparison."""
    folded = _BLANKS.sub(
        " ", expand_contractions(normalise_characters(text)).casefold().strip(_EDGES)
    )
    return _LEADING_ARTICLE.sub("", folded, count=1) if folded[:1] in {"a", "t"} else folded


def normalise_characters(text: str) -> str:
    """Return a text with one kind of quotes and letters."""
    if text.isascii():
        return text.replace("`", "'")
    return unicodedata.normalize("NFKC", text).translate(_QUOTES)


def mark_letters(text: str) -> str:
    """Return a text in which the letter of "project A" is not taken for an article."""
    return _LETTER.sub("a#", text)


def expand_contractions(text: str) -> str:
    """Return a text without contractions: "I'm" becomes "I am", "doesn't" becomes "does not"."""
    return _CONTRACTION.sub(_whole, text) if "'" in text or "annot" in text else text


def has_word_of(text: str, listed: frozenset[str]) -> bool:
    """Return whether a text has one of these words, in capitals or not."""
    return not listed.isdisjoint(_LETTERS.findall(text.lower()))


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in order, without articles.

    Meaningful symbols are words of their own: a currency, an emoji.
    """
    return [word for word in _joined(text.casefold()) if word not in ARTICLES]


def word_finder(letter: str, joint: str = "") -> Callable[[str], list[str]]:
    """Return a function that finds words in folded text: letters held together by joints."""

    def pattern(one: str, sign: str) -> re.Pattern[str]:
        further = f"(?:{joint}{one}+)*" if joint else ""
        return re.compile(rf"(?:(?<!\S)-(?=\d))?{one}+{further}[+#%]*|{sign}")

    @cache
    def any_script() -> re.Pattern[str]:
        # In many scripts vowels are combining marks, which \\w does not match: in Hindi, "my son"
        # and "my daughter" differ only in them.
        marks, signs = _marks_and_signs()
        return pattern(f"(?:{letter}|[{marks}])", f"[${signs}]")

    ascii_alone = pattern(letter, "[$]")
    return lambda folded: (ascii_alone if folded.isascii() else any_script()).findall(folded)


_joined: Final = word_finder(r"[^\W_]", "[.'+#/@:_-]")


_statement_words: Final = word_finder(r"\w")
_SPEAKER: Final = frozenset({"i", "user"})


def statement_of(text: str) -> str:
    """Return the words of a statement without case, articles, punctuation and speaker."""
    statement_words = _statement_words(unicodedata.normalize("NFKC", text).casefold())
    meaningful = [word for word in statement_words if word not in ARTICLES]
    if meaningful and meaningful[0] in _SPEAKER:
        meaningful = meaningful[1:]
    return " ".join(meaningful or statement_words)


@cache
def _marks_and_signs() -> tuple[str, str]:
    """Return the combining marks, and the symbols that are words of their own."""
    marks: list[str] = []
    signs: list[str] = []
    for code in (*range(0xA1, 0x3400), *range(0xA000, 0xAC00), *range(0xFB00, 0x20000)):
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] == "M" and not 0xFE00 <= code <= 0xFE0F:  # Variation selectors of emojis.
            marks.append(character)
        elif category in {"So", "Sc", "Sm"}:
            signs.append(character)
    return "".join(marks), re.escape("".join(signs))


def trimmed(text: str) -> str:
    """Return a text without meaningless characters at its edges."""
    return text.strip(_EDGES)


def base(word: str) -> str:
    """Return the base form of a known verb, else the singular of a word."""
    verb = VERBS.get(word)
    if verb is not None:
        return verb
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def third_person(verb: str) -> str:
    """Return the third person of a verb: "live" becomes "lives"."""
    if verb in {"be", "have", "do"}:
        return {"be": "is", "have": "has", "do": "does"}[verb]
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _whole(match: re.Match[str]) -> str:
    can, cannot, wont, _shant, other, we, ours, he, his = match.groups()
    if we or he:
        return f"{we or he} {_TAILS[(ours or his).lower()]}"
    verb = can or cannot or other or ("will" if wont else "shall")
    # Keep the capital: "Don't Look Now" is a title anywhere.
    return f"{verb} Not" if match.group()[0].isupper() else f"{verb} not"


def _forms(verb: str) -> dict[str, str]:
    stem = verb.removesuffix("e")
    past = f"{verb[:-1]}ied" if verb.endswith("y") and verb[-2] not in "aeiou" else f"{stem}ed"
    return {verb: verb, third_person(verb): verb, past: verb, f"{stem}ing": verb}


VERBS: Final[dict[str, str]] = {
    **{form: verb for verb in _BASES.split() for form, verb in _forms(verb).items()},
    **_IRREGULAR,
}
"""Forms of the verbs used in claims, with their base."""
FINITE_VERBS: Final = frozenset(
    form
    for form, verb in VERBS.items()
    if form != verb and not form.endswith("ing") and form not in _NOUNS
)
"""Finite verb forms: they end the subject of a sentence."""
