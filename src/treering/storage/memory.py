"""What the memory derives, the same in every database: its indexes, and rows of a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.fact_rows import GAP, UNREADABLE, SavedRows
from treering.derive.search_texts import is_searchable
from treering.memory.records import REMEMBERED_KINDS, TOLD_KINDS, IndexEntry, Row
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
_PAGE: Final = """
SELECT {columns}
FROM (
  SELECT key, body FROM memory_rows
  WHERE scope = :scope AND sort = :sort {beyond}
  ORDER BY key
  LIMIT :limit
) AS page
"""
PAGE_ROWS: Final = 1_000
"""Rows that are read at once."""
_KEYS: Final = msgspec.json.Decoder(list[str])
_SIZES: Final = msgspec.json.Decoder(list[int])
_NEXT_SORT: Final = "SELECT min(sort) FROM memory_rows WHERE scope = :scope AND sort > :sort"
_DROP: Final = "DELETE FROM memory_rows WHERE scope = :scope RETURNING sort"
_REMOVE: Final = """
DELETE FROM memory_rows WHERE scope = :scope AND sort = :sort AND key = :key RETURNING sort
"""


def read_rows(table: ProjectionTable, scope: int | str, columns: str) -> dict[str, SavedRows]:
    """Return a scope's rows by their sort; no rows that are UNREADABLE if a byte is damaged.

    ``columns`` selects what SavedRows takes, of all rows at once, the lists as JSON.
    """
    tables: dict[str, SavedRows] = {}
    place = {"scope": scope, "sort": ""}
    try:
        while (sort := table.rows(_NEXT_SORT, place)[0][0]) is not None:
            place["sort"] = sort
            tables[sort] = SavedRows(_pages(table, columns, place))
    except ValueError:
        return {UNREADABLE: SavedRows()}
    return tables


def _pages(
    table: ProjectionTable, columns: str, place: dict[str, Any]
) -> Iterator[tuple[list[str], list[int], bytes]]:
    values, beyond = {**place, "gap": GAP, "limit": PAGE_ROWS}, ""
    while rows := table.rows(_PAGE.format(columns=columns, beyond=beyond), values):
        keys, sizes, joined = _KEYS.decode(rows[0][0]), _SIZES.decode(rows[0][1]), rows[0][2]
        if keys:
            yield keys, sizes, joined
        if len(keys) < PAGE_ROWS:
            return
        values["after"], beyond = keys[-1], "AND key > :after"


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
