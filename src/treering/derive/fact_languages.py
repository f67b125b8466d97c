"""What people say about themselves in German, Spanish, French and Portuguese, as tables.

A row has an attribute, how people state it about themselves, how it is noted, and the words that
ask for it. The fact stays in the language it was said in: "Ich wohne in Bern" becomes "Wohnt in
Bern".
Other languages are left to a model.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.lazy import lazy_pattern

if TYPE_CHECKING:
    from treering.derive.fact_categories import Category

WORDS_MAX: Final = 14
"""Words of a value: a longer one is a story."""


class SayingForm(NamedTuple):
    """How a language says one thing about a person."""

    attribute: str
    said: str
    """A pattern of the first person, with ``{v}`` for the value."""
    noted: str
    """The same of somebody else, with ``{v}`` for the value."""
    asked: str = ""
    """Beginnings of words by which people ask for it."""
    single: bool = True
    """Whether it holds one value at a time."""


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


_GERMAN: Final = (
    SayingForm("name", r"(?:ich heiße|ich heisse|mein name ist) {v}", "heißt {v}",
        "heiß heiss name"),
    SayingForm("residence", r"(?:ich )?(?:wohne|lebe)(?: jetzt| nun| seit \w+)? in {v}",
        "wohnt in {v}",
        "wohn lebe wohnort"),
    SayingForm("residence",
        r"ich bin (?:jetzt |gerade |vor kurzem |letzte \w+ |letzten \w+ )?nach {v}"
        r" (?:um)?gezogen", "wohnt in {v}"),
    SayingForm("occupation", r"(?:ich )?arbeite(?: jetzt)? als {v}", "arbeitet als {v}",
        "beruf arbeit"),
    SayingForm("occupation",
        r"ich bin (?P<v>[A-ZÄÖÜ]\w+(?:in|er|ist|eur|ent|ärztin|arzt)) von beruf",
        "arbeitet als {v}"),
    SayingForm("employer", r"(?:ich )?arbeite(?: jetzt)? (?:bei|für) {v}", "arbeitet bei {v}",
        "arbeitgeber firma"),
    SayingForm("allergy", r"ich bin (?:stark )?allergisch (?:gegen|auf) {v}",
        "ist allergisch gegen {v}",
        "allerg", single=False),
    SayingForm("spouse", r"ich bin mit {v} verheiratet", "ist mit {v} verheiratet",
        "verheirat frau mann ehe"),
    SayingForm("date of birth", r"ich habe am (?P<v>\d{{1,2}}\.? ?[a-zäöü].*) geburtstag",
        "hat am {v} Geburtstag",
        "geburtstag geboren"),
    SayingForm("date of birth", r"mein geburtstag ist am (?P<v>\d{{1,2}}\.? ?[a-zäöü].*)",
        "hat am {v} Geburtstag"),
    SayingForm("date of birth", r"ich (?:bin|wurde) am (?P<v>\d{{1,2}}\.? ?[a-zäöü].*) geboren",
        "hat am {v} Geburtstag"),
    SayingForm("use", r"(?:wir|ich) (?:benutzen?|verwenden?|nutzen?) (?!es\b|das\b|dies){v}",
        "verwendet {v}", "verwend benutz nutz", single=False),
    SayingForm("called", r"meine? (?P<p>hund|katze|kater|pferd|sohn|tochter|frau|mann|bruder"
        r"|schwester|mutter|vater|freund|freundin) (?:heißt|heisst) {v}", "{p} heißt {v}",
        "heiß heiss", single=False),
    SayingForm("age", r"ich bin (?P<v>\d{{1,3}}) jahre alt", "ist {v} Jahre alt", "alt alter"),
    SayingForm("speak", r"ich spreche {v}", "spricht {v}", "sprech sprach", single=False),
    SayingForm("dislike", r"ich (?:hasse|mag keine?n?) {v}", "mag kein: {v}", single=False),
    SayingForm("like",
        r"ich (?:mag|liebe)(?: sehr gerne?| gerne?)? (?!nicht|es\b|dich|das\b|kein){v}",
        "mag {v}", "mag lieb gern", single=False),
    SayingForm("prefer", r"ich bevorzuge {v}", "bevorzugt {v}", "bevorzug lieber", single=False),
    SayingForm("have",
        r"ich habe (?P<v>(?:einen?|zwei|drei|vier) (?:\w+ )?(?:hund|katze|sohn|tochter"
    r"|kind|"
        r"bruder|schwester|auto|pferd|kaninchen|vogel|haus)\w*(?: namens \w+)?)", "hat {v}",
        "hund katze haustier kind geschwister", single=False),
)  # fmt: skip
_SPANISH: Final = (
    SayingForm("name", r"(?:me llamo|mi nombre es) {v}", "se llama {v}", "llam nombre"),
    SayingForm("residence", r"(?:yo )?(?:vivo|resido)(?: ahora)? en {v}", "vive en {v}",
        "viv resid"),
    SayingForm("residence", r"me (?:he )?(?:mudé|mudado)(?: hace poco)? a {v}", "vive en {v}"),
    SayingForm("occupation", r"(?:yo )?trabajo(?: ahora)? (?:como|de) {v}", "trabaja como {v}",
        "profesi oficio trabaj"),
    SayingForm("employer", r"(?:yo )?trabajo(?: ahora)? (?:en|para) {v}", "trabaja en {v}",
        "empresa"),
    SayingForm("allergy", r"(?:yo )?soy alérgic[oa] a (?:l[oa]s? )?{v}", "tiene alergia a {v}",
        "alerg alérg",
        single=False),
    SayingForm("spouse", r"(?:yo )?estoy casad[oa] con {v}", "se casó con {v}",
        "casad espos marid mujer"),
    SayingForm("date of birth", r"mi cumpleaños es el {v}", "cumple años el {v}", "cumple nac"),
    SayingForm("use",
        r"(?:yo )?(?:usamos|utilizamos|uso|utilizo) (?!lo\b|la misma|es[eoa]s?\b|est){v}",
        "utiliza {v}", "usa utiliz", single=False),
    SayingForm("origin",
        r"(?:yo )?soy de (?P<v>[A-ZÁÉÍÓÚÑ].*)", "es de {v}", "origen", single=False),
    SayingForm("called", r"mi (?P<p>perr[oa]|gat[oa]|hij[oa]|herman[oa]|marido|mujer|madre|padre"
        r"|novi[oa]) se llama {v}", "{p} se llama {v}", "llam", single=False),
    SayingForm("age", r"tengo (?P<v>\d{{1,3}}) años", "tiene {v} años", "edad años"),
    SayingForm("speak", r"(?:yo )?hablo {v}", "habla {v}", "habl idioma", single=False),
    SayingForm("like", r"me (?:gusta|gustan|encanta|encantan)(?: mucho)? {v}", "le gusta {v}",
        "gust encant",
        single=False),
    SayingForm("dislike", r"(?:no me gustan?|odio) {v}", "no le gusta {v}", single=False),
    SayingForm("prefer", r"(?:yo )?prefiero {v}", "prefiere {v}", "prefier", single=False),
    SayingForm("have",
        r"tengo (?P<v>(?:un|una|dos|tres|cuatro) (?:\w+ )?(?:perr|gat|hij|herman|coche"
    r"|caballo"
        r"|conejo|pájaro|casa)\w*(?: llamad[oa] \w+)?)", "tiene {v}", "perr gat mascota hij herman",
        single=False),
)  # fmt: skip
_FRENCH: Final = (
    SayingForm("name", r"(?:je m'appelle|mon nom est) {v}", "s'appelle {v}", "appell nom"),
    SayingForm("residence", r"(?:j'habite|je vis)(?: maintenant)? (?P<p>à|en|au|aux|dans) {v}",
        "habite {p} {v}", "habit vis"),
    SayingForm("residence", r"j'ai (?:récemment )?déménagé (?P<p>à|en|au|aux) {v}",
        "habite {p} {v}"),
    SayingForm("occupation", r"je travaille(?: maintenant)? comme {v}", "travaille comme {v}",
        "métier profession travail"),
    SayingForm("employer", r"je travaille(?: maintenant)? (?:chez|pour) {v}", "travaille chez {v}",
        "entreprise employeur"),
    SayingForm("allergy", r"je suis allergique (?P<p>aux|au|à la|à) {v}", "est allergique {p} {v}",
        "allerg",
        single=False),
    SayingForm("spouse", r"je suis marié(?:e)? (?:à|avec) {v}", "est en couple avec {v}",
        "marié mari femme"),
    SayingForm("date of birth", r"mon anniversaire est le {v}", "fête son anniversaire le {v}",
        "anniversaire né"),
    SayingForm("use", r"(?:nous utilisons|on utilise|j'utilise) (?!ça\b|cela|cec|cett?e? ){v}",
        "utilise {v}", "utilis", single=False),
    SayingForm("called",
        r"m(?:on|a) (?P<p>chien|chienne|chat|chatte|fils|fille|frère|sœur|mari|femme|mère"
        r"|père) s'appelle {v}", "{p} s'appelle {v}", "appell", single=False),
    SayingForm("age", r"j'ai (?P<v>\d{{1,3}}) ans", "a {v} ans", "âge ans"),
    SayingForm("speak", r"je parle {v}", "parle {v}", "parl langue", single=False),
    SayingForm("like", r"(?:j'aime(?: bien| beaucoup)?|j'adore) {v}", "aime {v}",
        "aim ador", single=False),
    SayingForm("dislike", r"(?:je n'aime pas|je déteste) {v}", "n'aime pas {v}", single=False),
    SayingForm("prefer", r"je préfère {v}", "préfère {v}", "préfèr préfér", single=False),
    SayingForm("have", r"j'ai (?P<v>(?:une?|deux|trois|quatre) (?:\w+ )?(?:chien|chat|fils|fille"
    r"|enfant|frère"
        r"|sœur|soeur|voiture|cheval|lapin|oiseau|maison)\w*(?: nommée? \w+)?)", "a {v}",
        "chien chat animal enfant frère sœur", single=False),
)  # fmt: skip
_PORTUGUESE: Final = (
    SayingForm("name", r"(?:(?:eu )?me chamo|(?:eu )?chamo-me|o meu nome é|meu nome é) {v}",
        "chama-se {v}", "cham nome"),
    SayingForm("residence", r"(?:eu )?(?:moro|vivo|resido)(?: agora)? (?P<p>em|no|na) {v}",
        "mora {p} {v}",
        "mor resid"),
    SayingForm("residence", r"(?:eu )?(?:mudei-me|me mudei|mudei)(?: recentemente)? para {v}",
        "mora em {v}"),
    SayingForm("occupation", r"(?:eu )?trabalho(?: agora)? como {v}", "trabalha como {v}",
        "profiss trabalh"),
    SayingForm("employer", r"(?:eu )?trabalho(?: agora)? (?:na|no|em|para) {v}", "trabalha em {v}",
        "empresa"),
    SayingForm("allergy", r"(?:eu )?sou alérgic[oa] (?P<p>a|à|ao|aos|às) {v}", "é alérgico {p} {v}",
        "alerg alérg", single=False),
    SayingForm("spouse", r"(?:eu )?(?:sou|estou) casad[oa] com {v}", "casou com {v}",
        "casad marid espos"),
    SayingForm("date of birth", r"(?:o )?meu aniversário é (?:em|no dia|a) {v}", "faz anos em {v}",
        "aniversário nasc"),
    SayingForm("use",
        r"(?:(?:nós )?(?:usamos|utilizamos)|(?:eu )?(?:uso|utilizo)) (?!iss|ist|ess){v}",
        "utiliza {v}", "usa utiliz", single=False),
    SayingForm("called",
        r"(?:[oa] )?(?:meu|minha) (?P<p>cão|cachorr[oa]|gat[oa]|filh[oa]|irmão|irmã|marido"
        r"|esposa|mãe|pai) (?:chama-se|se chama) {v}", "{p} chama-se {v}", "cham", single=False),
    SayingForm("age", r"(?:eu )?tenho (?P<v>\d{{1,3}}) anos", "tem {v} anos", "idade anos"),
    SayingForm("speak", r"(?:eu )?falo {v}", "fala {v}", "fal língua idioma", single=False),
    SayingForm("like", r"(?:eu )?(?:gosto(?: muito)? de|adoro) {v}", "gosta de {v}", "gost ador",
        single=False),
    SayingForm("dislike", r"(?:eu )?(?:não gosto de|odeio|detesto) {v}",
        "não gosta de {v}", single=False),
    SayingForm("prefer", r"(?:eu )?prefiro {v}", "prefere {v}", "prefer", single=False),
    SayingForm("have", r"(?:eu )?tenho (?P<v>(?:uma?|dois|duas|três|quatro) (?:\w+ )?(?:cão|cachorr"
    r"|gat|filh"
        r"|irmã|carro|cavalo|coelho|casa)\w*(?: chamad[oa] \w+)?)", "tem {v}",
        "cão cachorr gat animal filh irmã", single=False),
)  # fmt: skip
_LANGUAGES: Final = (
    ("ich mein meine meinen wo wie welche welcher welches wer wann bin habe mich mir", _GERMAN),
    ("dónde qué cuál cuáles cómo quién cuándo soy tengo yo mis cuántos", _SPANISH),
    ("où quel quelle quels quelles je suis mon mes qui quand combien", _FRENCH),
    ("onde qual quais meu minha meus eu sou tenho quem quando quantos moro", _PORTUGUESE),
)
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
    rf"{_PLEASE}(?:(?:antworte|schreib\w*|benutze|verwende|nutze)(?: mir| bitte)? (?:immer|nie"
    r"|niemals|keine?n?)|(?:responde|escribe|usa|utiliza)(?:me)? siempre"
    r"|(?:nunca|jamás|no) (?:uses(?! of| for| in| found| left)|respondas|escribas|añadas)"
    r"|(?:réponds|écris|utilise)(?:-moi)? toujours|n'(?:utilise|écris|ajoute) (?:jamais|pas)"
    r"|(?:responda|responde|escreva|use|usa|utilize) sempre|(?:nunca|não) (?:use|uses|usa|escreva)"
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
    r"|me|yo|eu|arbeite|wohne|lebe|trabajo|vivo|tengo|soy|trabalho|moro|tenho|sou|gosto|hablo|falo)"
    r"\b|j')",
    re.IGNORECASE,
)


def foreign_statements(sentence: str) -> list[ForeignStatement]:
    """Return what a sentence in one of these languages says about its speaker."""
    sentence = sentence.strip(" .!¡").replace("\u2019", "'")
    if is_foreign_order(sentence):
        return [ForeignStatement(_first_upper(sentence), "preference", 8)]
    statements = (_statement(part.strip(" .!¡,")) for part in _SPLIT.split(sentence) if part)
    return [statement for statement in statements if statement is not None]


def is_foreign_order(text: str) -> bool:
    """Return whether a text is a standing order in one of these languages."""
    return _STANDING.fullmatch(text) is not None and _AT_HAND.search(text) is None


def foreign_claim(text: str) -> ForeignClaim | None:
    """Return what a noted fact says, if it is noted in one of these languages."""
    folded, statement = text.casefold(), text.rstrip(" .")
    for row in _ROWS:
        # Most texts have the words of no row: no pattern is compiled for them.
        if _words_of(row) in folded and (match := _noted(row).fullmatch(statement)):
            return ForeignClaim(row.attribute, match["v"], row.single)
    return None


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


@cache
def _said(row: SayingForm) -> re.Pattern[str]:
    return re.compile(_with_value(row.said, _VALUE), re.IGNORECASE)


@cache
def _noted(row: SayingForm) -> re.Pattern[str]:
    noted = re.escape(row.noted).replace(r"\{v\}", _VALUE)
    return re.compile(noted.replace(r"\{p\}", r"(?P<p>\S+(?: la| l')?)"), re.IGNORECASE)


@cache
def _words_of(row: SayingForm) -> str:
    """Return the longest part of a noted fact that is always the same."""
    return max(re.split(r"\{[pv]\}", row.noted), key=len).strip().casefold()


def _with_value(said: str, value: str) -> str:
    """Return a pattern with its value."""
    return said.replace("{{", "{").replace("}}", "}").replace("{v}", value)


def _statement(part: str) -> ForeignStatement | None:
    for row in _ROWS:
        match = _said(row).fullmatch(part)
        if match is None or match["v"] is None:
            continue
        value = match["v"].strip()
        if len(value.split()) > WORDS_MAX or not value:
            return None
        place = match.groupdict().get("p") or ""
        text = row.noted.format(v=value, p=place)
        return ForeignStatement(
            _first_upper(text),
            _CATEGORIES.get(row.attribute, "personal"),
            _IMPORTANCE.get(row.attribute, 5),
        )
    return None


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
