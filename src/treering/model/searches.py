"""What a search finds: hits with their scores and why, by session."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

SNIPPET_CHARACTERS_MAX: Final = 200
HITS_DEFAULT: Final = 10
HITS_MAX: Final = 200
"""The most that one search shows."""

SearchMode = Literal["words", "hybrid", "semantic"]
"""words: all of them are there; semantic: it means about that; hybrid: both, and what is around."""
SEARCH_MODES: Final[tuple[str, ...]] = get_args(SearchMode)


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """One event that was found."""

    event_id: str
    session_id: str
    seq: int
    ts_ms: int
    kind: str
    agent_id: str
    tool: str | None
    run_id: str | None
    score: float
    """From 0 to 1: comparable within one result."""
    snippet: str
    """What it says around the first match, on one line, secrets masked."""
    spans: list[tuple[int, int]]
    """Where matches are in the snippet: from, up to."""
    why: dict[str, float]
    """What the score is made of: words, nearness, kind, recency; or words, vector, neighbours,
    passage, session, recency."""


class SessionHits(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one session."""

    session_id: str
    title: str | None
    agent_id: str
    count: int
    """Matches in the session, among those that were looked at."""
    best: float
    hits: list[SearchHit]
    """The best first."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, the best session first."""

    scope: str
    query: str
    mode: SearchMode
    sessions: list[SessionHits]
    total: int
    """How many events match."""
    at_least: bool
    """There are more: only the newest matches were counted and ranked."""
    lag: int
    """Events that are recorded and not searchable yet."""
    took_ms: float
    widened: list[str] = []
    """Words that were taken for beginnings, as in ``deploy*``: as they stand, nothing has them."""
    vectors_missing: int = 0
    """Events that are found by words only: the embedder in use made no vector of them."""

    @property
    def hits(self) -> list[SearchHit]:
        """Return all hits, the best first."""
        every = [hit for session in self.sessions for hit in session.hits]
        return sorted(every, key=lambda hit: (-hit.score, -hit.ts_ms, hit.event_id))


class SearchCandidate(msgspec.Struct, frozen=True, gc=False):
    """One event that matches, before it is read."""

    session_id: str
    seq: int
    ts_ms: int
    kind: str
    words: float
    """How well the words match, from 0 to 1."""
    is_inside: bool = False
    """Something was found as part of a name only, and has to be looked at again."""


class SearchCandidates(msgspec.Struct, frozen=True):
    """The newest events that match."""

    items: list[SearchCandidate]
    more: bool
    """There are older ones that were not looked at."""
