"""What people say about themselves in German, Spanish, French and Portuguese.

The tables are in fact_languages.txt. The fact stays in the language it was said in: "Ich wohne in
Bern" becomes "Wohnt in Bern". Other languages are left to a model.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.lazy import lazy_pattern, packaged_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.rules.fact_categories import Category

WORDS_MAX: Final = 14
"""Words of a value: a longer one is a story."""


class SayingForm(NamedTuple):
    """How a language says one thing about a person."""

    attribute: str
    said: str
    """A pattern of the first person, with ``{v}`` for the value."""
    noted: str
    """The same of somebody else, with ``{v}`` for the value."""
    asked: str
    """Beginnings of words by which people ask for it."""
    single: bool
    """Whether it holds one value at a time."""
    negated: bool
    """Whether it says that this is not so, or no longer."""


class ForeignStatement(NamedTuple):
    """A statement of a person about themselves."""

    text: str
    category: Category
    importance: int


class ForeignClaim(NamedTuple):
    """What a noted fact says."""

    attribute: str
    value: str
    single: bool
    negated: bool


def _languages() -> Iterator[tuple[str, tuple[SayingForm, ...]]]:
    """Yield the words of each language, and its rows."""
    table = packaged_text(__name__, "fact_languages.txt")
    for language in table.split("\n= ")[1:]:
        words, *rows = language.splitlines()
        yield words, tuple(_form(*re.split(" {2,}", row)) for row in rows if row)


def _form(attribute: str, said: str, noted: str, asked: str = "") -> SayingForm:
    single, negated = "*" not in attribute, "-" in attribute
    return SayingForm(attribute.rstrip("*-"), said, noted, asked, single, negated)


_LANGUAGES: Final = tuple(_languages())
"""Words by which a question is known to be in a language, and what it is about."""
_ROWS: Final = tuple(row for _, rows in _LANGUAGES for row in rows)
_IMPORTANCE: Final = {"name": 9, "allergy": 9, "residence": 7, "occupation": 7, "spouse": 8}
_CATEGORIES: Final[dict[str, Category]] = {
    "occupation": "work", "employer": "work", "like": "preference", "dislike": "preference",
    "prefer": "preference", "use": "technical", "called": "relationship",
}  # fmt: skip
_WORD: Final = lazy_pattern(r"[^\W\d_]+")
_PLEASE: Final = r"(?:bitte |por favor,? |s'il te plaît,? )?"
_STANDING: Final = lazy_pattern(
    rf"{_PLEASE}(?:(?:antworte|schreib\w*|benutze|verwende|nutze)(?: mir| bitte)* (?:immer|nie"
    r"|niemals|keine?n?)|(?:responde|escribe|usa|utiliza)(?:me)? siempre"
    r"|(?:nunca|jamás|no) (?:uses(?! of| for| in| found| left)|respondas|escribas|añadas)"
    r"|(?:réponds|écris|utilise)(?:-moi)? toujours|n'(?:utilise|écris|ajoute) (?:jamais|pas)"
    r"|(?:responda|responde|escreva|use|usa|utilize) sempre|(?:nunca|não) (?:use|uses|usa|escreva"
    r"|apague|delete|remova|altere|mude|execute|envie)|(?:nunca|jamás|no) (?:borres|elimines"
    r"|cambies|modifiques|ejecutes|envíes)"
    r"|ne (?:supprime|modifie|change|lance|envoie) (?:jamais|pas)"
    r"|(?:lösche|ändere|committe|pushe|sende) (?:niemals|nie)"
    r"|(?:sempre|siempre) (?:usa|use|responda|responde)) \S.*"
    rf"|{_PLEASE}(?:verwende|benutze|nutze|usa|utiliza|utilise|use|utilize) \S.*"
    r" (?:statt|anstatt|anstelle von|en lugar de|en vez de|au lieu de|plutôt que|em vez de) \S.*",
    re.IGNORECASE,
)
_AT_HAND: Final = lazy_pattern(
    r"\b(?:dies\w*|hier|jetzt|esto|eso|ahora|aquí|ceci|cela|ça|maintenant|ici|isso|isto|agora"
    r"|aqui)\b",
    re.IGNORECASE,
)
"""Words of an order that holds only for the moment."""
_SPLIT: Final = lazy_pattern(
    r"[,;]\s+(?:und|y|et|e|aber|pero|mais|mas)?\s*|\s+(?:und|y|et|e|aber|pero|mais"
    r"|mas)\s+(?=(?:ich|je|j'"
    r"|me|yo|eu|arbeite|wohne|lebe|trabajo|vivo|tengo|soy|trabalho|moro|tenho|sou|gosto|hablo|falo"
    r"|ahora|agora|maintenant|jetzt)\b|j')",
    re.IGNORECASE,
)


def foreign_statements(sentence: str) -> list[ForeignStatement]:
    """Return what a sentence in one of these languages says about its speaker."""
    sentence = sentence.strip(" .!¡").replace("\u2019", "'")
    if is_foreign_order(sentence):
        return [ForeignStatement(_first_upper(sentence), "preference", 8)]
    parts = (part.strip(" .!¡,") for part in _SPLIT.split(sentence) if part)
    return [statement for part in parts for statement in _statements(part)]


def is_foreign_order(text: str) -> bool:
    """Return whether a text is a standing order in one of these languages."""
    return _STANDING.fullmatch(text) is not None and _AT_HAND.search(text) is None


def foreign_claim(text: str) -> ForeignClaim | None:
    """Return what a noted fact says, if it is noted in one of these languages."""
    folded, statement = text.casefold(), text.rstrip(" .")
    for words, row in _rows_by_words():
        # Most texts have the words of no row: no pattern is compiled for them.
        if words in folded and (match := _noted(row).fullmatch(statement)):
            return _claim(row, match)
    return None


def _claim(row: SayingForm, match: re.Match[str]) -> ForeignClaim:
    place = (match.groupdict().get("p") or "").casefold()
    attribute, value = row.attribute.format(p=place), match["v"]
    versioned = _VERSIONED.fullmatch(value) if attribute == "use" else None
    if versioned is not None:
        attribute = f"version of {versioned['name'].casefold()}"
    return ForeignClaim(attribute, value, row.single or versioned is not None, row.negated)


def foreign_attributes(question: str) -> dict[str, tuple[str, ...]]:
    """Return by word which attributes a question asks for, if it is in one of these languages."""
    words = dict.fromkeys(_WORD.findall(question.casefold()))
    rows = [
        row
        for language_words, rows_of_language in _LANGUAGES
        if not words.keys().isdisjoint(language_words.split())
        for row in rows_of_language
    ]
    return {
        word: tuple(dict.fromkeys(row.attribute for row in rows if _asks(word, row)))
        for word in words
        if rows
    }


def _asks(word: str, row: SayingForm) -> bool:
    return any(word.startswith(start) for start in row.asked.split())


_VALUE: Final = r"(?P<v>\S.*?)"
_PLACE: Final = r"(?P<p>\S+(?: la| l'| favorit[oa]| preferid[oa]| préférée?)?)"
_VERSIONED: Final = lazy_pattern(r"(?P<name>\D*[^\W\d_]) v?\d[\w.]*(?: .*)?")
_NOW: Final = lazy_pattern(
    r"^(?:(?:jetzt|nun|inzwischen|ahora|actualmente|maintenant|désormais|agora|atualmente"
    r"|el (?:mes|año) pasado|la semana pasada|le mois dernier|la semaine dernière|no (?:mês|ano)"
    r" passado|na semana passada),? )+",
    re.IGNORECASE,
)
_WHEN: Final = lazy_pattern(
    r",? (?:le mois dernier|l'année dernière|la semaine dernière|el (?:mes|año) pasado|la semana"
    r" pasada|no (?:mês|ano) passado|na semana passada|hier|ayer|ontem|gestern|recientemente"
    r"|récemment|recentemente|(?:en|em|im) (?:janeiro|fevereiro|março|abril|maio|junho|julho|agosto"
    r"|setembro|outubro|novembro|dezembro|enero|febrero|marzo|mayo|junio|julio|septiembre|octubre"
    r"|noviembre|diciembre|janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre"
    r"|novembre|décembre))$",
    re.IGNORECASE,
)
"""Before and after what is stated: words that mean nothing later."""
_COMPANY: Final = lazy_pattern(r" (?:con|mit|avec|com) .*$", re.IGNORECASE)
_JOB_AND_FIRM: Final = lazy_pattern(
    r"(?P<job>.+?) (?P<at>bei|für|en|para|chez|pour|no|na|em) (?P<firm>.+)"
)
_FIRM_AND_JOB: Final = lazy_pattern(r"(?P<firm>.+?) (?:comme|als|como) (?P<job>.+)")


@cache
def _said(row: SayingForm) -> re.Pattern[str]:
    return re.compile(row.said.replace("{v}", _VALUE), re.IGNORECASE)


@cache
def _noted(row: SayingForm) -> re.Pattern[str]:
    noted = re.escape(row.noted).replace(r"\{v\}", _VALUE)
    return re.compile(noted.replace(r"\{p\}", _PLACE), re.IGNORECASE)


@cache
def _rows_by_words() -> list[tuple[str, SayingForm]]:
    """Return the rows, each with the longest part of its noted facts that is always the same."""
    parts = (re.split(r"\{[pv]\}", row.noted) for row in _ROWS)
    return [
        (max(each, key=len).strip().casefold(), row) for each, row in zip(parts, _ROWS, strict=True)
    ]


def _statements(part: str) -> list[ForeignStatement]:
    part = _WHEN.sub("", _NOW.sub("", part))
    for row in _ROWS:
        match = _said(row).fullmatch(part)
        if match is None:
            continue
        groups = match.groupdict()
        value = (groups["v"] or groups.get("w") or "").strip()
        if len(value.split()) > WORDS_MAX or not value:
            return []
        value = _COMPANY.sub("", value) if row.attribute == "residence" else value
        return [
            ForeignStatement(
                _first_upper(one.noted.format(v=said, p=groups.get("p") or "")),
                _CATEGORIES.get(one.attribute, "personal"),
                _IMPORTANCE.get(one.attribute, 5),
            )
            for one, said in _parts(row, value)
        ]
    return []


def _parts(row: SayingForm, value: str) -> list[tuple[SayingForm, str]]:
    """Return a job and where it is as two statements: one may change without the other."""
    pattern = {"occupation": _JOB_AND_FIRM, "employer": _FIRM_AND_JOB}.get(row.attribute)
    match = None if pattern is None or row.negated else pattern.fullmatch(value)
    if match is None:
        return [(row, value)]
    [rows] = [rows for _, rows in _LANGUAGES if row in rows]
    job = next(one for one in rows if one.attribute == "occupation")
    firm = next(one for one in rows if one.attribute == "employer")
    return [(job, match["job"]), (firm, match["firm"])]


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
