"""A recall query, and the users whose memories it searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import msgspec

from treering.derive.fact_rows import hashed
from treering.memory.recall_result import WEIGHTS, Weights

if TYPE_CHECKING:
    from treering.memory.scope_memory import ScopeMemory


class RankingOptions(TypedDict, total=False):
    """What decides which memories are found first."""

    weights: Weights
    include_archived: bool


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to recall, and for whom."""

    query: str | None
    """None asks for what matters most."""
    user: str | None
    walls: frozenset[str | None]
    """The walls whose memories are searched, hashed; None for memories without a wall."""
    limit: int
    episodes: int
    now_ms: int
    turns: int = 0
    weights: Weights = WEIGHTS
    include_archived: bool = False
    """Whether archived facts are found as easily as current ones."""
    as_of_ms: int | None = None
    """Only what was believed at this time."""


def searched_users(scope_memory: ScopeMemory, query: RecallQuery) -> set[str | None]:
    """Return the hashed users whose memories are searched; None for the whole scope."""
    if query.user is None:
        return {None}
    return {None, *scope_memory.fold.state.family(hashed(query.user))}
