"""A table of tool calls of our own, where the ledger's may not be written.

It lies in a temporary file that goes with it, and holds as little text as the ledger's: none.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.followers import Mark

_abandoned: list[apsw.Connection] = []
"""Connections that a parent process opened; kept, so that nothing closes them."""
LAYOUT: Final = "sqlite/migrations/0003_tool_calls.sql"
"""That of a ledger in a file."""


class PrivateTable:
    """Tool calls of the events of one ledger that were read so far."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection = _made()
        self.seen: Mark = ()
        """How far events have been entered."""
        self.sound_until = 0
        """What was erased so far was gone before it was looked at."""

    @contextlib.contextmanager
    def using(self) -> Iterator[apsw.Connection]:
        """Lend the table to one thread at a time."""
        if self._pid != os.getpid():
            _abandoned.append(self._connection)
            self._renew()
        with self._lock, self._connection:
            yield self._connection

    def empty(self) -> None:
        """Throw all of it away."""
        self._connection.execute("DELETE FROM tool_calls")
        self._connection.execute("DELETE FROM tool_extras")
        self.seen = ()


def _made() -> apsw.Connection:
    connection = apsw.Connection("")
    connection.execute((Path(__file__).parent / LAYOUT).read_text())
    return connection
