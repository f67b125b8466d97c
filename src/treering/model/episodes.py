"""Episodes: what a stretch of a session was about, as it is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.model.codec import sound_fields

if TYPE_CHECKING:
    from treering.model.events import Event

EPISODE: Final = "episode.written"

Mood = Literal["neutral", "positive", "negative", "mixed", "grateful", "frustrated"]
"""How people sounded, as far as their words say so."""


class Sentence(msgspec.Struct, frozen=True):
    """One sentence of a summary, and the ids of the events that say so.

    None are named if a model wrote it and it could not be traced to what was said.
    """

    text: str
    event_ids: tuple[str, ...]


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """What was said in a session between one episode and the next."""

    id: str
    """That of its event."""
    user: str | None
    """Whom it is about; None in a group."""
    session_id: str
    started_ms: int
    """When the session began."""
    from_ms: int
    """When the part of the session that it covers began."""
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
    """The ids of the events that say so, each once."""
    sentences: tuple[Sentence, ...] = ()
    """The summary, sentence by sentence."""
    notes: tuple[str, ...] = ()
    """What of a model's summary could not be traced to what was said, or was left out."""


class _EpisodePayload(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode's event may hold."""

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
    """Return the episode that an event holds; None if it holds none, or no more.

    What an older event does not say is left empty; the session began with its stretch then.
    """
    payload = event.payload
    if event.kind != EPISODE or event.redacted or not isinstance(payload, dict):
        return None
    told = msgspec.convert(sound_fields(_EpisodePayload, payload), _EpisodePayload)
    if not told.summary.strip():
        return None
    from_ms = event.ts_ms if told.started_ms is None else told.started_ms
    return Episode(
        id=event.event_id,
        user=told.user,
        session_id=event.session_id,
        started_ms=from_ms if told.session_started_ms is None else told.session_started_ms,
        from_ms=from_ms,
        ended_ms=event.ts_ms if told.ended_ms is None else told.ended_ms,
        summary=told.summary,
        topics=told.topics,
        key_decisions=told.key_decisions,
        action_items=told.action_items,
        outcome=told.outcome,
        tone=told.tone,
        duration_minutes=told.duration_minutes,
        message_count=told.message_count,
        evidence=(cited := tuple(dict.fromkeys(_event_ids(payload.get("evidence"))))),
        sentences=_sentences(payload.get("evidence")) or (Sentence(told.summary, cited),),
        notes=told.notes,
    )


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
    return [one for ids in listed if isinstance(ids, list) for one in ids if isinstance(one, str)]
