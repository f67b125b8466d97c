"""What people did, plan and want, and what a project decided: statements by a table of forms.

An experience is kept with its date, since "last week" means nothing later. A sentence with a
pronoun that refers to another one is left out.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_words import third_person, unwrapped, word_set
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Callable

_IGNORE: Final = re.IGNORECASE
_ADVERBS: Final = (
    r"(?:(?:also|really|actually|currently|now|just|still|already|recently|finally|even|once"
    r"|usually|often|always|totally|definitely|lately|been|mostly|mainly|officially) )*"
)
_DID: Final = (
    "went visited attended joined started finished bought adopted enrolled passed won ran met"
    " hosted organised organized painted wrote published graduated applied volunteered planted"
    " learned learnt read watched performed competed donated launched opened created built"
    " completed received celebrated camped hiked travelled traveled injured broke sprained took"
    " made signed moved got hired sold studied trained tried played recorded designed presented"
    " coached taught had fostered rescued mentored interviewed booked hurt founded renovated held"
    " participated entered scored helped worked gave lost explored drove retook left rode spoke"
    " repaired restored sewed cooked baked knitted proposed retired rented raised spent found"
    " decorated climbed swam biked collected earned upgraded discovered saw set"
)
_GOT: Final = lazy_pattern(
    r"(?:an? |the |my |two |three |some )?(?:[\w-]+ ){0,2}(?:dog|puppy|cat|kitten|car|bike|job"
    r"|internship|promotion|degree|certificate|diploma|award|scholarship|offer|house|flat"
    r"|apartment|tattoo|married|engaged|divorced|accepted|diagnosed|hired|promoted|hurt|pup|kitty"
    r"|pet|trophy|deal|endorsement|contract|sponsorship|system|card|book|guitar|piano|phone|laptop"
    r"|camera|tent|ticket|licence|license|visa|passport|back from (?:[\w-]+ ){0,4}(?:trip|vacation"
    r"|holiday|vacay|tour|conference|party|camp|honeymoon|festival|visit|retreat|wedding))\b",
    _IGNORE,
)
"""What somebody gets that matters later."""
_MADE: Final = lazy_pattern(r"(?:an? |the |my )(?!mistake|point|plan|decision|difference)\w")
_TOOK: Final = lazy_pattern(
    r"(?:an? |the |my |some )?(?:[\w-]+ ){0,3}(?:class(?:es)?|course|trip|workshop|lessons?|exam"
    r"|test|job|kids|fam|family|dogs?|puppy|cats?|parents|mom|dad|wife|husband|son|daughter"
    r"|vacation|holiday|tour|part in|up (?:an? |some |the )?\w+)\b",
    _IGNORE,
)
_HAD: Final = lazy_pattern(
    r"(?:an? |my |our )?(?:[\w-]+ ){0,2}?(?:baby|interview|surgery|accident|exam"
    r"|concert|operation|breakup|birthday|wedding|picnic|reunion|date|heart attack|miscarriage"
    r"|health scare|tough exam|career-high|party|love for|fever|stroke|injury|call-out)\b",
    _IGNORE,
)
_GAVE: Final = lazy_pattern(
    r"(?:an?|two|three|some|a few) (?:\w+ ){0,2}(?:presentation|talk|speech|concert|workshop"
    r"|lecture)s?\b"
)
_LOST: Final = lazy_pattern(
    r"(?:my|our) (?:job|house|home|dog|cat|mother|mom|mum|father|dad|wife|husband"
    r"|brother|sister|grandm\w+|grandpa|friend|wallet|keys|phone)\b",
    _IGNORE,
)
_SPENT: Final = lazy_pattern(
    r"(?:the|an?|my|our|last|some|all|two|three|four|\d+) (?:\w+ ){0,2}(?:days?|weeks?"
    r"|weekend|months?"
    r"|years?|summer|winter|spring|holidays?|evening|afternoon|morning|time) (?:in|at|on"
    r"|with|with my"
    r"|\w+ing)\b",
    _IGNORE,
)
_FOUND: Final = lazy_pattern(
    r"(?:an?|my) (?:[\w-]+ ){0,2}(?:gym|job|club|apartment|flat|house|class|teacher"
    r"|church|therapist"
    r"|doctor|coach|band|studio|restaurant|shop|bakery|group|course|school|roommate|dog|cat)\b",
    _IGNORE,
)
_SAW: Final = lazy_pattern(
    r"(?:an?|the|my) (?:[\w-]+ ){0,3}(?:concert|movie|film|play|musical|match|exhibition|doctor"
    r"|therapist|specialist|dentist|ballet|opera)\b",
    _IGNORE,
)
_OBJECTS: Final = {
    "got": _GOT, "made": _MADE, "took": _TOOK, "had": _HAD, "gave": _GAVE, "lost": _LOST,
    "left": lazy_pattern(r"for (?:our |my |the )?\w|my (?:job|husband|wife|company)", _IGNORE),
    "spent": _SPENT, "found": _FOUND, "saw": _SAW,
    "played": lazy_pattern(r"(?!games\b|an? (?:top|tough|great) )", _IGNORE),
    "wrote": lazy_pattern(r"(?!down\b)", _IGNORE),
    "went": lazy_pattern(r"(?!on (?:some|all)\b)", _IGNORE),
    "gone": lazy_pattern(r"\w+ing\b|to (?:an? |the )?(?-i:[A-Z])", _IGNORE),
    "done": lazy_pattern(r"[a-z]+ (?:training|yoga|courses?|lessons|therapy|research)\b", _IGNORE),
}  # fmt: skip
_TAILS: Final = {
    "went": word_set(
        "to on up for camping hiking swimming skiing kayaking fishing surfing running biking"
        " climbing sailing snowboarding dancing shopping bowling cycling golfing sledding skating"
        " snorkeling snorkelling diving rafting jogging trekking sightseeing paddleboarding"
    ),
    "signed": word_set("up with"),
    "participated": word_set("in"),
    "worked": word_set("at as for with"),
    "left": word_set("for my"),
    "drove": word_set("to through from across"),
    "spoke": word_set("at"),
    "set": word_set("up"),
    "scored": word_set("a the my our " + " ".join(map(str, range(1, 100)))),
    "moved": word_set("to from into back"),
    "ran": word_set("a for the my in"),
    "started": word_set(
        "a an my the working learning taking volunteering playing painting going doing streaming"
        " surfing lifting helping writing teaching running streaming studying training practicing"
    ),
    "applied": word_set("to for"),
    "passed": word_set("my the a an"),
    "broke": word_set("my a an"),
    "hurt": word_set("my"),
    "opened": word_set("a an my"),
    "met": word_set("a an my some the two three"),
    "tried": word_set("a an my out surfing skiing snowshoeing writing painting yoga"),
    "trained": word_set("for with as"),
    "studied": word_set("in at for"),
}
_PRONOUNS: Final = lazy_pattern(
    r"\b(?:it|them|him|her|hers|his|he|she|they|their"
    r"|this(?! (?:past|week|weekend|month|year|summer|winter|spring|fall|autumn"
    r"|morning)\b)|that|these|those|there|here|you|your"
    r"|ones?|something|anything|everything|someone|stuff|things?|what|(?<!learning"
    r" )(?<!learned )how"
    r"(?! to)|why|where|who|which|such|so|I|we|us|too much|lot|same)\b",
    _IGNORE,
)
"""Words that refer to another sentence."""
_EMPTY_OBJECT: Final = lazy_pattern(
    r"(?:to (?:be|do|see|know|hear|get(?! into)|say|ask|make sure|let|tell|show|thank"
    r"|talk|fix|run|check"
    r"|test|add|change|try|look|understand|use|find|go (?:back|with|ahead))|a (?:look|chance|bit"
    r"|few|minute|second)|by|with(?! my| our| friends)|up with|rid|ready|done"
    r"|back(?! from)|in touch"
    r"|for (?:about |around |over |almost |nearly |just )?\w+ (?:days?|weeks?|months?|years?)$)\b",
    _IGNORE,
)
_MORE: Final = lazy_pattern(
    r"(?:,? (?:and|but|so|because|since|which|where|who|when|while|as|if) (?:it|I|we|they|that|this"
    r"|he|she|was|is|were|had|have|ended|made|felt|got|you|just|can|really|everyone|something)\b"
    r"|,? (?:that|which|who|whom|where|I|we|you) (?=\w)"
    r"|, (?:it|which|where|so|and|but|had|having|especially|though|a|just|like|unsurprisingly)\b"
    r"|,? again\b|,? just like (?:me|us|you)\b|(?:,| and)(?: just| also)? (?:train|chill|hike|relax"
    r"|hang|eat|go|try|make|take|practi[cs]e|enjoy|spend|talk|see|get)\b"
    r"|\s+[\u2013-]\s|\s*\u2014|-\s).*$",
    _IGNORE,
)
"""Where a clause goes over to what somebody felt or thought, or to another verb."""
_BEFORE_REFERENCE: Final = lazy_pattern(
    r",(?! (?:and|or) )|,? (?:because|since|while|after|before|when|so|where)\b"
    r"|,? and (?:then |even |also )?(?:got|went|had|saw|met|was|were|did|made|took|helped"
    r"|asked|told"
    r"|gave|talked|shared|the)\b"
    r"| to (?:show|help|see|give|make|get|support|tell|remind|let|keep|meet|share|thank)\b",
    _IGNORE,
)
"""Where a clause may end, if what follows refers to another sentence."""
_THIS: Final = lazy_pattern(
    r"\bthis (?!past|world|week|weekend|month|year|morning|afternoon|evening|summer"
    r"|winter|spring|fall)"
    r"(?=(?P<first>[a-z])[a-z-]* [a-z])"
)
"""In talk, "this charity race" is one that was not mentioned before."""
_VAGUE: Final = lazy_pattern(
    r"(?<!-)\b(?:together|positive\w*|difference|impact|goals?|inspire|chance|moment|way"
    r"|ways|time to"
    r"|call|bond|step|journey|balance|best|feedback|compliments|energy|fun|tough|experiences?"
    r"|ideas?|advice|tons|pic|photo|picture|glimpse|break|back(?! from| home)|great|cool"
    r"|amazing|awesome|issues?|problems?|questions?|feelings?|luck|plan"
    r"|lots?|bunch|ever since"
    r"|nice|huge|wonderful|special|beautiful|perfect|hard|funny|similar|progress|amount"
    r"|distance|vibe"
    r"|a place|magical|everyday)\b",
    _IGNORE,
)
"""Words of praise and feeling, which say little later."""
_PRAISE: Final = lazy_pattern(
    r"\b(?P<article>an? )?(?:(?:really|very|so|super|pretty|such) )?(?:amazing|awesome|great"
    r"|cool|nice"
    r"|huge|wonderful|special|beautiful|perfect|fantastic|incredible|lovely|gorgeous|stunning)"
    r"(?:,? and)? (?=(?P<first>[a-z])[a-z-]+)",
    _IGNORE,
)
"""Praise before a noun: the rest says as much."""
_LOOSE_END: Final = lazy_pattern(
    r"\b(?:for|with|at|in|on|to|of|from|by|as|an?|the|my|our|and|or|like|too|make|help|let|new|own"
    r"|right|some|more|every|very|just|both)$|\b(?:an?|the|my) (?:with|of|for|in|at|on|from|and)\b",
    _IGNORE,
)
"""A clause that was cut off, or lost a quoted title."""
_FIRST_TIME: Final = lazy_pattern(
    r"(?P<time>(?:Last|This|This past|Next) (?:week|weekend|month|year|summer|winter|spring|fall"
    r"|night|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)|Yesterday|Today|Tomorrow"
    r"|(?:A|Two|Three|\d+) (?:days?|weeks?|months?|years?) ago),? (?P<rest>(?:I|We|My) \S.*)",
    _IGNORE,
)
_WORDS_MIN: Final = 3
_WORDS_MAX: Final = 24
_TERMS_MIN: Final = 2

_HAD_FUN: Final = (
    r"(?:I|We) (?:just )?had (?:a|an|such a|so much|lots of|tons of) (?:blast|fun|(?:great|amazing"
    r"|incredible|awesome|nice|wonderful|fantastic|good|lovely) (?:time|experience|day|weekend"
    r"|summer|trip))(?: last \w+)?,?"
)


def _form(noted: str, importance: int, pattern: str) -> tuple[re.Pattern[str], str, int]:
    return lazy_pattern(unwrapped(pattern), _IGNORE), noted, importance


_FORMS: Final = (
    _form("{verb} {rest}", 4, rf"""
        (?:I|We) (?:all )?(?:have )?{_ADVERBS}(?P<verb>{_DID.replace(' ', '|')}) (?P<rest>\S.*)
    """),
    _form("enjoyed {rest}", 4, rf"{_HAD_FUN} (?:at|on) (?P<rest>\S.*)"),
    _form("enjoyed {verb} {rest}", 4, rf"""
        {_HAD_FUN} (?P<verb>in|hiking|camping|kayaking|surfing|watching|competing|throwing|visiting
        |exploring|skiing|cooking|painting|playing) (?P<rest>\S.*)
    """),
    _form("was {verb} {rest}", 6, rf"""
        I was {_ADVERBS}(?P<verb>diagnosed with|accepted to|accepted into|hired as|promoted to
        |elected|awarded|invited to|drafted by) (?P<rest>\S.*)
    """),
    _form("has been {verb} {rest}", 4, rf"""
        I have {_ADVERBS}been (?P<verb>looking into(?! (?:the|why|how|whether)\b)|wanting to
        |focusing on|involved in|interested in|(?!wanting|searching|going|doing|chasing|focusing
        |trying|having|getting|feeling|thinking|waiting|looking|seeing|wondering|hearing
        |missing)[a-z]+ing) (?P<rest>\S.*)
    """),
    _form("plans {verb} {rest}", 5, rf"""
        (?:I am|We are) {_ADVERBS}(?:planning|hoping|aiming|preparing) (?P<verb>to|on|an?)
        (?P<rest>\S.*)
    """),
    _form("plans to {verb} {rest}", 5, rf"""
        (?:I am|We are) {_ADVERBS}gonna (?P<verb>stay|visit|study|start|move|spend) (?P<rest>\S.*)
    """),
    _form("{verb} is {rest}", 6, r"""
        My (?P<verb>dream|goal|plan|hobby|passion|dream job|big goal) is
        (?P<rest>(?:to |an? |\w+ing )\S.*)
    """),
    _form("plans to {verb} {rest}", 5, rf"""
        I {_ADVERBS}(?:plan|intend|hope|aim) to (?P<verb>[a-z]+) (?P<rest>\S.*)
    """),
    _form("wants {verb} {rest}", 4, rf"""
        (?:I|We) (?:would love|{_ADVERBS}want|dream of|{_ADVERBS}wish) (?P<verb>to) (?P<rest>\S.*)
    """),
    _form("is {verb} {rest}", 5, rf"""
        (?:I am|We are) {_ADVERBS}(?P<verb>studying|learning|training|saving|volunteering|writing
        |taking|building|using|reading|organi[sz]ing|renovating|coaching|teaching|recovering
        |mentoring|working on|working with|researching|reducing|playing|developing|attending
        |practi[sc]ing|watching|collecting|considering|exploring|hosting|launching|opening|joining
        |trying to|thinking of|thinking about|trying out|enjoying|keen on|teaming up with|partnering
        with|looking for|looking into|looking to|getting into|sticking to|struggling with|creating
        |on the hunt for) (?P<rest>\S.*)
    """),
    _form("is {verb} {rest}", 5, rf"""
        (?:I am|We are) {_ADVERBS}(?P<verb>going to) (?P<rest>(?:an?|the|my) \S.*)
    """),
    _form("is {verb} {rest}", 6, r"""
        I am (?P<verb>an?) (?P<rest>(?!bit|little|lot|big|huge|great|fan|firm
        |believer)[a-z-]+(?: [a-z-]+){0,2} (?:for|at) (?:the|an?|my|our) (?:\w+ ){0,3}(?:team|club
        |school|company|hospital|university|shop|store|restaurant|firm|band|bank|museum|clinic))
    """),
    _form("{third} {rest}", 5, rf"""
        (?:I|We) {_ADVERBS}(?P<third>suffer|struggle|volunteer|belong|believe|run|paint|write|bake
        |cook|coach|mentor|grow|practi[sc]e|perform|sing|draw|sew|knit|raise|host|train|dance|surf
        |breed|restore|repair|organi[sz]e) (?P<rest>(?!to |up |out |on |into |off )\S.*)
    """),
    _form("is {verb} {rest}", 6, rf"""
        I am {_ADVERBS}(?P<verb>passionate about|into|obsessed with|afraid of|responsible for|in
        charge of|part of|originally from|majoring in|certified in|allergic to|training for|saving
        for|the \w+ of) (?P<rest>\S.*)
    """),
    _form("has been to {rest}", 4, rf"""
        I (?:was|have) {_ADVERBS}(?P<verb>in|to) (?P<rest>(?-i:[A-Z][\w-]+(?:,?
        (?:and )?[A-Z]\w*)*)(?: (?:last|in|on|for|two|three|a) [^,]*)?)(?:,? (?:it|and it|which|but)
        .*)?
    """),
    _form("is {verb} {rest}", 6, rf"""
        (?:I am|We are) {_ADVERBS}(?P<verb>off to(?= (?-i:[A-Z])| the )|heading to|traveling to
        |travelling to|moving to|leaving for|flying to|putting together|in talks with|engaged to
        |dating|married to|expecting|pregnant with) (?P<rest>\S.*)
    """),
    _form("has {verb} {rest}", 4, rf"(?:I|We) have {_ADVERBS}(?P<verb>gone|done) (?P<rest>\S.*)"),
    _form("has always {verb} {rest}", 5, r"""
        (?:I|We) (?:(?:have|had) )?always (?P<verb>loved|liked|wanted to|dreamed of|enjoyed|hated
        |admired|been afraid of|been interested in) (?P<rest>\S.*)
    """),
    _form("{verb} {rest}", 5, r"""
        I (?P<verb>loved|liked|played|used to \w+|hated|collected|dreamed of) (?P<rest>\S.* (?:as a
        (?:kid|child|teenager|boy|girl)|growing up|in (?:high )?school|in college|when I was (?:a
        kid|a child|younger|young)))
    """),
    _form("{verb} {rest}", 5, r"""
        (?:My|Our) (?P<verb>(?:old |new )?(?:car|bike|house|flat|apartment|laptop|phone|computer
        |garden|team|band|shop|store|business|company|book|novel|blog|channel|studio))
        (?P<rest>(?:broke down|was stolen|got stolen|burned down|flooded|is called|is named|won|lost
        |opened|opens|launched|moved|was published|came out|is an?|was an?)\b.*)
    """),
    _form("has {verb} {rest}", 5, rf"""
        I {_ADVERBS}have (?:got )?(?P<verb>an?|two|three|four|five|six) (?P<rest>\S.*)
    """),
    _form("{verb} {rest}", 5, r"""
        My (?P<verb>(?:wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|son|daughter|kids
        |children|mother|mom|mum|father|dad|parents|brother|sister|grandmother|grandma|grandfather
        |grandpa|aunt|uncle|cousin|niece|nephew|roommate|best friend|friend|boss|colleague|dog|cat
        |puppy|kitten)s?(?: [A-Z][a-z]+)?(?: and I)?) (?P<rest>(?:passed away|died|gave|got|bought
        |moved|lives?|works?|loves?|likes?|enjoys?|plays?|has|have|had|started|joined|won|visited
        |went|graduated|owns?|runs?|teaches|studies|speaks|taught|is called|is named|was born|is an?
        |was an?) \S.*)
    """),
)  # fmt: skip


class Experience(NamedTuple):
    """What a clause says that somebody did, plans or decided."""

    text: str
    importance: int
    is_dated: bool
    """Whether words such as "yesterday" in it are to be replaced by dates."""


def read_experience(clause: str) -> Experience | None:
    """Return what a clause says that its speaker did, plans, wants or decided; None if nothing."""
    for pattern, plain, importance in _FORMS:
        match = pattern.fullmatch(clause)
        if match is None:
            continue
        named = match.groupdict()
        verb, rest = named.get("verb") or named.get("third") or "", _told(match["rest"])
        if _is_whole(verb.lower(), rest):
            text = plain.format(verb=verb, third=third_person(verb), rest=rest)
            return Experience(text[:1].upper() + text[1:], importance, is_dated=True)
    return None


def _told(rest: str) -> str:
    """Return the rest of a clause without praise, afterthoughts and what refers elsewhere."""
    rest = _MORE.sub("", _THIS.sub(_indefinite, rest)).strip(" ,")
    rest = _PRAISE.sub(_article, rest)
    for empty in (_PRONOUNS, _VAGUE):
        reference = empty.search(rest)
        if reference is not None:
            ends = [end.start() for end in _BEFORE_REFERENCE.finditer(rest, 0, reference.start())]
            rest = rest[: ends[-1]].strip(" ,") if ends else rest
    return rest


def with_time_last(sentence: str) -> str:
    """Return "Last week, I joined a club" as "I joined a club last week"."""
    match = _FIRST_TIME.fullmatch(sentence.rstrip(" .!"))
    if match is None:
        return sentence
    time = match["time"][0].lower() + match["time"][1:]
    first, *more = re.split(
        r"(?=,? (?:and|but|so|which|where|because) |, )", match["rest"], maxsplit=1
    )
    return f"{first} {time}{''.join(more)}"


def _is_whole(verb: str, rest: str) -> bool:
    """Return whether the rest of a clause can be understood by itself."""
    first = rest.split(" ", 1)[0].lower()
    intent = f"to {rest}" if verb == "to" else rest
    if first not in _TAILS.get(verb, {first}) or _EMPTY_OBJECT.match(intent) is not None:
        return False
    wanted = _OBJECTS.get(verb)
    if wanted is not None and wanted.match(rest) is None:
        return False
    count = len(rest.split()) + 1
    return (
        _WORDS_MIN <= count <= _WORDS_MAX
        and _LOOSE_END.search(rest) is None
        and _PRONOUNS.search(rest) is None
        and _VAGUE.search(rest) is None
        and len(set(terms(f"{verb} {rest}" if verb.endswith("ing") else rest))) >= _TERMS_MIN
    )


def _article(match: re.Match[str]) -> str:
    if match["article"] is None:
        return ""
    return "an " if match["first"].lower() in "aeiou" else "a "


def _indefinite(match: re.Match[str]) -> str:
    return "an " if match["first"] in "aeiou" else "a "


# Dates.

_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10,
}  # fmt: skip
_AGO: Final = lazy_pattern(
    rf"\b(?:about |around )?(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})"
    r" (?P<unit>day|week|month|year)s? ago\b",
    _IGNORE,
)
_LAST_DAY: Final = lazy_pattern(
    r"\b(?:on )?(?P<which>last|next|this past|this) (?P<day>(?P<start>mon|tue|wed|thu|fri|sat|sun)"
    r"(?:day|sday|s|nesday|r|rs|rsday|urday)?)\b\.?",
    _IGNORE,
)
_DAYS: Final[dict[str, Callable[[date], str]]] = {
    r"(?:the day before yesterday)": lambda day: f"on {day - timedelta(2)}",
    r"(?:yesterday(?: (?:morning|afternoon|evening))?|last night)": (
        lambda day: f"on {day - timedelta(1)}"
    ),
    r"(?:today|tonight|this morning|this afternoon|this evening)": lambda day: f"on {day}",
    r"(?:tomorrow(?: (?:morning|afternoon|evening|night))?)": (
        lambda day: f"on {day + timedelta(1)}"
    ),
    r"(?:last|this past|the past) weekend": lambda day: f"on the weekend before {day}",
    r"(?:last|this past|the past) week": lambda day: f"in the week before {day}",
    r"(?:next) week(?:end)?": lambda day: f"in the week after {day}",
    r"(?:this) weekend": lambda day: f"in the week of {day}",
    r"(?:this) week": lambda day: f"in the week of {day}",
    r"last month": lambda day: f"in {_month(day, -1)}",
    r"next month": lambda day: f"in {_month(day, 1)}",
    r"this month": lambda day: f"in {_month(day, 0)}",
    r"last year": lambda day: f"in {day.year - 1}",
    r"next year": lambda day: f"in {day.year + 1}",
    r"this year": lambda day: f"in {day.year}",
}
_RELATIVE: Final = tuple(
    (lazy_pattern(rf"\b(?:(?:in|on|during) )?{pattern}\b", _IGNORE), named)
    for pattern, named in _DAYS.items()
)


def dated(text: str, ts_ms: int) -> str:
    """Return a text with words such as "yesterday" replaced by dates, as of a time."""
    day = datetime.fromtimestamp(ts_ms / 1000, UTC).date()
    text = _AGO.sub(lambda match: _ago(match, day), text)
    text = _LAST_DAY.sub(lambda match: _weekday(match, day), text)
    for pattern, named in _RELATIVE:
        text = pattern.sub(lambda _, named=named: named(day), text)  # type: ignore[misc]
    return text


def _ago(match: re.Match[str], day: date) -> str:
    count = _NUMBERS.get(match["count"].lower()) or int(match["count"])
    match match["unit"].lower():
        case "day":
            return f"on {day - timedelta(count)}"
        case "week":
            return f"about {day - timedelta(weeks=count)}"
        case "month":
            return f"in {_month(day, -count)}"
        case _:
            return f"in {day.year - count}"


def _weekday(match: re.Match[str], day: date) -> str:
    wanted = _WEEKDAYS.index(match["start"].lower())
    ahead = (wanted - day.weekday()) % 7
    if match["which"].lower() in {"last", "this past"}:
        return f"on {day - timedelta((day.weekday() - wanted) % 7 or 7)}"
    return f"on {day + timedelta(ahead or 7)}"


def _month(day: date, later: int) -> str:
    months = day.year * 12 + day.month - 1 + later
    return f"{months // 12}-{months % 12 + 1:02}"
