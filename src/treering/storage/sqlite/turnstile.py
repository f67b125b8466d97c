"""A fair queue before the write lock, for all processes that share a file.

SQLite's own lock is polled: whoever polls luckily wins, and one writer can starve. A kernel file
lock hands over in turn.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from treering.errors import Busy, StorageError

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no flock: SQLite's own lock and its patience must do.
    fcntl = None  # type: ignore[assignment]

_MODE: Final = 0o600


class Turnstile:
    """Lets one writer of all processes through at a time. Not for two threads at once."""

    def __init__(self, path: Path | None, *, patience_s: float) -> None:
        self._path = path if fcntl is not None else None
        self.patience_s = patience_s
        self._file: int | None = None

    def enter(self) -> None:
        """Wait for the turn. Raises Busy when patience runs out."""
        if self._path is None:
            return
        if self._file is None:
            self._file = _open(self._path)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue()

    def leave(self) -> None:
        """Let the next one through."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the lock file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _queue(self) -> None:
        # A waiting flock keeps our place in the kernel's queue but knows no time-out, so a thread
        # waits in it, on a file of its own that outlives our patience if need be.
        assert self._path is not None  # noqa: S101  (narrowing for the type checker)
        waiting = _Waiting(self._path)
        if not waiting.wait(self.patience_s):
            raise Busy(
                f"other writers kept {self._path.name} locked for {self.patience_s:g} s",
                hint="look for a stuck process that has the ledger open, then try again",
            )
        if self._file is not None:
            os.close(self._file)
        self._file = waiting.file


class _Waiting:
    """One place in the kernel's queue."""

    def __init__(self, path: Path) -> None:
        self.file = _open(path)
        self._lock = threading.Lock()
        self._abandoned = False
        self._arrived = threading.Event()
        threading.Thread(target=self._stand, name="treering-turnstile", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        if self._arrived.wait(timeout_s):
            return True
        with self._lock:
            if self._arrived.is_set():
                return True
            self._abandoned = True
        return False

    def _stand(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        with self._lock:
            if self._abandoned:
                # Unlocked by name: a forked child may still hold a copy of this file.
                fcntl.flock(self.file, fcntl.LOCK_UN)
                os.close(self.file)
                return
            self._arrived.set()


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise StorageError(
            f"cannot open {path}: {error.strerror}",
            hint="check the permissions of the ledger's folder, or open it read-only",
        ) from error
