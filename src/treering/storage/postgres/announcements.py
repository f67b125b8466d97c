"""Announcements: followers of other processes are woken by NOTIFY; if it fails, they poll.

NOTIFY takes one lock for the whole server at commit, so it has no place in an append. A thread
sends it shortly after, once for all that was appended in the meantime.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

import psycopg

from treering.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.storage.notifier import Notifier
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.server import Server

GAP_S: Final = 0.02
"""Announcements are at least this far apart."""
LISTENING_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0
"""Between two tries of a listener who is refused."""
PATIENCE_S: Final = 1.0


class Announcer:
    """Tells the other processes that something was appended."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread: threading.Thread | None = None
        self._start()

    def announce(self) -> None:
        """Have it told soon."""
        if not self._pending.is_set():
            self._pending.set()
        if self._thread is None:
            with self._lock.guard, self._lock:
                if self._thread is None:
                    self._thread = _started(self._run, "treering-announcer")

    def close(self) -> None:
        """Tell what has not been told yet, and end."""
        if self._thread is None:
            return
        self._over = True
        self._pending.set()
        self._thread.join(PATIENCE_S)

    def after_fork(self) -> None:
        """Go on in a child: the thread stayed in the parent."""
        self._start()

    def _start(self) -> None:
        self._lock = Lock()
        self._pending = threading.Event()
        self._thread = None
        self._over = False
        self._pause = threading.Event()

    def _run(self) -> None:
        connection: Connection | None = None
        while True:
            # Looked at now and then: one that was not noted is not told that it is over.
            if not self._pending.wait(LISTENING_S) and not self._over:
                continue
            self._pending.clear()
            # A follower that is not told finds out by itself, a little later.
            with contextlib.suppress(psycopg.Error):
                # A connection of its own, so that appends keep to theirs.
                if connection is None or connection.closed:
                    connection = self._server.connect()
                connection.execute("SELECT pg_notify(%s, '')", (channel(self._server),))
            if self._over:
                break
            self._pause.wait(GAP_S)
        if connection is not None:
            connection.close()


class Listener:
    """Spreads the announcements of other processes within this one."""

    def __init__(self, server: Server, notifier: Notifier) -> None:
        self._server = server
        self._notifier = notifier
        self._thread: threading.Thread | None = None
        self.after_fork()

    def listen(self) -> None:
        """Listen from now on, in a thread of its own."""
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
        """Go on in a child: the thread stayed in the parent."""
        self._lock = Lock()
        self._thread = None
        self._over = threading.Event()
        self._heard = False
        """Whether the server has let us listen."""

    def _run(self) -> None:
        pause = LISTENING_S
        while not self._over.is_set():
            self._heard = False
            with contextlib.suppress(psycopg.Error):
                self._hear()
            # A replica does not let anybody listen, until it is promoted.
            pause = LISTENING_S if self._heard else min(pause * 2, PAUSE_MAX_S)
            self._over.wait(pause)

    def _hear(self) -> None:
        with self._server.connect() as connection:
            connection.execute(f"LISTEN {channel(self._server)}")
            self._heard = True
            self._notifier.notify()
            while not self._over.is_set():
                for _ in connection.notifies(timeout=LISTENING_S, stop_after=1):
                    self._notifier.notify()


def _started(work: Callable[[], None], name: str) -> threading.Thread:
    """Return a thread that runs: one that was not started cannot be waited for."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def channel(server: Server) -> str:
    """Return the name under which a ledger's appends are announced."""
    return f"treering_{server.address.schema}"
