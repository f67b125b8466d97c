"""A fair queue before the write lock, for all processes that share a file.

SQLite's own lock is polled: the luckiest poller wins, and one writer can starve. A kernel file
lock hands over in turn.
"""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from treering.errors import Busy, StorageError, check_from_system
from treering.locks import Bell

try:
    import fcntl
except ImportError:  # Windows has no flock: SQLite's own lock and its patience must do.
    fcntl = None  # type: ignore[assignment]

_MODE: Final = 0o600
_SUFFIX: Final = ".lock"
_LOOKS: Final = 10
"""How often the list of locks is read for one that is surely there."""
_WRITE_BYTE: Final = 120
"""What SQLite's own writers lock in the shared memory of the log."""
_COMMAND_WORDS_MAX: Final = 3
_COMMAND_CHARS_MAX: Final = 80


class WriteLock:
    """Lets one writer of all processes through at a time. Not for two threads at once."""

    def __init__(self, path: Path | None, *, patience_s: float) -> None:
        self._path = path if fcntl is not None else None
        self.patience_s = patience_s
        self._file: int | None = None
        self._waiting: _LockWaiter | None = None
        self.is_entered = False
        """Whether the lock may be ours: noted before it is asked for."""

    def enter(self) -> None:
        """Wait for the turn. Raise Busy when patience runs out."""
        if self._path is None:
            return
        if self._file is None:
            self._file = _open(self._path)
        self.is_entered = True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue()

    def leave(self) -> None:
        """Let the next writer through; if we are still in the queue, leave that."""
        if self._waiting is not None:
            self._waiting.abandon(kept=self._file)
            self._waiting = None
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self.is_entered = False

    def close(self) -> None:
        """Close the lock file."""
        file, self._file, self.is_entered = self._file, None, False
        if file is not None:
            os.close(file)

    def _queue(self) -> None:
        # A waiting flock keeps our place in the kernel's queue but has no time-out, so a thread
        # waits in it, on a file of its own that outlives our patience if need be.
        assert self._path is not None  # noqa: S101  (narrowing for the type checker)
        waiting = self._waiting = _LockWaiter(self._path)
        if not waiting.wait(self.patience_s):
            self.leave()
            raise busy(str(self._path).removesuffix(_SUFFIX), self.patience_s)
        before, self._file = self._file, waiting.file
        self._waiting = None
        if before is not None:
            os.close(before)


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that keeps other writers out."""

    process: int
    command: str
    is_stopped: bool
    idle_since: str | None
    """When something was last written, by any process; None if that is unknown."""

    def __str__(self) -> str:
        """Say who it is and what it does."""
        named = f"process {self.process} ({self.command or 'unknown command'})"
        doing = f"{named} is stopped and" if self.is_stopped else named
        since = f"; nothing was written since {self.idle_since}" if self.idle_since else ""
        return f"{doing} holds the write lock{since}"

    def holds_on(self, later: Holder | None) -> bool:
        """Return whether ``later`` is the same process, which has written nothing meanwhile."""
        if later is None or later.process != self.process:
            return False
        # It may have been stopped between the two looks.
        return later.is_stopped or later == self

    @property
    def remedy(self) -> str:
        """Return what lets the others continue."""
        if self.is_stopped:
            return f"continue it with kill -CONT {self.process}, or end it with kill -9"
        return f"wait for it, or end it with kill {self.process}; nothing acknowledged is lost"


def busy(ledger: str, waited_s: float) -> Busy:
    """Return the error for a ledger whose write lock was not free for ``waited_s``."""
    holder = find_holder(ledger)
    who = f": {holder}" if holder else ""
    return Busy(
        f"other writers kept {ledger} locked for {waited_s:g} s{who}",
        hint=f"{holder.remedy}, then try again"
        if holder
        else f"find the process that has it open with lsof {ledger}{_SUFFIX}, then try again",
    )


def find_holder(ledger: str) -> Holder | None:
    """Return the holder of a ledger's write lock; None if the system does not know it."""
    # The kernel gives its list page by page: while others lock and unlock, a read may miss a line.
    for _ in range(_LOOKS):
        for suffix, sort, byte in ((_SUFFIX, "FLOCK", 0), ("-shm", "POSIX", _WRITE_BYTE)):
            with contextlib.suppress(OSError):
                inode = Path(ledger + suffix).stat().st_ino
                for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
                    if (process := _holding(line, (sort, "WRITE", inode), byte)) is not None:
                        return _describe(process, ledger)
    return None


def _holding(line: str, lock: tuple[str, str, int], byte: int) -> int | None:
    """Return the process of a line of /proc/locks, if it holds ``lock`` at ``byte``."""
    with contextlib.suppress(ValueError, IndexError):
        # 1: FLOCK  ADVISORY  WRITE 4321 fe:00:131073 0 EOF
        _, kind, _, access, process, file, first, last = line.replace("-> ", "").split()
        covers = int(first) <= byte and (last == "EOF" or byte <= int(last))
        is_waiting = "->" in line
        if (kind, access, int(file.rsplit(":", 1)[1])) == lock and covers and not is_waiting:
            return int(process)
    return None


def _describe(process: int, ledger: str) -> Holder:
    command, state = "", ""
    with contextlib.suppress(OSError, IndexError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        # Later words may be a secret.
        command = " ".join(words[:_COMMAND_WORDS_MAX]).strip()
        state = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        )
    written = None
    with contextlib.suppress(OSError):
        at = datetime.fromtimestamp(Path(ledger + "-wal").stat().st_mtime, UTC)
        written = at.isoformat(sep=" ", timespec="milliseconds")
    return Holder(
        process=process,
        command="".join(
            char if char.isprintable() else "?" for char in command[:_COMMAND_CHARS_MAX]
        ),
        is_stopped=state in {"T", "t"},
        idle_since=written,
    )


class _LockWaiter:
    """One place in the kernel's queue, with a thread that waits there."""

    def __init__(self, path: Path) -> None:
        self.file = _open(path)
        self._arrival = Bell()
        self._outcome: dict[str, bool] = {}
        """Whether it has arrived or was abandoned: the first entry counts."""

    def wait(self, timeout_s: float) -> bool:
        """Wait in the queue; return False after the timeout."""
        threading.Thread(target=self._queue, name="treering-write-lock", daemon=True).start()
        return self._arrival.wait(timeout_s)

    def abandon(self, *, kept: int | None) -> None:
        """Release the lock, now or as soon as the thread has it; close the file unless kept."""
        if self._outcome.setdefault("arrived", False):
            fcntl.flock(self.file, fcntl.LOCK_UN)
            if self.file != kept:
                os.close(self.file)

    def _queue(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        if self._outcome.setdefault("arrived", True):
            self._arrival.ring()
        else:
            # Unlocked by name: a forked child may still hold a copy of this file.
            fcntl.flock(self.file, fcntl.LOCK_UN)
            os.close(self.file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _MODE)
    except OSError as error:
        check_from_system(error)
        raise StorageError(
            f"cannot open {path}: {error.strerror}",
            hint="check the permissions of the ledger's folder, or open it read-only",
        ) from error
