"""Advisory locks of a connection that is kept as long as something is locked.

The server lets go of them when the connection ends, and that ends with its process. It also ends
when the server is started anew, or something on the way gives it up: a thread notices, connects
again and takes back what was locked.
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
"""How often it is looked whether the connection is still there."""
PATIENCE_S: Final = 30.0
"""How long a lost server is waited for."""
CLOSING_S: Final = 5.0
"""How long the thread is waited for that looks after the connection; it ends by itself."""

# Nothing is ever asked, and that is no reason to hang up. A machine that lost its power says no
# word: the server gives it up when silence has been borne long enough.
_PREPARE: Final = """
SELECT pg_is_in_recovery(), set_config('idle_session_timeout', '0', false),
  set_config('tcp_keepalives_idle', '30', false),
  set_config('tcp_keepalives_interval', '10', false),
  set_config('tcp_keepalives_count', '3', false)
"""

_abandoned: list[Connection] = []
"""Connections of a parent process, kept so that nothing closes them."""


class NamedLocks:
    """Named locks of this process, apart from those that order appends."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._start()

    def key(self, name: str) -> int:
        """Return the number that a lock has on the server."""
        digest = blake2b(
            name.encode(), digest_size=8, key=self._server.lock_key, person=b"treering-leases"
        )
        return int.from_bytes(digest.digest(), "big", signed=True)

    def take(self, name: str) -> bool:
        """Lock ``name`` from now on; return False if another has it. Again: whether we still do."""
        with self._lock.guard, self._lock:
            if self._server.read_only:
                raise ReadOnly("the ledger was opened read-only", hint="open it with mode='rw'")
            if not self._persevere(name):
                self._wanted.discard(name)
                return False
            self._wanted.add(name)
            if self._thread is None:
                # Noted once it runs. One that runs and is not noted ends with the other.
                thread = threading.Thread(target=self._watch, name="treering-locks", daemon=True)
                thread.start()
                self._thread = thread
            return True

    def release(self, name: str) -> None:
        """Let go of ``name`` if it is locked."""
        with self._lock.guard, self._lock:
            self._wanted.discard(name)
            if name not in self._held or self._connection is None:
                return
            try:
                self._connection.execute("SELECT pg_advisory_unlock(%s)", (self.key(name),))
            except psycopg.Error:
                self._disconnect()  # The lock goes with it; the others are taken back.
            self._held.discard(name)

    def close(self) -> None:
        """Let go of everything."""
        self._over.set()
        with self._lock.guard, self._lock:
            self._wanted.clear()
            with contextlib.suppress(psycopg.Error):
                # Waited for: the server would find out a moment later.
                if self._connection is not None:
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
            self._disconnect()
        if self._thread is not None:
            self._thread.join(CLOSING_S)

    def after_fork(self) -> None:
        """Go on in a child: all that was locked stays with the parent."""
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
        """What is locked by the connection that we have."""

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
            # Taken once, for the server counts. It is ours as long as the connection answers.
            connection.execute("SELECT 1")
            return True
        # Noted before: an interrupt may come when the server has granted it.
        self._held.add(name)
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self.key(name),)).fetchone()
        if row is None or not row[0]:
            self._held.discard(name)
            return False
        return True

    def _connected(self) -> Connection:
        """Return the connection, made anew if it was lost, with all that can be had taken back."""
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                # Says nothing to the server, and notices if that has hung up.
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
                    self._disconnect()  # Tried again at the next beat.


def _detach(connection: Connection) -> None:
    """Close a parent's connection here without a word, so that it ends there with the parent."""
    with contextlib.suppress(psycopg.Error, OSError):
        theirs, nowhere = connection.fileno(), os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nowhere, theirs, inheritable=False)
        os.close(nowhere)
