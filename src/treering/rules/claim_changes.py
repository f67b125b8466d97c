"""Changes and endings: shapes of sentences, and the plain statement that each amounts to.

"Left Acme" says that somebody no longer works there, "The rent went up to 950 euros" what the rent
is. A sentence that fits a shape is read as its plain statement, and as a change.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_times import is_day, is_time
from treering.rules.claim_words import expand_contractions, has_word_of, unwrapped, word_set

_WHO: Final = r"(?P<who>(?:I |We |(?:The )?[Uu]ser |[A-Z][a-z]+ )?)(?:(?:have|has|had) )?"
_BY: Final = r"(?:(?:I|We|They|The [a-z]+|[A-Z][a-z]+) )?(?:(?:have|has|had) )?"
"""Who changes a thing."""
_THING: Final = r"(?P<what>(?:The|My|Our|Her|His|Their|This) [\w'./ -]+?)"
_WHEN: Final = (
    r"(?:,? (?:last|this|in|on|since|ago|after|because|yesterday|today|recently|for good)\b.*)?"
)
_OBJECT: Final = r"(?P<what>(?:the|my|our|her|his|their|this) [\w'./ -]+?)"
"""What somebody changes."""
_BE: Final = r"(?:(?:was|were|is|are|got|has|have|has been|have been|will be) )?(?:now )?"
_DELAYED: Final = (
    r"(?:moved|postponed|rescheduled|pushed(?: back| out)?|delayed|shifted|slipped|put off"
    r"|brought forward|extended)"
)
_UNTIL: Final = r"(?: from (?P<old>.+?))? (?:to|until) (?P<time>(?:(?! to ).)+)"
_SET: Final = (
    r"(?:raised|increased|cut|lowered|reduced|changed|set|went up|went down|gone up|rose|dropped"
    r"|fell|extended|grew|shortened)"
)
_NUMBER: Final = (
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    r"|fifteen|sixteen|seventeen|eighteen)"
)
_NAME: Final = r"[A-Z][\w&.'-]*(?: (?:[A-Z&][\w&.'-]*|of|and|the))*"


def _shape(plain: str, pattern: str) -> tuple[re.Pattern[str], str]:
    return lazy_pattern(unwrapped(pattern)), plain


_SHAPES: Final = (
    _shape("{who}no longer works at {value}", rf"{_WHO}(?:left|Left) (?P<value>{_NAME}){_WHEN}"),
    _shape("{who}no longer works at {value}", rf"""
        {_WHO}(?:(?:quit|Quit)(?: (?:my|the|a|her|his|their) job)?(?: at| with)?|[Rr]esigned from
        |[Rr]etired from|(?:was |[Ww]as |got |[Gg]ot )(?:laid off|fired) (?:from|by))
        (?!\w+ing\b)(?P<value>(?:the )?[\w&.' -]+?){_WHEN}
    """),
    _shape("{who}works at {value}", rf"""
        {_WHO}(?:[Ss]tarted(?: working| a (?:new )?job)?|[Bb]egan(?: working)?) (?:at|with)
        (?P<value>{_NAME}){_WHEN}
    """),
    _shape("{who}works at {value}", rf"""
        {_WHO}(?:(?:got|Got|found|Found|landed|Landed|accepted|Accepted) (?:a|the) (?:new )?(?:job
        |position|role|offer) (?:at|with|from)|(?:was |Was |got |Got )?hired by)
        (?P<value>{_NAME}){_WHEN}
    """),
    _shape("{who}is a {value}", rf"""
        {_WHO}(?:(?:got|Got|was|Was) promoted to|[Bb]ecame) (?:an? )?(?P<value>[a-z][\w -]+?){_WHEN}
    """),
    _shape("{who}lives in {value}", rf"""
        {_WHO}(?:[Ss]ettled(?: down)?) in (?P<value>{_NAME}){_WHEN}
    """),
    _shape("{who}is divorced", rf"{_WHO}(?:got|Got|is getting|Is getting) divorced{_WHEN}"),
    _shape("{who}is single", rf"{_WHO}(?:[Bb]roke up|[Ss]plit up) with .+"),
    _shape("{who}is married to {value}", rf"""
        {_WHO}(?:got|Got) (?:engaged|married) to (?P<value>{_NAME}){_WHEN}
    """),
    _shape("{who}is married", rf"{_WHO}(?:got|Got) married{_WHEN}"),
    _shape("{who}is {value} years old", rf"""
        {_WHO}(?:turned|Turned) (?P<value>{_NUMBER})(?: years old)?{_WHEN}
    """),
    _shape("{who}is in {value}", rf"{_WHO}(?:[Ss]tarted|[Ee]ntered) (?P<value>\w+ grade){_WHEN}"),
    _shape("{who} is the {what}", rf"""
        (?P<who>{_NAME}) (?:took over|is taking over)(?: from (?P<old>{_NAME}))? as
        (?:the )?(?P<what>[a-z][\w -]+? of .+)
    """),
    _shape("Our {what} is {who}", rf"""
        (?P<who>{_NAME}) (?:replaced|replaces|succeeded) (?P<old>{_NAME}) as
        (?:the |our |my )?(?P<what>[a-z][\w -]+)
    """),
    _shape("{what} is called {value}", rf"""
        {_WHO}(?:[Rr]enamed) {_OBJECT}(?: from (?P<old>\S+))? (?:to|as) (?P<value>\S.*)
    """),
    _shape("{what} is called {value}", rf"""
        {_THING} {_BE}renamed(?: from (?P<old>\S+))? (?:to|as) (?P<value>\S.*)
    """),
    _shape("{what} is written in {value}", rf"""
        {_THING} {_BE}(?:rewritten|reimplemented|ported) (?:in|to) (?P<value>[A-Z]\S*)
    """),
    _shape("{what} is {at} {time}", rf"{_BY}{_DELAYED} {_OBJECT}{_UNTIL}"),
    _shape("{who}uses {value}", rf"""
        {_WHO}(?:[Ss]witched|[Cc]hanged) (?P<what>[a-z]+s) from (?P<old>[\w.+#-]+(?: [\w.]+)?)
        (?:over )?to (?P<value>[\w.+#-]+(?: [\w.]+)?)
    """),
    _shape("{what} is {value}", rf"""
        {_BY}(?:[Uu]pgraded|[Uu]pdated|[Bb]umped|[Dd]owngraded|{_SET}) {_OBJECT}(?: from
        (?P<old>.+?))? to (?P<value>\S.*)
    """),
    _shape("{what} runs on {value}", rf"""
        {_BY}(?:[Mm]igrated|[Mm]oved|[Ss]witched|[Pp]orted|[Tt]ransferred) {_OBJECT}(?: from
        (?P<old>.+?))?(?: over)? to (?P<value>[A-Z]\S*(?: [A-Z\d]\S*)?|[a-z][\w.+#-]*)
    """),
    _shape("{who}uses {value} for {what}", rf"""
        {_WHO}(?:[Mm]igrated|[Mm]oved|[Ss]witched|[Pp]orted|[Cc]onverted) (?P<what>(?:the|my|our)
        [\w ./-]+?) from (?P<old>[\w.+#-]+(?: [\w.]+)?) (?:over )?to
        (?P<value>[\w.+#-]+(?: [\w.]+)?)
    """),
    _shape("{what} is written in {value}", rf"""
        {_WHO}(?:[Rr]ewrote|[Pp]orted) (?P<what>the [\w ./-]+?) (?:in|to) (?P<value>[A-Z]\S*)
    """),
    _shape("{who}uses {value}{what}", rf"""
        {_WHO}(?:[Rr]eplaced|[Dd]ropped|[Ss]wapped) (?P<old>\S+(?: [\w.]+)?) (?:with|by|for|in
        favou?r of) (?P<value>\S+(?: [\w.]+)?)(?P<what>(?: for \w[\w -]*)?)
    """),
    _shape("{who}prefers {value}", rf"""
        {_WHO}(?:[Ss]witched|[Cc]hanged|[Mm]oved)(?: over| back)? to (?P<value>(?:a |the )?[\w-]+
        (?:mode|theme|layout|keyboard|spelling|indentation|format))
    """),
    _shape("{what} is {at} {time}", rf"{_THING} {_BE}{_DELAYED}{_UNTIL}"),
    _shape("{what} runs on {value}", rf"""
        {_THING} {_BE}(?:moved|migrated|switched|relocated)(?: over)?(?: from (?P<old>.+?))? to
        (?P<value>[A-Z]\S*(?: \S+)?)
    """),
    _shape("{what} uses {value}", rf"""
        {_THING} (?:(?:was|were|is|are|got|has been|have been) )?(?:upgraded|updated|bumped
        |downgraded)(?: from (?P<old>.+?))? to (?P<value>\S.*)
    """),
    _shape("{what} has {value}", rf"""
        {_THING} (?:has )?(?:grew|grown|shrank|shrunk) (?:to|down to) (?P<value>\d+ [a-z]+)
    """),
    _shape("{what} is {value}", rf"{_THING} {_BE}{_SET}(?: from (?P<old>.+?))? to (?P<value>\S.*)"),
    _shape("{what}: {value}", r"""
        (?:My |Our |The )?[Nn]ew (?P<what>[a-z][\w -]+?)(?::| is) (?P<value>\S.*)
    """),
    _shape("{rest}", r".+ (?:stepped down|left|resigned|retired|is gone); (?P<rest>\S.*)"),
    _shape("{rest}", r"(?P<rest>.+ not .+) after all"),
)  # fmt: skip
_GONE: Final = lazy_pattern(
    rf"{_WHO}(?:[Ss]old|[Gg]ave away|[Gg]ot rid of|[Ll]ost|[Rr]eturned|[Ss]crapped"
    r"|[Tt]raded in)"
    rf" (?:the|my|our|her|his|their) (?P<value>[\w -]+?){_WHEN}"
)
_ADVERB: Final = lazy_pattern(
    r"\b(?:finally|eventually|just|recently|officially|now) (?=[a-z]+ed\b)"
)
_CLOCK: Final = lazy_pattern(r"\d{1,2}(?:[:.]\d\d| ?[ap]m\b| o'clock)|noon|midnight")
_NEEDED: Final = word_set(
    "left quit resigned retired laid fired started began got found landed accepted hired promoted"
    " became settled divorced broke split married turned entered took taking replaced replaces"
    " succeeded renamed rewritten reimplemented ported moved postponed rescheduled pushed delayed"
    " shifted slipped put brought extended switched changed upgraded updated bumped downgraded"
    " raised increased cut lowered reduced set went gone rose dropped fell grew shortened migrated"
    " transferred converted rewrote swapped relocated grown shrank shrunk new stepped after"
)
"""Words of which every shape has one; most sentences have none, and fit no shape."""
_PAST: Final = lazy_pattern(
    r"(?:\w+ )?(?:worked|lived|studied|stayed|was|were)\b.*\b(?:until|till|from \d{4} to|between)\b"
    r".*\d{4}",
    re.IGNORECASE,
)


class ReadChange(NamedTuple):
    """The plain statement that a change amounts to."""

    text: str
    former: str | None
    """The value it names as the former one."""


@lru_cache(maxsize=1_024)
def plain_change(text: str) -> ReadChange | None:
    """Return what a sentence of change or ending amounts to; None for any other sentence."""
    if not has_word_of(text, _NEEDED):
        return None
    text = _ADVERB.sub("", expand_contractions(text)).strip().rstrip(".!")
    for pattern, plain in _SHAPES:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        parts = {name: value or "" for name, value in match.groupdict().items()}
        time = parts.get("time", "")
        if "time" in parts and not (is_time(time) or is_day(time)):
            continue
        parts["at"] = "at" if _CLOCK.match(time) else "on"
        stated = plain.format(**parts)
        return ReadChange(stated[:1].upper() + stated[1:], parts.get("old") or None)
    return None


def lost_possession(text: str) -> str | None:
    """Return what a sentence says is gone: a thing that was sold or lost."""
    match = _GONE.fullmatch(text.strip().rstrip(".!"))
    return None if match is None else match["value"]


def is_past(text: str) -> bool:
    """Return whether a sentence is about a time that is over: "Lived in Rome until 2019"."""
    return _PAST.match(text) is not None
