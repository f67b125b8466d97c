"""Who asks what, and whose memories are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.derive.memory_state import hashed
from treering.memory.recall_result import WEIGHTS, Weights

if TYPE_CHECKING:
    from treering.memory.scope_memory import ScopeMemory


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks what."""

    query: str | None
    """None asks for what matters most, whatever it is about."""
    user: str | None
    walls: frozenset[str | None]
    """Behind which of them it is looked, hashed; None is in the open."""
    limit: int
    episodes: int
    now_ms: int
    weights: Weights = WEIGHTS
    include_archived: bool = False
    """Whether those that faded count as much as the others."""
    as_of_ms: int | None = None
    """What was believed then, and nothing that was learnt since."""


def users_asked(scope_memory: ScopeMemory, asking: RecallQuery) -> set[str | None]:
    """Return whose memories are looked at, hashed; None for those of nobody in particular."""
    if asking.user is None:
        return {None}
    return {None, *scope_memory.fold.state.family(hashed(asking.user))}
