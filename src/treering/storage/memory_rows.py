"""Rows that the memory folded from the events of a scope: a projection with one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.memory.records import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.storage.projections import ProjectionTable

COLUMNS: Final = ("scope", "sort", "key", "body")
_READ: Final = "SELECT sort, key, body FROM memory_rows WHERE scope = :scope"
_DROP: Final = "DELETE FROM memory_rows WHERE scope = :scope RETURNING sort"
_REMOVE: Final = """
DELETE FROM memory_rows WHERE scope = :scope AND sort = :sort AND key = :key RETURNING sort
"""


def read(table: ProjectionTable, scope: int | str) -> list[Row]:
    """Return the rows of a scope."""
    return [Row(*row) for row in table.rows(_READ, {"scope": scope})]


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
