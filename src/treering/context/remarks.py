"""Remarks: the sentences of a message that can be quoted, and whether they ask, decide, promise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from treering.context.text_cues import sentences_in
from treering.lazy import lazy_pattern
from treering.model.events import REDACTED
from treering.model.memories import Sentence
from treering.model.messages import ModelMessage, UserMessage

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


TEXT_CHARS_MAX: Final = 16_384
"""Characters of a text that are read: its first and last half."""
WRAPPED_CHARS_MIN: Final = 40
"""Shorter lines were not wrapped."""
WORDS_MIN: Final = 0.5
"""The minimal share of plain words in a sentence, as opposed to paths and symbols."""
LETTERS_MIN: Final = 0.55
"""The minimal share of letters in a sentence; code and logs have fewer."""

_FENCED: Final = lazy_pattern(
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_TAGGED: Final = lazy_pattern(
    r"^[ \t]*<([A-Za-z][\w-]{0,40})\b[^>\n]{0,200}>.*?(?:</\1>|\Z)", re.MULTILINE | re.DOTALL
)
_CODE_LINE: Final = lazy_pattern(
    r"^(?: {4,}|\t)(?![-*•]|\d+[.)])|[{};\\]\s*$|^\s*(?:[|>$]|>>>|@@|\+\+\+|---|#include|//|/\*)"
    r"|^\s*(?:(?:async )?def|class|fn|func|function|const|var|public|private|static)\s\w+.*[:({=]"
    r"|^\s*(?:from \S+ import|import [\w.]+\s*$|Traceback \(|File \"|at \S+\()"
    r"|^\s*\S*(?:Error|Exception): |^\d{4}-\d\d-\d\d[T ]\d\d:\d\d|^\[?\d\d:\d\d:\d\d"
)
_HEADING: Final = lazy_pattern(r"^\s*#{1,6}\s|:[*_\s]*$")
"""A line that only announces the next one."""
_SHORTHAND: Final = lazy_pattern(r"\b(e\.g|i\.e|etc|vs|approx|Dr|Mr|Mrs|Ms)\.(?=\s)")
"""Abbreviations whose dot does not end a sentence."""
_MARKUP: Final = lazy_pattern(
    r"^\s*(?:#{1,6}\s+|(?:[-*•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?)+|\*\*|__|`"
)
_PLAIN_WORD: Final = lazy_pattern(r"\W{0,3}[^\W_]+(?:['\u2019-][^\W_]+)*\W{0,3}")
_LINK: Final = lazy_pattern(r"!?\[([^\]\n]{1,200})\]\([^)\s]{1,2000}\)")
_SECRET: Final = lazy_pattern(
    r"\b(?:pass(?:word|wd|phrase|code)|secret|api[ _-]?key|token|bearer|credentials?|pin)\b"
    r"\W{0,3}(?:\s?(?:is|was|to)\b)?\s*[:=]?\s*[\"'`]?(?=\S*[\d!@#$%^&*])\S{4,}"
    r"|(?<![\w+/=.-])(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+=-]{24,}(?![\w/])"
    r"|-----BEGIN|://[^\s/@:]{1,100}:[^\s/@]{1,100}@",
    re.IGNORECASE,
)
"""Looks like a credential: named as one, or long, mixed and without a blank."""
_COURTESY: Final = lazy_pattern(
    r"(?:(?:hi|hello|hey|hiya|yo|good (?:morning|afternoon|evening|night)|thanks?|thank you|thx"
    r"|cheers|ok(?:ay)?|sure|yes|yep|yeah|no|nope|great|perfect|cool|nice|awesome|wonderful|got it"
    r"|done|sounds good|you'?re (?:very |most )?welcome|of course|certainly|absolutely|bye|goodbye"
    r"|see you|good question|great question|no problem|my pleasure|right|alright|please)"
    r"(?:[ ,]+(?:there|all|again|so much|a lot|very much|everyone|folks|team|you|then|good|and"
    r"|thanks?|hello|hi|bye|for (?:that|this|the help|your help)|\w{1,12}))?[\s.!,…:)]*)"
    r"|.*\b(?:let me know (?:if|when|how|what)|feel free|(?:is there )?anything else"
    r"|hope (?:this|that|it) helps|happy to help|glad (?:i|to)|enjoy|good luck"
    r"|(?:would you like|do you want) me to)\b.*",
    re.IGNORECASE | re.DOTALL,
)
"""Polite phrases."""
_ANNOUNCES: Final = lazy_pattern(
    r"(?:(?:now|next|first|okay|ok)[, ]+)?(?:let me|let's|i'?ll|i will|i'?m going to|i am going to)"
    r"(?: now| first| also| then| quickly)? (?:add|analy[sz]e|begin|build|check|continue|create|do"
    r"|examine|explore|find|fix|go|implement|investigate|look|make|open|read|review|run|search|see"
    r"|start|take|test|try|update|use|verify|write)\b.*",
    re.IGNORECASE | re.DOTALL,
)


def quotable_sentences(text: str) -> list[str]:
    """Return the sentences of ``text`` that are plain words, each on one line."""
    sentences = (" ".join(sentence.split()) for sentence in sentences_in(_words(text)))
    return [sentence for sentence in sentences if _is_prose(sentence)]


def is_courtesy(sentence: str) -> bool:
    """Return whether a sentence is only polite."""
    return _COURTESY.fullmatch(sentence) is not None


def is_announcement(sentence: str) -> bool:
    """Return whether a sentence only announces what its speaker does next."""
    return _ANNOUNCES.fullmatch(sentence) is not None


def has_secret(text: str) -> bool:
    """Return whether ``text`` seems to contain a credential."""
    return _SECRET.search(text) is not None


def _words(text: str) -> str:
    """Return ``text`` without code, tags, logs, headings and markup."""
    half = TEXT_CHARS_MAX // 2
    clipped = text if len(text) <= TEXT_CHARS_MAX else f"{text[:half]}\n{text[-half:]}"
    lines: list[str] = []
    for line in _TAGGED.sub("\n", _FENCED.sub("\n", clipped)).splitlines():
        if _CODE_LINE.search(line) or _HEADING.search(line):
            lines.append("")
            continue
        plain = _SHORTHAND.sub(r"\1", _MARKUP.sub("", _LINK.sub(r"\1", line))).strip()
        if lines and _is_wrapped(lines[-1], plain):
            lines[-1] = f"{lines[-1]} {plain}"
        else:
            lines.append(plain)
    return "\n".join(lines)


def _is_wrapped(line: str, following: str) -> bool:
    """Return whether a line was only wrapped."""
    return len(line) >= WRAPPED_CHARS_MIN and line[-1] not in ".!?:" and following[:1].islower()


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    letters = sum(map(str.isalpha, sentence))
    plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
    return (
        letters >= max(2, LETTERS_MIN * sum(map(len, words)))
        and (len(words) == 1 or plain >= WORDS_MIN * len(words))
        and REDACTED not in sentence
        and not has_secret(sentence)
    )
