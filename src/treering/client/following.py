"""Following a scope on a server: a stream of events that is resumed whenever it breaks."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from treering.client.connection import PAUSE_S_MAX, path_of
from treering.errors import Busy, Unavailable
from treering.ledger.following import cursor_at, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.client.connection import ServerConnection
    from treering.model.events import Header
    from treering.model.scopes import Scope

Item = TypeVar("Item", bound="Header")

_BEAT_S: Final = 0.1
"""How often to check whether to stop."""
_CAUGHT_UP: Final = b": caught up"
_BROKEN: Final = b""
"""Takes the place of a line: the stream has ended."""
_LINES_MAX: Final = 4_096
"""Lines that are read ahead; then the server waits for the reader."""


class RemoteFollower(Generic[Item]):
    """An iterator over the events of a scope, as ``Follower`` is on a local ledger."""

    def __init__(
        self,
        connection: ServerConnection,
        scope: Scope,
        kind: type[Item],
        *,
        payloads: bool,
        after: str | None,
        idle_s: float | None,
        stop: threading.Event | None,
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._kind = kind
        if after:
            mark_of(after, scope)
        self.cursor = after or cursor_at(scope, ())
        """The cursor after the last event that was delivered."""
        query = {"payloads": "true"} if payloads else {}
        self._path = f"{path_of('scopes', scope, 'stream')}?{urlencode(query)}"
        self._idle_s = idle_s
        self._stop = stop or threading.Event()
        self._items = self._deliver()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return next(self._items)

    def close(self) -> None:
        """Stop following."""
        self._items.close()  # type: ignore[attr-defined]

    def _deliver(self) -> Iterator[Item]:
        heard = time.monotonic()
        is_current = False
        cursor = self.cursor
        with contextlib.closing(_Lines(self._connection, self._path, self.cursor)) as lines:
            while not self._stop.is_set():
                line = lines.next(self.cursor)
                if line is None:
                    idle = time.monotonic() - heard
                    if is_current and self._idle_s is not None and idle >= self._idle_s:
                        return
                elif line == _BROKEN:
                    cursor = self.cursor  # The id of an event that did not arrive does not count.
                elif line.startswith(b"id: "):
                    cursor = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    heard = time.monotonic()
                    self.cursor = cursor
                    yield msgspec.json.decode(line[6:], type=self._kind)
                elif line.startswith(_CAUGHT_UP):
                    heard, is_current = time.monotonic(), True
                    if self._idle_s == 0:
                        return
                elif not line.strip():
                    # The end of a heartbeat, or of an event: the cursor counts from here.
                    self.cursor = cursor


class _Lines:
    """The lines of a stream, read ahead by a thread, connected again whenever it breaks."""

    def __init__(self, connection: ServerConnection, path: str, cursor: str) -> None:
        self._connection = connection
        self._path = path
        self._lines: queue.Queue[bytes] = queue.Queue(_LINES_MAX)
        self._sockets: HTTPConnection | None = None
        self._is_over = False
        self._begin(cursor)

    def next(self, cursor: str) -> bytes | None:
        """Return the next line; None if none comes for a moment. ``cursor`` is where to resume."""
        try:
            line = self._lines.get(timeout=_BEAT_S)
        except queue.Empty:
            return None
        if line == _BROKEN:
            self._begin_again(cursor)
        return line

    def close(self) -> None:
        """End the stream, and the thread that reads it."""
        self._is_over = True
        if self._sockets is not None:
            _break(self._sockets)
        with contextlib.suppress(queue.Empty):
            while True:  # Makes room for what the thread may be about to add.
                self._lines.get_nowait()

    def _begin(self, cursor: str) -> None:
        connection, answer = self._connection.stream(self._path, {"Last-Event-ID": cursor})
        self._sockets = connection
        threading.Thread(
            target=self._read, args=(connection, answer), name="treering-follow", daemon=True
        ).start()

    def _begin_again(self, cursor: str) -> None:
        try:
            self._begin(cursor)
        except (Busy, Unavailable):
            time.sleep(PAUSE_S_MAX / 4)
            self._lines.put(_BROKEN)

    def _read(self, connection: HTTPConnection, answer: HTTPResponse) -> None:
        with contextlib.suppress(OSError, HTTPException, ValueError, AttributeError):
            while line := answer.readline():
                if self._is_over:
                    break
                self._lines.put(line)
        connection.close()
        if not self._is_over:
            self._lines.put(_BROKEN)


def _break(connection: HTTPConnection) -> None:
    """End a connection, and a read in another thread that waits for it."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(2)
