"""Results of a search: hits with scores and explanations, by session."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeVar, get_args

import msgspec

Place = TypeVar("Place", int, tuple[int, int])

SNIPPET_CHARACTERS_MAX: Final = 200
HITS_DEFAULT: Final = 10
HITS_MAX: Final = 200
"""The most hits that one search returns."""

SearchMode = Literal["words", "hybrid", "semantic"]
"""words: all words occur, or else the most of them; semantic: similar meaning; hybrid: both, and
neighbouring events."""
SEARCH_MODES: Final[tuple[str, ...]] = get_args(SearchMode)


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """One matching event."""

    scope: str
    event_id: str
    session_id: str
    seq: int
    ts_ms: int
    kind: str
    agent_id: str
    tool: str | None
    run_id: str | None
    score: float
    """From 0 to 1; comparable within one result."""
    snippet: str
    """The text around the first match, on one line, with secrets masked."""
    spans: list[tuple[int, int]]
    """The matches in the snippet: start and end."""
    why: dict[str, float]
    """The components of the score: words, nearness, kind, recency; or words, vector, neighbours,
    passage, session, recency."""
    partial: bool = False
    """Whether only some words of the query match, or other forms of them; after all others."""


class SessionHits(msgspec.Struct, frozen=True, kw_only=True):
    """The hits in one session."""

    scope: str
    session_id: str
    title: str | None
    agent_id: str
    count: int
    """Matches in the session, among those examined."""
    best: float
    hits: list[SearchHit]
    """Best first."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search, best session first."""

    scope: str | None
    """None: all scopes."""
    query: str
    mode: SearchMode
    sessions: list[SessionHits]
    total: int
    """The number of matching events; if none has all words, of those that match in part."""
    at_least: bool
    """Whether there are more: only the newest matches were counted and ranked."""
    lag: int
    """Recorded events that are not searchable yet."""
    took_ms: float
    widened: list[str] = []
    """Words that were used as prefixes, as in ``deploy*``, because they have no exact match."""
    vectors_missing: int = 0
    """Events found by words only: they have no vector of the current embedder."""

    @property
    def hits(self) -> list[SearchHit]:
        """Return all hits, best first."""
        hits = [hit for session in self.sessions for hit in session.hits]
        return sorted(hits, key=lambda hit: (hit.partial, -hit.score, -hit.ts_ms, hit.event_id))


class SearchCandidate(msgspec.Struct, frozen=True, gc=False):
    """A matching event, before it is read."""

    session_id: str
    seq: int
    ts_ms: int
    kind: str
    words: float
    """How well the words match, from 0 to 1."""
    is_inside: bool = False
    """Whether a match is only part of a name, and must be checked again."""


def best_shares(
    matches: Sequence[Sequence[Place]], documents: int, *, least: int, limit: int
) -> tuple[dict[Place, float], bool]:
    """Return the places with the largest shares of words, best first, and whether there are more.

    A share is from 0 to 1; a rare word counts more. ``matches`` are the places with each word,
    ``documents`` is the number of all places. Places with fewer than ``least`` words are left out.
    """
    weights = [math.log1p((documents + 1) / (len(places) + 0.5)) for places in matches]
    whole = sum(weights)
    words = [(weight / whole, places) for weight, places in zip(weights, matches, strict=True)]
    every: set[Place] = set()
    several: set[Place] = set()
    for places in matches:
        several |= every.intersection(places)
        every |= set(places)
    shares: dict[Place, float] = dict.fromkeys(several, 0.0)
    for share, places in words:
        for place in several.intersection(places):
            shares[place] += share
    if least > 1:
        counts = Counter(place for places in matches for place in several.intersection(places))
        shares = {place: share for place, share in shares.items() if counts[place] >= least}
        count = len(shares)
    else:
        count = len(every)
        # Most places have one word, and those with the same have the same share: few are compared.
        singles, last = 0, 0.0
        for share, places in sorted(words, key=lambda word: -word[0]):
            if singles >= limit and share < last:
                break
            best = sorted((place for place in places if place not in several), reverse=True)[:limit]
            shares.update(dict.fromkeys(best, share))
            singles, last = singles + len(best), share
    order = heapq.nlargest(limit, shares, key=lambda place: (shares[place], place))
    return {place: shares[place] for place in order}, len(order) < count


class SearchCandidates(msgspec.Struct, frozen=True):
    """The newest matching events."""

    items: list[SearchCandidate]
    more: bool
    """Whether there are older ones that were not examined."""
