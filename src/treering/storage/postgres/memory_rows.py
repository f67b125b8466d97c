"""The rows folded from the events of a scope, and the mark they are at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.memory.records import Row, SavedFold
from treering.storage.postgres.tool_rows import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.followers import Mark
    from treering.model.scopes import Scope
    from treering.storage.postgres.connections import Connection

_MARK: Final = "SELECT epoch, xid::text::bigint, position FROM memory_marks WHERE scope = %s"
_NOTE: Final = """
INSERT INTO memory_marks (scope, epoch, xid, position)
VALUES (%s, %s::int, %s::text::xid8, %s)
ON CONFLICT (scope) DO UPDATE
SET (epoch, xid, position) = (excluded.epoch, excluded.xid, excluded.position)
"""
_KEEP: Final = """
INSERT INTO memory_rows (scope, sort, key, body) VALUES (%s, %s, %s, %s)
ON CONFLICT (scope, sort, key) DO UPDATE SET body = excluded.body
"""


def read(connection: Connection, scope: Scope) -> SavedFold:
    """Return the rows of a scope with their mark, in one snapshot."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        mark = _marked(connection, scope)
        statement = "SELECT sort, key, body FROM memory_rows WHERE scope = %s"
        found = fetch(connection, statement, (scope,))
    return SavedFold(mark, [Row(*row) for row in found])


def keep(
    connection: Connection,
    scope: Scope,
    rows: Sequence[Row],
    *,
    since: Mark,
    until: Mark,
    anew: bool,
) -> bool:
    """Store rows if the stored ones are at ``since``. The caller has the scope's lock."""
    if _marked(connection, scope) != since:
        return False
    if anew:
        connection.execute("DELETE FROM memory_rows WHERE scope = %s", (scope,))
    with connection.cursor() as cursor:
        cursor.executemany(
            "DELETE FROM memory_rows WHERE scope = %s AND sort = %s AND key = %s",
            [(scope, row.sort, row.key) for row in rows if row.body is None],
        )
        cursor.executemany(
            _KEEP, [(scope, row.sort, row.key, row.body) for row in rows if row.body is not None]
        )
    if until:
        epoch, xid, position = until
        connection.execute(_NOTE, (scope, epoch, str(xid), position))
    return True


def drop(connection: Connection, scope: Scope) -> None:
    """Delete the rows of a scope, to be folded again. The caller has the scope's lock."""
    for table in ("memory_marks", "memory_rows"):
        connection.execute(f"DELETE FROM {table} WHERE scope = %s", (scope,))


def _marked(connection: Connection, scope: Scope) -> Mark:
    found = fetch(connection, _MARK, (scope,))
    return tuple(found[0]) if found else ()
