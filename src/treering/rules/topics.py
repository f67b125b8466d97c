"""Topics: the words and short phrases that occur most in texts.

They are counted, not understood: stemmed words, alone and in phrases of up to three, without
everyday words. Names of people, places, files and code count more.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final

from treering.lazy import packaged_text
from treering.model.search_words import is_unspaced
from treering.rules.terms import STOP_WORDS, terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOPICS_MAX: Final = 8
PHRASE_WORDS_MAX: Final = 3
TEXT_CHARS_MAX: Final = 4_096
"""Characters of each text that are read."""
TEXTS_MAX: Final = 2_000
TOPIC_CHARS_MAX: Final = 60
UNSPACED_CHARS_MAX: Final = 8
FEW_WORDS: Final = 80
"""In texts this short, a word need not occur twice."""
FEW_TOPICS: Final = 4
"""Topics of short texts, besides names."""

_NAME_WEIGHT: Final = 1.5
_PHRASE_WEIGHT: Final = 0.7
"""Weight of each further word in a phrase: a phrase says more than its words."""
_WORD_CHARS_MIN: Final = 3

_TOKEN: Final = re.compile(
    r"https?://\S+|[^\W_][\w.@/+-]{0,198}\w(?:['\u2019][a-z]{1,2}\b)?|[^\W_]|[^\w\s]|\n"
)
_JOINED: Final = re.compile(r"\w(?:[_/@]|\.(?=[A-Za-z]))\w|[a-z0-9][A-Z]")
"""Names in code, files and hosts."""
_ENDS_SENTENCE: Final = frozenset('.!?:\n"\u201c\u201d*#-\u2022')

_EVERYDAY: Final = frozenset(packaged_text(__name__, "everyday_words.txt").split())
"""Everyday words of the languages most spoken to agents."""


class _Candidate:
    """A word or phrase, and where it occurs."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.spellings: Counter[str] = Counter()
        self.texts: set[int] = set()
        self.named = 0

    @property
    def count(self) -> int:
        return self.spellings.total()

    @property
    def is_name(self) -> bool:
        """Return whether it is mostly written as a name."""
        return self.named * 2 > self.count

    def weight(self, words: int) -> float:
        """Return its weight; ``words`` is its number of words."""
        spread = self.count + 2 * len(self.texts)
        return spread * (1 + _PHRASE_WEIGHT * (words - 1)) * (_NAME_WEIGHT if self.is_name else 1)


def topics(texts: Sequence[str]) -> list[str]:
    """Return the topics of ``texts``, heaviest first; deterministic."""
    candidates: dict[tuple[str, ...], _Candidate] = {}
    words = 0
    for number, text in enumerate(texts[-TEXTS_MAX:]):
        for row in _rows(text):
            words += len(row)
            _count(candidates, row, number)
    ranked = sorted(
        candidates.items(), key=lambda item: (-item[1].weight(len(item[0])), item[1].first, item[0])
    )
    chosen: dict[tuple[str, ...], _Candidate] = {}
    room = FEW_TOPICS if words <= FEW_WORDS else 0
    for key, candidate in ranked:
        if len(chosen) >= TOPICS_MAX:
            break
        if _is_covered(key, candidate, chosen):
            continue
        is_rare = candidate.count == 1 and not candidate.is_name
        if is_rare and (len(key) > 1 or len(chosen) >= room or is_unspaced(key[0])):
            continue
        chosen[key] = candidate
    return [_spelt(candidate) for candidate in chosen.values()]


def _count(
    candidates: dict[tuple[str, ...], _Candidate], row: Sequence[_Word], number: int
) -> None:
    for start in range(len(row)):
        for end in range(start + 1, min(start + PHRASE_WORDS_MAX, len(row)) + 1):
            words = row[start:end]
            key = tuple(word.stem for word in words)
            if len(set(key)) < len(key):
                break
            candidate = candidates.setdefault(key, _Candidate(len(candidates)))
            candidate.spellings[" ".join(word.spelling for word in words)] += 1
            candidate.texts.add(number)
            candidate.named += all(word.is_name for word in words)


def _is_covered(
    key: tuple[str, ...], candidate: _Candidate, chosen: dict[tuple[str, ...], _Candidate]
) -> bool:
    """Return whether a chosen topic covers this one."""
    for other, chosen_candidate in chosen.items():
        shared = set(key) & set(other)
        if shared and (len(key) > 1 or candidate.count < 2 * chosen_candidate.count):
            return True
    return False


def _spelt(candidate: _Candidate) -> str:
    spelling = min(candidate.spellings.items(), key=lambda item: (-item[1], item[0]))[0]
    return spelling[:TOPIC_CHARS_MAX]


class _Word:
    """A word that may be part of a topic."""

    __slots__ = ("is_name", "spelling", "stem")

    def __init__(self, stem: str, spelling: str, *, is_name: bool) -> None:
        self.stem = stem
        self.spelling = spelling
        self.is_name = is_name


def _rows(text: str) -> Iterator[list[_Word]]:
    """Yield runs of adjacent words without punctuation or everyday words in between."""
    row: list[_Word] = []
    begins = True
    for token in _TOKEN.findall(text[:TEXT_CHARS_MAX]):
        word = _word(token, begins=begins)
        begins = token in _ENDS_SENTENCE
        if word is None or _JOINED.search(token):
            if row:
                yield row
            row = []
            if word is not None:
                yield [word]
        else:
            row.append(word)
    if row:
        yield row


def _word(token: str, *, begins: bool) -> _Word | None:
    """Return a token as a word of a topic; None for punctuation, numbers and everyday words."""
    if token.startswith(("http://", "https://")):
        return None
    if _JOINED.search(token):
        name = token.rpartition("/")[2]
        is_name = name.isascii() and len(name) >= _WORD_CHARS_MIN
        return _Word(name.lower(), name, is_name=True) if is_name else None
    plain = re.sub(r"['\u2019][a-z]{1,2}$", "", token)
    lowered = plain.lower()
    if not any(map(str.isalpha, plain)) or _is_everyday(lowered):
        return None
    if len(plain) < _WORD_CHARS_MIN and not (plain.isupper() and len(plain) > 1):
        return None
    if is_unspaced(plain):
        # Without spaces between words, only text between punctuation marks can be a word.
        return _Word(plain, plain, is_name=False) if len(plain) <= UNSPACED_CHARS_MAX else None
    is_name = plain[0].isupper() and (not begins or plain.isupper())
    stem = next(iter(terms(plain)), lowered)
    return _Word(stem, plain if is_name else lowered, is_name=is_name)


def _is_everyday(word: str) -> bool:
    return word in STOP_WORDS or word in _EVERYDAY or set(terms(word)) <= _everyday_stems()


@cache
def _everyday_stems() -> frozenset[str]:
    return frozenset(stem for word in _EVERYDAY for stem in terms(word))
