"""Sentences in the author's own words: without code, quotes, logs and links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.derive.claim_words import expand_contractions, normalise_characters
from treering.derive.fact_noise import is_code
from treering.lazy import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT_CHARACTERS_MAX: Final = 20_000
"""Longer texts were pasted; only the beginning is read."""
LINE_CHARACTERS_MAX: Final = 2_000
"""Longer lines were not typed by hand."""
SENTENCE_CHARACTERS_MAX: Final = 400

_FENCED: Final = lazy_pattern(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_TAG: Final = lazy_pattern(r"<(\w[\w-]{0,40})>")
_LINK: Final = lazy_pattern(r"\b(?:https?|ftp|file)://\S+|\bwww\.\S+")
_SAID: Final = lazy_pattern(r"\"[^\"\n]*\s[^\"\n]*\"|“[^”\n]*\s[^”\n]*”|«[^»\n]*»")
_QUOTED_LINE: Final = lazy_pattern(r"\s*(?:>|\|)")
_BULLET: Final = lazy_pattern(r"^\s*(?:[-*•]|\d+[.)])\s+")
_END: Final = lazy_pattern(
    r"(?<=[.!?…])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\b[A-Z]\.)(?<!\b(?:vs|St|Mr|Dr"
    r"|Ms)\.)(?<!\bMrs\.)\s+(?=\S)"
)
_CLAUSE: Final = lazy_pattern(
    r"(?:;|,? (?:and|but|so|also)|,)\s+(?:also )?(?=(?:I|my|we|our)\b)"
    r"|;\s+| [\u2013\u2014] | - "
)
_CONTINUATION: Final = lazy_pattern(
    r",? and (?:also )?(?=(?:(?:live|reside) (?:in|at|near|with)|work (?:at|for|as|in|from)"
    r"|study (?:at|in)|(?:am|have|own|speak|prefer|hate|dislike) [\w']+)\b)"
    r"|, (?=(?:(?:live|reside) (?:in|at|near)|work (?:at|for|as))\b)"
)
"""Where a sentence continues about the same speaker, who is not named again."""
_SPEAKER: Final = lazy_pattern(r"(?P<who>I|[Ww]e) \w+ \w")
_INFINITIVE: Final = lazy_pattern(
    r"\b(?:like|love|hate|prefer|want|wish|hope|plan|need|have|try|used|going|able) to [a-z]"
)
_BLANKS: Final = lazy_pattern(r"\s+")


def own_sentences(text: str) -> Iterator[str]:
    """Yield the author's own sentences, in order, with normalised spelling."""
    own_text = _untagged(_FENCED.sub("\n", spelt_quotes(text[:TEXT_CHARACTERS_MAX])))
    for line in own_text.splitlines():
        if not line.strip() or len(line) > LINE_CHARACTERS_MAX:
            continue
        if _QUOTED_LINE.match(line) or is_code(line.replace("`", "")):
            continue
        plain = _SAID.sub(" ", _LINK.sub(" ", _BULLET.sub("", line, count=1)))
        for sentence in _END.split(plain.replace("`", "")):
            whole = _BLANKS.sub(" ", sentence).strip()
            if whole and len(whole) <= SENTENCE_CHARACTERS_MAX:
                yield whole


def clauses(sentence: str) -> list[str]:
    """Return the parts of a sentence that each say something about the speaker."""
    return [
        clause
        for part in _CLAUSE.split(sentence)
        if part.strip(" ,")
        for clause in _divided(part.strip(" ,"))
    ]


def _divided(clause: str) -> list[str]:
    """Split a clause with two verbs: one part may stop being true without the other."""
    first, *others = _CONTINUATION.split(expand_contractions(clause))
    speaker = _SPEAKER.match(first)
    # "I live and work in Rome" and "I want to move and live in Rome" each say one thing.
    if speaker is None or _INFINITIVE.search(first) is not None:
        return [expand_contractions(clause)]
    return [first, *(f"{speaker['who']} {other}" for other in others)]


def spelt_quotes(text: str) -> str:
    """Return a text with plain apostrophes; code fences are left alone."""
    return normalise_characters(text.replace("`", "\0")).replace("\0", "`")


def _untagged(text: str) -> str:
    """Return a text without tagged parts: somebody else inserted them."""
    parts, at = [], 0
    while (tag := _TAG.search(text, at)) is not None:
        close = f"</{tag[1]}>"
        end = text.find(close, tag.end())
        parts.append(text[at : tag.start()])
        if end < 0:
            # Without a closing tag it is a word in brackets, and so is every later one.
            text, at = text[tag.end() :].replace(tag[0], " "), 0
        else:
            at = end + len(close)
    return "\n".join((*parts, text[at:]))
