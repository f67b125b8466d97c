"""Episodes: remembered summaries of parts of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.model.codec import valid_fields

if TYPE_CHECKING:
    from treering.model.events import Event

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
        id=event.event_id,
        user=fields.user,
        session_id=event.session_id,
        started_ms=from_ms if fields.session_started_ms is None else fields.session_started_ms,
        from_ms=from_ms,
        ended_ms=event.ts_ms if fields.ended_ms is None else fields.ended_ms,
        summary=fields.summary,
        topics=fields.topics,
        key_decisions=fields.key_decisions,
        action_items=fields.action_items,
        outcome=fields.outcome,
        tone=fields.tone,
        duration_minutes=fields.duration_minutes,
        message_count=fields.message_count,
        evidence=(cited := tuple(dict.fromkeys(_event_ids(payload.get("evidence"))))),
        sentences=_sentences(payload.get("evidence")) or (Sentence(fields.summary, cited),),
        notes=fields.notes,
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
    return [id_ for ids in listed if isinstance(ids, list) for id_ in ids if isinstance(id_, str)]
