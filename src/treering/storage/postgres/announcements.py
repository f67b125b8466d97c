"""Announcements: NOTIFY wakes followers in other processes; if it fails, they poll.

NOTIFY takes one lock for the whole server at commit, so an append does not send it. A thread
sends one shortly after, for all appends in the meantime, if anybody listens: who does shares a
lock.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

import psycopg

from treering.locks import Lock
from treering.storage.postgres.id_cache import IdCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.storage.notifier import Notifier
    from treering.storage.postgres.server import Connection, Server

GAP_S: Final = 0.02
"""The shortest time between two announcements."""
UNHEARD_S: Final = 0.25
"""The same, while nobody listens."""
LISTENING_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0
"""Time between two tries of a listener that the server refused."""
PATIENCE_S: Final = 1.0


class Announcer:
    """Announces appends to other processes."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread: threading.Thread | None = None
        self._start()

    def announce(self) -> None:
        """Announce an append soon."""
        if not self._pending.is_set():
            self._pending.set()
        if self._thread is None:
            with self._lock.guard, self._lock:
                if self._thread is None:
                    self._thread = _started(self._run, "treering-announcer")

    def close(self) -> None:
        """Send what is not announced yet, and stop."""
        if self._thread is None:
            return
        self._over = True
        self._pending.set()
        self._pause.set()
        self._thread.join(PATIENCE_S)

    def after_fork(self) -> None:
        """Start again in a child process: the thread stayed in the parent."""
        self._start()

    def _start(self) -> None:
        self._lock = Lock()
        self._pending = threading.Event()
        self._thread = None
        self._over = False
        self._pause = threading.Event()

    def _run(self) -> None:
        connection: Connection | None = None
        announcing = (
            f"SELECT pg_notify('{channel(self._server)}', '')"
            f" WHERE NOT pg_try_advisory_xact_lock({_listening(self._server)})"
        ).encode()
        while True:
            # Check now and then: an interrupted start may leave a thread that nobody stops.
            if not self._pending.wait(LISTENING_S) and not self._over:
                continue
            self._pending.clear()
            is_heard = False
            # A follower that hears nothing polls, a little later.
            with contextlib.suppress(psycopg.Error):
                # A connection of its own: appends keep theirs.
                if connection is None or connection.closed:
                    connection = self._server.connect()
                # By libpq itself: psycopg would hold up the thread that appends.
                is_heard = connection.pgconn.exec_(announcing).ntuples > 0
            if self._over:
                break
            self._pause.wait(GAP_S if is_heard else UNHEARD_S)
        if connection is not None:
            connection.close()


class Listener:
    """Passes announcements of other processes on to this one."""

    def __init__(self, server: Server, notifier: Notifier) -> None:
        self._server = server
        self._notifier = notifier
        self._thread: threading.Thread | None = None
        self.after_fork()

    def listen(self) -> None:
        """Start listening, in a thread of its own."""
        if self._thread is None:
            with self._lock.guard, self._lock:
                if self._thread is None:
                    self._thread = _started(self._run, "treering-listener")

    def close(self) -> None:
        """Stop listening."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def after_fork(self) -> None:
        """Start again in a child process: the thread stayed in the parent."""
        self._lock = Lock()
        self._thread = None
        self._over = threading.Event()
        self._heard = False
        """Whether the server lets us listen."""

    def _run(self) -> None:
        pause = LISTENING_S
        while not self._over.is_set():
            self._heard = False
            with contextlib.suppress(psycopg.Error):
                self._hear()
            # A replica refuses to listen until it is promoted.
            pause = LISTENING_S if self._heard else min(pause * 2, PAUSE_MAX_S)
            self._over.wait(pause)

    def _hear(self) -> None:
        with self._server.connect() as connection:
            connection.execute("SELECT pg_advisory_lock_shared(%s)", (_listening(self._server),))
            connection.execute(f"LISTEN {channel(self._server)}")
            self._heard = True
            self._notifier.notify()
            while not self._over.is_set():
                for _ in connection.notifies(timeout=LISTENING_S, stop_after=1):
                    self._notifier.notify()


def _started(work: Callable[[], None], name: str) -> threading.Thread:
    """Return a started thread: one that is not started cannot be joined."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def _listening(server: Server) -> int:
    """Return the lock that everybody shares who listens."""
    return IdCache(server.lock_key).lock_of("", "listening")


def channel(server: Server) -> str:
    """Return the channel of a ledger's announcements."""
    return f"treering_{server.address.schema}"
