"""The tone of messages, by words that express it literally.

Nothing is inferred. Technical terms such as error or bug are not feelings, and one word among many
messages is not a tone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.lazy import lazy_pattern
from treering.model.memories import Mood

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

SHARE_MIN: Final = 0.1
"""The share of messages that must show a tone."""
FEW_MESSAGES: Final = 3
"""Among this few messages one is enough; among more, two are needed."""
EVENT_IDS_MAX: Final = 8
"""The latest events that are cited for a tone."""
TEXT_CHARS_MAX: Final = 4_096
"""Characters of a message that are read."""

_NEGATED: Final = lazy_pattern(
    r"(?:\b(?:not|never|no|hardly|would|could|should|if)|n't|'d)\b[^.,;!?]{0,16}$"
)
"""Negates or only wishes for the next word: ``not happy``, ``would be great``."""
_APOSTROPHES: Final = str.maketrans("\u2019\u2018", "''")
_WORDS: Final[dict[Mood, re.Pattern[str]]] = {
    "grateful": lazy_pattern(
        r"\b(?:thank(?:s| you)|thx|appreciate(?:d)?|grateful|much obliged|you'?re the best"
        r"|life ?saver|danke|merci|gracias|obrigad[oa]|grazie)\b"
    ),
    "positive": lazy_pattern(
        r"\b(?:love(?:d|ly)?|great|perfect(?:ly)?|awesome|amazing|fantastic|wonderful|excellent"
        r"|brilliant|delighted|happy|glad|excited|thrilled|yay|hooray|beautiful|so good|well done"
        r"|works now|good news|proud|relieved|fun|haha|super)\b|[\U0001f600-\U0001f60e❤🎉👍]"
    ),
    "negative": lazy_pattern(
        r"\b(?:sad|unhappy|worried|anxious|afraid|scared|lonely|depressed|upset|heartbroken"
        r"|disappoint(?:ed|ing)|terrible|awful|horrible|miserable|stressed|overwhelmed|exhausted"
        r"|hate|bad news|grief|miss (?:him|her|them)|passed away|crying)\b|[😞-😢😭💔]"
    ),
    "frustrated": lazy_pattern(
        r"\b(?:frustrat(?:ed|ing)|annoy(?:ed|ing)|ridiculous|useless|fed up|wtf|argh+|ugh+|ffs"
        r"|damn|for the (?:third|fourth|fifth|tenth|hundredth) time|how many times|sick of"
        r"|waste of time|wasted (?:hours|days|the whole)|drives me (?:mad|crazy|nuts)|angry"
        r"|(?:yet )?again and again|still (?:broken|does(?:n't| not) work|not working|wrong)"
        r"|stop (?:doing|ignoring|changing))\b|!{3,}|\?!"
    ),
}


class Tone(msgspec.Struct, frozen=True, kw_only=True):
    """The tone of messages, and the events that show it."""

    mood: Mood
    event_ids: tuple[str, ...] = ()


def tone(said: Sequence[tuple[str, str]]) -> Tone:
    """Return the tone of messages, given as pairs of event id and text, in order.

    It is neutral if too few words show one, and mixed if good and bad ones balance.
    """
    shown: dict[Mood, list[str]] = {mood: [] for mood in _WORDS}
    for event_id, text in said:
        for found_mood in moods_in(text):
            shown[found_mood].append(event_id)
    good = _together(shown["grateful"], shown["positive"])
    bad = _together(shown["negative"], shown["frustrated"])
    if len({*good, *bad}) < (1 if len(said) <= FEW_MESSAGES else max(2, SHARE_MIN * len(said))):
        return Tone(mood="neutral")
    if min(len(good), len(bad)) * 2 >= max(len(good), len(bad)):
        mixed = {*good, *bad}
        ids = list(dict.fromkeys(event_id for event_id, _ in said if event_id in mixed))
        return Tone(mood="mixed", event_ids=tuple(ids[-EVENT_IDS_MAX:]))
    if len(good) > len(bad):
        mood: Mood = "grateful" if len(shown["grateful"]) >= len(shown["positive"]) else "positive"
        return Tone(mood=mood, event_ids=tuple(good[-EVENT_IDS_MAX:]))
    mood = "frustrated" if len(shown["frustrated"]) >= len(shown["negative"]) else "negative"
    return Tone(mood=mood, event_ids=tuple(bad[-EVENT_IDS_MAX:]))


def moods_in(text: str) -> set[Mood]:
    """Return the moods that the words of one message show."""
    lowered = text[:TEXT_CHARS_MAX].lower().translate(_APOSTROPHES)
    return {mood for mood, words in _WORDS.items() if _shows(lowered, words)}


def _shows(text: str, words: re.Pattern[str]) -> bool:
    return any(
        not _NEGATED.search(text[max(match.start() - 24, 0) : match.start()])
        for match in words.finditer(text)
    )


def _together(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*one, *other)))
