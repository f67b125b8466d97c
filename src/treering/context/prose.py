"""Prose: the sentences of a message that can be quoted; code, logs and secrets are left out."""

from __future__ import annotations

import re
from typing import Final

from treering.context.text_cues import sentences_in
from treering.lazy import lazy_pattern
from treering.model.events import REDACTED

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
