"""Recall: facts and episodes that answer a question, the best first, and why.

Only what the one who asks may know is looked at. What no longer holds is never among it, and no
sentence of an episode brings it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from treering.derive.fading import DAY_MS, RECENT_DAYS
from treering.derive.memory_state import FactRow, believed, held_at, telling_at
from treering.memory.columns import CURRENT
from treering.memory.fact_gate import mine
from treering.memory.facts import facts_of
from treering.memory.nearness import Near
from treering.memory.recall_episodes import recall_episodes
from treering.memory.recall_query import users_asked
from treering.model.memories import RecalledEpisode, RecalledFact

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from treering.ledger.memory_factory import Recorder
    from treering.memory.recall_query import RecallQuery
    from treering.memory.scope_memory import ScopeMemory

    Scores = NDArray[np.float32]


class RecallMatches(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, before it is recorded."""

    facts: list[RecalledFact]
    episodes: list[RecalledEpisode]


def recall(scope_memory: ScopeMemory, asking: RecallQuery, recorder: Recorder) -> RecallMatches:
    """Return what answers the question. Hold the lock, and refresh before."""
    near = Near(scope_memory, asking.query)
    return RecallMatches(
        facts=_facts(scope_memory, asking, near, recorder),
        episodes=recall_episodes(scope_memory, asking, near),
    )


def _facts(
    scope_memory: ScopeMemory, asking: RecallQuery, near: Near, recorder: Recorder
) -> list[RecalledFact]:
    import numpy as np  # noqa: PLC0415

    candidates = _candidates(scope_memory, asking)
    if not asking.limit or not len(candidates.documents):
        return []
    weights = asking.weights
    like = near.of(candidates.documents, word_by_word=True)
    similarity, words, vector = like.similarity, like.words, like.vector
    age = np.maximum(asking.now_ms - candidates.accessed, 0)
    recency = np.exp(-age / (RECENT_DAYS * DAY_MS))
    score = (
        weights.importance * candidates.importance
        + weights.similarity * like.match
        + weights.recency * recency
    ).astype(np.float32)
    floor = np.where(
        candidates.current | asking.include_archived, weights.threshold, weights.archived
    )
    kept = similarity >= floor if near.has_query else candidates.current | asking.include_archived
    order = _ordered(np.flatnonzero(kept), score, candidates.documents, asking.limit * 4)
    rows = _best(scope_memory, asking, candidates, order)
    told = facts_of(scope_memory, [row for row, _ in rows], recorder, as_of_ms=asking.as_of_ms)
    by_id = {fact.id: fact for fact in told}
    return [
        RecalledFact(
            fact=by_id[row.id],
            score=round(float(score[at]), 4),
            similarity=round(float(similarity[at]), 4),
            why={
                "words": round(float(words[at]), 4),
                "vector": round(float(vector[at]), 4),
                "match": round(float(like.match[at]), 4),
                "importance": round(float(candidates.importance[at]), 4),
                "recency": round(float(recency[at]), 4),
            },
        )
        for row, at in rows
        if row.id in by_id
    ]


def _ordered(
    chosen: NDArray[np.int64], score: Scores, documents: NDArray[np.int64], limit: int
) -> list[int]:
    """Return the best of those chosen, the best first; of equals, the newer."""
    import numpy as np  # noqa: PLC0415

    if len(chosen) > limit:
        bound = np.partition(score[chosen], len(chosen) - limit)[len(chosen) - limit]
        chosen = chosen[score[chosen] >= bound]
    order: list[int] = chosen[np.lexsort((-documents[chosen], -score[chosen]))].tolist()
    return order


class _Candidates(NamedTuple):
    """Facts that the one who asks may know, as columns."""

    ids: Callable[[int], str]
    documents: NDArray[np.int64]
    current: NDArray[np.bool_]
    importance: Scores
    accessed: NDArray[np.int64]


def _candidates(scope_memory: ScopeMemory, asking: RecallQuery) -> _Candidates:
    import numpy as np  # noqa: PLC0415

    if asking.as_of_ms is not None:
        return _believed(scope_memory, asking, asking.as_of_ms)
    columns = scope_memory.columns
    facts = mine(scope_memory, users_asked(scope_memory, asking), set(asking.walls))
    since, until = columns.column("valid_from")[facts], columns.column("valid_to")[facts]
    facts = facts[(since <= asking.now_ms) & (until > asking.now_ms)]
    return _Candidates(
        ids=lambda at: columns.ids[int(facts[at])],
        documents=columns.column("document")[facts].astype(np.int64),
        current=columns.column("state")[facts] == CURRENT,
        importance=columns.column("importance")[facts],
        accessed=columns.column("accessed")[facts],
    )


def _believed(scope_memory: ScopeMemory, asking: RecallQuery, at_ms: int) -> _Candidates:
    """Return what was believed at a time, as it was told then."""
    import numpy as np  # noqa: PLC0415

    users = users_asked(scope_memory, asking)
    rows = [
        row
        for row in scope_memory.fold.state.facts.values()
        if row.user in users
        and row.wall in asking.walls
        and believed(row, at_ms) == "current"
        and held_at(row, at_ms, as_of_ms=at_ms)
    ]
    places = [scope_memory.shelf.at.get(telling_at(row, at_ms).position, -1) for row in rows]
    return _Candidates(
        ids=lambda at: rows[at].id,
        documents=np.array(places, np.int64),
        current=np.ones(len(rows), np.bool_),
        importance=np.array([row.importance / 10 for row in rows], np.float32),
        accessed=np.array([row.recorded_ms for row in rows], np.int64),
    )


def _best(
    scope_memory: ScopeMemory, asking: RecallQuery, candidates: _Candidates, order: list[int]
) -> list[tuple[FactRow, int]]:
    """Return the best facts with their places among the candidates, each question answered once."""
    state = scope_memory.fold.state
    rows: list[tuple[FactRow, int]] = []
    for at in order:
        row = state.facts[candidates.ids(at)]
        # Two users that were merged may hold two answers to one question: the later one holds.
        if asking.as_of_ms is None and _latest(scope_memory, asking, row) is not row:
            continue
        rows.append((row, at))
        if len(rows) >= asking.limit:
            break
    return rows


def _latest(scope_memory: ScopeMemory, asking: RecallQuery, row: FactRow) -> FactRow:
    """Return the one of a person's facts in a slot that has held since latest."""
    state = scope_memory.fold.state
    rivals = [row]
    if row.slot is None or row.user is None:
        return row
    for user in users_asked(scope_memory, asking):
        other = state.rival((user, row.wall), row.slot)
        if other is None or user is None or other.valid_from_ms > asking.now_ms:
            continue
        if other.state == "current":
            rivals.append(other)
    return max(rivals, key=lambda one: (one.valid_from_ms, one.recorded_ms, one is row))
