"""Recall: facts and episodes that answer a query, best first, each with its reasons.

Only memories that the asker may see are searched. Facts that no longer hold are never returned, and
sentences of episodes that repeat them are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from treering.derive.memory_state import assertion_at, state_at, was_valid_at
from treering.lazy import LazyModule
from treering.memory.fact_columns import CURRENT
from treering.memory.facts import facts_of
from treering.memory.fading import DAY_MS, RECENT_DAYS
from treering.memory.hops import BEGINNINGS_MAX, FACTS_MAX, FactWalk
from treering.memory.recall_episodes import recall_episodes
from treering.memory.recall_query import searched_users
from treering.memory.similarity import ANSWERS_FROM, QuerySimilarity
from treering.memory.vectors import highest
from treering.model.memories import RecalledEpisode, RecalledFact

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from treering.derive.fact_rows import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.recall_query import RecallQuery
    from treering.memory.scope_memory import ScopeMemory

    Scores = NDArray[np.float32]
else:
    np = LazyModule("numpy")


BEST_SHARE: Final = 0.7
"""The share of the best match that a fact must have."""


BESIDE_PATH: Final = 0.9
"""The same for a fact beside others that answer together."""
CONCEPTS_MIN: Final = 3
"""A question with fewer words asks for one fact."""


class RecallMatches(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, before the recall is recorded."""

    facts: list[RecalledFact]
    episodes: list[RecalledEpisode]


def recall(scope_memory: ScopeMemory, query: RecallQuery, recorder: Recorder) -> RecallMatches:
    """Return what answers the query.

    The caller holds the lock and has refreshed the memory.
    """
    similarities = QuerySimilarity(scope_memory, query.query, query.user)
    return RecallMatches(
        facts=_facts(scope_memory, query, similarities, recorder),
        episodes=recall_episodes(scope_memory, query, similarities),
    )


def _facts(
    scope_memory: ScopeMemory, query: RecallQuery, similarities: QuerySimilarity, recorder: Recorder
) -> list[RecalledFact]:
    candidates = _candidates(scope_memory, query)
    if not query.limit or not len(candidates.documents):
        return []
    weights = query.weights
    match = similarities.to(candidates.documents, word_by_word=True)
    similarity, words, vector = match.similarity, match.words, match.vector
    age = np.maximum(query.now_ms - candidates.accessed, 0)
    recency = np.exp(-age / (RECENT_DAYS * DAY_MS))
    score = (
        weights.importance * candidates.importance
        + weights.similarity * match.match
        + weights.recency * recency
    ).astype(np.float32)
    floor = np.where(
        candidates.current | query.include_archived, weights.threshold, weights.archived
    )
    eligible = (
        (similarity >= floor) & _near_best(match.match, weights.threshold)
        if similarities.has_query
        else candidates.current | query.include_archived
    )
    facts_by_id = scope_memory.fold.state.facts
    order = _ordered(np.flatnonzero(eligible), score, candidates.documents, query.limit * 4)
    rows = _best(scope_memory, query, candidates, order)
    path = _path(scope_memory, query, similarities, candidates, match.match)
    if path:
        # Facts that answer together leave little room for those that match in part.
        bound = BESIDE_PATH * float(match.match.max())
        rows = [(row, at) for row, at in rows if at in path or match.match[at] >= bound]
    direct = {at for _, at in rows}
    reached = [(facts_by_id[candidates.ids(at)], at) for at in path if at not in direct]
    rows = [*rows[: query.limit - len(reached)], *reached][: query.limit]
    led_by = {at: tuple(map(candidates.ids, path[:before])) for before, at in enumerate(path)}
    facts = facts_of(scope_memory, [row for row, _ in rows], recorder, as_of_ms=query.as_of_ms)
    by_id = {fact.id: fact for fact in facts}
    return [
        RecalledFact(
            fact=by_id[row.id],
            score=round(float(score[at]), 4),
            similarity=round(float(similarity[at]), 4),
            why={
                "words": round(float(words[at]), 4),
                "vector": round(float(vector[at]), 4),
                "match": round(float(match.match[at]), 4),
                "importance": round(float(candidates.importance[at]), 4),
                "recency": round(float(recency[at]), 4),
            },
            path=led_by.get(at, ()),
        )
        for row, at in rows
        if row.id in by_id
    ]


def _path(
    scope_memory: ScopeMemory,
    query: RecallQuery,
    similarities: QuerySimilarity,
    candidates: _Candidates,
    match: Scores,
) -> list[int]:
    """Return the candidates that answer together, step by step; none if one fact is enough."""
    clause = similarities.whole_clause
    if clause is None or query.limit < FACTS_MAX or len(clause.concepts) < CONCEPTS_MIN:
        return []
    current = np.flatnonzero((candidates.documents >= 0) & candidates.current)
    usable = current[match[current] > 0]
    best = usable[highest(match[usable], BEGINNINGS_MAX)]
    candidate_of = np.full(scope_memory.documents.count, -1, np.int64)
    candidate_of[candidates.documents[current]] = current
    walk = FactWalk(scope_memory, clause, candidate_of >= 0, similarities.texts_by_document)
    path = walk.best_path(similarities.naming(candidates.documents[best].tolist()))
    return [] if path is None else candidate_of[list(path.documents)].tolist()


def _near_best(match: Scores, threshold: float) -> NDArray[np.bool_]:
    """Return which matches come near the best: beside a good answer, a poor one is noise."""
    # A lower threshold asks for more, so the distance to the best may be larger in proportion.
    share = BEST_SHARE * min(threshold / ANSWERS_FROM, 1.0)
    near: NDArray[np.bool_] = match >= share * float(match.max(initial=0.0))
    return near


def _ordered(
    chosen: NDArray[np.int64], score: Scores, documents: NDArray[np.int64], limit: int
) -> list[int]:
    """Return the best candidates, best first; ties go to the newer document."""
    if len(chosen) > limit:
        bound = np.partition(score[chosen], len(chosen) - limit)[len(chosen) - limit]
        chosen = chosen[score[chosen] >= bound]
    order: list[int] = chosen[np.lexsort((-documents[chosen], -score[chosen]))].tolist()
    return order


class _Candidates(NamedTuple):
    """Facts that the asker may see, as columns."""

    ids: Callable[[int], str]
    documents: NDArray[np.int64]
    current: NDArray[np.bool_]
    importance: Scores
    accessed: NDArray[np.int64]


def _candidates(scope_memory: ScopeMemory, query: RecallQuery) -> _Candidates:
    if query.as_of_ms is not None:
        return _believed(scope_memory, query, query.as_of_ms)
    columns = scope_memory.columns
    facts = columns.visible_to(searched_users(scope_memory, query), query.walls)
    since, until = columns.column("valid_from")[facts], columns.column("valid_to")[facts]
    facts = facts[(since <= query.now_ms) & (until > query.now_ms)]
    return _Candidates(
        ids=lambda at: columns.ids[int(facts[at])],
        documents=columns.column("document")[facts].astype(np.int64),
        current=columns.column("state")[facts] == CURRENT,
        importance=columns.column("importance")[facts],
        accessed=columns.column("accessed")[facts],
    )


def _believed(scope_memory: ScopeMemory, query: RecallQuery, at_ms: int) -> _Candidates:
    """Return the facts believed at a time, with the text they had then."""
    users = searched_users(scope_memory, query)
    rows = [
        row
        for row in scope_memory.fold.state.facts.values()
        if row.user in users
        and row.wall in query.walls
        and state_at(row, at_ms) == "current"
        and was_valid_at(row, at_ms, as_of_ms=at_ms)
    ]
    documents = [
        scope_memory.documents.at.get(assertion_at(row, at_ms).position, -1) for row in rows
    ]
    return _Candidates(
        ids=lambda at: rows[at].id,
        documents=np.array(documents, np.int64),
        current=np.ones(len(rows), np.bool_),
        importance=np.array([row.importance / 10 for row in rows], np.float32),
        accessed=np.array([row.recorded_ms for row in rows], np.int64),
    )


def _best(
    scope_memory: ScopeMemory, query: RecallQuery, candidates: _Candidates, order: list[int]
) -> list[tuple[FactRow, int]]:
    """Return the best facts and their candidate indexes, one answer per slot."""
    state = scope_memory.fold.state
    rows: list[tuple[FactRow, int]] = []
    for at in order:
        row = state.facts[candidates.ids(at)]
        # Two merged users may have two answers to one question: the later one counts.
        if query.as_of_ms is None and _latest(scope_memory, query, row) is not row:
            continue
        rows.append((row, at))
        if len(rows) >= query.limit:
            break
    return rows


def _latest(scope_memory: ScopeMemory, query: RecallQuery, row: FactRow) -> FactRow:
    """Return the fact with the latest start among a person's facts in the same slot."""
    state = scope_memory.fold.state
    rivals = [row]
    if row.slot is None or row.user is None:
        return row
    # Of one user's facts in a slot, only the last one has no end.
    own = row.user if row.valid_to_ms is None else None
    for user in searched_users(scope_memory, query) - {None, own}:
        other = state.competing("slot", (user, row.wall), row.slot)
        if other is None or other.valid_from_ms > query.now_ms:
            continue
        if other.state == "current":
            rivals.append(other)
    return max(rivals, key=lambda rival: (rival.valid_from_ms, rival.recorded_ms, rival is row))
