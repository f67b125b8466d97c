"""Tables of tool calls of our own, where the ledger's may not be written.

They are in a temporary file that SQLite removes, and hold as little text as the ledger's: none.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from treering.locks import Lock
from treering.storage.projections import SqliteTable
from treering.storage.tool_table import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.queries import Mark

_abandoned: list[apsw.Connection] = []
"""Connections that a parent process opened; kept, so that nothing closes them."""
LAYOUT: Final = "sqlite/migrations/0008_tool_calls_by_scope.sql"
"""That of a ledger in a file."""


class PrivateTable:
    """Tool calls of the events of one scope that were read so far."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._lock = Lock()
        self._pid = os.getpid()
        self._connection = _made()
        self.seen: Mark = ()
        """The mark up to which events have been entered."""
        self.erasures = 0
        """The erasures of the scope before anything was entered."""

    @contextlib.contextmanager
    def using(self) -> Iterator[SqliteTable]:
        """Lend the tables to one thread at a time."""
        if self._pid != os.getpid():
            _abandoned.append(self._connection)
            self._renew()
        with self._lock.guard, self._lock, self._connection:
            yield SqliteTable(self._connection)

    def empty(self) -> None:
        """Delete all rows."""
        for table in TABLES:
            self._connection.execute(f"DELETE FROM {table}")
        self.seen = ()


def _made() -> apsw.Connection:
    connection = apsw.Connection("")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # As a ledger keeps its plans.
    text = (Path(__file__).parent / LAYOUT).read_text()
    # On a server a scope is its name.
    tables = text[text.index("CREATE TABLE") :].replace("scope INTEGER", "scope ANY")
    connection.execute(tables)
    return connection
