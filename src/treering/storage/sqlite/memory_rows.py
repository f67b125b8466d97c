"""What was folded from the events of a scope, kept as rows, and how far that has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.memory.records import Row, SavedFold
from treering.storage.sqlite.sql import fetch_all, fetch_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from treering.storage.sqlite.memory_file import MemoryFile

_KEEP: Final = """
INSERT INTO rows (scope, sort, key, body) VALUES (?, ?, ?, ?)
ON CONFLICT (scope, sort, key) DO UPDATE SET body = excluded.body
"""


def read(file: MemoryFile, scope: int) -> SavedFold:
    """Return the rows of a scope; none if there is no file, or an unsound one."""
    if not file.exists:
        return SavedFold((), [])

    def look(connection: apsw.Connection) -> SavedFold:
        position = _marked(file, connection, scope)
        found = fetch_all(connection, "SELECT sort, key, body FROM rows WHERE scope = ?", (scope,))
        return SavedFold((position,) if position else (), [Row(*row) for row in found])

    return file.read(look) or SavedFold((), [])


def keep(
    file: MemoryFile,
    connection: apsw.Connection,
    scope: int,
    rows: Sequence[Row],
    *,
    since: int,
    until: int,
    anew: bool,
) -> bool:
    """Keep rows if those that are there are at ``since``. Call inside a write transaction."""
    if _marked(file, connection, scope) != since:
        return False
    if anew:
        connection.execute("DELETE FROM rows WHERE scope = ?", (scope,))
    connection.executemany(
        "DELETE FROM rows WHERE scope = ? AND sort = ? AND key = ?",
        [(scope, row.sort, row.key) for row in rows if row.body is None],
    )
    connection.executemany(
        _KEEP, [(scope, row.sort, row.key, row.body) for row in rows if row.body is not None]
    )
    connection.execute(
        "INSERT OR REPLACE INTO marks (scope, position, link) VALUES (?, ?, ?)",
        (scope, until, file.link_at(until)),
    )
    return True


def drop(connection: apsw.Connection, scope: int) -> int:
    """Remove the rows of a scope, to be folded again; return how many there were."""
    connection.execute("DELETE FROM marks WHERE scope = ?", (scope,))
    connection.execute("DELETE FROM rows WHERE scope = ?", (scope,))
    return connection.changes()


def _marked(file: MemoryFile, connection: apsw.Connection, scope: int) -> int:
    """Return how far the rows have come. Raise Unsound if the ledger is another one there."""
    row = fetch_one(connection, "SELECT position, link FROM marks WHERE scope = ?", (scope,))
    if row is None:
        return 0
    file.check_link(row[0], row[1])
    return int(row[0])
