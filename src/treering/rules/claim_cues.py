"""Cues: words that negate, change or correct what the rest of a sentence says."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from treering.lazy import lazy_pattern
from treering.rules.claim_words import (
    VERBS,
    base,
    expand_contractions,
    normalise_characters,
    third_person,
    trimmed,
    word_set,
)

_IGNORE: Final = re.IGNORECASE
_LEAD: Final = lazy_pattern(
    r"(?:(?:please |pls )?(?:remember|note|keep in mind|don't forget|do not forget|fyi|btw"
    r"|by the way|for the record|for future reference|so|well|ok|okay|also|and|but|hi|hey|hello"
    r"|yes|yeah|fact|update|as of (?:now|today|\d{4}))(?:,? that\b|[,:;]| -)\s*"
    r"|(?:it )?turn(?:s|ed) out(?: that)?,? (?=\S)"
    r"|(?:since|from|starting) (?:the )?(?:(?:last|this|next) )?(?:spring|summer|autumn|fall|winter"
    r"|week|month|year|january|february|march|april|may|june|july|august|september|october"
    r"|november|december|today|tomorrow|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|then),? (?=(?:I|we|my|our)\b)"
    r"|(?:so|and|but|well) (?=(?:I|we|my|our)\b)"
    r"|that\s+(?=[iIwW]))+",
    _IGNORE,
)
_CORRECTION: Final = lazy_pattern(
    r"(?:(?:no|nope|sorry|wait|oops|correction|my mistake|scratch that)(?:[,:;.!]| -)\s*"
    r"|(?:actually|i meant|i mean|in fact|to correct myself)\b[,:;]?\s*|no (?=it is|it was|i |my"
    r" ))+"
    r"(?=\S)",
    _IGNORE,
)
_CHANGED: Final = lazy_pattern(
    r"\b(?:now|no longer|not \w+ any ?more|any ?more|instead(?: of)?|switched|moved|migrated"
    r"|relocated|upgraded|changed|became|stopped|quit|gave up|from now on|these days|nowadays"
    r"|as of|recently|used to|formerly|previously|replaced|renamed)\b"
    r"|^(?:Now|No longer|Switched|Moved|Migrated|Relocated|Upgraded|Downgraded|Changed|Became"
    r"|Stopped"
    r"|Quit|Gave up|Used to|Recently|From now on|These days|Nowadays)\b"
)
"""In lower case except the first word: "New York" and "Apocalypse Now" are not changes."""
_USED_TO: Final = lazy_pattern(r"(?<!is )(?<!are )(?<!was )(?<!be )(?:\bused|^Used) to (?=\w)")
_ADVERBS: Final = lazy_pattern(
    r"\b(?:now|currently|presently|nowadays|these days|still|also|really|already|actually|mostly"
    r"|usually|typically|generally|normally|recently|originally|always|officially|definitely"
    r"|primarily|mainly|absolutely|particularly|especially|very much|truly|strongly|just|finally"
    r"|eventually)\b,? ?"
    r"|^(?:Now|Currently|Nowadays|These days|Still|Also|Really|Already|Mostly|Usually|Typically"
    r"|Generally|Normally|Recently|Always|Primarily|Mainly|Often|From now on|As of now)\b,? (?=\S)"
)
_FORMER: Final = lazy_pattern(
    r"(?:, (?:and )?(?:not|no longer)|,? (?:instead of|rather than|and not)) (?P<old>[^,.;]+)$"
)
_NOT_BUT: Final = lazy_pattern(r"\bnot (?P<old>[^,;]+?),? but (?=\S)")
_DENIED: Final = lazy_pattern(
    r"(?:\b(?:do|does|did|can|could|will|would|should|shall) not |\bnot (?!only\b)"
    r"|\b(?:never|no longer) |^(?:(?:Do|Does|Did|Can|Could|Will|Would|Should) [Nn]ot"
    r"|Not|Never|No longer) )(?:ever )?"
    r"|(?:\bno|^No) (?!one\b|doubt\b|matter\b|problem\b|(?:more|less|fewer|later|earlier)\b)(?=\w)"
    r"|\bno more$"
)
_CAPITAL_NOT: Final = lazy_pattern(r"^(Am|Are|Had|Has|Have|Is|Might|Must|Need|Was|Were) Not\b")
"""What "Isn't" at the start becomes; within a title, "Not" is an ordinary word."""
_CEASED: Final = lazy_pattern(
    r"(?:\b(?:has |have )?(?:stopped|quit|gave up|given up)|^(?:Stopped|Quit|Gave up)) (?=\w+ing\b)"
)
_ING: Final = lazy_pattern(r"^((?:(?:I|we|(?:the )?user|[A-Z]\w+) )?)(\w+ing)\b", _IGNORE)
_AGAIN: Final = lazy_pattern(
    r"\s+(?:any ?more|now|any longer|at all|these days|nowadays|instead|from now on|going forward"
    r"|as of (?:now|today))$"
)
_REASON: Final = lazy_pattern(
    r",? (?:because|since (?=(?:I|we|my|our|the|she|he|they|it)\b)|so that|due to|thanks to)\b.+$"
)
_GROWN: Final = lazy_pattern(
    r"\b(?:have |has )?(?:grown|come|came|learned|learnt|started|begun|began) to"
    r" (?=(?:like|love|enjoy|hate|dislike|prefer|use)\b)"
    r"|\b(?:have |has )?(?:learned|learnt) to (?=[a-z])"
)
_PLANNED: Final = lazy_pattern(
    r"\b(is|are) (?:planned|scheduled|due|slated) (?:for|on|at|to be on)\b"
)
_CHANGES: Final = (
    r"(?:hand|leav|left|quit|stop|drop|cancel|sell|sold|mov|migrat|switch|chang|replac|renam|rais"
    r"|cut|bump|upgrad|giv|gave|becom|became|join|merg|fir|hir|resign|retir|sign)\w*"
)
_UNDECIDED: Final = lazy_pattern(
    r"\?$|^if\b|\b(?:might|whether|consider(?:ed|ing)?|thinking (?:of|about)|talk of"
    r"|talk(?:ed|s|ing) about|would(?! not| rather| prefer)|some ?day|one day|sooner or later"
    r"|not yet|(?:nearly|almost) \w+(?:ed|t|ld)|(?:try|tries|tried|trying|failed|wish|wishes) to"
    r"|(?:promise[sd]?|hop(?:e[sd]?|ing)|decided not) to|hop(?:e[sd]?|ing) (?:for|that)"
    r"|(?:(?:i|we|they) plan|planned|planning) to|asked if|joked|dream(?:ed|t)|pretend(?:s|ed)?)\b"
    r"|\b(?:sign|headline|poster|rumou?rs?)\b[^\"]{0,25} (?:says?|said|reads?)\b"
    r"|\b(?:says?|said|told|tells?|asked|writes|wrote|reads?)\b[^\"“„«]{0,25}[\"“„«]"
    r"|\b(?:(?:did|was|were|has|have|had|will|^do) not|never|nobody|no one|may|could|refuse[sd]? to"
    rf"|(?<!longer )wants? to|not (?:going|about|planning) to) (?:been )?{_CHANGES}",
    _IGNORE,
)
"""What says that a clause is quoted, asked, planned or supposed, or that it did not happen."""
_CLAUSES: Final = lazy_pattern(r"[,;:]\s|\s(?:and|but|so)\s", _IGNORE)
_ABLE: Final = lazy_pattern(r"(?:\bcan|^Can) (?P<verb>[a-z]+)\b")
_STAND: Final = lazy_pattern(r"\b(?:stand|bear) (?=\w)")
_BLANKS: Final = lazy_pattern(r"\s+")
_WORD: Final = lazy_pattern(r"\w+")
_CUES: Final = word_set(
    "grown come came learned learnt started begun began because since so due thanks planned"
    " scheduled slated now longer not any anymore instead switched moved migrated relocated"
    " upgraded downgraded changed became stopped quit gave given days nowadays as recently used"
    " formerly previously replaced renamed rather never no can all forward currently presently"
    " still also"
    " really already actually mostly usually typically generally normally originally always"
    " officially definitely primarily mainly absolutely particularly especially much truly strongly"
    " just finally eventually often"
)
"""Each cue within a sentence has one of these words; most sentences have none."""


class SentenceCues(NamedTuple):
    """A sentence without its cues, and what the cues say."""

    text: str
    negated: bool
    changed: bool
    corrected: bool
    replaced: str | None


NO_CUES: Final = SentenceCues("", negated=False, changed=False, corrected=False, replaced=None)


def extract_cues(text: str) -> SentenceCues:
    """Remove the cues from a sentence."""
    sentence = _BLANKS.sub(" ", expand_contractions(normalise_characters(text))).strip()
    sentence = sentence.lower() if sentence.isupper() else sentence
    sentence, corrected = _without_lead(trimmed(sentence))
    if _CUES.isdisjoint(_WORD.findall(sentence.lower())):
        return NO_CUES._replace(text=sentence.strip(), changed=corrected, corrected=corrected)
    sentence = _GROWN.sub("", sentence)
    sentence = _PLANNED.sub(r"\1 on", _REASON.sub("", sentence))
    changed = _CHANGED.search(sentence) is not None
    sentence, replaced = _without_former(sentence)
    sentence, denied = _without_denial(sentence)
    if changed or " " in sentence:
        sentence = _AGAIN.sub("", _ADVERBS.sub("", _AGAIN.sub("", sentence)))
    return SentenceCues(sentence.strip(), denied, changed or corrected, corrected, replaced)


def undecided_clauses(text: str) -> tuple[bool, list[str]]:
    """Return whether a clause of a sentence reports nothing that happened, and the others."""
    clauses = _CLAUSES.split(expand_contractions(normalise_characters(text)).strip())
    others = [clause for clause in clauses if _UNDECIDED.search(clause) is None]
    return len(others) < len(clauses), others


def _without_lead(sentence: str) -> tuple[str, bool]:
    lead = _LEAD.match(sentence)
    sentence = sentence[lead.end() :] if lead is not None else sentence
    correction = _CORRECTION.match(sentence)
    return (sentence, False) if correction is None else (sentence[correction.end() :], True)


def _without_former(sentence: str) -> tuple[str, str | None]:
    """Remove the value that a sentence names as the former one."""
    for pattern in (_NOT_BUT, _FORMER):
        match = pattern.search(sentence)
        if match is not None and match.start() > 0:
            before, after = sentence[: match.start()], sentence[match.end() :]
            joint = " " if pattern is _NOT_BUT else ""
            if "prefer" not in before.lower():
                return _BLANKS.sub(" ", f"{before}{joint}{after}"), match[
                    "old"
                ].strip().removeprefix("using ")
    return sentence, None


def _without_denial(sentence: str) -> tuple[str, bool]:
    """Remove negations; two of them cancel each other."""
    denied = False
    if _CEASED.search(sentence) is not None:
        sentence, denied = _ING.sub(_based, _CEASED.sub("", sentence)), True
    if _USED_TO.search(sentence) is not None:
        sentence, denied = _USED_TO.sub("", sentence), not denied
    without, count = _DENIED.subn("", _CAPITAL_NOT.sub(r"\1 not", sentence), count=2)
    if count:
        sentence, denied = _STAND.sub("like ", without), denied != (count % 2 == 1)
    # "Cannot eat nuts" and "does not eat nuts" are the same fact, and so are "can" and "does".
    return _ABLE.sub(_able, sentence, count=1), denied


def _able(match: re.Match[str]) -> str:
    verb = match["verb"]
    return third_person(verb) if VERBS.get(verb) == verb else match.group()


def _based(match: re.Match[str]) -> str:
    return f"{match[1]}{base(match[2].lower())}"
