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
    asked: str = ""
    """Beginnings of words by which people ask for it."""
    single: bool = True
    """Whether it holds one value at a time."""
    negated: bool = False
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


_GERMAN: Final = (
    SayingForm("name", r"(?:ich heiße|ich heisse|mein name ist) {v}", "heißt {v}",
        "heiß heiss name"),
    SayingForm("residence",
        r"(?:ich )?(?:wohne|lebe)(?: ich)?(?: jetzt| nun| seit [\w ]+?)? in {v}",
        "wohnt in {v}",
        "wohn lebe wohnort"),
    SayingForm("residence",
        r"ich bin (?:jetzt |gerade |vor kurzem |letzte \w+ |letzten \w+ )?nach {v}"
        r" (?:um)?gezogen", "wohnt in {v}"),
    SayingForm("occupation", r"(?:ich )?arbeite(?: ich)?(?: jetzt)? als {v}", "arbeitet als {v}",
        "beruf arbeit"),
    SayingForm("occupation",
        r"ich bin (?P<v>[A-ZÄÖÜ]\w+(?:in|er|ist|eur|ent|ärztin|arzt)) von beruf",
        "arbeitet als {v}"),
    SayingForm("employer", r"(?:ich )?arbeite(?: ich)?(?: jetzt)? (?:bei|für) {v}",
        "arbeitet bei {v}",
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
    SayingForm("employer", r"ich arbeite nicht mehr (?:bei|für) {v}", "arbeitet nicht mehr bei {v}",
        negated=True),
    SayingForm("residence", r"ich (?:wohne|lebe) nicht mehr in {v}", "wohnt nicht mehr in {v}",
        negated=True),
    SayingForm("allergy", r"ich bin (?:doch )?(?:nicht|nicht mehr) allergisch (?:gegen|auf) {v}",
        "ist nicht allergisch gegen {v}", single=False, negated=True),
    SayingForm("favourite {p}", r"meine? lieblings(?P<p>\w+) ist(?: jetzt)? {v}",
        "Lieblings{p} ist {v}", "liebling"),
    SayingForm("{p} uses", r"(?:unser|das|mein) (?P<p>projekt|team|backend|server|programm)"
        r" (?:läuft auf|verwendet|benutzt|nutzt) {v}", "{p} verwendet {v}", "benutz verwend nutz",
        single=False),
    SayingForm("use", r"wir sind auf {v} umgestiegen", "verwendet {v}", single=False),
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
        r"bruder|schwester|auto|pferd|kaninchen|vogel|haus)\w*(?: namens \w+"
        r"|,? d(?:er|ie|as) \w+ heißt)?)", "hat {v}",
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
    SayingForm("employer",
        r"ya no trabajo (?:en|para) {v}|(?:dejé|he dejado) (?P<w>(?-i:[A-ZÁÉÍÓÚÑ])\S*)",
        "ya no trabaja en {v}", negated=True),
    SayingForm("residence", r"ya no vivo en {v}", "ya no vive en {v}", negated=True),
    SayingForm("allergy", r"(?:ya )?no soy alérgic[oa] a (?:l[oa]s? )?{v}",
        "ya no tiene alergia a {v}", single=False, negated=True),
    SayingForm("favourite {p}",
        r"mi (?P<p>\w+ (?:favorit|preferid)[oa])(?: ahora)? es(?: ahora)? {v}",
        "{p} es {v}", "favorit preferid"),
    SayingForm("{p} uses", r"(?:nuestro|el|mi) (?P<p>proyecto|equipo|backend|servidor|programa)"
        r" (?:usa|utiliza|corre en|funciona con) {v}", "{p} utiliza {v}", "usa utiliz",
        single=False),
    SayingForm("use", r"(?:hemos pasado|nos pasamos|nos hemos pasado) a {v}", "utiliza {v}",
        single=False),
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
        r"|conejo|pájaro|casa)\w*(?: llamad[oa] \w+| que se llama \w+)?)", "tiene {v}",
        "perr gat mascota hij herman",
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
    SayingForm("employer", r"je ne travaille plus (?:chez|pour) {v}", "ne travaille plus chez {v}",
        negated=True),
    SayingForm("employer", r"je suis(?: maintenant)? chez (?P<v>[A-ZÀÉÈ].*)", "travaille chez {v}"),
    SayingForm("residence", r"je n'habite plus (?P<p>à|en|au|aux) {v}", "n'habite plus {p} {v}",
        negated=True),
    SayingForm("allergy", r"je ne suis (?:plus|pas|finalement pas) allergique"
        r" (?P<p>aux|au|à la|à) {v}", "n'est pas allergique {p} {v}", single=False, negated=True),
    SayingForm("favourite {p}", r"m(?:on|a) (?P<p>\w+ préférée?) est(?: maintenant)? {v}",
        "{p} est {v}", "préfér"),
    SayingForm("{p} uses", r"(?:notre|le|mon) (?P<p>projet|serveur|backend|programme)"
        r" (?:utilise|tourne sur) {v}", "{p} utilise {v}", "utilis", single=False),
    SayingForm("use", r"(?:nous sommes|on est) passés? à {v}", "utilise {v}", single=False),
    SayingForm("age", r"j'ai (?P<v>\d{{1,3}}) ans", "a {v} ans", "âge ans"),
    SayingForm("speak", r"je parle {v}", "parle {v}", "parl langue", single=False),
    SayingForm("like", r"(?:j'aime(?: bien| beaucoup)?|j'adore) {v}", "aime {v}",
        "aim ador", single=False),
    SayingForm("dislike", r"(?:je n'aime pas|je déteste) {v}", "n'aime pas {v}", single=False),
    SayingForm("prefer", r"je préfère {v}", "préfère {v}", "préfèr préfér", single=False),
    SayingForm("have", r"j'ai (?P<v>(?:une?|deux|trois|quatre) (?:\w+ )?(?:chien|chat|fils|fille"
    r"|enfant|frère"
        r"|sœur|soeur|voiture|cheval|lapin|oiseau|maison)\w*(?: nommée? \w+"
        r"| qui s'appelle \w+)?)", "a {v}",
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
    SayingForm("employer", r"(?:eu )?(?:já )?não trabalho(?: mais)? (?:na|no|em|para) {v}",
        "já não trabalha em {v}", negated=True),
    SayingForm("residence", r"(?:eu )?(?:já )?não moro(?: mais)? (?P<p>em|no|na) {v}",
        "já não mora {p} {v}", negated=True),
    SayingForm("allergy", r"(?:eu )?(?:já )?não sou(?: mais)? alérgic[oa] (?P<p>a|à|ao|aos|às) {v}",
        "não é alérgico {p} {v}", single=False, negated=True),
    SayingForm("favourite {p}", r"(?:[oa] )?(?:meu|minha) (?P<p>\w+ (?:favorit|preferid)[oa])"
        r"(?: agora)? é(?: agora)? {v}", "{p} é {v}", "favorit preferid"),
    SayingForm("{p} uses", r"(?:nosso|o|meu) (?P<p>projeto|time|servidor|backend|programa)"
        r" (?:usa|utiliza|roda em) {v}", "{p} utiliza {v}", "usa utiliz", single=False),
    SayingForm("use", r"(?:mudamos|passamos) para {v}", "utiliza {v}", single=False),
    SayingForm("age", r"(?:eu )?tenho (?P<v>\d{{1,3}}) anos", "tem {v} anos", "idade anos"),
    SayingForm("speak", r"(?:eu )?falo {v}", "fala {v}", "fal língua idioma", single=False),
    SayingForm("like", r"(?:eu )?(?:gosto(?: muito)? de|adoro) {v}", "gosta de {v}", "gost ador",
        single=False),
    SayingForm("dislike", r"(?:eu )?(?:não gosto de|odeio|detesto) {v}",
        "não gosta de {v}", single=False),
    SayingForm("prefer", r"(?:eu )?prefiro {v}", "prefere {v}", "prefer", single=False),
    SayingForm("have", r"(?:eu )?tenho (?P<v>(?:uma?|dois|duas|três|quatro) (?:\w+ )?(?:cão|cachorr"
    r"|gat|filh"
        r"|irmã|carro|cavalo|coelho|casa)\w*(?: chamad[oa] \w+| que se chama \w+)?)", "tem {v}",
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
    return re.compile(_with_value(row.said, _VALUE), re.IGNORECASE)


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


def _with_value(said: str, value: str) -> str:
    """Return a pattern with its value."""
    return said.replace("{{", "{").replace("}}", "}").replace("{v}", value)


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
