"""Orders the best matches by a second look: those with the form of an answer come first.

"When did Ana move?" is answered by Ana, by a sentence with a time in it, often right after somebody
asked; seldom by another question. Words and vectors see none of this.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from treering.context.texts import message_text
from treering.lazy import lazy_pattern
from treering.memory.fusion import PARTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.event_index import EventIndex, Ranked
    from treering.model.events import Event

    EventsAt = Callable[[list[int]], dict[int, Event]]

    "Returns the events at positions, without erased ones."

ASKS: Final = -0.07
"""What a message loses that asks something itself. All figures are parts of a score up to 1."""
FOLLOWS_QUESTION: Final = 0.04
SPEAKER: Final = 0.08
"""What a message gains whose speaker the question names."""
TIME: Final = 0.1
"""What a message with a time gains if the question asks for one."""
AMOUNT: Final = 0.08
NAMED_DATE: Final = 0.15
"""What a message gains that was written at the date that the question names."""
FROM_PERSON: Final = 0.065
"""What a person's message gains over an assistant's, which repeats and explains it."""

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_MONTH: Final = "|".join(f"{month}|{month[:3]}" for month in _MONTHS)
_TIMES: Final = lazy_pattern(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|recently|since|weekend|"
    r"this (?:week|month|year|morning|summer|winter|spring|fall|autumn)|(?:19|20)\d\d|"
    r"\d+ (?:days?|weeks?|months?|years?)|\d{1,2}:\d\d|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    rf"{'|'.join(month for month in _MONTHS if month != 'may')}|in may|may \d)\b",
    re.IGNORECASE,
)
_AMOUNTS: Final = lazy_pattern(
    r"\b(?:\d[\d.,]*|one|two|three|four|five|six|seven|eight|nine|ten|dozen|once|twice|several"
    r"|couple)\b",
    re.IGNORECASE,
)
_WHEN: Final = lazy_pattern(
    r"\b(?:when|how long ago|(?:what|which) (?:date|day|month|year|time|week))\b", re.IGNORECASE
)
_HOW_MANY: Final = lazy_pattern(r"\bhow (?:many|much|long|old|often|far|big|tall)\b", re.IGNORECASE)
_QUESTION_END: Final = lazy_pattern(r"[?\u061f\uff1f]['\")\]\s]*(?:\[[^\]]*\]\s*)?$")
_SPOKEN: Final = lazy_pattern(r"([^\W\d_][\w-]{1,30})(?: [^\W\d_][\w-]{1,30})?: ")
_WORD: Final = lazy_pattern(r"[^\W\d_][\w-]+")
_DATE: Final = lazy_pattern(
    r"\b(?P<iso>(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)(?:-(?P<d>\d\d))?)\b"
    rf"|\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?(?P<m1>{_MONTH})"
    r"(?: (?P<d2>\d{1,2})(?:st|nd|rd|th)?)?(?:,? (?P<y1>(?:19|20)\d\d))?\b",
    re.IGNORECASE,
)


class AskedDate(msgspec.Struct, frozen=True, gc=False):
    """A date that a question names, or a part of one."""

    year: int | None
    month: int
    day: int | None

    def includes(self, ts_ms: int) -> bool:
        """Return whether a time, in UTC, is within it."""
        at = datetime.fromtimestamp(ts_ms / 1000, UTC)
        return (
            at.month == self.month and self.year in {None, at.year} and self.day in {None, at.day}
        )


class AnswerForm(msgspec.Struct, frozen=True, gc=False):
    """What an answer to a question looks like."""

    names: frozenset[str]
    """The words of the question, in lower case: one of them may be the speaker."""
    is_time: bool
    is_amount: bool
    dates: tuple[AskedDate, ...]


def answer_form(question: str) -> AnswerForm:
    """Return what an answer to a question looks like."""
    return AnswerForm(
        names=frozenset(word.lower() for word in _WORD.findall(question)),
        is_time=_WHEN.search(question) is not None,
        is_amount=_HOW_MANY.search(question) is not None,
        dates=tuple(date for match in _DATE.finditer(question) if (date := _date(match))),
    )


def form_gain(
    form: AnswerForm, text: str, *, speaker: str | None, ts_ms: int, follows_question: bool
) -> float:
    """Return what a message of a talk between people gains, or loses, by its form."""
    gain = FOLLOWS_QUESTION * follows_question + ASKS * is_question(text)
    if (speaker or speaker_in(text) or "").lower() in form.names:
        gain += SPEAKER
    if form.is_time and _TIMES.search(text):
        gain += TIME
    if form.is_amount and _AMOUNTS.search(text):
        gain += AMOUNT
    return gain + date_gain(form, ts_ms)


def date_gain(form: AnswerForm, ts_ms: int) -> float:
    """Return what a message gains by the date at which it was written."""
    return NAMED_DATE * any(date.includes(ts_ms) for date in form.dates)


def is_question(text: str) -> bool:
    """Return whether a text ends with a question."""
    return _QUESTION_END.search(text) is not None


def speaker_in(text: str) -> str | None:
    """Return who speaks, in a transcript that writes "Ana: Good morning"."""
    match = _SPOKEN.match(text)
    return None if match is None else match[1]


def _date(found: re.Match[str]) -> AskedDate | None:
    year: str | None
    if found["iso"]:
        year, month, day = found["y"], int(found["m"]), found["d"]
    else:
        # "may" and "mar" are words, too: a month is next to a day or year, or has a capital.
        if found["m1"].islower() and not (found["d1"] or found["d2"] or found["y1"]):
            return None
        month = [name[:3] for name in _MONTHS].index(found["m1"].lower()[:3]) + 1
        year, day = found["y1"], found["d1"] or found["d2"]
    if not 1 <= month <= len(_MONTHS):
        return None
    return AskedDate(year=int(year) if year else None, month=month, day=int(day) if day else None)


LOOKED_AT: Final = 60
"""Best matches that are looked at: they include nine in ten of the turns that answer."""
PERSON: Final = "conversation.user"
ASSISTANT: Final = "conversation.assistant"


class Match(NamedTuple):
    """A document that matches: its number, score up to about 1, and what its form adds to that."""

    number: int
    score: float
    form: float


def order_answers(
    index: EventIndex, ranked: Ranked, query: str, events_at: EventsAt
) -> list[Match]:
    """Return the ranked documents in the order in which they answer a query, best first.

    The caller holds the index's lock.
    """
    if ranked.ranking is None:
        return []
    scores = [float(ranked.ranking.scores[number]) / PARTS_MAX for number in ranked.order]
    first = ranked.order[:LOOKED_AT]
    gains = _gains(index, first, query, events_at) + [0.0] * (len(ranked.order) - len(first))
    matches = [
        Match(number, score + gain, gain)
        for number, score, gain in zip(ranked.order, scores, gains, strict=True)
    ]
    return sorted(matches, key=lambda match: -match.score)


def _gains(
    index: EventIndex, numbers: Sequence[int], query: str, events_at: EventsAt
) -> list[float]:
    positions = index.documents.column("position")
    before = index.documents_before(numbers)
    wanted = {*numbers, *(number for number in before if number is not None)}
    events = events_at(sorted(int(positions[number]) for number in wanted))
    asked_events = [events.get(int(positions[number])) for number in numbers]
    form = answer_form(query)
    with_assistant = any(event is not None and event.kind == ASSISTANT for event in asked_events)
    gains = []
    for event, previous in zip(asked_events, before, strict=True):
        if event is None or event.kind not in {PERSON, ASSISTANT}:
            gains.append(0.0)
        elif with_assistant:
            # What a person asks an assistant says what the session is about.
            gains.append(FROM_PERSON * (event.kind == PERSON) + date_gain(form, event.ts_ms))
        else:
            asked = None if previous is None else events.get(int(positions[previous]))
            gains.append(
                form_gain(
                    form,
                    message_text(event),
                    speaker=event.user_id,
                    ts_ms=event.ts_ms,
                    follows_question=asked is not None and is_question(message_text(asked)),
                )
            )
    return gains
