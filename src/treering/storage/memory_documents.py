"""Which events are in which index of the memory, the same in every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.search_texts import is_searchable
from treering.memory.records import REMEMBERED_KINDS, TOLD_KINDS
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.records import IndexEntry
    from treering.model.events import Event

STEP_EVENTS: Final = 500
"""Events that are entered in one transaction."""
FOLDED_KINDS: Final = tuple(sorted({*REMEMBERED_KINDS, *ERASURE_KINDS}))
"""The memory is folded from these; only those of ``MEMORIES`` are in an index."""
MEMORIES: Final = TOLD_KINDS
"""The kinds in the index of memories. That of events has all that are not folded."""
HNSW_DOCUMENTS: Final = 200_000
"""An index with fewer documents is scanned as fast as by an index of neighbours."""
BUILD_S: Final = 0.5
"""How long one question may take to build on such an index."""


def entries(
    events: Sequence[Event], read: Callable[[Sequence[Event]], Sequence[IndexEntry]]
) -> list[tuple[Event, IndexEntry]]:
    """Return the entries that ``read`` derives from events; events without one are left out."""
    searchable = {event.position: event for event in events if is_searchable(event)}
    if not searchable:
        return []
    return [
        (searchable[entry.position], entry)
        for entry in read(list(searchable.values()))
        if entry.position in searchable and (entry.terms or entry.vectors)
    ]
