"""What the memory derives, the same in every database: its indexes, and rows of a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.search_texts import is_searchable
from treering.memory.records import REMEMBERED_KINDS, TOLD_KINDS
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.records import IndexEntry, Row
    from treering.model.events import Event
    from treering.storage.projections import ProjectionTable

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


COLUMNS: Final = ("scope", "sort", "key", "body")
_READ: Final = "SELECT key, body FROM memory_rows WHERE scope = :scope AND sort = :sort"
_NEXT_SORT: Final = "SELECT min(sort) FROM memory_rows WHERE scope = :scope AND sort > :sort"
_DROP: Final = "DELETE FROM memory_rows WHERE scope = :scope RETURNING sort"
_REMOVE: Final = """
DELETE FROM memory_rows WHERE scope = :scope AND sort = :sort AND key = :key RETURNING sort
"""


def read_rows(table: ProjectionTable, scope: int | str) -> dict[str, dict[str, bytes]]:
    """Return the bodies of a scope's rows by their sort and key."""
    tables: dict[str, dict[str, bytes]] = {}
    place = {"scope": scope, "sort": ""}
    while (sort := table.rows(_NEXT_SORT, place)[0][0]) is not None:
        place["sort"] = sort
        tables[sort] = dict(table.rows(_READ, place))
    return tables


def write_rows(
    table: ProjectionTable, scope: int | str, rows: Sequence[Row], *, replace: bool
) -> None:
    """Write rows that changed and delete those without a body; ``replace`` deletes all others."""
    if replace:
        drop_rows(table, scope)
    for row in rows:
        if row.body is None:
            table.rows(_REMOVE, {"scope": scope, "sort": row.sort, "key": row.key})
    written = [(scope, row.sort, row.key, row.body) for row in rows if row.body is not None]
    if written:
        table.put("memory_rows", COLUMNS, written)


def drop_rows(table: ProjectionTable, scope: int | str) -> int:
    """Delete the rows of a scope; return how many there were."""
    return len(table.rows(_DROP, {"scope": scope}))
