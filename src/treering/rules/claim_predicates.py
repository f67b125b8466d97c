"""Predicates: what a sentence says about its subject, as an attribute and a value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_attributes import CLASSED, attribute_of, holds_one, is_slot
from treering.rules.claim_times import (
    days_in,
    is_date,
    is_occasion,
    is_repeated,
    is_schedule,
    split_times,
)
from treering.rules.claim_words import VERBS, base, normal, word_set, words

if TYPE_CHECKING:
    from collections.abc import Callable

_IGNORE: Final = re.IGNORECASE
_PREPOSITIONS: Final = word_set(
    "in at on by for with of to from as near into about under within through"
)
_OVER: Final = lazy_pattern(
    r"(?P<one>.+?) (?:over|rather than|instead of|to|more than|better than|above) (?P<other>.+)",
    _IGNORE,
)
_COMPARED: Final = lazy_pattern(
    r"(?P<one>.+?) (?:over|rather than|instead of|more than|better than) (?P<other>.+)", _IGNORE
)
_PURPOSE: Final = lazy_pattern(
    r"(?P<value>.+?) (?P<how>for|as) (?:(?:my|our|the|his|her|their|a|an|all|most) )*(?P<what>.+)",
    _IGNORE,
)
_BEHIND: Final = lazy_pattern(
    r" (?:for|in|with|on|at|when|while|because|since|as|by|during)\b", _IGNORE
)
_FROM_TO: Final = lazy_pattern(
    r"(?:back )?(?:from (?P<old>.+?) )?(?:(?:over|back) )?(?:in)?to (?P<new>.+)", _IGNORE
)
_TO_FROM: Final = lazy_pattern(r"(?:back )?to (?P<new>.+?) from (?P<old>.+)", _IGNORE)
_VERSIONED: Final = lazy_pattern(r"(?P<name>\D*[^\W\d_][+#]*) ?v?(?P<version>\d+(?:\.\w+)*)\b.*")
_COUNTED: Final = lazy_pattern(
    r"(?P<count>\d+|no|one|two|three|four|five|six|seven|eight|nine|ten) (?P<noun>[a-z]+)(?: .*)?",
    _IGNORE,
)
_CALLED: Final = lazy_pattern(
    r"(?:a |an |the )?(?P<noun>.+?),? (?:named|called) (?P<value>.+)", _IGNORE
)
_AGED: Final = lazy_pattern(r"(?P<years>\d{1,3}(?: years? old| y/?o)?|[a-z]+ years? old)", _IGNORE)
_GRADE: Final = lazy_pattern(r"in (?:the )?(?P<grade>\w+) grade", _IGNORE)
_WEIGHT: Final = lazy_pattern(
    r"(?:(?:down|up|back) (?:at|to) )?(?P<value>[\d.,]+ (?:kg|kilos?|pounds|lbs|stone))\b.*",
    _IGNORE,
)
_COMMUTE: Final = lazy_pattern(r"(?:(?P<how>.+) )?to work(?: by (?P<by>.+))?", _IGNORE)
_PLAN: Final = lazy_pattern(
    r"(?:on )?(?:the |an? )?(?P<value>[\w-]+) (?:plan|tier|subscription)", _IGNORE
)
_SCHOOL: Final = lazy_pattern(
    r"to (?:[\w'.-]+ )*(?:School|Elementary|Primary|High|Kindergarten|University|College|Academy)"
)
_PORT: Final = lazy_pattern(r"(?:on|at|to) port (?P<value>\d+)", _IGNORE)
_MARITAL: Final = lazy_pattern(
    r"(?:(?:happily|newly|recently|un)[ -]?)?(?P<status>married|single|divorced|widowed|separated)"
    r"(?: (?:from|since|for|in) .+)?",
    _IGNORE,
)
_EATING: Final = word_set("vegetarian vegan pescatarian carnivore omnivore flexitarian")
_CRAFT: Final = lazy_pattern(
    r"an? (?P<value>(?:(?!of )[\w/+#-]+ ){0,4}(?:\w+(?:eer|ician|ologist|ist|yst)|developer"
    r"|programmer"
    r"|designer|manager|teacher|doctor|nurse|lawyer|writer|author|student|professor|researcher"
    r"|analyst|consultant|architect|chef|cook|driver|baker|farmer|plumber|carpenter|accountant"
    r"|photographer|painter|musician|singer|actor|actress|translator|founder|ceo|cto|freelancer"
    r"|intern|soldier|politician|pilot|barista|administrator|sysadmin|devops|tester|contractor"
    r"|trainer|coach|banker|broker|dancer|veterinarian|vet|surgeon|paramedic|firefighter"
    r"|illustrator|editor|animator|operator|instructor|mechanic|waiter|waitress|hairdresser"
    r"|gardener|librarian|attorney|secretary|clerk|butcher|tailor|tutor|lecturer|recruiter"
    r"|entrepreneur|producer|conductor|officer|welder|roofer|builder|joiner))"
    r"(?: (?P<prep>at|for|with) (?P<place>.+)|,.*"
    r"| (?:in|on|who|from|of|and|since|by|near|working|specialising|specializing|based|now|until"
    r"|because|as|but|by|that|there|here)\b.*)?",
    _IGNORE,
)


_COMMUTING: Final = word_set("take ride drive walk cycle bike commute go run")
_REPEATED: Final = word_set("attend buy drink eat explore meet read see tour try visit watch")
"""Verbs of what is done again and again, with something else each time."""


class PredicateMeaning(NamedTuple):
    """The meaning of a predicate."""

    attribute: str
    value: str
    single: bool
    replaced: str | None = None
    negative: bool = False
    """Whether the verb itself negates: hating is not liking."""


def read_predicate(predicate: str) -> PredicateMeaning | None:
    """Read the text after a subject, from its verb on; None if it cannot be read."""
    first, _, rest = predicate.partition(" ")
    verb = VERBS.get(first.lower())
    if verb is None:
        return None
    rest = rest.strip()
    if verb == "have" and rest.startswith("been "):
        verb, rest = "be", rest[5:]
    done = rest.partition(" ")
    if verb == "have" and done[0].endswith("ed") and VERBS.get(done[0]) in _READERS:
        verb, rest = VERBS[done[0]], done[2]
    if verb == "be" and rest.startswith("using "):
        verb, rest = "use", rest[6:]
    if is_schedule(predicate) and not (
        verb == "be" and rest.startswith(("born ", "founded ", "released "))
    ):
        return scheduled(predicate)
    if not rest:
        return None if verb in {"be", "have", "do"} else PredicateMeaning(verb, "", single=False)
    return _READERS.get(verb, _plain)(verb, rest)


def scheduled(text: str) -> PredicateMeaning | None:
    """Read a text that says when something happens."""
    event, times = split_times(text)
    named = [base(word) for word in words(event) if word not in _FILLING]
    if not named or not times:
        return None
    return PredicateMeaning(
        f"time of {' '.join((*named, *_separate_days(named[0], times)))}", times, single=True
    )


def occasion(text: str) -> PredicateMeaning | None:
    """Read a text without a verb that names an event and its time.

    There are many flights but one flight to Oslo: only an event with details has a slot.
    """
    reading = scheduled(text)
    if reading is None or is_repeated(text):
        return reading
    event = reading.attribute.removeprefix("time of ")
    if " " in event or is_slot(event) or not is_occasion(text):
        return reading
    return PredicateMeaning(f"day of {event}", reading.value, single=False)


def _separate_days(event: str, times: str) -> list[str]:
    """Return the days with an hour of their own: weekdays say nothing about weekends."""
    return [day for day in days_in(times) if day in _KINDS_OF_DAY or event in _ROUTINES]


def value_in(text: str) -> tuple[str, str]:
    """Return the class named before a value, or an empty text, and the value."""
    match = CLASSED.match(text)
    return ("", text) if match is None else (match["noun"].lower(), match["value"])


def _be(verb: str, rest: str) -> PredicateMeaning | None:
    aged = _AGED.fullmatch(rest)
    if aged is not None:
        return PredicateMeaning("age", aged["years"].split(" ")[0], single=True)
    grade, weight = _GRADE.fullmatch(rest), _WEIGHT.fullmatch(rest)
    if grade is not None:
        return PredicateMeaning("grade", grade["grade"], single=True)
    if weight is not None:
        return PredicateMeaning("weight", weight["value"], single=True)
    if normal(rest) in _EATING:
        return PredicateMeaning("diet", normal(rest), single=True)
    status = _MARITAL.fullmatch(rest)
    if status is not None:
        is_single = rest.lower().startswith("un")
        return PredicateMeaning(
            "spouse", "single" if is_single else status["status"].lower(), single=True
        )
    craft = _CRAFT.fullmatch(rest)
    if craft is not None:
        return PredicateMeaning("occupation", craft["value"], single=True)
    head = rest.split(" ", 3)
    if head[0] in {"a", "an", "the"} and len(head) > 3 and head[2] == "of":
        noun, value = value_in(head[3])
        attribute = attribute_of(" ".join(("be", head[1], "of", *noun.split())))
        return PredicateMeaning(attribute, value, single=bool(noun) or holds_one(attribute))
    if head[0].lower() in {"called", "named"} and len(head) > 1:
        return PredicateMeaning("name", rest.split(" ", 1)[1], single=True)
    return _with_preposition(verb, rest) or PredicateMeaning("be", rest, single=False)


def _with_preposition(verb: str, rest: str) -> PredicateMeaning | None:
    """Read "founded by Ann", "allergic to nuts", "in the city of Ghent"."""
    port, plan = _PORT.fullmatch(rest), _PLAN.fullmatch(rest)
    if port is not None:
        return PredicateMeaning("port", port["value"], single=True)
    if plan is not None and verb == "be":
        return PredicateMeaning("plan", plan["value"], single=True)
    if verb == "go" and _SCHOOL.fullmatch(rest) is not None:
        return PredicateMeaning("education", rest.removeprefix("to "), single=True)
    parts = rest.split(" ")
    for at, word in enumerate(parts[:4]):
        if word in _PREPOSITIONS and at + 1 < len(parts):
            value = " ".join(parts[at + 1 :])
            if verb == "be" and parts[0] == "born" and is_date(value):
                return PredicateMeaning("date of birth", value, single=True)
            noun, named = value_in(value)
            phrase = " ".join((verb, *(part for part in parts[: at + 1]), *noun.split()))
            attribute = attribute_of(phrase)
            return PredicateMeaning(attribute, named, single=bool(noun) or holds_one(attribute))
    return None


def _plain(verb: str, rest: str) -> PredicateMeaning | None:
    commute = _COMMUTE.fullmatch(rest) if verb in _COMMUTING else None
    if commute is not None:
        value = " ".join((verb, commute["how"] or commute["by"] or ""))
        return PredicateMeaning("commute", value, single=True)
    first, _, behind = rest.partition(" ")
    if first.lower() in _PREPOSITIONS and behind:
        return _with_preposition(verb, rest)
    noun, value = value_in(rest)
    if verb == "join" and not noun and first.lower() in {"a", "an", "the"}:
        # A person works for one company but joins many clubs.
        return PredicateMeaning("join in", value, single=False)
    attribute = attribute_of(f"{verb} {noun}" if noun else verb)
    # "Visited the city of Ghent" names a class, too; but one visits many cities.
    single = holds_one(attribute) or (bool(noun) and verb not in _REPEATED)
    return PredicateMeaning(attribute, value, single=single)


def _like(verb: str, rest: str) -> PredicateMeaning | None:
    compared = (_OVER if verb == "prefer" else _COMPARED).fullmatch(rest)
    if compared is not None:
        pair = sorted((normal(compared["one"]), normal(compared["other"])))
        return PredicateMeaning(f"prefer {' or '.join(pair)}", compared["one"], single=True)
    if verb == "prefer":
        return _prefer(rest)
    return PredicateMeaning(
        "like", rest, single=False, negative=verb in {"hate", "dislike", "avoid"}
    )


def _prefer(rest: str) -> PredicateMeaning:
    purpose = _PURPOSE.fullmatch(rest)
    if purpose is not None:
        return PredicateMeaning(_purpose(purpose), purpose["value"], single=True)
    phrase = _BEHIND.split(rest, maxsplit=1)[0]
    named = words(phrase)
    if 2 <= len(named) <= 4:
        # "Dark mode" and "light mode" are two values of one slot, named by the last word.
        return PredicateMeaning(f"prefer {base(named[-1])}", rest, single=True)
    return PredicateMeaning("prefer", rest, single=False)


def _use(_verb: str, rest: str) -> PredicateMeaning:
    purpose = _PURPOSE.fullmatch(rest)
    if purpose is not None:
        return PredicateMeaning(_purpose(purpose), purpose["value"], single=True)
    versioned = _VERSIONED.fullmatch(rest)
    if versioned is not None:
        return PredicateMeaning(f"version of {normal(versioned['name'])}", rest, single=True)
    return PredicateMeaning("use", rest, single=False)


def _purpose(match: re.Match[str]) -> str:
    """Return the slot that something is used for; "as my editor" is the editor itself."""
    what = attribute_of(match["what"])
    return what if is_slot(what) else f"use for {what}"


def _move(verb: str, rest: str) -> PredicateMeaning | None:
    match = _TO_FROM.fullmatch(rest) or _FROM_TO.fullmatch(rest)
    if match is None:
        return None
    new, old = match["new"], match["old"]
    if verb in {"move", "relocate"}:
        return PredicateMeaning("residence", value_in(new)[1], single=True, replaced=old)
    purpose, plan = _PURPOSE.fullmatch(new), _PLAN.fullmatch(new)
    if plan is not None:
        return PredicateMeaning("plan", plan["value"], single=True, replaced=old)
    if purpose is not None:
        return PredicateMeaning(_purpose(purpose), purpose["value"], single=True, replaced=old)
    versioned = _VERSIONED.fullmatch(new)
    if versioned is not None:
        return PredicateMeaning(
            f"version of {normal(versioned['name'])}", new, single=True, replaced=old
        )
    return PredicateMeaning("use", new, single=False, replaced=old)


def _have(_verb: str, rest: str) -> PredicateMeaning:
    called = _CALLED.fullmatch(rest)
    if called is not None:
        return PredicateMeaning(
            f"have {attribute_of(called['noun'])}", called["value"], single=False
        )
    counted = _COUNTED.fullmatch(rest)
    if counted is not None:
        return PredicateMeaning(
            f"number of {base(counted['noun'].lower())}", counted["count"], single=True
        )
    return PredicateMeaning("have", rest, single=False)


def _eat(verb: str, rest: str) -> PredicateMeaning | None:
    if normal(rest) in {"meat", "meat again", "everything"}:
        return PredicateMeaning("diet", "meat", single=True)
    return _plain(verb, rest)


_KINDS_OF_DAY: Final = frozenset({"weekday", "weekend"})
_ROUTINES: Final = word_set("wake get go start begin finish end stop eat sleep work open close")
"""Daily routines, whose hour depends on the day."""
_FILLING: Final = word_set(
    "is are was were be has have had takes take place on at in every each of and to up always"
    " usually typically there it from by for planned scheduled due set leaves departs"
)
_READERS: Final[dict[str, Callable[[str, str], PredicateMeaning | None]]] = {
    "be": _be,
    "have": _have,
    "use": _use,
    "eat": _eat,
    "prefer": _like,
    **dict.fromkeys(
        ("like", "love", "enjoy", "hate", "dislike", "adore", "favour", "favor"), _like
    ),
    "weigh": lambda _verb, rest: _be("be", rest) if _WEIGHT.fullmatch(rest) else None,
    **dict.fromkeys(
        ("move", "switch", "relocate", "migrate", "upgrade", "downgrade", "change"), _move
    ),
}
