"""Decides which statements may become facts, and why others may not.

Most messages are not facts. A user's words are judged by their content. An application's facts are
intended, and refused only if they say nothing. A tool's output may come from anybody, so it is
quarantined until somebody confirms it.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from treering.lazy import lazy_pattern
from treering.rules.claim_endings import ended_thing
from treering.rules.claim_words import VERBS, word_set, words
from treering.rules.claims import read_claim
from treering.rules.fact_languages import is_foreign_order
from treering.rules.fact_noise import (
    INSTRUCTION,
    OVERRIDE,
    is_code,
    is_filler,
    is_generic,
    is_machinery,
    is_of_another,
    is_plain_question,
    is_question,
    is_transient,
)

FACT_CHARACTERS_MAX: Final = 500

Origin: TypeAlias = Literal["user", "agent", "tool", "host"]
Outcome: TypeAlias = Literal["accept", "refuse", "quarantine"]

_LETTER: Final = lazy_pattern(r"[^\W\d_]")
_UNSPACED: Final = lazy_pattern(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u3040-\u30ff\u3400-\u9fff"
    "\ua000-\ua4cf\ua980-\ua9df\uaa60-\uaa7f\uac00-\ud7af\U00020000-\U0003ffff]"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Tai, Chinese, Japanese, Yi, Javanese, Korean."""
_UNSPACED_MIN: Final = 3
_ENGLISH: Final = word_set(
    "the of for with and but my your our her their this that these those i we you she it they from"
)
_DANGLING: Final = lazy_pattern(
    r"(?:it|this|that|they|he|she|these|those|there|which|who|and|or|but|because|so|then|than)\b"
    r"(?!'?s? (?:project|repo|repository|codebase|team|app|company|user)\b)",
    re.IGNORECASE,
)
_WORK: Final = lazy_pattern(r"\w+(?:ed|ing)$|\w{3,}s$")
_DOES: Final = lazy_pattern(r"[\w-]+(?:ed|[^s]s) (?:an?|the|their|two|three|some) \w")
"""Begins with what somebody does or did."""
_STANDING_ALONE: Final = word_set(
    "vegetarian vegan pescatarian omnivore teetotal teetotaller sober smoker non-smoker nonsmoker"
    " single married divorced widowed engaged separated pregnant retired unemployed employed"
    " self-employed freelancer freelance student left-handed right-handed ambidextrous atheist"
    " agnostic christian catholic protestant orthodox muslim jewish hindu buddhist sikh"
    " lactose-intolerant diabetic coeliac celiac asthmatic dyslexic deaf blind colour-blind"
    " colorblind gay lesbian bisexual asexual transgender nonbinary non-binary introvert extrovert"
    " homeowner tenant parent childless bilingual trilingual insomniac"
)
"""Words that say by themselves what somebody is."""
_HELPING: Final = word_set(
    "can could will would should must may might never always not need needs cannot"
)
_HINTS: Final = {
    "empty": "Say in one sentence what to remember.",
    "too_long": f"State one fact in at most {FACT_CHARACTERS_MAX} characters.",
    "fragment": 'Write a whole sentence, or a name and a value: "Prefers dark mode", "Diet: keto".',
    "filler": "Greetings and acknowledgements are not kept; state a fact.",
    "question": "A question is not a fact; state what is known.",
    "code": "Code and log lines are not facts; say in words what to remember.",
    "noise": "This is about the conversation or its machinery, not about the user or the world.",
    "transient": "This is only true for the moment; state what will still be true next week.",
    "generic": "This would be true of anybody; say what exactly.",
    "instruction": "It tells its reader what to do; confirm it if the user meant it.",
    "external": "It came from a tool; confirm it if it is true.",
}


class QualityVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a statement."""

    outcome: Outcome
    reason: str | None = None
    """A code for machines; None if accepted."""
    hint: str | None = None
    """What to do about it."""


ACCEPTED: Final = QualityVerdict(outcome="accept")


def judge_fact(text: str, *, origin: Origin) -> QualityVerdict:
    """Decide whether a statement may become a fact."""
    statement = text.strip()
    if not statement:
        return _verdict("refuse", "empty")
    if len(statement) > FACT_CHARACTERS_MAX:
        return _verdict("refuse", "too_long")
    if OVERRIDE.search(statement) is not None:
        return _verdict("quarantine", "instruction")
    if origin in {"tool", "agent"} and INSTRUCTION.search(statement) is not None:
        return _verdict("quarantine", "instruction")
    reason = _hollow(statement) if origin == "host" else _flaw(statement)
    if reason is not None:
        return _verdict("refuse", reason)
    return _verdict("quarantine", "external") if origin == "tool" else ACCEPTED


def _verdict(outcome: Outcome, reason: str) -> QualityVerdict:
    return QualityVerdict(outcome=outcome, reason=reason, hint=_HINTS[reason])


def _hollow(text: str) -> str | None:
    """Return why a text that was given as a fact says nothing, or None."""
    if is_filler(text):
        return "filler"
    if is_plain_question(text):
        return "question"
    if _LETTER.search(text) is None:
        return "fragment"
    if _is_unspaced(text):
        return None
    named = words(text)
    if len(text.split()) < 2:
        return None if text.strip(".!").lower() in _STANDING_ALONE else "fragment"
    if len(named) <= 3 and _DANGLING.match(text) is not None:
        return "fragment"
    return None


def _flaw(text: str) -> str | None:
    """Return why a text is not a fact, or None."""
    if is_filler(text):
        return "filler"
    if is_question(text):
        return "question"
    if is_code(text):
        return "code"
    if is_machinery(text):
        return "noise"
    if is_transient(text):
        return "transient"
    if is_generic(text):
        return "generic"
    return "fragment" if _is_fragment(text) else None


def _is_fragment(text: str) -> bool:
    if _LETTER.search(text) is None:
        return True
    if _is_unspaced(text):
        return False
    if len(text.split()) < 2 or _DANGLING.match(text) is not None or is_of_another(text):
        return True
    ended = ended_thing(text)
    if _DOES.match(text) is not None or (ended is not None and ended.kind != "goal"):
        return False
    named = words(text)
    if any(word in VERBS or word in _HELPING or _WORK.fullmatch(word) for word in named[1:]):
        return False
    if not text.isascii() or (len(named) > 3 and not _ENGLISH.intersection(named)):
        # Another language, whose verbs are unknown here.
        return False
    if INSTRUCTION.match(text) is not None or is_foreign_order(text):
        return False
    return read_claim(text).attribute is None


def _is_unspaced(text: str) -> bool:
    return len(_UNSPACED.findall(text)) >= _UNSPACED_MIN
