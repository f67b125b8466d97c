"""Memories as values: facts with their evidence and times, and what is asked of them."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

Category = Literal[
    "preference", "personal", "work", "habit", "relationship", "technical", "schedule"
]
CATEGORIES: Final[tuple[str, ...]] = get_args(Category)

FactState = Literal["current", "superseded", "archived", "forgotten", "quarantined", "refused"]
"""quarantined: not believed until somebody accepts it; refused: not worth keeping."""
FACT_STATES: Final[tuple[str, ...]] = get_args(FactState)

Origin = Literal["user", "agent", "tool", "host"]
"""Who said it: the application itself is the host."""
ORIGINS: Final[tuple[str, ...]] = get_args(Origin)

Outcome = Literal["stored", "revised", "superseding", "known", "refused", "quarantined"]
"""superseding: stored, and what it contradicts is no longer current; known: nothing was new."""

TEXT_CHARACTERS_MAX: Final = 500
EVIDENCE_MAX: Final = 50
"""Events that one telling of a fact may cite."""
IMPORTANCE_DEFAULT: Final = 5
CONFIDENCE_DEFAULT: Final = 0.8
RECALL_DEFAULT: Final = 10
RECALL_MAX: Final = 100
EPISODES_DEFAULT: Final = 5


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as it is to be learnt."""

    text: str
    user: str | None = None
    """The person that it is about; None for what holds in the whole scope."""
    category: Category | None = None
    """None derives it from the text."""
    importance: int = IMPORTANCE_DEFAULT
    """From 1 to 10."""
    confidence: float = CONFIDENCE_DEFAULT
    """From 0 to 1."""
    evidence: tuple[str, ...] = ()
    """The ids of events that say so."""
    session_id: str | None = None
    """The session that it was learnt in. One of a group keeps it to itself."""
    valid_from_ms: int | None = None
    """Since when it has been so; None is when it is recorded."""
    valid_to_ms: int | None = None
    """Until when; None is not known."""
    origin: Origin = "host"
    fact_id: str | None = None
    """An id of its own; the same again changes nothing."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered statement."""

    id: str
    scope: str
    user: str | None
    text: str
    category: Category
    importance: int
    confidence: float
    """As it was learnt."""
    faded: float
    """What is left of it, for want of use."""
    state: FactState
    reason: str | None
    """Why it was refused, quarantined, archived or forgotten."""
    confirmed: bool
    """Accepted by somebody, or supported by several events."""
    source_session: str | None
    group: bool
    """Whether it belongs to a group, and stays there."""
    session_only: bool
    """Whether it is recalled in ``source_session`` alone, for nobody is named there."""
    evidence: tuple[str, ...]
    evidence_gone: tuple[str, ...]
    """Those of them that have expired since."""
    created_ms: int
    last_accessed_ms: int
    access_count: int
    valid_from_ms: int
    valid_to_ms: int | None
    recorded_ms: int
    superseded_ms: int | None
    """When the ledger learnt that it no longer holds."""
    superseded_by: str | None
    event_id: str
    """The event that tells it as it stands here."""
    revisions: int


class LearnResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of something that was to be learnt."""

    outcome: Outcome
    fact_id: str
    """Of the fact that holds it now; of the attempt, if it was not taken."""
    text: str
    reason: str | None = None
    hint: str | None = None
    superseded: tuple[str, ...] = ()
    """Ids of facts that are no longer current because of it."""
    event_id: str | None = None

    @property
    def believed(self) -> bool:
        """Whether it is believed from now on."""
        return self.outcome not in {"refused", "quarantined"}


class FactChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a fact."""

    event_id: str
    kind: str
    ts_ms: int
    recorded_ms: int
    text: str | None
    """What it said from then on, if that changed."""
    state: FactState
    reason: str | None
    evidence: tuple[str, ...]


class RecalledFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that was found, and why."""

    fact: Fact
    score: float
    similarity: float
    why: dict[str, float]
    """What the score is made of: words, vector, importance, recency, …"""

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return the ids of events that say so."""
        return self.fact.evidence


class RecalledEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was found, and why."""

    id: str
    session_id: str
    user: str | None
    started_ms: int
    summary: str
    """Without what is known to hold no longer."""
    topics: tuple[str, ...]
    score: float
    why: dict[str, float]
    evidence: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What of a model's summary could not be traced to what was said, or was left out."""


class FadeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What fading came to."""

    scope: str
    dry_run: bool
    now_ms: int
    looked_at: int
    archived: list[str]
    """Ids of facts that nobody used for long."""
    below: float
    unused_days: int


class MergeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What merging two users came to."""

    scope: str
    user: str
    merged: str
    undone: bool
    facts: int
    """Facts that are shared from now on, or no longer."""
    event_id: str


class UserHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A person's name on one channel."""

    user: str
    channel: str
    handle: str
    since_ms: int


class ExtractReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What reading conversations for facts came to."""

    scope: str
    sessions: int
    messages: int
    """Messages that were read."""
    candidates: int
    learned: list[LearnResult]
    by: str
    """What read them: rules, or a model."""
    calls: int = 0
    """Calls of a model."""
    spent_tokens: int = 0
    stopped: str | None = None
    """Why it did not read all: budget, …"""


class FactAudit(msgspec.Struct, frozen=True, kw_only=True):
    """How sound what is remembered is."""

    scope: str
    facts: int
    """Current ones."""
    by_state: dict[str, int]
    by_category: dict[str, int]
    refused_by_reason: dict[str, int]
    unconfirmed: int
    without_evidence: list[str]
    evidence_gone: list[str]
    """Facts of which no evidence is left."""
    near_duplicates: list[tuple[str, str]]
    never_used: int
    faded: int
    """Below what fading archives, and not archived yet."""
    vectors_missing: int
    """Facts without a vector of the embedder in use."""
    score: float
    """From 0 to 1: the share of current facts that nothing is to be said against."""
