"""Prose: the sentences of a message that can be told again; code, logs and secrets cannot."""

from __future__ import annotations

import re
from typing import Final

from treering.context.clues import sentences_in
from treering.lazy import lazy_pattern
from treering.model.events import REDACTED

TEXT_CHARS_MAX: Final = 16_384
"""So much of a text is looked at: its first half and its last."""
WRAPPED_CHARS_MIN: Final = 40
"""Shorter lines are not broken to fit a page."""
WORDS_MIN: Final = 0.5
"""The part of a sentence that is plain words, at least, and no paths and marks."""
LETTERS_MIN: Final = 0.55
"""The part of a sentence that is letters, at least; there is more else in code and logs."""

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
"""A line that says what comes next, and nothing itself."""
_SHORTHAND: Final = lazy_pattern(r"\b(e\.g|i\.e|etc|vs|approx|Dr|Mr|Mrs|Ms)\.(?=\s)")
"""What ends with a dot and ends no sentence."""
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
"""What looks like a credential: named as one, or long, without a blank and mixed."""
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
"""What is said for politeness."""
_ANNOUNCES: Final = lazy_pattern(
    r"(?:(?:now|next|first|okay|ok)[, ]+)?(?:let me|let's|i'?ll|i will|i'?m going to|i am going to)"
    r"(?: now| first| also| then| quickly)? (?:add|analy[sz]e|begin|build|check|continue|create|do"
    r"|examine|explore|find|fix|go|implement|investigate|look|make|open|read|review|run|search|see"
    r"|start|take|test|try|update|use|verify|write)\b.*",
    re.IGNORECASE | re.DOTALL,
)


def quotable(text: str) -> list[str]:
    """Return the sentences of ``text`` that are plain words, each on one line."""
    found = (" ".join(sentence.split()) for sentence in sentences_in(_words(text)))
    return [sentence for sentence in found if _is_prose(sentence)]


def is_courtesy(sentence: str) -> bool:
    """Whether a sentence is there for politeness alone."""
    return _COURTESY.fullmatch(sentence) is not None


def announces(sentence: str) -> bool:
    """Whether a sentence only says what its speaker does next."""
    return _ANNOUNCES.fullmatch(sentence) is not None


def holds_secret(text: str) -> bool:
    """Whether ``text`` seems to hold a credential."""
    return _SECRET.search(text) is not None


def _words(text: str) -> str:
    """Return what is left of ``text`` without code, tags, logs, headings and marks of layout."""
    half = TEXT_CHARS_MAX // 2
    clipped = text if len(text) <= TEXT_CHARS_MAX else f"{text[:half]}\n{text[-half:]}"
    lines: list[str] = []
    for line in _TAGGED.sub("\n", _FENCED.sub("\n", clipped)).splitlines():
        if _CODE_LINE.search(line) or _HEADING.search(line):
            lines.append("")
            continue
        plain = _SHORTHAND.sub(r"\1", _MARKUP.sub("", _LINK.sub(r"\1", line))).strip()
        if lines and _goes_on(lines[-1], plain):
            lines[-1] = f"{lines[-1]} {plain}"
        else:
            lines.append(plain)
    return "\n".join(lines)


def _goes_on(line: str, following: str) -> bool:
    """Whether a line was only broken to fit a page."""
    return len(line) >= WRAPPED_CHARS_MIN and line[-1] not in ".!?:" and following[:1].islower()


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    letters = sum(map(str.isalpha, sentence))
    plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
    return (
        letters >= max(2, LETTERS_MIN * sum(map(len, words)))
        and (len(words) == 1 or plain >= WORDS_MIN * len(words))
        and REDACTED not in sentence
        and not holds_secret(sentence)
    )
