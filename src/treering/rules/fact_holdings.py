"""What holds for a while: "our wiki is Confluence", "Kim is head of sales", "I owe Max 50 euros".

A table of forms in the simple present. What names nothing (a name, an amount, a time, a place) has
hardly a form here: moods and moments are put in the same words.
"""

from __future__ import annotations

import re
from typing import Final

from treering.lazy import lazy_pattern
from treering.rules.claim_times import MONTH
from treering.rules.claim_words import (
    FINITE_VERBS,
    VERBS,
    has_word_of,
    third_person,
    unwrapped,
    word_set,
)
from treering.rules.fact_forms import HELD, STATE

_NAME: Final = (
    r"(?!(?:I|The|A|An|My|Our|It|This|That|God|OMG|OK|LOL|No|Yes|Progress)\b)[A-Z][\w.&/'+-]*"
    r"(?: (?:(?:of|and|de|van|von|for|&) )?[A-Z\d][\w.&/'+-]*){0,4}"
)
_ADDRESS: Final = r"(?:[\w-]+[./@])*[\w-]+[.@][\w-]{2,}[\w./@-]*|\.[a-z]{2,4}(?: files?)?"
_NAMED: Final = rf"(?:(?:an?|the) )?(?:{_NAME}|{_ADDRESS})(?: [a-z]+)?"
_COUNT: Final = (
    r"(?:\d[\d.,]*[kKmM%]?|two|three|four|five|six|seven|eight|nine|ten|twelve|half an"
    r"|an? (?=hour|week|month|year))"
)
_AMOUNT: Final = (
    rf"(?:[$€£] ?\d[\d.,]*[kKmM]?|\d[\d.,]*[kKmM%]|{_COUNT} (?:euros?|dollars?|pounds?|francs?"
    r"|cents|kilos?|kg|mg|km|miles?|degrees|percent|seconds?|minutes?|hours?|days?|nights?|weeks?"
    r"|months?|years?|calls?|requests?|users?|people|gb|mb|tb))(?: (?:an?|per|each) \w+)?"
)
_DATE: Final = (
    rf"(?:(?:19|20)\d\d|(?:(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? )?(?i:{MONTH})\b"
    r"(?: \d{1,2}(?:st|nd|rd|th)?)?(?:,? \d{4})?|the \d{1,2}(?:st|nd|rd|th)|\d{4}-\d\d-\d\d"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|\d{1,2}(?::\d\d)? ?(?:am|pm)|\d{1,2}:\d\d"
    r"|noon|midnight)"
)
_VALUE: Final = rf"(?:{_NAMED}|{_AMOUNT}|{_DATE})"
_NOBODY: Final = word_set(
    "i we you he she it they this that these those there here what who which how why when where"
    " life love music everyone everything nothing something the a an my our your his her their its"
    " so and but or yes no not one some all each both such god as if while since though although"
    " because once for in on at to with from after before until like then also maybe please"
)
"""Begins a sentence with a capital, but is not a name."""
_WHO: Final = r"(?:(?:Mr|Mrs|Ms|Dr|Prof)\.? )?[A-Z][\w'-]+(?: (?:and )?[A-Z][\w'-]+){0,2}"
_WORDS: Final = r"[\w/'-]+(?: [\w/'-]+){0,3}?"
_MINE: Final = (
    r"(?:[Mm]y|[Oo]ur) (?!(?:head|brain|body|stomach|mood|winner|hero|screen|train|bus)\b)"
    rf"{_WORDS}"
)
_THING: Final = (
    r"(?:[Tt]he|[Oo]ur) (?!(?:[\w'-]+ )*?(?:error|bug|problem|issue|file|function|method|class"
    r"|test|log|output|input|response|result|line|message|change|commit|page|button|image|photo"
    r"|picture|command|query|code|answer|thing|one|rest|number|value|variable|script|view|sky"
    r"|menu|option|setting|section|film|movie|scene|weather|drive|walk|trip)s?\b)"
    r"[\w'-]+(?: [\w'-]+){0,3}?"
)
"""What is one's own though it is called "the": of a job, a household, a club; nothing at hand."""
_TIMED: Final = (
    r"(?:(?:is|are) (?:(?:planned|scheduled|due|booked|set|fixed|open|closed|valid) )?(?:for|on|in"
    r"|until|by|from|at)|(?:runs?|lasts?|expires?|ends?|starts?|begins?|renews?|opens?|closes?)"
    r" (?:until|in|on|from|by|at|till))"
)
_MEASURED: Final = r"(?:costs?|takes?|lasts?|runs? for|lasts? for|is|are)"
_CRAFT: Final = (
    r"(?!(?:[\w-]+ )*(?:matter|winner|supporter|cheerleader|number|letter|wonder|fighter|lover"
    r"|helper|listener|monster|disaster|killer|another|order|reminder|power|go-getter|worker"
    r"|[a-z]*est)\b)(?:[\w-]+ ){0,2}?(?:[a-z-]+(?:eer|tor|ger|ser|der|per|ter|ner|ler|ist|tant|ian"
    r"|yer|cher|ver)|master|lead|head|chair|contact|president|secretary|ceo|cto|cfo|coach|boss|vet"
    r"|nurse|intern|partner|tenant)"
)
_FOR: Final = r"(?: (?:at|for|of|in) (?:the )?[\w ]+)?"
_DONE: Final = (
    r"(?:stored|kept|hosted|managed|run|built|deployed|backed up|written|tracked|released|served"
    r"|sent|logged|published|paid)"
)


def _form(pattern: str) -> re.Pattern[str]:
    return lazy_pattern(unwrapped(pattern))


_OF_THINGS: Final = (
    _form(rf"{_MINE} (?:is|are|is called) (?:{_NAMED}|{_AMOUNT})"),
    _form(rf"{_MINE} (?:is|are) for (?:sale|rent)"),
    _form(rf"{_MINE} (?:runs|uses|needs|has|costs|accepts|supports) (?:on )?{_VALUE}"),
    _form(rf"(?:{_MINE}|{_THING}) {_TIMED} {_DATE}"),
    _form(rf"(?:{_MINE}|{_THING}) (?:is [a-z]+ed|runs|lasts) for {_AMOUNT}"),
    _form(rf"(?:{_MINE}|{_THING}) {_MEASURED} {_AMOUNT}"),
    _form(rf"[A-Z][a-z]+ costs? (?=.* (?:a|per) (?:year|month|week)$){_AMOUNT}"),
    _form(rf"(?:[Tt]he|[Oo]ur|[Mm]y) [a-z]+s' [a-z]+ (?:is|are) (?:{_VALUE}|\d+)"),
    _form(rf"(?:[Tt]he [a-z]+|[Mm]y [a-z]+|{_WHO})'s {_WORDS} (?:is|are) (?:on )?{_VALUE}"),
    _form(rf"{_THING} (?:runs|uses|has|employs|returns) (?:version \d[\d.]*|{_VALUE}"
          rf"|{_COUNT} [a-z]+)"),
    _form(rf"{_THING} (?:has|sells|gets) (?:an?|no) (?!(?:chance|problem|bug"
          r"|issue|error|leak|warning|typo|plan|idea|fix)\b)[a-z]+(?: [a-z]+)?"),
    _form(rf"{_THING} (?:is|sits|takes place|meets) (?:in|at) (?:the )?{_NAME}"),
    _form(rf"[Tt]he (?!(?:\w+ )?(?:singer|actor|author|writer|director|composer|character|creator"
          rf"|player|speaker)\b){_CRAFT}{_FOR} is {_WHO}"),
    _form(rf"(?:{_THING}|[A-Z][a-z]+(?: [a-z]+)?) (?:is|are) {_DONE} (?:on|in|with|at|to|by|from"
          rf"|via) {_NAMED}"),
    _form(rf"[A-Z][a-z]+ (?:go(?:es)?|runs?) (?:to|on) (?:{_NAMED}|[a-z]+-[a-z]+-\d)"),
)  # fmt: skip
_OF_PEOPLE: Final = (
    _form(rf"{_WHO} (?:is|are) (?:the |our |my )?(?:head|chair|president|secretary|director"
          r"|treasurer|in charge) of (?:the )?[\w ]+"),
    _form(rf"{_WHO} is (?:our|my|an?) {_CRAFT}{_FOR}"),
    _form(rf"{_WHO} (?:lives?|works?|study|studies|resides?|plays?|volunteers?|sits?|is based|are"
          rf" based) (?:in|at|for|with|near|next to) (?:the )?{_NAME}"),
    _form(rf"(?:{_WHO}|[Tt]he kids|[Mm]y [a-z]+) (?:goes to|go to|attends?|supports?) {_NAME}"),
    _form(rf"{_WHO} (?:is|are) (?:engaged|married|responsible for \S.*|in a relationship with \S.*"
          rf"|(?:{STATE.pattern})(?: ?\S.*)?)"),
    _form(rf"{_WHO} has (?:{HELD.pattern})"),
    _form(rf"{_WHO} (?:leads|manages|runs|heads|teaches|handles|maintains) (?:the |our )?[a-z]+"
          r"(?: team| department| project| group| account)?"),
)  # fmt: skip
_DOES: Final = _form(
    rf"(?:{_THING}|(?P<who>{_WHO})) (?P<does>[a-z]+) (?:[a-z]+ ){{0,2}}?"
    rf"(?:{_NAMED}|(?(who)(?!)|(?:{_AMOUNT}|{_DATE})))"
)
_DO: Final = _form(
    rf"(?:I|[Ww]e) (?P<verb>[a-z-]+) (?P<rest>(?:[a-z'-]+ ){{0,4}}?{_NAMED}"
    r"(?: (?:in|for|with|at|on|from|to) [a-z]+(?: [a-z]+){0,2})?)"
)
_OWN: Final = (
    _form(rf"(?:I|[Ww]e) (?P<verb>self-host|back up|monitor|host|store|rent|lease|outsource|insure)"
          r" (?P<rest>(?:(?:our|my|an?|the) [a-z]+(?: [a-z]+)?|(?:[a-z]+ ){0,3}?(?:in|on|to|with) "
          rf"(?:{_NAMED}|[a-z]+)))"),
    _form(rf"(?:I|[Ww]e) (?P<verb>owe|pay|earn|charge|weigh) (?P<rest>(?:(?:{_NAME}|my [a-z]+) )?"
          rf"{_AMOUNT}(?: (?:for|in|at|to) \S.*)?)"),
    _form(r"(?:I|[Ww]e) (?P<verb>bill|invoice|pay) (?P<rest>\S.* (?:weekly|monthly|quarterly"
          r"|yearly))"),
    _form(rf"(?:I|[Ww]e) (?P<verb>meet|train|rehearse|practise|practice|park|shop|volunteer) "
          rf"(?P<rest>(?:at|in|on) (?:(?:an?|the|our|my) [a-z]+(?: [a-z]+)?|{_NAME}))"),
    _form(r"(?:I|[Ww]e) (?P<verb>take) (?P<rest>(?:\d+ ?mg of [a-z]+|insulin|[a-z]+(?:ol|formin"
          r"|statin|pril|sartan|pam|zole|etine|cillin|profen| (?:pills|tablets|medication)))"
          r"(?: for \S.*)?)"),
    _form(r"(?:I|[Ww]e) (?P<verb>have) (?P<rest>(?:no|an?|two|three|\d+) (?:[a-z]+ )?(?:landline"
          r"|car|bike|motorbike|van|boat|caravan|piano|guitar|violin|drum kit|camera|printer|tablet"
          r"|laptop|desktop|mortgage|loan|driving licen[cs]e|visa|work permit|gym membership"
          r"|pension|savings account|allotment|garden|balcony|lodger|cleaner|nanny)s?)"),
    _form(r"(?:I|[Ww]e) (?P<verb>am|are) (?P<rest>(?:on|in) the (?:[\w'-]+ )?(?:plan|course|tariff"
          r"|waiting list|board|committee|choir|orchestra)(?: (?:for|of|at) \S.*)?)"),
    _form(rf"(?:I|[Ww]e) (?P<verb>am|are) (?P<rest>(?:enrolled|registered|insured|signed up"
          rf"|subscribed|training) (?:at|with|in|for|by|to) (?:the )?{_NAME}(?: [a-z]+)?"
          r"|(?:doing|following|on) an? [\w-]+ diet)"),
)  # fmt: skip
"""What the speaker does, has or is; noted in the third person."""
_PASSING: Final = word_set(
    "think hope feel believe know guess see mean agree want wish remember promise thank bet miss"
    " wonder understand appreciate get say tell find let look sound seem try hear admire support"
    " suggest suppose imagine need call ask bring start stop show fix add make put set run write"
    " update change check create do have be fail return throw crash break display print appear"
    " remind give go leave fly return travel arrive walk come help happen stand inspire love like"
    " matter watch read visit meet"
)
"""Verbs of talk and feelings, and of what is at hand."""
_LOOSE: Final = word_set(
    "you your he she him his her they them their it its this that these those here there now today"
    " tonight tomorrow yesterday so such really very too just like what how when where why who"
    " which than because not never amazing awesome great good best real true hard total perfect"
    " wonderful proud day moment dream life heart mind soul goal turn guess hope fault bad point"
    " advice question favorite favourite"
)
"""Refers to another sentence or to the moment, or is said of anything."""
_WORDS_MAX: Final = 14


_OWNERS: Final = frozenset({"My", "my", "Our", "our", "The", "the"})


def read_holding(clause: str) -> str | None:
    """Return what a clause says holds for a while, without its speaker; None if nothing."""
    if len(clause.split()) > _WORDS_MAX or has_word_of(clause, _LOOSE):
        return None
    if clause.startswith(("I ", "We ", "we ")):
        return _of_speaker(clause)
    first = clause.split(" ", 1)[0]
    if first not in _OWNERS and (first.lower() in _NOBODY or not first[:1].isupper()):
        return None
    if not (_fits(_OF_THINGS, clause) or _fits(_OF_PEOPLE, clause) or _does(clause)):
        return None
    text = re.sub(r"^(?:[Mm]y|[Oo]ur) ", "", clause)
    return text[:1].upper() + text[1:]


def _of_speaker(clause: str) -> str | None:
    match = next(filter(None, (form.fullmatch(clause) for form in _OWN)), None)
    if match is None:
        match = _DO.fullmatch(clause)
        if match is None or not _lasts(match["verb"], match["verb"]):
            return None
    verb, _, more = match["verb"].partition(" ")
    does = "is" if verb in {"am", "are"} else third_person(verb)
    return " ".join(filter(None, (does.capitalize(), more, match["rest"])))


def _fits(forms: tuple[re.Pattern[str], ...], clause: str) -> bool:
    return any(form.fullmatch(clause) is not None for form in forms)


def _does(clause: str) -> bool:
    match = _DOES.fullmatch(clause)
    if match is None:
        return False
    does = match["does"]
    verb = VERBS.get(does, "")
    return does in FINITE_VERBS and _lasts(verb, does) and does == third_person(verb)


def _lasts(verb: str, form: str) -> bool:
    return VERBS.get(form) == verb and verb not in _PASSING
