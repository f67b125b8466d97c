"""Times in natural language: whether a text is a schedule, and of what."""

from __future__ import annotations

import re
from typing import Final

from treering.lazy import lazy_pattern
from treering.rules.claim_words import has_word_of, word_set

_DAY: Final = (
    r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:days?)?"
    r"|weekdays?|weekends?|workdays?"
)
MONTH: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
"""Names of months, as a pattern."""
_CLOCK: Final = (
    r"(?:[01]?\d|2[0-3])(?::[0-5]\d)? ?(?:[ap]\.?m\b\.?|o'clock)|(?:[01]?\d|2[0-3]):[0-5]\d"
    r"|noon|midnight"
)
_PART: Final = r"mornings?|afternoons?|evenings?|nights?|week|month|year|quarter|hour|day"
_COUNT: Final = r"(?:\d+|two|three|four|five|six|other|second|third|last|first)"
CLOCK: Final = lazy_pattern(rf"\b(?:{_CLOCK})", re.IGNORECASE)
DAY: Final = lazy_pattern(rf"\b(?:{_DAY})\b", re.IGNORECASE)
_REPEATED: Final = lazy_pattern(
    rf"\b(?:(?:every|each)(?: {_COUNT})? (?:{_DAY}|{MONTH}|{_PART}|minutes|hours|days|weeks"
    rf"|months)"
    rf"|on (?:the )?(?:mondays|tuesdays|wednesdays|thursdays|fridays|saturdays|sundays|weekdays"
    rf"|weekends)|(?:mondays|tuesdays|wednesdays|thursdays|fridays|saturdays|sundays)"
    rf"|daily|weekly|fortnightly|biweekly|monthly|quarterly|yearly|annually"
    rf"|(?:once|twice|{_COUNT} times) an? (?:{_PART}))\b",
    re.IGNORECASE,
)
_REPEATING: Final = word_set(
    "every each mondays tuesdays wednesdays thursdays fridays saturdays sundays weekdays weekends"
    " daily weekly fortnightly biweekly monthly quarterly yearly annually once twice times"
)
"""Words of which every text that says that something repeats has one."""
_AT: Final = lazy_pattern(
    rf"\b(?:(?:from|at|by|before|after|until|till|around|about) )+(?:{_CLOCK}"
    rf"|(?:[01]?\d|2[0-3])\b(?![.\d]))",
    re.IGNORECASE,
)
_PIECES: Final = lazy_pattern(
    rf"\b(?:(?:in|on|at|from|to|by|before|after|until|till|around|about|and|every|each|the|other)"
    rf" )*(?:{_CLOCK}|{_DAY}|{_PART}|daily|weekly|fortnightly|biweekly|monthly|quarterly|yearly"
    rf"|annually)\b(?: (?:in the|in) (?:morning|afternoon|evening))?"
    rf"|\b(?:at|by|before|after|until|around|about) \d{{1,2}}\b",
    re.IGNORECASE,
)
_ON: Final = r"(?:(?:on|by|from|to|until|till|before|after|around|about|the) )*"
_DATED: Final = lazy_pattern(
    rf"\b{_ON}(?:\d{{4}}-\d\d-\d\d"
    rf"|(?:(?:{MONTH})\.? \d{{1,2}}(?:st|nd|rd|th)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{MONTH}))(?:,? \d{{4}})?)\b"
    rf"|\bin (?:{MONTH})(?: \d{{4}})?\b",
    re.IGNORECASE,
)
"""A date or month, with its preposition."""
_PAST: Final = lazy_pattern(r"\b[a-z]{2,}ed\b")
_DATE: Final = lazy_pattern(
    rf"\b(?:\d{{4}}-\d\d-\d\d|(?:1[0-9]|20)\d\d|(?:{MONTH})\.? \d{{1,2}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{MONTH}))\b",
    re.IGNORECASE,
)


def is_schedule(text: str) -> bool:
    """Return whether a text says when something happens, repeatedly or at an hour."""
    return is_repeated(text) or _AT.search(text) is not None


def is_time(text: str) -> bool:
    """Return whether a text is only a time."""
    return not _PIECES.sub("", text).strip(" ,.")


def is_repeated(text: str) -> bool:
    """Return whether a text says that something repeats."""
    return has_word_of(text, _REPEATING) and _REPEATED.search(text) is not None


def split_times(text: str) -> tuple[str, str]:
    """Return the event of a schedule, and its times."""
    dates = [match.group() for match in _DATED.finditer(text)]
    rest = _DATED.sub(" ", text)
    times = [match.group() for match in _PIECES.finditer(rest)]
    return _PIECES.sub(" ", rest), " ".join((*times, *dates))


def is_day(text: str) -> bool:
    """Return whether a text is only a date."""
    return _DATED.fullmatch(text.strip(" ,.")) is not None


def is_occasion(text: str) -> bool:
    """Return whether a text without a known verb names an event and its date."""
    return _DATED.search(text) is not None and _PAST.search(text) is None


def days_in(times: str) -> list[str]:
    """Return the weekdays in a text about times, if it also names an hour."""
    if _AT.search(times) is None and CLOCK.search(times) is None:
        return []
    days = [day.lower().removesuffix("s") for day in DAY.findall(times)]
    return ["weekday" if day == "workday" else day for day in days]


def is_date(text: str) -> bool:
    """Return whether a text names a date or a year."""
    return _DATE.search(text) is not None
