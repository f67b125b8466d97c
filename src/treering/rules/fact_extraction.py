"""Finds facts in messages without a model: the user's own words, in normal form.

Only users state facts. An assistant's words are not evidence, and a tool's output counts only if it
asks to be remembered: then it is passed on, marked, for the gate to quarantine. The same messages
always give the same candidates, and the same evidence the same id. The id is keyed with the salts
of the evidence, which are erased with it, so it does not give the words away.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.lazy import lazy_pattern
from treering.rules.claim_endings import ended_thing, parted_sentence
from treering.rules.claim_times import CLOCK, DAY
from treering.rules.claim_words import expand_contractions, normal
from treering.rules.claims import read_claim
from treering.rules.fact_categories import Category, category_of
from treering.rules.fact_experiences import dated, with_time_last
from treering.rules.fact_forms import ORDERS
from treering.rules.fact_languages import foreign_statements
from treering.rules.fact_noise import OVERRIDE, is_question
from treering.rules.fact_quality import FACT_CHARACTERS_MAX, judge_fact
from treering.rules.fact_sentences import clauses, own_sentences
from treering.rules.fact_statements import Statement, read_statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CANDIDATES_PER_UTTERANCE_MAX: Final = 20
TOOL_CANDIDATES_MAX: Final = 5
CORRECTION_REACH: Final = 4
"""The number of later utterances in which a short correction can still refer to a fact."""

_IGNORE: Final = re.IGNORECASE
_EXPLICIT: Final = lazy_pattern(
    r"(?:(?:please|pls|hey|ok|also|and|oh|so)[, ]+)*(?:(?:remember|note|keep in mind|don't forget"
    r"|do not forget|bear in mind|make a note|take note|save (?:this|that)|write (?:this|that)"
    r" down)"
    r"(?:(?: this)?:|,? that\b|,? (?=(?:I|my|we|our)\b))|(?:fyi|for (?:the record|(?:your |future )"
    r"?reference|future sessions)|nb|note to self|memo)\b[:,]?)\s*(?P<rest>\S.*)",
    _IGNORE,
)
_LEAD: Final = lazy_pattern(
    r"(?:(?:well|so|oh|ah|hmm|yes|yeah|ok|okay|btw|by the way|also|and|thanks|hi|hello|hey)"
    r"(?: there| all)?[,!.:]? |(?:it )?turn(?:s|ed) out(?: that)?,? "
    r"|(?:since|from|starting) (?!now\b)[\w ]{3,20}?,? (?=(?:I|we|my|our)\b))+(?=\S)",
    _IGNORE,
)
_GREETED: Final = lazy_pattern(
    r"(?:[Hh]i|[Hh]ello|[Hh]ey)(?: there| all| everyone)?[,!.]*\s+(?:I'm|I am|[Tt]his is) "
    r"(?P<name>[A-Z][\w'-]+)(?=[,.!]|$| and\b| from\b)",
)
_BACK: Final = lazy_pattern(
    r"(?:(?:no(?! longer)|nope|sorry|wait|oops|actually|correction|hmm|in fact)[,.!:;]*\s+)+(?=\S)",
    _IGNORE,
)
_MEANT: Final = lazy_pattern(
    r"(?:(?:it is|it was|it's|that is|that's|I meant|I mean|make (?:it|that)|it should be|should be"
    r"|rather)\s+)(?P<value>[^,;]+?)(?:,? (?:not|instead of) (?P<old>[^,;]+))?",
    _IGNORE,
)
_NOT_BUT: Final = lazy_pattern(
    r"(?:it is |it's )?not (?P<old>[^,;]+?)(?:,| but|, but|, it is|, it's) (?P<value>[^,;]+)",
    _IGNORE,
)
_SPOKEN: Final = lazy_pattern(r"(?:I|we|you|my|our|your|it|this|to|when|how|what)\b", _IGNORE)
"""Only makes sense for the speaker or at that moment."""
_MEANT_WORDS_MAX: Final = 6
_ASKED: Final = lazy_pattern(
    r"\W*(?:please |important\W+|note\W+)*(?:(?:remember|note|keep in mind|don't forget) that\b"
    r"|remember:|(?:always|never) (?P<order>[a-z]+))|.*\b(?:from now on|you must)\b",
    _IGNORE,
)
"""A sentence of a tool that asks to be remembered or obeyed; elsewhere "always" describes."""


class Utterance(msgspec.Struct, frozen=True, kw_only=True):
    """A message as an event recorded it."""

    event_id: str
    role: Literal["user", "assistant", "tool"]
    text: str
    ts_ms: int


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that may become a fact, if it passes the gate."""

    text: str
    category: Category
    importance: int
    """From 1 to 10."""
    confidence: float
    """From 0 to 1."""
    evidence: tuple[str, ...]
    """The ids of the events that say it."""
    role: Literal["user", "agent", "tool"] = "user"
    """Who said it, or did it; a tool is not believed."""
    explicit: bool = False
    """Whether somebody asked to remember it."""
    correction: bool = False
    """Whether it takes back an earlier statement."""
    sayings: tuple[tuple[str, ...], ...] = ()
    """For each time it was said, the events that say it; of a correction, the corrected event
    first. Empty if unknown."""


def extract_facts(utterances: Sequence[Utterance]) -> list[Candidate]:
    """Return the candidates in utterances, in the order they were said.

    What is said twice is one candidate with the evidence of both.
    """
    candidates: dict[tuple[str, str], Candidate] = {}
    last: Candidate | None = None
    last_at = 0
    for at, utterance in enumerate(utterances):
        context = last if at - last_at <= CORRECTION_REACH else None
        for candidate in _candidates(utterance, context):
            key = candidate.role, normal(candidate.text)
            candidates[key] = _joined(candidates.pop(key, None), candidate)
            if candidate.role == "user":
                last, last_at = candidate, at
    return list(candidates.values())


def same_statement_id(salts: Sequence[bytes], text: str) -> str:
    """Return the id of a fact stated by events with these salts; it is reproducible."""
    words = normal(text).encode(errors="surrogatepass")
    return _uuid(hmac.digest(b"".join(salts), words, "sha256").hex())


def legacy_statement_id(evidence_id: str, text: str) -> str:
    """Return the id that earlier versions gave a fact, from which its text can be guessed."""
    return _uuid(
        sha256(f"{evidence_id}\0{normal(text)}".encode(errors="surrogatepass")).hexdigest()
    )


def _uuid(digest: str) -> str:
    # The layout of UUID version 8, which is free for custom digests.
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def _candidates(utterance: Utterance, context: Candidate | None) -> list[Candidate]:
    match utterance.role:
        case "user":
            return _of_user(utterance, context)
        case "tool":
            return _of_tool(utterance)
        case "assistant":
            return []


def _of_user(utterance: Utterance, context: Candidate | None) -> list[Candidate]:
    candidates: list[Candidate] = []
    for candidate in _said(utterance, context, candidates):
        candidates.append(candidate)
        if len(candidates) == CANDIDATES_PER_UTTERANCE_MAX:
            break
    return candidates


def _said(
    utterance: Utterance, context: Candidate | None, candidates: list[Candidate]
) -> Iterator[Candidate]:
    for sentence in own_sentences(utterance.text):
        if is_question(sentence):
            continue
        foreign = foreign_statements(sentence)
        if foreign:
            for stated in foreign:
                claim = Statement(stated.text, stated.category, stated.importance, 0.8)
                yield from _accepted(utterance, claim, correction=False)
            continue
        explicit = _EXPLICIT.fullmatch(sentence)
        if explicit is not None:
            yield from _explicit(utterance, explicit["rest"])
            continue
        greeted = _GREETED.match(sentence)
        if greeted is not None:
            introduction = Statement(f"Name is {greeted['name']}", "personal", 9, 0.9)
            yield from _accepted(utterance, introduction, correction=False)
        plain = expand_contractions(sentence)
        lead = _LEAD.match(plain)
        plain = plain[lead.end() :] if lead is not None else plain
        back = _BACK.match(plain)
        statement_text = plain[back.end() :] if back is not None else plain
        meant = _meant(
            statement_text.strip(" .!"),
            candidates[-1] if candidates else context,
            is_back=back is not None,
        )
        if meant is not None:
            yield from _corrected(utterance, *meant)
            continue
        for clause in _parts(statement_text):
            statement = read_statement(clause)
            if statement is not None:
                yield from _accepted(utterance, statement, correction=back is not None)


def _parts(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence; what it says is over comes first."""
    parted = parted_sentence(sentence)
    for part in [sentence] if parted is None else [parted.ending, parted.rest]:
        if ended_thing(part) is not None:
            yield part
        else:
            yield from clauses(with_time_last(part))


def _explicit(utterance: Utterance, rest: str) -> Iterator[Candidate]:
    """Yield what to remember: as a fact about the user, else as it was said."""
    statements = [
        statement for clause in clauses(rest) if (statement := read_statement(clause)) is not None
    ]
    if not statements and _SPOKEN.match(rest) is None:
        text = rest.strip(" .!")
        text = text[:1].upper() + text[1:]
        statements = [Statement(text, category_of(text), 8, 0.95)]
    for statement in statements:
        if judge_fact(statement.text, origin="user").outcome == "accept":
            yield Candidate(
                text=statement.text,
                category=statement.category,
                importance=max(statement.importance, 8),
                confidence=0.95,
                evidence=(utterance.event_id,),
                sayings=((utterance.event_id,),),
                explicit=True,
            )


def _accepted(
    utterance: Utterance, statement: Statement, *, correction: bool
) -> Iterator[Candidate]:
    text = dated(statement.text, utterance.ts_ms) if statement.is_dated else statement.text
    if judge_fact(text, origin="user").outcome != "accept":
        return
    yield Candidate(
        text=text,
        category=statement.category,
        importance=statement.importance,
        confidence=statement.confidence,
        evidence=(utterance.event_id,),
        sayings=((utterance.event_id,),),
        correction=correction,
    )


def _meant(
    sentence: str, context: Candidate | None, *, is_back: bool
) -> tuple[Candidate, str] | None:
    """Return the fact that a short correction refers to, and its corrected text."""
    correction = _NOT_BUT.fullmatch(sentence) or _MEANT.fullmatch(sentence)
    if context is None or correction is None or len(correction["value"].split()) > _MEANT_WORDS_MAX:
        return None
    old, value = correction["old"], correction["value"].strip()
    if not is_back and old is None and not re.match(r"I mean|make ", sentence, _IGNORE):
        return None
    text = _with_value(context.text, old, value)
    return None if text is None or text == context.text else (context, text)


def _with_value(text: str, old: str | None, new: str) -> str | None:
    """Return a fact's text with its value replaced, or None if it is unclear which."""
    if old is not None and old.lower() in text.lower():
        at = text.lower().rindex(old.lower())
        return text[:at] + new + text[at + len(old) :]
    for time in (CLOCK, DAY):
        old_time, new_time = time.search(text), time.search(new)
        if old_time is not None and new_time is not None:
            return text[: old_time.start()] + new_time.group() + text[old_time.end() :]
    value = read_claim(text).value
    if (
        old is not None
        or value is None
        or value not in text
        or CLOCK.search(new)
        or DAY.search(new)
    ):
        return None
    if value[:1].isupper() and not new[:1].isupper():
        return None
    at = text.rindex(value)
    return text[:at] + new + text[at + len(value) :]


def _corrected(utterance: Utterance, context: Candidate, text: str) -> Iterator[Candidate]:
    if judge_fact(text, origin="user").outcome == "accept":
        yield Candidate(
            text=text,
            category=context.category,
            importance=context.importance,
            confidence=0.9,
            evidence=(*context.evidence, utterance.event_id),
            sayings=((*context.evidence, utterance.event_id),),
            explicit=context.explicit,
            correction=True,
        )


def _of_tool(utterance: Utterance) -> list[Candidate]:
    """Return sentences of a tool that ask to be remembered or obeyed, to be quarantined."""
    candidates = [
        Candidate(
            text=sentence[:FACT_CHARACTERS_MAX],
            category="preference",
            importance=1,
            confidence=0.1,
            evidence=(utterance.event_id,),
            sayings=((utterance.event_id,),),
            role="tool",
            explicit=True,
        )
        for sentence in own_sentences(utterance.text)
        if _asks(sentence)
    ]
    return candidates[:TOOL_CANDIDATES_MAX]


def _asks(sentence: str) -> bool:
    asked = _ASKED.match(sentence)
    order = None if asked is None else asked["order"]
    if asked is not None and (order is None or order.lower() in ORDERS):
        return True
    return OVERRIDE.search(sentence) is not None


def _joined(earlier: Candidate | None, candidate: Candidate) -> Candidate:
    if earlier is None:
        return candidate
    return msgspec.structs.replace(
        candidate,
        text=earlier.text,
        importance=max(earlier.importance, candidate.importance),
        confidence=max(earlier.confidence, candidate.confidence),
        evidence=tuple(dict.fromkeys((*earlier.evidence, *candidate.evidence))),
        sayings=(*earlier.sayings, *candidate.sayings),
        explicit=earlier.explicit or candidate.explicit,
    )
