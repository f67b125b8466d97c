"""Episodes that answer a query, without sentences that are out of date."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from treering.memory.fact_columns import FORGOTTEN, SUPERSEDED
from treering.memory.fading import DAY_MS, RECENT_DAYS
from treering.memory.recall_query import searched_users
from treering.model.memories import RecalledEpisode, RecalledTurn, episode_of
from treering.rules.terms import terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.derive.fact_rows import FactRow
    from treering.derive.memory_state import EpisodeRow
    from treering.memory.recall_query import RecallQuery
    from treering.memory.scope_memory import ScopeMemory
    from treering.memory.similarity import QuerySimilarity
    from treering.model.events import Event
    from treering.model.memories import Episode

SHARED_WITH_EVIDENCE: Final = 0.5
"""A sentence that cites evidence of an outdated fact repeats it if it shares half of its words."""
SHARED: Final = 0.8
"""Any other sentence repeats it if it shares this part of its words."""
TEXTS_HELD: Final = 8_192
TERMS_MIN: Final = 4
"""Fewer words of a summary say nothing."""

OUTDATED_MAX: Final = 500
"""The newest superseded facts that sentences of episodes are compared with."""


def recall_episodes(
    scope_memory: ScopeMemory, query: RecallQuery, similarities: QuerySimilarity
) -> list[RecalledEpisode]:
    """Return the best episodes, without sentences that are out of date."""
    import numpy as np  # noqa: PLC0415

    if query.episodes <= 0:
        return []
    users, walls = searched_users(scope_memory, query), query.walls
    state = scope_memory.fold.state
    rows = [row for row in state.episodes.values() if row.user in users and row.wall in walls]
    if not rows:
        return []
    documents = np.array(
        [scope_memory.documents.at.get(row.position, -1) for row in rows], np.int64
    )
    match = similarities.to(documents, word_by_word=False)
    similarity, words, vector = match.similarity, match.words, match.vector
    age = np.maximum(query.now_ms - np.array([row.ts_ms for row in rows], np.int64), 0)
    recency = np.exp(-age / (RECENT_DAYS * DAY_MS))
    score = similarity if similarities.has_query else recency
    eligible = (
        np.flatnonzero(similarity >= query.weights.episodes)
        if similarities.has_query
        else (np.arange(len(rows)))
    )
    order = eligible[np.lexsort((-documents[eligible], -score[eligible]))].tolist()
    episodes: list[RecalledEpisode] = []
    outdated = outdated_facts(scope_memory, users, walls)
    while order and len(episodes) < query.episodes:
        # Fetch a few at a time: some episodes may have no sentence left.
        page, order = order[: query.episodes], order[query.episodes :]
        events = scope_memory.fold.events_at([rows[at].position for at in page])
        for at in page:
            hit = _episode(rows[at], events, outdated)
            if hit is not None:
                why = {
                    "words": round(float(words[at]), 4),
                    "vector": round(float(vector[at]), 4),
                    "recency": round(float(recency[at]), 4),
                }
                episodes.append(
                    msgspec.structs.replace(hit, score=round(float(score[at]), 4), why=why)
                )
    return episodes[: query.episodes]


def leading_first(
    episodes: Sequence[RecalledEpisode], turns: Sequence[RecalledTurn], query: str | None
) -> list[RecalledEpisode]:
    """Return episodes, first those that have more words of the question than any turn."""
    wanted = frozenset(terms(query or ""))
    turns_have = max((len(wanted.intersection(terms(turn.text))) for turn in turns), default=0)
    marked = [
        msgspec.structs.replace(
            episode, leads=bool(turns) and len(wanted & _words(episode.summary)) > turns_have
        )
        for episode in episodes
    ]
    return sorted(marked, key=lambda episode: not episode.leads)


def _episode(
    row: EpisodeRow, events: dict[int, Event], outdated: list[Outdated]
) -> RecalledEpisode | None:
    """Return an episode without its outdated sentences; None if none is left."""
    event = events.get(row.position)
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
    """Return the topics of an episode; if sentences were left out, only those still mentioned."""
    if summary == episode.summary:
        return tuple(episode.topics)
    text = summary.casefold()
    return tuple(topic for topic in episode.topics if topic.casefold() in text)


def outdated_facts(
    scope_memory: ScopeMemory, users: set[str | None], walls: frozenset[str | None]
) -> list[Outdated]:
    """Return the newest facts of these users that no longer hold."""
    facts, columns = scope_memory.fold.state.facts, scope_memory.columns
    newest = scope_memory.columns.visible_to(users, walls, states=(SUPERSEDED, FORGOTTEN))
    rows = [facts[columns.ids[at]] for at in newest[-OUTDATED_MAX:].tolist()]
    # A fact that was learned twice at the same time still holds in its twin.
    rows = [row for row in rows if not _holds_still(facts, row)]
    events = scope_memory.fold.events_at(
        [assertion.position for row in rows for assertion in row.assertions]
    )
    return [
        Outdated(text=content["text"], evidence=frozenset(content.get("evidence", ())))
        for event in events.values()
        if isinstance(content := event.payload, dict) and isinstance(content.get("text"), str)
    ]


def _holds_still(facts: Mapping[str, FactRow], row: FactRow) -> bool:
    other = facts.get(row.superseded_by or "")
    return other is not None and other.statement == row.statement and other.state == "current"


class Outdated(msgspec.Struct, frozen=True):
    """A fact that no longer holds."""

    text: str
    evidence: frozenset[str]


def without_outdated(episode: Episode, outdated: Sequence[Outdated]) -> str:
    """Return the summary of an episode without sentences that repeat outdated facts.

    Empty if nothing else is left.
    """
    if not outdated:
        return episode.summary
    sentences = [
        sentence.text
        for sentence in episode.sentences
        if not any(repeats(sentence.text, sentence.event_ids, fact) for fact in outdated)
    ]
    if len(sentences) < len(episode.sentences) and len(_words(" ".join(sentences))) < TERMS_MIN:
        # The ending alone says nothing without its subject.
        return ""
    return " ".join(sentences)


def repeats(text: str, event_ids: Sequence[str], outdated: Outdated) -> bool:
    """Return whether a sentence that cites these events repeats an outdated fact."""
    words = _words(outdated.text)
    if not words:
        return False
    shared = len(words & _words(text)) / len(words)
    cites = not outdated.evidence.isdisjoint(event_ids)
    return shared >= (SHARED_WITH_EVIDENCE if cites else SHARED)


@lru_cache(maxsize=TEXTS_HELD)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))
