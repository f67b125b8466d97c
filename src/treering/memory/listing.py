"""Lists of facts and episodes, filtered by user, state and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import state_at, was_valid_at
from treering.errors import InvalidInput
from treering.memory.facts import facts_of
from treering.model.memories import CATEGORIES, FACT_STATES, episode_of
from treering.model.queries import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, Page, pack, unpack

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
    _check_limit(query.limit)
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
    _check_limit(query.limit)
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


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE_ITEMS_MAX:
        raise InvalidInput(
            f"a page has 1 to {PAGE_ITEMS_MAX} items, not {limit}",
            hint="continue with next_cursor",
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
