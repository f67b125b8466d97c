"""Projections: tables that follow the events. What they share is here, the same in every database.

    mark ──► next events ──► fold ──► rows and mark     one transaction, alone in its scope
    erasure: the rows of erased events go, and are folded again from the events that are left
    rebuild: all rows go, and the events are followed from the beginning; the rows are the same

A projection has a name, a fold and a few columns. Its SQL is written once: see ``ProjectionTable``.

Snapshots of the views of sessions are one of them: a few for each view, the denser the nearer to
the end of its session.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
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


COLUMNS: Final = ("scope", "session", "view", "seq", "body")
_OF_VIEW: Final = "FROM snapshots WHERE scope = :scope AND session = :session AND view = :view"
LATEST: Final = f"SELECT seq, body {_OF_VIEW} AND seq <= :until ORDER BY seq DESC LIMIT 1"
_SEQS: Final = f"SELECT seq {_OF_VIEW} ORDER BY seq DESC"
_THIN: Final = f"DELETE {_OF_VIEW} AND seq = :seq RETURNING seq"


def latest(
    table: ProjectionTable, scope: int | str, session: int, view: int, until_seq: int
) -> tuple[int, bytes] | None:
    """Return the seq and body of the latest snapshot at or before ``until_seq``."""
    rows = table.rows(LATEST, {**_place(scope, session, view), "until": until_seq})
    return (rows[0][0], rows[0][1]) if rows else None


def keep(
    table: ProjectionTable, scope: int | str, session: int, view: int, seq: int, body: bytes
) -> None:
    """Keep a snapshot and thin out the others. Call inside a transaction."""
    bindings = _place(scope, session, view)
    table.put("snapshots", COLUMNS, [(scope, session, view, seq, body)])
    for spare in superfluous([row[0] for row in table.rows(_SEQS, bindings)]):
        table.rows(_THIN, {**bindings, "seq": spare})


def superfluous(seqs: list[int]) -> list[int]:
    """Return which of ``seqs``, the newest first, can go.

    One can if the next older one is at most twice as far from the end as the next newer one: then
    a place is never much farther from a snapshot before it than it is from the end. The oldest
    stays, and of all between about as many as the number of them has bits.
    """
    spare: list[int] = []
    newest = last = seqs[0]
    for seq, older in pairwise(seqs[1:]):
        if newest - older <= 2 * (newest - last):
            spare.append(seq)
        else:
            last = seq
    return spare


def _place(scope: int | str, session: int, view: int) -> dict[str, Any]:
    return {"scope": scope, "session": session, "view": view}
