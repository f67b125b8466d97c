"""Rows that the memory folded from the events of a scope: a projection with one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.memory.records import Row
    from treering.storage.projections import ProjectionTable

COLUMNS: Final = ("scope", "sort", "key", "body")
_READ: Final = "SELECT key, body FROM memory_rows WHERE scope = :scope AND sort = :sort"
_NEXT_SORT: Final = "SELECT min(sort) FROM memory_rows WHERE scope = :scope AND sort > :sort"
_DROP: Final = "DELETE FROM memory_rows WHERE scope = :scope RETURNING sort"
_REMOVE: Final = """
DELETE FROM memory_rows WHERE scope = :scope AND sort = :sort AND key = :key RETURNING sort
"""


def read(table: ProjectionTable, scope: int | str) -> dict[str, dict[str, bytes]]:
    """Return the bodies of a scope's rows by their sort and key."""
    tables: dict[str, dict[str, bytes]] = {}
    place = {"scope": scope, "sort": ""}
    while (sort := table.rows(_NEXT_SORT, place)[0][0]) is not None:
        place["sort"] = sort
        tables[sort] = dict(table.rows(_READ, place))
    return tables


def write(table: ProjectionTable, scope: int | str, rows: Sequence[Row], *, replace: bool) -> None:
    """Write rows that changed and delete those without a body; ``replace`` deletes all others."""
    if replace:
        drop(table, scope)
    for row in rows:
        if row.body is None:
            table.rows(_REMOVE, {"scope": scope, "sort": row.sort, "key": row.key})
    written = [(scope, row.sort, row.key, row.body) for row in rows if row.body is not None]
    if written:
        table.put("memory_rows", COLUMNS, written)


def drop(table: ProjectionTable, scope: int | str) -> int:
    """Delete the rows of a scope; return how many there were."""
    return len(table.rows(_DROP, {"scope": scope}))
