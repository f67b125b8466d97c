"""SQL on a server: results, and the tables of projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.storage.postgres.connections import streaming
from treering.storage.projections import in_format_style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection

KEYS: Final = {
    "tool_calls": "scope, position",
    "tool_extras": "scope, session, call, seq",
    "memory_rows": "scope, sort, key",
    "snapshots": "scope, session, view, seq",
}
"""The keys by which rows replace others."""
_PAIRS: Final = """(
  SELECT (value ->> 0)::bigint AS a, (value ->> 1)::bigint AS b
  FROM json_array_elements(:pairs::text::json)
)"""


def fetch(connection: Connection, statement: str, values: Any) -> list[Row]:
    """Return the rows of a statement."""
    return connection.execute(statement, values, binary=True).fetchall()


def planned(connection: Connection, statement: str, values: Any) -> list[Row]:
    """Return the rows of a statement that is planned for its values."""
    # Planned each time: several indexes would do, and a plan made while the table was small may
    # use any of them for ever.
    return connection.execute(statement, values, prepare=False, binary=True).fetchall()


class PostgresTable:
    """Tables on one connection."""

    has_percentiles = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a statement."""
        return planned(self._connection, *translate(statement, values))

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[Row]:
        """Return the rows of a statement that may have many."""
        with streaming(self._connection, "projection") as cursor:
            cursor.execute(*translate(statement, values))
            yield from cursor

    def put(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert rows, in place of those with the same key."""
        names = ", ".join(columns)
        statement = (
            f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"
            f" ON CONFLICT ({KEYS[table]}) DO UPDATE"
            f" SET ({names}) = ({', '.join(f'excluded.{column}' for column in columns)})"
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, list(rows))


def translate(statement: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a statement of a projection, and its values, as the server takes them."""
    text = in_format_style(statement, _PAIRS)
    return text, {
        name: value.decode() if name == "pairs" else value for name, value in values.items()
    }


def empty_tables(connection: Connection, *tables: str) -> None:
    """Delete all rows of every scope. Call inside a transaction."""
    connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    for table in tables:
        connection.execute(f"DELETE FROM {table}")
