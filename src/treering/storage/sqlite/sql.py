"""Results of SQL, typed as loosely as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import apsw

Row: TypeAlias = tuple[Any, ...]


def fetch_all(connection: apsw.Connection, statement: str, bindings: Any = ()) -> list[Row]:
    """Return every row."""
    found: list[Any] = connection.execute(statement, bindings).fetchall()
    return found


def fetch_one(connection: apsw.Connection, statement: str, bindings: Any = ()) -> Row | None:
    """Return the first row, or None."""
    found: Any = connection.execute(statement, bindings).fetchone()
    return found  # type: ignore[no-any-return]


def fetch_value(connection: apsw.Connection, statement: str, bindings: Any = ()) -> Any:
    """Return the first column of the first row, or None."""
    found: Any = connection.execute(statement, bindings).fetchone()
    return None if found is None else found[0]
