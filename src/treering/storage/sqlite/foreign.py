"""Other programs' SQLite files, read without leaving a trace and without keeping anybody waiting.

A private copy is read: no lock is taken that a writer could meet, and nothing is written beside the
file or into it.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from treering.errors import Busy, InvalidInput, NotFound, StorageFull
from treering.storage.sqlite.faults import translate
from treering.storage.sqlite.opening import PrivateCopy
from treering.storage.sqlite.schema import APPLICATION_ID

PAGE_ROWS: Final = 200
ROW_ID: Final = "rowid"
"""The field that holds a row's number."""
MOMENTS_MAX: Final = 20
MOMENT_S: Final = 0.02
"""How often, and how long, a write is waited for."""
_MAGIC: Final = b"SQLite format 3\0"


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is SQLite's."""
    return head.startswith(_MAGIC)


@contextlib.contextmanager
def open_foreign(path: Path) -> Iterator[ForeignDatabase]:
    """Open what another program's file holds now.

    Raise NotFound if the file does not exist, InvalidInput if it is not a database or is a ledger,
    and Busy if it is written to faster than it can be copied.
    """
    if not path.is_file():
        raise NotFound(f"no file {path}", hint="check the path")
    try:
        with contextlib.closing(_copied(path).connect()) as connection:
            connection.pragma("trusted_schema", False)
            connection.pragma("query_only", True)
            _refuse_ledger(connection, path)
            yield ForeignDatabase(connection, path)
    except apsw.NotADBError as error:
        raise InvalidInput(f"{path} is not a SQLite file", hint="check the path") from error
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise StorageFull(
            f"no room for a temporary copy of {path}", hint="set TMPDIR to a folder with more room"
        ) from error


class ForeignDatabases:
    """Reads other programs' databases for an import."""

    open = staticmethod(open_foreign)

    def tables(self, path: Path) -> dict[str, list[str]]:
        """Return the columns of each table, without a copy if the file itself names them."""
        with contextlib.suppress(apsw.Error, OSError):
            location = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            flags = int(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            with contextlib.closing(apsw.Connection(location, flags=flags)) as connection:
                _refuse_ledger(connection, path)
                if tables := ForeignDatabase(connection, path).tables():
                    return tables
        with open_foreign(path) as database:
            return database.tables()


class ForeignDatabase:
    """What another program's file held at one moment."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def tables(self) -> dict[str, list[str]]:
        """Return the columns of each table."""
        names: list[Any] = self._connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        ).fetchall()
        return {name: self._columns(name) for (name,) in names}

    def count(self, table: str) -> int:
        """Return the number of rows of ``table``."""
        rows: list[Any] = self._connection.execute(
            f"SELECT count(*) FROM {_quoted(table)}"
        ).fetchall()
        return int(rows[0][0])

    def tally(self, table: str, column: str) -> dict[str, int]:
        """Return how many texts in ``column`` begin alike, up to and with their first colon."""
        named = _quoted(column)
        rows: list[Any] = self._connection.execute(
            f"SELECT substr({named}, 1, instr({named}, ':')) AS kind, count(*)"
            f" FROM {_quoted(table)} GROUP BY kind ORDER BY kind"
        ).fetchall()
        return {str(kind or ""): int(number) for kind, number in rows}

    def rows(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        prefix: tuple[str, str] | None = None,
        order: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Give rows of ``table`` in the order of their numbers, each with its number as ``rowid``.

        Those whose columns have the values in ``where``, and begin with the ``prefix`` that is
        given for a column. They come in the order of the columns in ``order`` first. Raise NotFound
        if the table does not exist, InvalidInput if a column does not.
        """
        existing = self._columns(table)
        if not existing:
            raise NotFound(
                f"{self._path} has no table {table}",
                hint="check that it is the file of the right program",
            )
        columns = existing if columns is None else columns
        if missing := [
            column for column in (*columns, *order, *(where or ())) if column not in existing
        ]:
            raise InvalidInput(
                f"the table {table} of {self._path} has no column {', '.join(missing)}",
                hint="it belongs to another version, or another program",
            )
        among, given = _condition(where or {}, prefix)
        for number, *values in self._numbered(table, columns, among, given, order):
            yield {ROW_ID: number, **dict(zip(columns, values, strict=True))}

    def _columns(self, table: str) -> list[str]:
        rows: list[Any] = self._connection.execute(
            f"PRAGMA table_info({_quoted(table)})"
        ).fetchall()
        return [row[1] for row in rows]

    def _numbered(
        self,
        table: str,
        columns: Sequence[str],
        among: str,
        given: tuple[Any, ...],
        order: Sequence[str],
    ) -> Iterator[tuple[Any, ...]]:
        # Sorted once, by numbers alone: the rows may be too many to be held.
        by = ", ".join([*map(_quoted, order), ROW_ID])
        statement = f"SELECT rowid FROM {_quoted(table)} {among} ORDER BY {by}"
        numbers = [int(row[0]) for row in self._connection.execute(statement, given)]
        for start in range(0, len(numbers), PAGE_ROWS):
            few = numbers[start : start + PAGE_ROWS]
            by_number = {row[0]: row for row in self._page(table, columns, few)}
            yield from (by_number[number] for number in few)

    def _page(
        self, table: str, columns: Sequence[str], numbers: Sequence[int]
    ) -> list[tuple[Any, ...]]:
        rest = f"FROM {_quoted(table)} WHERE rowid IN ({', '.join(map(str, numbers))})"
        try:
            return self._select(", ".join(map(_quoted, columns)), rest)
        except UnicodeDecodeError:
            pass
        # Texts may hold any bytes. Those that are not valid are replaced by marks.
        as_bytes = ", ".join(
            f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
            for name in map(_quoted, columns)
        )
        return [
            tuple(
                value.decode(errors="replace") if isinstance(value, bytes) else value
                for value in row
            )
            for row in self._select(as_bytes, rest)
        ]

    def _select(self, columns: str, rest: str) -> list[tuple[Any, ...]]:
        rows: list[Any] = self._connection.execute(f"SELECT rowid, {columns} {rest}").fetchall()
        return rows


def _copied(path: Path) -> PrivateCopy:
    """Return a copy made between two writes: without a log, a journal shows that one is running.

    Raise Busy if there is no such moment.
    """
    with path.open("rb") as file:
        if not is_sqlite(file.read(len(_MAGIC))):
            raise InvalidInput(f"{path} is not a SQLite file", hint="check the path")
    for _ in range(MOMENTS_MAX):
        if not _is_journaled(path):
            copy = PrivateCopy(str(path))
            if not _is_journaled(path):
                return copy
        time.sleep(MOMENT_S)
    raise Busy(
        f"{path} is being written to, or its last writer was cut off",
        hint="let the program that it belongs to finish, then try again",
    )


def _is_journaled(path: Path) -> bool:
    try:
        return Path(f"{path}-journal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _refuse_ledger(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") == APPLICATION_ID:
        raise InvalidInput(
            f"{path} is a Treering ledger", hint=f"copy it instead: treering copy {path}"
        )


def _condition(
    where: Mapping[str, Any], prefix: tuple[str, str] | None
) -> tuple[str, tuple[Any, ...]]:
    parts = [f"{_quoted(column)} = ?" for column in where]
    given = [*where.values()]
    if prefix is not None:
        # As a range, which an index answers.
        column, text = prefix
        parts.append(f"{_quoted(column)} >= ? AND {_quoted(column)} < ?")
        given += [text, text[:-1] + chr(ord(text[-1]) + 1)]
    return f"WHERE {' AND '.join(parts)}" if parts else "", tuple(given)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
