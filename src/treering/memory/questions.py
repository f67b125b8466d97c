"""Questions as recall reads them: clauses of weighted words, and whether they ask about the asker.

A word that most questions have ("name", "time", "work") says little about which fact is meant, so
it weighs less. A question about the world ("Who painted …?") is seldom answered by a memory, so a
memory must match it better.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.search_texts import asked_attributes
from treering.rules.claim_words import word_set
from treering.rules.fact_languages import foreign_attributes
from treering.rules.fact_noise import is_filler
from treering.rules.terms import STOP_WORDS, terms

if TYPE_CHECKING:
    from collections.abc import Mapping

CLAUSES_MAX: Final = 4
"""Clauses of a long question that are searched separately: its first and last ones."""
WORDS_MAX: Final = 24
"""Words of a text that are compared."""
LIGHT_WEIGHT: Final = 0.25
_BREAK: Final = re.compile(r"[?!;\n]+|\.(?=\s|$)|,?\s+(?:and|but)\s+|,\s", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+")
_SPEAKERS: Final = frozenset({"user", "users"})
_LIGHT: Final = word_set(
    "call called calls name named names time times work works working get gets take takes taking"
    " go goes use uses used make makes give tell like want need know known long old good way thing"
    " things kind sort type day days year many much one two new big first people person come comes"
    " keep find look see say said right left something interesting lot help helps please put let"
)
"""Words that say little about which fact is meant."""
_PHRASES: Final = (
    (re.compile(r"\bfor a living\b", re.IGNORECASE), "occupation"),
    (
        re.compile(r"\b(?:come|comes|am I|are you|is \w+) (?:originally )?from\b", re.IGNORECASE),
        "origin",
    ),
)
"""Phrases of stop words that ask for an attribute."""
_PERSONAL: Final = re.compile(
    r"\b(?:I|me|my|mine|myself|we|us|our|ours|user|he|him|his|she|her|they|them|their"
    r"|ich|mir|mich|mein\w*|wir|uns|unser\w*|je|j|moi"
    r"|mon|ma|mes|nous|notre|nos|yo|mi|mis|nosotr[oa]s|nuestr\w*|eu|meu|minha|meus|minhas|nosso\w*"
    r"|nossa\w*)\b",
    re.IGNORECASE,
)
_OWN: Final = re.compile(r"\b(?:I|my|me|mine)\b", re.IGNORECASE)
_GENERAL: Final = re.compile(
    r"(?:\W*(?:ok|please|hey|so|and)\W+)*(?:who|whom|whose|what|when|where|why|which|how|is|are|was"
    r"|were|do|does|did|can|could|will|would|should|explain|write|tell|give|summari[sz]e|draft"
    r"|convert|translate|recommend|sort|list|compare|define|describe|calculate|solve)\b",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r"(?<=\s)[^\W\d_a-z][\w'-]+")
"""A capitalised word after the first: probably a name."""
_FULL_NAME: Final = re.compile(r"(?<=\s)[^\W\d_a-z][\w'-]+(?: [^\W\d_a-z][\w'-]+)+")


class Concept(msgspec.Struct, frozen=True, gc=False):
    """A word of a question, with other names of what it asks for."""

    names: tuple[str, ...]
    weight: float


class Clause(msgspec.Struct, frozen=True, gc=False):
    """A part of a question that is searched by itself."""

    concepts: tuple[Concept, ...]

    @property
    def text(self) -> str:
        """Return its words and the other names, for an embedder."""
        return " ".join(dict.fromkeys(name for concept in self.concepts for name in concept.names))


class ParsedQuestion(msgspec.Struct, frozen=True, gc=False):
    """A parsed question."""

    clauses: tuple[Clause, ...]
    general: bool
    """Whether it asks about the world rather than about somebody or something remembered."""
    names: frozenset[str]
    """The terms of the proper names in it."""
    full_names: tuple[str, ...] = ()
    """The proper names of several words in it, folded."""
    own_words: frozenset[str] | None = None
    """The terms of a question that the asker asks about themselves; None for others."""


@lru_cache(maxsize=256)
def parse_question(query: str, user: str | None = None) -> ParsedQuestion:
    """Return the clauses of a question: the whole, and each part.

    The name of the user in it says only that it is about them.
    """
    named = None if user is None else re.compile(rf"\b{re.escape(user)}(?:'s)?\b", re.IGNORECASE)
    about_user = named is not None and named.search(query) is not None
    if named is not None and len(named.sub("", query).split()) > 1:
        query = named.sub(" ", query)
    # Greetings and thanks ask for nothing, and neither does "and when?".
    parts = [_asked_words(part) for part in _BREAK.split(query) if not is_filler(part.strip())]
    asked = [part for part in parts if part] or [content_words(query)] * bool(parts)
    if len(asked) > CLAUSES_MAX:
        asked = [*asked[: CLAUSES_MAX // 2], *asked[-(CLAUSES_MAX - CLAUSES_MAX // 2) :]]
    whole = [_asked_words(query)] if len(parts) > 1 and asked else []
    foreign = foreign_attributes(query)
    listed = dict.fromkeys(_clause(clause, foreign) for clause in [*whole, *asked] if clause)
    return ParsedQuestion(
        clauses=tuple(listed),
        general=not about_user
        and _PERSONAL.search(query) is None
        and _GENERAL.match(query) is not None,
        names=frozenset(term for name in _NAMED.findall(query) for term in terms(name)),
        full_names=tuple(name.casefold().removesuffix("'s") for name in _FULL_NAME.findall(query)),
        own_words=frozenset(terms(query)) if _OWN.search(query) else None,
    )


def content_words(text: str) -> list[str]:
    """Return the meaningful words of a text, without stop words and "user"."""
    return _meaningful(text) or [word.casefold() for word in _WORD.findall(text)][:WORDS_MAX]


def _meaningful(text: str) -> list[str]:
    words = [word.casefold() for word in _WORD.findall(text)]
    meaningful = [word for word in words if word not in STOP_WORDS and word not in _SPEAKERS]
    return meaningful[:WORDS_MAX]


def _asked_words(text: str) -> list[str]:
    """Return the meaningful words of a question, and the attributes that its phrases ask for."""
    named = [name for phrase, name in _PHRASES if phrase.search(text) is not None]
    for phrase, _ in _PHRASES:
        text = phrase.sub(" ", text)
    return [*named, *_meaningful(text)]


def _clause(words: list[str], foreign: Mapping[str, tuple[str, ...]]) -> Clause:
    return Clause(
        tuple(
            Concept(
                (word, *asked_attributes(word), *foreign.get(word, ())),
                LIGHT_WEIGHT if word in _LIGHT else 1.0,
            )
            for word in dict.fromkeys(words)
        )
    )
