"""Tables of other programs' SQLite files, read without leaving a trace.

Nothing is ever written beside such a file or into it, nor is its log looked at in place: where one
is, a private copy is read.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from treering.errors import Busy, InvalidInput, NotFound
from treering.storage.sqlite.faults import translate
from treering.storage.sqlite.opening import PrivateCopy
from treering.storage.sqlite.schema import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE_ROWS: Final = 500
ROW_ID: Final = "rowid"
"""The field that holds a row's number."""
_MAGIC: Final = b"SQLite format 3\0"
_MODE_AT: Final = 18
_WITH_LOG: Final = b"\x02\x02"
"""The bytes there in a file that is written through a log."""
PATIENCE_MS: Final = 5_000


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is SQLite's."""
    return head.startswith(_MAGIC)


class _Source(msgspec.Struct, frozen=True):
    """A file, opened."""

    connection: apsw.Connection
    watched: bool
    """Whether only its bytes show that another program writes to it."""


def read_rows(
    path: Path, table: str, *, columns: Sequence[str], order: str | None = None
) -> Iterator[dict[str, Any]]:
    """Give the rows of ``table`` in the order of their numbers, each with its number as ``rowid``.

    If ``order`` names a column, they come in its order first. Raise NotFound if the file or the
    table does not exist, InvalidInput if it is not a database or is a ledger, and Busy if another
    program writes to it meanwhile.
    """
    with _opened(path) as source:
        _check(source.connection, path, table, columns)
        before = _stamp(path)
        for page in _pages(source.connection, table, columns, order):
            if source.watched and _stamp(path) != before:
                raise Busy(f"{path} was written to while it was read", hint="try again in a moment")
            for number, *values in page:
                yield {ROW_ID: number, **dict(zip(columns, values, strict=True))}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Source]:
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="check the path")
    _refuse_journal(path)
    with contextlib.ExitStack() as stack:
        try:
            source = _source(path, stack)
            _refuse_ledger(source.connection, path)
            yield source
        except apsw.NotADBError as error:
            raise InvalidInput(f"{path} is not a SQLite file", hint="check the path") from error
        except apsw.Error as error:
            raise translate(error, str(path)) from error


def _source(path: Path, stack: contextlib.ExitStack) -> _Source:
    if Path(f"{path}-wal").exists():
        connection = PrivateCopy(str(path)).connect()
        stack.callback(connection.close)
        return _Source(_made_safe(connection), watched=False)
    connection = _connect(path, "&mode=ro&immutable=1", stack)
    if connection.read("main", 0, _MODE_AT, len(_WITH_LOG))[1] == _WITH_LOG:
        return _Source(connection, watched=True)
    # Written without a log: locks keep writers out while a page is read, and leave no file there.
    return _Source(_connect(path, "&mode=ro", stack), watched=False)


def _connect(path: Path, how: str, stack: contextlib.ExitStack) -> apsw.Connection:
    location = f"{path.absolute().as_uri()}?cache=private{how}"
    flags = int(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection = apsw.Connection(location, flags=flags)
    stack.callback(connection.close)
    return _made_safe(connection)


def _made_safe(connection: apsw.Connection) -> apsw.Connection:
    connection.set_busy_timeout(PATIENCE_MS)
    connection.pragma("trusted_schema", False)
    connection.pragma("query_only", True)
    return connection


def _refuse_journal(path: Path) -> None:
    journal = Path(f"{path}-journal")
    if journal.exists() and journal.stat().st_size:
        raise Busy(
            f"{path} is being written to, or its last writer was cut off",
            hint="let the program that it belongs to finish, then try again",
        )


def _refuse_ledger(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") == APPLICATION_ID:
        raise InvalidInput(
            f"{path} is a ledger of Treering's own",
            hint=f"bring it over with treering copy: treering copy {path}",
        )


def _check(connection: apsw.Connection, path: Path, table: str, columns: Sequence[str]) -> None:
    if table not in _tables(connection):
        raise NotFound(
            f"{path} has no table {table}", hint="check that it is the file of the right program"
        )
    rows: list[Any] = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    if missing := [column for column in columns if column not in {row[1] for row in rows}]:
        raise InvalidInput(
            f"the table {table} of {path} has no column {', '.join(missing)}",
            hint="it is of another version, or of another program",
        )


def _tables(connection: apsw.Connection) -> list[str]:
    rows: list[Any] = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    ).fetchall()
    return [row[0] for row in rows]


def _pages(
    connection: apsw.Connection, table: str, columns: Sequence[str], order: str | None
) -> Iterator[list[tuple[Any, ...]]]:
    behind = f"FROM {_quoted(table)} WHERE rowid > ? ORDER BY rowid LIMIT {PAGE_ROWS}"
    last = -(2**63)
    if order is not None:
        # Sorted once, by numbers alone: the rows may be too many to be held.
        sorted_by = f"SELECT rowid FROM {_quoted(table)} ORDER BY {_quoted(order)}, rowid"
        numbers = [int(row[0]) for row in connection.execute(sorted_by)]
        for start in range(0, len(numbers), PAGE_ROWS):
            few = numbers[start : start + PAGE_ROWS]
            among = f"FROM {_quoted(table)} WHERE rowid IN ({', '.join(map(str, few))})"
            found = {row[0]: row for row in _page(connection, columns, among, ())}
            yield [found[number] for number in few if number in found]
        last = max(numbers, default=last)
    while page := _page(connection, columns, behind, (last,)):
        yield page
        last = page[-1][0]


def _page(
    connection: apsw.Connection, columns: Sequence[str], rest: str, given: tuple[int, ...]
) -> list[tuple[Any, ...]]:
    named = ", ".join(map(_quoted, columns))
    try:
        return _select(connection, named, rest, given)
    except UnicodeDecodeError:
        pass
    # Texts may hold any bytes. Those that are not valid are replaced by marks.
    as_bytes = ", ".join(
        f"CASE typeof({one}) WHEN 'text' THEN CAST({one} AS BLOB) ELSE {one} END"
        for one in map(_quoted, columns)
    )
    rows = _select(connection, as_bytes, rest, given)
    return [
        tuple(one.decode(errors="replace") if isinstance(one, bytes) else one for one in row)
        for row in rows
    ]


def _select(
    connection: apsw.Connection, columns: str, rest: str, given: tuple[int, ...]
) -> list[tuple[Any, ...]]:
    found: list[Any] = connection.execute(f"SELECT rowid, {columns} {rest}", given).fetchall()
    return found


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
