"""Leases on a server: names that one store holds, visible to all processes of the ledger.

A lock may be free for a moment although its holder is alive: the server restarted, or the
connection was lost. So a free lock alone proves little.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

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
from treering.storage.postgres.locks import NamedLocks

if TYPE_CHECKING:
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.server import Server

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
