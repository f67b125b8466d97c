"""Episodes that answer a question, without the sentences that no longer hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.fading import DAY_MS, RECENT_DAYS
from treering.derive.outdated import Outdated, without_outdated
from treering.memory.recall_query import users_asked
from treering.model.episodes import episode_of
from treering.model.memories import RecalledEpisode

if TYPE_CHECKING:
    from treering.derive.memory_state import EpisodeRow, FactRow
    from treering.memory.nearness import Near
    from treering.memory.recall_query import RecallQuery
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.episodes import Episode
    from treering.model.events import Event

OUTDATED_MAX: Final = 500
"""Facts that no longer hold, the newest, which sentences of episodes are compared with."""


def recall_episodes(
    scope_memory: ScopeMemory, asking: RecallQuery, near: Near
) -> list[RecalledEpisode]:
    """Return the episodes that answer best, without what no longer holds."""
    import numpy as np  # noqa: PLC0415

    if asking.episodes <= 0:
        return []
    users, walls = users_asked(scope_memory, asking), asking.walls
    state = scope_memory.fold.state
    rows = [row for row in state.episodes.values() if row.user in users and row.wall in walls]
    if not rows:
        return []
    documents = np.array([scope_memory.shelf.at.get(row.position, -1) for row in rows], np.int64)
    like = near.of(documents, word_by_word=False)
    similarity, words, vector = like.similarity, like.words, like.vector
    age = np.maximum(asking.now_ms - np.array([row.ts_ms for row in rows], np.int64), 0)
    recency = np.exp(-age / (RECENT_DAYS * DAY_MS))
    score = similarity if near.has_query else recency
    kept = (
        np.flatnonzero(similarity >= asking.weights.episodes)
        if near.has_query
        else (np.arange(len(rows)))
    )
    order = kept[np.lexsort((-documents[kept], -score[kept]))].tolist()
    found: list[RecalledEpisode] = []
    outdated = _outdated(scope_memory, users, walls)
    while order and len(found) < asking.episodes:
        # A few at a time: of some nothing may be left.
        page, order = order[: asking.episodes], order[asking.episodes :]
        tellings = scope_memory.fold.tellings([rows[at].position for at in page])
        for at in page:
            hit = _episode(rows[at], tellings, outdated)
            if hit is not None:
                why = {
                    "words": round(float(words[at]), 4),
                    "vector": round(float(vector[at]), 4),
                    "recency": round(float(recency[at]), 4),
                }
                found.append(
                    msgspec.structs.replace(hit, score=round(float(score[at]), 4), why=why)
                )
    return found[: asking.episodes]


def _episode(
    row: EpisodeRow, tellings: dict[int, Event], outdated: list[Outdated]
) -> RecalledEpisode | None:
    """Return an episode without what no longer holds; None if nothing is left of it."""
    event = tellings.get(row.position)
    episode = None if event is None else episode_of(event)
    if episode is None:
        return None
    summary = without_outdated(episode, outdated)
    if not summary:
        return None
    return RecalledEpisode(
        id=row.id,
        session_id=episode.session_id,
        user=episode.user,
        started_ms=episode.started_ms,
        summary=summary,
        topics=_topics_left(episode, summary),
        score=0.0,
        why={},
        evidence=tuple(episode.evidence),
        notes=episode.notes,
    )


def _topics_left(episode: Episode, summary: str) -> tuple[str, ...]:
    """Return what an episode is about; if anything was left out, what the rest of it names."""
    if summary == episode.summary:
        return tuple(episode.topics)
    told = summary.casefold()
    return tuple(one for one in episode.topics if one.casefold() in told)


def _outdated(
    scope_memory: ScopeMemory, users: set[str | None], walls: frozenset[str | None]
) -> list[Outdated]:
    """Return what these users' facts said that no longer hold, the newest."""
    state = scope_memory.fold.state
    rows = [
        row
        for row in state.facts.values()
        if row.state in {"superseded", "forgotten"} and row.user in users and row.wall in walls
    ][-OUTDATED_MAX:]
    # One that was learnt twice at once holds still, in the other.
    rows = [row for row in rows if not _holds_still(state.facts, row)]
    tellings = scope_memory.fold.tellings([one.position for row in rows for one in row.tellings])
    return [
        Outdated(text=content["text"], evidence=frozenset(content.get("evidence", ())))
        for event in tellings.values()
        if isinstance(content := event.payload, dict) and isinstance(content.get("text"), str)
    ]


def _holds_still(facts: dict[str, FactRow], row: FactRow) -> bool:
    other = facts.get(row.superseded_by or "")
    return other is not None and other.statement == row.statement and other.state == "current"
