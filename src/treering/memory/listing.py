"""Lists of facts and episodes, by user, state and time; and an audit of the facts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import state_at, was_valid_at
from treering.errors import InvalidInput
from treering.memory.fact_columns import CURRENT
from treering.memory.facts import CONFIRMED_BY, facts_of
from treering.memory.fading import has_faded
from treering.model.memories import CATEGORIES, FACT_STATES, FactAudit, episode_of
from treering.model.queries import PAGE_ITEMS_DEFAULT, Page, check_limit, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.derive.fact_rows import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.memories import Episode, Fact


class FactQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which facts to list."""

    user: str | None = None
    states: tuple[str, ...] = ("current",)
    category: str | None = None
    as_of_ms: int | None = None
    """List what the ledger believed at this time."""
    valid_at_ms: int | None = None
    """List what was true at this time."""
    limit: int = PAGE_ITEMS_DEFAULT
    after: str | None = None


class EpisodeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which episodes to list."""

    user: str | None = None
    limit: int = PAGE_ITEMS_DEFAULT
    after: str | None = None


def check_states(state: str | Sequence[str]) -> tuple[str, ...]:
    """Return the states to list. Raise InvalidInput if one does not exist."""
    states = (state,) if isinstance(state, str) else tuple(state)
    for name in states:
        if name not in FACT_STATES:
            raise InvalidInput(
                f"invalid state: {name}", hint=f"use one of {', '.join(FACT_STATES)}"
            )
    return states


def list_facts(scope_memory: ScopeMemory, query: FactQuery, recorder: Recorder) -> Page[Fact]:
    """Return one page of facts, newest first.

    The caller holds the lock and has refreshed the memory.
    """
    if query.category is not None and query.category not in CATEGORIES:
        raise InvalidInput(
            f"invalid category: {query.category}", hint=f"use one of {', '.join(CATEGORIES)}"
        )
    check_limit(query.limit)
    state = scope_memory.fold.state
    family = None if query.user is None else state.family(hashed(query.user))
    rows = [
        row
        for row in state.facts.values()
        if (family is None or row.user in family) and _matches(row, query)
    ]
    rows.sort(key=lambda row: (-row.recorded_ms, row.id))
    if query.after is not None:
        recorded_ms, fact_id = unpack(query.after, tuple[int, str])
        rows = [row for row in rows if (-row.recorded_ms, row.id) > (-recorded_ms, fact_id)]
    page = rows[: query.limit]
    has_more = len(rows) > len(page)
    cursor = pack((page[-1].recorded_ms, page[-1].id)) if has_more else None
    items = facts_of(scope_memory, page, recorder, as_of_ms=query.as_of_ms)
    return Page(items=items, has_more=has_more, next_cursor=cursor)


def list_episodes(scope_memory: ScopeMemory, query: EpisodeQuery) -> Page[Episode]:
    """Return one page of episodes, newest first.

    The caller holds the lock and has refreshed the memory.
    """
    check_limit(query.limit)
    state = scope_memory.fold.state
    family = None if query.user is None else state.family(hashed(query.user))
    rows = [row for row in state.episodes.values() if family is None or row.user in family]
    rows.sort(key=lambda row: (-row.ts_ms, -row.position))
    if query.after is not None:
        ts_ms, position = unpack(query.after, tuple[int, int])
        rows = [row for row in rows if (-row.ts_ms, -row.position) > (-ts_ms, -position)]
    page = rows[: query.limit]
    has_more = len(rows) > len(page)
    events = scope_memory.fold.events_at([row.position for row in page])
    episodes = [episode_of(events[row.position]) for row in page if row.position in events]
    return Page(
        items=[episode for episode in episodes if episode is not None],
        has_more=has_more,
        next_cursor=pack((page[-1].ts_ms, page[-1].position)) if has_more else None,
    )


def _matches(row: FactRow, query: FactQuery) -> bool:
    if query.category is not None and row.category != query.category:
        return False
    state = row.state if query.as_of_ms is None else state_at(row, query.as_of_ms)
    if query.valid_at_ms is not None:
        # A fact that was true at that time may be superseded by now.
        was_valid = was_valid_at(row, query.valid_at_ms, as_of_ms=query.as_of_ms)
        return was_valid and state in {"current", "superseded", "archived"}
    return state in query.states


LISTED_MAX: Final = 100
"""Facts listed per finding; all are counted."""
DUPLICATE_COSINE_MIN: Final = 0.95
COMPARED_MAX: Final = 5_000
"""The newest facts of one person that are compared with each other."""


def audit(scope_memory: ScopeMemory, recorder: Recorder) -> FactAudit:
    """Return how reliable the facts of a scope are.

    The caller holds the lock and has refreshed the memory.
    """
    state = scope_memory.fold.state
    rows = list(state.facts.values())
    current = [row for row in rows if row.state == "current"]
    uncited = [row.id for row in current if not row.cites]
    gone = _without_evidence_left(scope_memory, current, recorder)
    duplicates = _near_duplicates(scope_memory, current)
    unconfirmed = sum(not row.accepted and len(row.cites) < CONFIRMED_BY for row in current)
    now_ms = recorder.engine.now_ms()
    doubtful = {*uncited, *gone, *(fact_id for pair in duplicates for fact_id in pair)}
    return FactAudit(
        scope=scope_memory.scope,
        facts=len(current),
        by_state=dict.fromkeys(FACT_STATES, 0) | Counter(row.state for row in rows),
        by_category=dict.fromkeys(CATEGORIES, 0) | Counter(row.category for row in current),
        refused_by_reason=dict(
            Counter(
                row.reason or "" for row in rows if row.state in {"refused", "quarantined"}
            ).most_common()
        ),
        unconfirmed=unconfirmed,
        without_evidence=uncited[:LISTED_MAX],
        evidence_gone=gone[:LISTED_MAX],
        near_duplicates=duplicates[:LISTED_MAX],
        never_used=sum(row.uses == 0 for row in current),
        faded=sum(has_faded(row, now_ms) for row in current),
        vectors_missing=scope_memory.documents.without_vector,
        score=round(1 - len(doubtful) / len(current), 4) if current else 1.0,
    )


def _without_evidence_left(
    scope_memory: ScopeMemory, rows: list[FactRow], recorder: Recorder
) -> list[str]:
    citing = [row for row in rows if row.cites]
    return [
        fact.id
        for fact in facts_of(scope_memory, citing, recorder)
        if fact.evidence and len(fact.evidence_gone) == len(fact.evidence)
    ]


def _near_duplicates(scope_memory: ScopeMemory, rows: list[FactRow]) -> list[tuple[str, str]]:
    """Return pairs of one person's facts that say nearly the same."""
    import numpy as np  # noqa: PLC0415  (only who remembers needs it)

    vectors, columns = scope_memory.documents.vectors, scope_memory.columns
    if vectors is None or scope_memory.embedder is None:
        return []
    pairs: list[tuple[str, str]] = []
    for user, wall in dict.fromkeys(row.owner for row in rows):
        facts = scope_memory.columns.visible_to({user}, {wall}, states=(CURRENT,))[-COMPARED_MAX:]
        documents = columns.column("document")[facts]
        facts, documents = facts[documents >= 0], documents[documents >= 0]
        if scope_memory.documents.has_parts():
            documents = scope_memory.documents.starts[documents]
        cosines = np.triu(vectors[documents] @ vectors[documents].T, k=1)
        for first, second in np.argwhere(cosines >= DUPLICATE_COSINE_MIN)[:LISTED_MAX]:
            pairs.append((columns.ids[int(facts[first])], columns.ids[int(facts[second])]))
    return pairs
