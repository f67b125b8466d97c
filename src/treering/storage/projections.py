"""Projections: tables that follow the events. What they share is here, the same in every database.

    mark ──► next events ──► fold ──► rows and mark     one transaction, alone in its scope
    erasure: the rows of erased events go, and are folded again from the events that are left
    rebuild: all rows go, and the events are followed from the beginning; the rows are the same

A projection has a name, a fold and a few columns. Its SQL is written once: see ``ProjectionTable``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import apsw

    from treering.storage.encoding import Row

Pairs = list[tuple[int, int]]

_PAIRS: Final = """(
  SELECT value ->> 0 AS a, value ->> 1 AS b FROM json_each(CAST(:pairs AS TEXT))
)"""
_VALUE: Final = re.compile(r"(?<![:\w]):(\w+)")


class ProjectionTable(Protocol):
    """The tables of projections on one connection.

    Statements name their values ``:so``. ``$pairs`` is a table of the pairs of numbers in
    ``:pairs``, with the columns a and b. INDEXED BY is a hint, which only SQLite takes.
    """

    has_percentiles: bool
    """Whether the database computes percentiles."""

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a statement that returns any."""

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[Row]:
        """Return the rows of a statement that may have many."""

    def put(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert rows, in place of those with the same key."""


class SqliteTable:
    """Tables in an SQLite file: those of a ledger, or private ones."""

    has_percentiles = False

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a statement."""
        rows: list[Any] = self._connection.execute(in_sqlite(statement), dict(values)).fetchall()
        return rows

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[Row]:
        """Return the rows of a statement that may have many."""
        return iter(self._connection.execute(in_sqlite(statement), dict(values)))

    def put(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert rows, in place of those with the same key."""
        self._connection.executemany(
            f"INSERT OR REPLACE INTO {table} ({', '.join(columns)})"
            f" VALUES ({', '.join('?' * len(columns))})",
            rows,
        )


def in_sqlite(statement: str) -> str:
    """Return a statement of a projection as SQLite takes it."""
    return statement.replace("$pairs", _PAIRS)


def pairs_value(pairs: Iterable[tuple[int, int]]) -> bytes:
    """Return pairs of numbers as a value of ``:pairs``."""
    return encode(list(pairs))


@lru_cache(maxsize=512)
def in_format_style(statement: str, pairs: str) -> str:
    """Return a statement with its values as ``%(so)s``, ``$pairs`` replaced, without hints."""
    plain = re.sub(r" INDEXED BY \w+", "", statement).replace("$pairs", pairs)
    return _VALUE.sub(r"%(\1)s", plain)
