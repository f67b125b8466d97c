"""Leases on a server: names that one store holds, visible to all processes of the ledger.

A lock may be free for a moment although its holder is alive: the server restarted, or the
connection was lost. So a free lock alone proves little.

They are advisory locks on a connection that stays open while something is locked. The server
releases them when the connection ends, at the latest with its process. It also ends when the server
restarts or the network drops it: a thread notices, connects again and takes the locks again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.errors import ReadOnlySqlTransaction

from treering.errors import Closed, ReadOnly
from treering.locks import Lock
from treering.model.scopes import Scope
from treering.storage.leases import (
    LeaseOwner,
    disuse,
    is_gone_from_sight,
    is_running,
    new_owner,
    use,
)
from treering.storage.postgres.faults import is_passing, translate

if TYPE_CHECKING:
    from treering.storage.postgres.server import Connection, Server

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


SILENCE_MS: Final = 60_000
"""A process on another machine counts as alive if it recorded something, or the server started,
within this time."""
RETAKING_S: Final = 5.0
"""Within this time a living process takes its locks again."""
NOTICING_S: Final = 2.0
"""Within this time the server notices that a process has ended."""
PAUSE_S: Final = 0.02
REMEMBERED_MAX: Final = 10_000
"""Remembered owners that are gone; a full set is emptied."""

_NOBODYS: Final = Scope("-")
"""Not the name of a scope: a role that sees one scope at a time has to state one."""
_HOLD: Final = "hold\0"
"""The prefix of held names, so that none equals an owner."""
_ENTER: Final = "SELECT CASE WHEN pg_is_in_recovery() THEN -1 ELSE enter_epoch() END"
_LOOK: Final = """
SELECT
  pg_is_in_recovery(),
  EXISTS (
    SELECT 1
    FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = %s::bigint::oid AND objid = %s::bigint::oid
  ),
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  greatest(
    (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint,
    (SELECT value::bigint FROM ledger WHERE name = 'entered_ms')
  )
"""


class Leases:
    """The leases of one store."""

    can_be_lost: Final = True

    def __init__(self, server: Server) -> None:
        self._server = server
        self._locks = NamedLocks(server)
        self._place = f"pg-{blake2b(server.lock_key, digest_size=4).hexdigest()}"
        self._lock = Lock()
        self._owner: str | None = None
        self._known_gone: set[str] = set()

    def owner(self) -> str:
        """Return the name under which this process holds its runs, held from now on."""
        with self._lock.guard, self._lock:
            if self._owner is None:
                owner = new_owner(self._place)
                self._locks.take(owner)
                use(owner)
                self._owner = owner
            return self._owner

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process of ``owner`` has certainly ended."""
        named = LeaseOwner.parse(owner)
        if named is None:
            return False
        if owner in self._known_gone:
            return True
        running = is_running(named)
        if running:
            return False
        if named.place != self._place:
            return is_gone_from_sight(named, self._look(owner)[2] - seen_ms)
        gone = self._is_silent(owner, seen_ms) if running is None else self._becomes_free(owner)
        if gone:
            if len(self._known_gone) >= REMEMBERED_MAX:
                self._known_gone = set()
            self._known_gone.add(owner)
        return gone

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` holds its runs in another ledger, of which this is a copy."""
        named = LeaseOwner.parse(owner)
        return named is not None and named.place != self._place

    def hold(self, name: str) -> bool:
        """Hold ``name`` alone; return False if another store has it."""
        return self._locks.take(_HOLD + name)

    def release(self, name: str) -> None:
        """Release ``name`` if it is held."""
        self._locks.release(_HOLD + name)

    def close(self) -> None:
        """Release everything."""
        self._locks.close()
        with self._lock.guard, self._lock:
            if self._owner is not None:
                disuse(self._owner)
                self._owner = None

    def after_fork(self) -> None:
        """Start again in a child process: the parent keeps all leases."""
        self._lock = Lock()
        self._owner = None
        self._locks.after_fork()

    def _becomes_free(self, owner: str) -> bool:
        """Whether the lock of an ended process is free, once the server has noticed."""
        deadline = time.monotonic() + NOTICING_S
        while self._look(owner)[1]:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_S)
        return True

    def _is_silent(self, owner: str, seen_ms: int) -> bool:
        """Whether a process on another machine has lost its lock and does not take it again."""
        deadline = time.monotonic() + RETAKING_S
        while True:
            is_replica, held, now_ms, since_ms = self._look(owner)
            if is_replica or held or now_ms - max(seen_ms, since_ms) <= SILENCE_MS:
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(PAUSE_S)

    def _look(self, owner: str) -> tuple[Any, ...]:
        """Return whether this is a replica, whether ``owner`` is held, the time, and since when."""
        key = self._locks.key(owner) % 2**64
        halves = (key >> 32, key % 2**32)

        def look(connection: Connection) -> tuple[Any, ...]:
            # First: a server that has just taken over notes that now.
            connection.execute(_ENTER)
            return connection.execute(_LOOK, halves).fetchall()[0]

        return self._server.read(look, _NOBODYS)
