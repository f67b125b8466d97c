"""Memory values: facts with evidence and times, episodes, and receipts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, get_args

import msgspec

from treering.model.codec import valid_fields

if TYPE_CHECKING:
    from treering.model.events import Event

Category = Literal[
    "preference", "personal", "work", "habit", "relationship", "technical", "schedule"
]
CATEGORIES: Final[tuple[str, ...]] = get_args(Category)

FactState = Literal["current", "superseded", "archived", "forgotten", "quarantined", "refused"]
"""quarantined: not believed until somebody accepts it; refused: not worth storing."""
FACT_STATES: Final[tuple[str, ...]] = get_args(FactState)

Origin = Literal["user", "agent", "tool", "host"]
"""Who said it; the application itself is the host."""
ORIGINS: Final[tuple[str, ...]] = get_args(Origin)

Outcome = Literal["stored", "revised", "superseding", "known", "refused", "quarantined"]
"""superseding: stored, and a contradicted fact is no longer current; known: nothing was new."""

TEXT_CHARACTERS_MAX: Final = 500
EVIDENCE_MAX: Final = 50
"""The number of events that one version of a fact may cite."""
IMPORTANCE_DEFAULT: Final = 5
CONFIDENCE_DEFAULT: Final = 0.8
RECALL_DEFAULT: Final = 10
RECALL_MAX: Final = 100
EPISODES_DEFAULT: Final = 5
TURNS_DEFAULT: Final = 20
BUDGET_TOKENS: Final = 100_000
"""Tokens that models may use per scope and month, by default."""


class FactDetails(TypedDict, total=False):
    """Fields of a fact that only few callers state."""

    valid_from_ms: int | None
    valid_to_ms: int | None
    fact_id: str | None


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact to learn."""

    text: str
    user: str | None = None
    """The person it is about; None if it applies to the whole scope."""
    category: Category | None = None
    """None derives it from the text."""
    importance: int = IMPORTANCE_DEFAULT
    """From 1 to 10."""
    confidence: float = CONFIDENCE_DEFAULT
    """From 0 to 1."""
    evidence: tuple[str, ...] = ()
    """The ids of supporting events."""
    session_id: str | None = None
    """The session it was learnt in. A fact of a group session stays in that session."""
    valid_from_ms: int | None = None
    """When it became true; None is when it is recorded."""
    valid_to_ms: int | None = None
    """When it stops being true; None if unknown."""
    origin: Origin = "host"
    fact_id: str | None = None
    """An id of its own; learning the same id again changes nothing."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered statement."""

    id: str
    scope: str
    user: str | None
    text: str
    category: Category
    importance: int
    confidence: float
    """The confidence when it was learnt."""
    faded: float
    """The confidence now, reduced for lack of use."""
    state: FactState
    reason: str | None
    """Why it was refused, quarantined, archived or forgotten."""
    confirmed: bool
    """Whether somebody accepted it or several events support it."""
    source_session: str | None
    group: bool
    """Whether it belongs to a group session and stays there."""
    session_only: bool
    """Whether it is only recalled in ``source_session``, because no person is named there."""
    evidence: tuple[str, ...]
    evidence_gone: tuple[str, ...]
    """Evidence that has expired since."""
    created_ms: int
    last_accessed_ms: int
    access_count: int
    valid_from_ms: int
    valid_to_ms: int | None
    recorded_ms: int
    superseded_ms: int | None
    """When the ledger learnt that it is no longer true."""
    superseded_by: str | None
    event_id: str
    """The event with this version of the fact."""
    revisions: int


class LearnResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of learning a fact."""

    outcome: Outcome
    fact_id: str
    """The id of the fact that now holds it, or of the rejected attempt."""
    text: str
    reason: str | None = None
    hint: str | None = None
    superseded: tuple[str, ...] = ()
    """Ids of facts that are no longer current because of it."""
    event_id: str | None = None
    may_end: str | None = None
    """The id of a fact that it may have ended; ``Memory.settle`` decides."""
    signs: tuple[str, ...] | None = None
    """The signs that counted most where no rule knew whether it ends another fact."""

    @property
    def believed(self) -> bool:
        """Return whether it is believed from now on."""
        return self.outcome not in {"refused", "quarantined"}


class FactChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a fact."""

    event_id: str
    kind: str
    ts_ms: int
    recorded_ms: int
    text: str | None
    """The new text, if it changed."""
    state: FactState
    reason: str | None
    evidence: tuple[str, ...]
    signs: tuple[str, ...] = ()
    """The signs by which it was decided that another fact ended it, or may be ended by it."""


class DoubtfulChange(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that may have ended an earlier one: somebody should decide."""

    fact: Fact
    earlier: Fact
    signs: tuple[str, ...]
    """The signs that counted most for it."""


class RecalledFact(msgspec.Struct, frozen=True, kw_only=True):
    """A recalled fact and its score."""

    fact: Fact
    score: float
    similarity: float
    why: dict[str, float]
    """The components of the score: words, vector, importance, recency, …"""
    path: tuple[str, ...] = ()
    """The ids of the facts that lead to this one, if the question does not name it itself."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return the ids of supporting events."""
        return self.fact.evidence


class RecalledEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """A recalled episode and its score."""

    id: str
    session_id: str
    user: str | None
    started_ms: int
    summary: str
    """Without statements that are known to be outdated."""
    topics: tuple[str, ...]
    score: float
    why: dict[str, float]
    evidence: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Parts of a model's summary that could not be traced to events or were left out."""
    leads: bool = False
    """Whether it has more of the question's words than any of the turns."""


class RecalledTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A recalled message, word for word, and its score."""

    event_id: str
    session_id: str
    seq: int
    ts_ms: int
    speaker: str
    """The user or the agent."""
    text: str
    """Without sentences that are known to be outdated; of a long message, the part that matches."""
    score: float
    why: dict[str, float]

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return the id of the event."""
        return (self.event_id,)


class FadeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of archiving faded facts."""

    scope: str
    dry_run: bool
    now_ms: int
    looked_at: int
    archived: list[str]
    """Ids of facts that were not used for a long time."""
    below: float
    unused_days: int


class MergeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of merging two users."""

    scope: str
    user: str
    merged: str
    undone: bool
    facts: int
    """The number of facts that are shared from now on, or no longer."""
    event_id: str


class UserHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A person's name on one channel."""

    user: str
    channel: str
    handle: str
    since_ms: int


class ExtractReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of extracting facts from conversations."""

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
    """Why it stopped early: budget, …"""


class MaintenanceReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the maintenance of a memory."""

    scope: str
    is_busy: bool = False
    """Whether another process is doing it, so nothing was done here."""
    messages_read: int = 0
    facts_learned: int = 0
    facts_to_review: int = 0
    stopped: str | None = None
    """Why reading stopped early: budget, …"""
    episodes_written: int = 0
    facts_archived: int = 0
    embedded: int = 0
    """Facts and episodes whose vectors were made by a better embedder."""


class FactAudit(msgspec.Struct, frozen=True, kw_only=True):
    """A report on the quality of the remembered facts."""

    scope: str
    facts: int
    """The number of current facts."""
    by_state: dict[str, int]
    by_category: dict[str, int]
    refused_by_reason: dict[str, int]
    unconfirmed: int
    without_evidence: list[str]
    evidence_gone: list[str]
    """Facts with no evidence left."""
    near_duplicates: list[tuple[str, str]]
    never_used: int
    faded: int
    """Facts below the archiving threshold that are not archived yet."""
    vectors_missing: int
    """Facts without a vector of the current embedder."""
    score: float
    """From 0 to 1: the share of current facts without any finding."""


EPISODE: Final = "episode.written"

Mood = Literal["neutral", "positive", "negative", "mixed", "grateful", "frustrated"]
"""How people sounded, judging by their words."""


class Sentence(msgspec.Struct, frozen=True):
    """One sentence of a summary, and the ids of the events that support it.

    The ids are empty if a model wrote it and it could not be traced to any event.
    """

    text: str
    event_ids: tuple[str, ...]


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a session's messages since the previous episode."""

    id: str
    """The id of its event."""
    user: str | None
    """The person it is about; None in a group."""
    session_id: str
    started_ms: int
    """When the session began."""
    from_ms: int
    """When the covered part of the session began."""
    ended_ms: int
    summary: str
    topics: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    action_items: tuple[str, ...] = ()
    outcome: str = ""
    tone: Mood = "neutral"
    duration_minutes: float = 0.0
    message_count: int = 0
    evidence: tuple[str, ...] = ()
    """The ids of the supporting events, without repeats."""
    sentences: tuple[Sentence, ...] = ()
    """The summary, sentence by sentence."""
    notes: tuple[str, ...] = ()
    """Parts of a model's summary that could not be traced to events or were left out."""


class _EpisodePayload(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an episode's event."""

    user: str | None = None
    session_started_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    summary: str = ""
    topics: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()
    action_items: tuple[str, ...] = ()
    outcome: str = ""
    tone: Mood = "neutral"
    duration_minutes: float = 0.0
    message_count: int = 0
    notes: tuple[str, ...] = ()


def episode_of(event: Event) -> Episode | None:
    """Return the episode in an event; None if it holds none or was erased.

    Fields that older events lack stay empty; the session then starts with the covered part.
    """
    payload = event.payload
    if event.kind != EPISODE or event.redacted or not isinstance(payload, dict):
        return None
    fields = msgspec.convert(valid_fields(_EpisodePayload, payload), _EpisodePayload)
    if not fields.summary.strip():
        return None
    from_ms = event.ts_ms if fields.started_ms is None else fields.started_ms
    return Episode(
        id=event.event_id, user=fields.user, session_id=event.session_id,
        started_ms=from_ms if fields.session_started_ms is None else fields.session_started_ms,
        from_ms=from_ms, ended_ms=event.ts_ms if fields.ended_ms is None else fields.ended_ms,
        summary=fields.summary, topics=fields.topics, key_decisions=fields.key_decisions,
        action_items=fields.action_items, outcome=fields.outcome, tone=fields.tone,
        duration_minutes=fields.duration_minutes, message_count=fields.message_count,
        evidence=(cited := tuple(dict.fromkeys(_event_ids(payload.get("evidence"))))),
        sentences=_sentences(payload.get("evidence")) or (Sentence(fields.summary, cited),),
        notes=fields.notes,
    )  # fmt: skip


def _sentences(evidence: Any) -> tuple[Sentence, ...]:
    lines = evidence if isinstance(evidence, list) else []
    return tuple(
        Sentence(line["text"], tuple(_event_ids([line])))
        for line in lines
        if isinstance(line, dict)
        and line.get("section") == "Summary"
        and isinstance(line.get("text"), str)
    )


def _event_ids(evidence: Any) -> list[str]:
    lines = evidence if isinstance(evidence, list) else []
    listed = [line.get("event_ids") for line in lines if isinstance(line, dict)]
    return [id_ for ids in listed if isinstance(ids, list) for id_ in ids if isinstance(id_, str)]
