"""Remarks: the quotable sentences of a message, and what they do: ask, decide, promise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.prose import is_announcement, is_courtesy, quotable_sentences
from treering.lazy import lazy_pattern
from treering.model.episodes import Sentence
from treering.model.messages import ModelMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USER: Final = "The user"
ASSISTANT: Final = "The assistant"
OPENING_WORDS_MIN: Final = 3
ANSWERS_MAX: Final = 3
"""Last answers that are searched for an outcome."""

_QUESTION: Final = ("?", "？", "؟")  # noqa: RUF001  (as other scripts spell it)
_ASKS: Final = lazy_pattern(
    r"(?:(?:now|then|also|and|so|ok(?:ay)?|alright|yes)[, ]+){0,3}"
    r"(?:please|pls|can|could|would|will you|help|i'?d like|i want|i need|we need|add|analy[sz]e"
    r"|book|build|change|check|commit|compare|continue|convert|create|debug|delete|document|draft"
    r"|edit|examine|explain|find|fix|generate|give|implement|install|investigate|list|look|make|move|open"
    r"|plan|push|read|refactor|remind|remove|rename|reply|review|run|say|search|set|show|start"
    r"|suggest|summari[sz]e|tell|test|translate|try|update|use|write)(?![\w.-])",
    re.IGNORECASE,
)
# Keywords are matched in lower case: ignoring case takes three times as long.
_SETTLES: Final = lazy_pattern(
    r"\b(?:decided?|decision|agreed|chose|chosen|settled? on|go(?:ing)? with|opted|we'?ll use|i'?ll"
    r" take|we will use"
    r"|let'?s (?:use|go|do|keep|take|meet|make|book|drop|switch|stick|call|pass|put|leave))\b"
)
_PREFERS: Final = lazy_pattern(r"\b(?:instead of|rather than)\b")
_RULES: Final = lazy_pattern(
    r"(?:always|never|don'?t|do not|prefer|only|make sure)\b"
    r"|(?:you|we|it|this|that|they) (?:must|should not|shouldn'?t)\b"
)
_PROMISES: Final = lazy_pattern(
    r"\b(?:remind me|don'?t forget|remember to|action items?|(?:i|we)(?:'?ll| will| still need to"
    r"| have to)\b.{1,80}\b(?:tomorrow|tonight|later|next (?:week|month|time)|(?:on|by|before)"
    r" (?:mon|tues|wednes|thurs|fri|satur|sun)day))\b"
)
_OPEN: Final = lazy_pattern(
    r"(?<![/.-])\bto-?dos?\b(?![/-]|\.\w)|\b(?:fixme|next steps?|next(?=,)|not yet|still needs?"
    r"|still have to|remains to be|remaining (?:work|tasks?|steps?|items?)|pending|follow-?ups?"
    r"|left to do|unfinished)\b"
)
_CONCLUDES: Final = lazy_pattern(
    r"\b(?:done|fixed|pass(?:es|ed)?|works|added|updated|removed|finished|completed?|ready|booked"
    r"|saved|created|in short|overall|merged|deployed|sent|settled)\b"
)


class Remark(msgspec.Struct, frozen=True):
    """The quotable part of one message."""

    message: ModelMessage
    who: str
    sentences: tuple[str, ...]
    """Its plain sentences, without polite ones."""

    @property
    def by_user(self) -> bool:
        """Return whether a person said it."""
        return isinstance(self.message, UserMessage)

    @property
    def event_ids(self) -> tuple[str, ...]:
        """Return the event of its words; the events of calls and results follow in the message."""
        return self.message.event_ids[:1]

    @property
    def is_interrupt(self) -> bool:
        """Return whether it marks an interrupt."""
        return isinstance(self.message, UserMessage) and self.message.mark == "interrupt"

    @property
    def opening(self) -> str:
        """Return the first sentence of more than two words, else the first."""
        long_enough = (text for text in self.sentences if len(text.split()) >= OPENING_WORDS_MIN)
        return next(long_enough, self.sentences[0])

    @property
    def request(self) -> str:
        """Return the first sentence that asks, else the first."""
        return next(filter(is_request, self.sentences), self.sentences[0])

    @property
    def conclusion(self) -> str | None:
        """Return the sentence that states an outcome, if any."""
        statements = (text for text in self.sentences if not text.endswith(_QUESTION))
        return next((text for text in statements if _CONCLUDES.search(text.lower())), None)


def remark(message: ModelMessage, speakers: Mapping[str, str]) -> Remark:
    """Return the remark for a message; ``speakers`` maps events to names of people."""
    who = ASSISTANT
    if isinstance(message, UserMessage):
        if message.mark is not None:
            return Remark(message, "", ())
        who = next(
            (speakers[event_id] for event_id in message.event_ids if event_id in speakers), USER
        )
    sentences = [
        sentence for sentence in quotable_sentences(message.text) if not is_courtesy(sentence)
    ]
    if who == ASSISTANT:
        sentences = [sentence for sentence in sentences if not is_announcement(sentence)]
    return Remark(message, who, tuple(sentences))


def is_request(sentence: str) -> bool:
    """Return whether a sentence is a question or a request."""
    return sentence.endswith(_QUESTION) or _ASKS.match(sentence) is not None


def is_decision(sentence: str, *, by_user: bool) -> bool:
    """Return whether a sentence decides something; a person's may also set a rule."""
    lowered = sentence.lower()
    if lowered.endswith(_QUESTION):
        return False
    if _SETTLES.search(lowered):
        return True
    wishes = _PREFERS.search(lowered) and is_request(sentence)
    return by_user and bool(wishes or _RULES.match(lowered))


def is_open_item(sentence: str, *, by_user: bool) -> bool:
    """Return whether a sentence says what remains to be done."""
    lowered = sentence.lower()
    if lowered.endswith(_QUESTION):
        return False
    return bool(_OPEN.search(lowered) or (by_user and _PROMISES.search(lowered)))


def unanswered_question(remarks: Sequence[Remark]) -> Sentence | None:
    """Return the last question if it has no answer."""
    for entry in reversed(remarks):
        if not entry.by_user:
            if entry.message.text:
                return None
        elif entry.sentences:
            question = next((text for text in entry.sentences if text.endswith(_QUESTION)), None)
            return None if question is None else Sentence(question, entry.event_ids)
    return None


def find_conclusion(remarks: Sequence[Remark]) -> tuple[Remark, str] | None:
    """Return the answer and sentence that state the outcome, else the start of the last answer."""
    answers = [entry for entry in remarks if not entry.by_user and entry.sentences][-ANSWERS_MAX:]
    for answer in reversed(answers):
        if answer.conclusion is not None:
            return answer, answer.conclusion
    return (answers[-1], answers[-1].sentences[0]) if answers else None
