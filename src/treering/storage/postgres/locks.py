"""Advisory locks on a connection that stays open while something is locked.

The server releases them when the connection ends, at the latest with its process. It also ends
when the server restarts or the network drops it: a thread notices, connects again and takes the
locks again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.errors import ReadOnlySqlTransaction

from treering.errors import Closed, ReadOnly
from treering.locks import Lock
from treering.storage.postgres.faults import is_passing, translate

if TYPE_CHECKING:
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.server import Server

BEAT_S: Final = 1.0
"""How often the connection is checked."""
PATIENCE_S: Final = 30.0
"""How long to wait for a lost server."""
CLOSING_S: Final = 5.0
"""How long to wait for the thread that checks the connection; it ends by itself."""

# The connection is idle, which is not a reason to close it. A machine that lost power closes
# nothing: the server gives its connection up after some silence.
_PREPARE: Final = """
SELECT pg_is_in_recovery(), set_config('idle_session_timeout', '0', false),
  set_config('tcp_keepalives_idle', '30', false),
  set_config('tcp_keepalives_interval', '10', false),
  set_config('tcp_keepalives_count', '3', false)
"""

_abandoned: list[Connection] = []
"""Connections of a parent process, kept so that nothing closes them."""


class NamedLocks:
    """Named locks of this process, separate from those that order appends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._start()

    def key(self, name: str) -> int:
        """Return the number of a lock on the server."""
        digest = blake2b(
            name.encode(), digest_size=8, key=self._server.lock_key, person=b"treering-leases"
        )
        return int.from_bytes(digest.digest(), "big", signed=True)

    def take(self, name: str) -> bool:
        """Lock ``name``; return False if another has it. Called again: whether we still do."""
        with self._lock.guard, self._lock:
            if self._server.read_only:
                raise ReadOnly("the ledger was opened read-only", hint="open it with mode='rw'")
            if not self._persevere(name):
                self._wanted.discard(name)
                return False
            self._wanted.add(name)
            if self._thread is None:
                # Noted once it runs. One that runs and is not noted ends with the next.
                thread = threading.Thread(target=self._watch, name="treering-locks", daemon=True)
                thread.start()
                self._thread = thread
            return True

    def release(self, name: str) -> None:
        """Unlock ``name`` if it is locked."""
        with self._lock.guard, self._lock:
            self._wanted.discard(name)
            if name not in self._held or self._connection is None:
                return
            try:
                self._connection.execute("SELECT pg_advisory_unlock(%s)", (self.key(name),))
            except psycopg.Error:
                self._disconnect()  # The lock ends with it; the others are taken again.
            self._held.discard(name)

    def close(self) -> None:
        """Release everything."""
        self._over.set()
        with self._lock.guard, self._lock:
            self._wanted.clear()
            with contextlib.suppress(psycopg.Error):
                # Wait for it: the server would notice a moment later.
                if self._connection is not None:
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
            self._disconnect()
        if self._thread is not None:
            self._thread.join(CLOSING_S)

    def after_fork(self) -> None:
        """Start again in a child process: the parent keeps all locks."""
        if self._connection is not None:
            _abandoned.append(self._connection)
            _detach(self._connection)
        self._connection = None
        closed = self._over.is_set()
        self._start()
        if closed:
            self._over.set()

    def _start(self) -> None:
        self._lock = Lock()
        self._over = threading.Event()
        self._thread = None
        self._wanted: set[str] = set()
        self._held: set[str] = set()
        """The names locked on our connection."""

    # The caller holds the lock.

    def _persevere(self, name: str) -> bool:
        deadline, pause = time.monotonic() + PATIENCE_S, 0.02
        while not self._over.wait(0):
            try:
                return self._try(self._connected(), name)
            except psycopg.Error as error:
                self._disconnect()
                if not is_passing(error) or time.monotonic() + pause > deadline:
                    raise translate(error, self._server.address.shown) from error
            self._over.wait(pause)
            pause = min(pause * 2, 1.0)
        raise Closed("the ledger is closed", hint="open it again")

    def _try(self, connection: Connection, name: str) -> bool:
        if name in self._held:
            # Taken once, for the server counts. It is ours while the connection answers.
            connection.execute("SELECT 1")
            return True
        # Noted first: an interrupt may come after the server has granted it.
        self._held.add(name)
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self.key(name),)).fetchone()
        if row is None or not row[0]:
            self._held.discard(name)
            return False
        return True

    def _connected(self) -> Connection:
        """Return the connection, a new one if it was lost, with all free locks taken again."""
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                # Sends nothing to the server, and notices if it has closed the connection.
                connection.pgconn.consume_input()
            if connection.closed:
                self._disconnect()
        if self._connection is None:
            self._connection = self._connect()
        for name in self._wanted - self._held:
            self._try(self._connection, name)
        return self._connection

    def _connect(self) -> Connection:
        connection = self._server.connect()
        try:
            is_replica = connection.execute(_PREPARE).fetchall()[0][0]
        except BaseException:
            connection.close()
            raise
        if is_replica:
            connection.close()
            raise ReadOnlySqlTransaction("the server is a replica: nobody looks at its locks")
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._held.clear()
        if connection is not None:
            connection.close()

    def _watch(self) -> None:
        while not self._over.wait(BEAT_S):
            with self._lock.guard, self._lock:
                if not self._wanted:
                    continue
                try:
                    self._connected()
                except psycopg.Error:
                    self._disconnect()  # Tried again at the next check.


def _detach(connection: Connection) -> None:
    """Close a parent's connection here only: the server must not end it."""
    with contextlib.suppress(psycopg.Error, OSError):
        theirs, nowhere = connection.fileno(), os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, theirs, inheritable=False)
        os.close(nowhere)
