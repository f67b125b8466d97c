"""Snippets: the part of a text around the words that were searched for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.search_texts import tool_of
from treering.model.search_words import holds_inside, word_list, words_in
from treering.model.searches import SNIPPET_CHARACTERS_MAX, SearchHit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.events import Event
    from treering.model.search_queries import Term

_BEFORE: Final = 60
"""Characters shown before the first match."""
_SPANS_MAX: Final = 20
_BLANKS: Final = re.compile(r"\s+")
_CUT: Final = "…"
_PLAIN_WORD: Final = re.compile(r"[a-z0-9]+")
"""A word of an ASCII text in small letters."""


class TermMatches(msgspec.Struct, frozen=True):
    """Where the terms of a query occur in a text."""

    spans: list[tuple[int, int]]
    found: int
    """How many of the terms occur."""
    nearness: float
    """1 if they are adjacent and in order, towards 0 the further they are apart."""


def find_terms(text: str, terms: Sequence[Term]) -> TermMatches:
    """Find ``terms`` in a text."""
    # Most texts of an event have none of them, or few.
    small = text.lower() if text.isascii() else None
    may_occur = [small is None or term.words[-1] in small for term in terms]
    if not any(may_occur) and all(term.inside is None for term in terms):
        return TermMatches([], 0, 0.0)
    if small is None:
        words = list(words_in(text))
        spelt, places = [word.word for word in words], [(word.start, word.end) for word in words]
    else:
        spelt, places = word_list(text), [match.span() for match in _PLAIN_WORD.finditer(small)]
    indexes = [
        _places(spelt, term) if may else [] for term, may in zip(terms, may_occur, strict=True)
    ]
    spans: list[tuple[int, int]] = []
    count = 0
    for term, at in zip(terms, indexes, strict=True):
        substring = None if at or term.inside is None else holds_inside(text, term.inside)
        count += bool(at) or substring is not None
        spans += [
            (places[index][0], places[index + len(term.words) - 1][1]) for index in at[:_SPANS_MAX]
        ]
        if substring is not None:
            spans.append(substring)
    return TermMatches(_merged(spans), count, _nearness(indexes, terms))


def search_hit(
    event: Event,
    text: str,
    spans: Sequence[tuple[int, int]],
    *,
    score: float,
    why: dict[str, float],
) -> SearchHit:
    """Return the hit of an event in ``text``; ``spans`` are the matches in it."""
    snippet, marked = snippet_of(text, spans)
    return SearchHit(
        scope=event.scope, event_id=event.event_id, session_id=event.session_id, seq=event.seq,
        ts_ms=event.ts_ms, kind=event.kind, agent_id=event.agent_id, tool=tool_of(event),
        run_id=event.run_id, score=round(score, 4), snippet=snippet, spans=marked, why=why,
    )  # fmt: skip


def snippet_of(text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """Return a one-line snippet around the first match, and the spans of matches in it."""
    start = max(spans[0][0] - _BEFORE, 0) if spans else 0
    if start:
        # Start at the beginning of a word, if one begins soon.
        blank = text.find(" ", start, spans[0][0])
        start = start if blank < 0 else blank + 1
    shown, at, marked = _CUT if start else "", start, list[tuple[int, int]]()
    for first, last in spans:
        if first < at or len(shown) >= SNIPPET_CHARACTERS_MAX:
            continue
        shown += _BLANKS.sub(" ", text[at:first])
        begin = len(shown)
        shown += _BLANKS.sub(" ", text[first:last])
        if len(shown) > SNIPPET_CHARACTERS_MAX - 1:
            break
        marked.append((begin, len(shown)))
        at = last
    shown += _BLANKS.sub(" ", text[at : at + SNIPPET_CHARACTERS_MAX])
    stripped = shown.rstrip()
    if len(stripped) > SNIPPET_CHARACTERS_MAX or at + SNIPPET_CHARACTERS_MAX < len(text):
        stripped = stripped[: SNIPPET_CHARACTERS_MAX - 1] + _CUT
    lead = len(stripped) - len(stripped.lstrip())
    return stripped[lead:], [
        (begin - lead, end - lead) for begin, end in marked if end <= len(stripped)
    ]


def _places(spelt: list[str], term: Term) -> list[int]:
    """Return the indexes of the words at which a term begins."""
    wanted, last = list(term.words[:-1]), term.words[-1]
    candidates = range(len(wanted), len(spelt))
    if term.is_prefix:
        ends = [at for at in candidates if spelt[at].startswith(last)]
    else:
        ends = [at for at in candidates if spelt[at] == last]
    return [at - len(wanted) for at in ends if spelt[at - len(wanted) : at] == wanted]


def _nearness(indexes: list[list[int]], terms: Sequence[Term]) -> float:
    if len(indexes) < 2:
        return 1.0 if indexes and indexes[0] else 0.0
    near = 0.0
    for index in range(len(indexes) - 1):
        gap = _gap(indexes[index], indexes[index + 1], len(terms[index].words))
        near += 0.0 if gap is None else 1.0 / (1.0 + gap / 4.0)
    return near / (len(indexes) - 1)


def _gap(here: list[int], there: list[int], length: int) -> int | None:
    """Return the number of words between the nearest two; reversed order counts as one more."""
    best = None
    for left in here[:_SPANS_MAX]:
        for right in there[:_SPANS_MAX]:
            gap = right - left - length if right > left else left - right
            best = gap if best is None else min(best, gap)
    return None if best is None else max(best, 0)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
