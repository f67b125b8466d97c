"""Sentences in the author's own words: without code, quotes, logs and links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_pattern
from treering.rules.claim_words import expand_contractions, normalise_characters, word_set
from treering.rules.fact_noise import is_code

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
_TITLE: Final = lazy_pattern(
    r"\b(?P<is>est|ist|es|é|heißt|appelle) [«„]\s*(?P<name>[^»“\n]{1,40}?)\s*[»“]"
)
"""A name in quotes, after what it is a name of."""
_QUOTED_LINE: Final = lazy_pattern(r"\s*(?:>|\|)")
_BULLET: Final = lazy_pattern(r"^\s*(?:[-*•]|\d+[.)])\s+")
_GAP: Final = lazy_pattern(r"(?<=[.!?…])\s+(?=\S)")
_ABBREVIATIONS: Final = word_set(
    "vs. st. mr. mrs. ms. dr. prof. approx. dept. fig."
    " bzw. ca. nr. str. hr. fr. abs. mio. mrd. geb. ggf. inkl. evtl. vgl. tel. abt. zzgl."
    " sr. sra. srta. ud. uds. dra. avda. pág. núm. aprox."
    " mme. mlle. env. boul. ste. p.ex. exmo. exma. av. ref."
)
"""Words with a dot that ends no sentence, in English, German, Spanish, French and Portuguese."""
_LETTERS: Final = lazy_pattern(r"(?!I\.)[^\W\d_]\.|(?:[^\W\d_]{1,2}\.){2,}")
"""Initials, and abbreviations such as "z.B." and "p.ej."."""
_ORDINAL: Final = lazy_pattern(r"\d{1,2}\.")
_BEFORE_ORDINAL: Final = word_set(
    "am der die das dem den des im vom zum zur ab bis seit beim mein meine unser ins jeden jeder"
)
_MONTHS: Final = word_set(
    "januar jänner februar märz april mai juni juli august september oktober november dezember"
)
"""German writes "3. Mai"; the capital begins no sentence."""
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
        named = _TITLE.sub(r"\g<is> \g<name>", _BULLET.sub("", line, count=1))
        plain = _SAID.sub(" ", _LINK.sub(" ", named))
        for sentence in sentences(plain.replace("`", "")):
            whole = _BLANKS.sub(" ", sentence).strip()
            if whole and len(whole) <= SENTENCE_CHARACTERS_MAX:
                yield whole


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text; abbreviations, initials and ordinals end none."""
    for line in text.splitlines():
        start = 0
        for gap in _GAP.finditer(line):
            if _is_end(line[start : gap.start()], line[gap.end() :]):
                yield line[start : gap.start()]
                start = gap.end()
        if line[start:]:
            yield line[start:]


def _is_end(before: str, after: str) -> bool:
    *words_before, last = before.split() or [""]
    last = last.lstrip("([\"'“«¿¡")
    if last.lower() in _ABBREVIATIONS:
        return False
    if _ORDINAL.fullmatch(last) is not None:
        following = after.split(None, 1)[0].strip(",.!?").lower()
        is_ordinal = words_before and words_before[-1].lower() in _BEFORE_ORDINAL
        return not (is_ordinal or after[0].islower() or following in _MONTHS)
    return _LETTERS.fullmatch(last) is None


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
