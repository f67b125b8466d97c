"""Holding a database file, its log and its shared memory in place while they are open.

SQLite's own locks belong to the process: they are gone as soon as anything in it closes the file,
such as Python's ``sqlite3`` after a look. Other processes then take the file for unused, and the
next to close it deletes the log that we keep writing to. So we lock the same bytes once more, with
a lock that belongs to a descriptor of our own. Where the system has no such locks, what SQLite
should hold is locked again before each write. In both cases we check whether the files at the path
are still those that we have open.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import apsw

from treering.errors import Busy, LedgerMoved, check_from_system
from treering.locks import Lock
from treering.storage.sqlite.leases import IS_SUPPORTED, PAUSE_S, is_locked_elsewhere, lock_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

try:
    import fcntl
except ImportError:  # Windows neither drops locks nor deletes files that are open.
    fcntl = None  # type: ignore[assignment]

# The bytes that SQLite locks: see os.h and os_unix.c. Every connection to a log holds the first
# ones for reading; a process that has them for writing is alone, and deletes the log at the end.
_SHARED: Final = (0x4000_0002, 510)
# A process that finds this byte of the shared memory unlocked empties it.
_IN_USE: Final = (128, 1)
_MODE_AT: Final = 18
_PIECE_BYTES: Final = 1024**2
_WITH_LOG: Final = b"\x02\x02"
"""What a file that is written through a log has there."""

_FINE_S, _COARSE_S = 0.1, 3.0
"""Two changes of a folder within this time may bear the same time: some disks count in seconds."""
_FINE_NS: Final = 10_000_000
"""A disk with times that are no multiples of this counts in smaller steps."""

_Place: TypeAlias = tuple[int, int]
"""The device and the inode of a file."""
Moved = Literal["ledger", "log"]


class FileGuard:
    """One user's hold on a database in write-ahead mode."""

    def __init__(self, path: str, *, patience_s: float) -> None:
        self._path = path
        # SQLite has them beside the file itself, wherever a link to it is.
        self.beside = os.path.realpath(path)
        self._log = self.beside + "-wal"
        self._memory = self.beside + "-shm"
        self._patience_s = patience_s
        self._lock = Lock()
        self._file: _HeldFile | None = None
        self._shared: _HeldFile | None = None
        self._places: tuple[_Place, _Place, _Place] | None = None
        """The file, its log and its shared memory, as they were when they were opened."""
        is_link = os.path.islink(path)  # noqa: PTH114  (the path is text)
        self._folder = None if is_link else os.path.dirname(path) or "."  # noqa: PTH120
        self._unchanged: tuple[int, int] | None = None
        """The folder, and when it was last changed, if nothing has moved since then."""
        self._seen: tuple[int, int] | None = None
        """The same as it was last seen, and since when by the clock of this process."""
        self._seen_at = 0.0
        self.is_lasting = False
        """Whether only a program that removes files by name can take the log away."""
        self._has_opened = False
        self._spares_log = False
        """Whether the log is left to whatever has taken the place of our file, or will."""

    def hold(self) -> bool:
        """Keep others from deleting the log, before it is opened; return False if there is none."""
        with self._lock.guard, self._lock:
            if self._file is None:
                try:
                    self._file = _open(self._path, _SHARED, self)
                except FileNotFoundError:
                    raise LedgerMoved(
                        f"{self._path} is no longer there",
                        hint="put the file back, or close the ledger and open another",
                    ) from None
            if any(user.beside != self.beside for user in self._file.users):
                raise self._other_log()
            if not self._file.is_locked:
                is_settled = self._is_settled(self._file)
                self._await_one_log(self._file, is_settled=is_settled)
                if is_settled:
                    self._file.lock(self._patience_s)
            return self._file.is_locked

    def _is_settled(self, file: _HeldFile) -> bool:
        # To switch a file over to a log, or to undo a switch that was cut off, a process needs it
        # unlocked.
        return file.has_log() and not os.path.exists(self.beside + "-journal")  # noqa: PTH110

    def _await_one_log(self, file: _HeldFile, *, is_settled: bool) -> None:
        """Wait until all who have the file open use the log beside it, and nobody else does.

        With two logs each writer would undo what the other has recorded. Raise Busy if it stays so.
        Who had the file open before has seen to its log, and need not wait for others to do so.
        """
        # A process that opens or closes the file has only one of the locks for a moment.
        deadline = time.monotonic() + self._patience_s
        while not self._has_opened and self._has_two_logs(file, is_settled=is_settled):
            if time.monotonic() > deadline:
                raise self._other_log()
            time.sleep(PAUSE_S)
        self._has_opened = True

    def _has_two_logs(self, file: _HeldFile, *, is_settled: bool) -> bool:
        in_use = is_locked_elsewhere(file.descriptors[0], *_SHARED)
        if in_use is None:
            return False
        try:
            memory = _open(self._memory, _IN_USE, self)
        except FileNotFoundError:
            return in_use and is_settled
        is_live = memory.is_locked or is_locked_elsewhere(memory.descriptors[0], *_IN_USE)
        with _lock.guard, _lock:
            _release(self, memory)
        _close([memory])
        if in_use:
            return is_settled and not is_live
        # A log that was cut belongs to no file.
        return bool(is_live) and os.path.exists(self._log) and os.path.getsize(self._log) > 0  # noqa: PTH110, PTH202

    def _other_log(self) -> Busy:
        return Busy(
            f"a program that is running has {self._path} open with another log: the file has"
            " several names, or it or its log was moved",
            hint="close the programs that have it open, or open it by the name that they use",
        )

    def pin(self) -> None:
        """Note which files are in use, as soon as a connection has read the log."""
        with self._lock.guard, self._lock:
            if self._places is not None or self._file is None:
                return
            try:
                self._shared = self._shared or _open(self._memory, _IN_USE, self)
                self._shared.lock(self._patience_s)
                places = (self._file.place, _place(self._log), self._shared.place)
            except FileNotFoundError:
                raise LedgerMoved(
                    f"the log of {self._path} was removed while it was open",
                    hint="close all that has the file open in this program, then open it again",
                ) from None
            self.is_lasting = self._file.is_lasting and self._shared.is_lasting
            self._places = places

    def moved(self) -> Moved | None:
        """Say what is no longer at its path, if anything."""
        places = self._places  # Readers ask without a lock, and others may release meanwhile.
        if places is None:
            return None
        # Adding, removing or renaming a file changes its folder: one look instead of three.
        folder = None
        if self._folder is not None:
            try:
                status = os.stat(self._folder)  # noqa: PTH116  (the path is text)
                folder = (status.st_ino, status.st_ctime_ns)
            except OSError as error:
                check_from_system(error)
        if folder is not None and folder == self._unchanged:
            return None
        moved = self._compare(places)
        self._unchanged = folder if moved is None and self._is_old(folder) else None
        return moved

    def _is_old(self, folder: tuple[int, int] | None) -> bool:
        """Whether the next change of the folder is going to show in its time."""
        if folder is None or folder != self._seen:
            self._seen, self._seen_at = folder, time.monotonic()
            return False
        coarse_s = _FINE_S if folder[1] % _FINE_NS else _COARSE_S
        return time.monotonic() - self._seen_at > coarse_s

    def _compare(self, places: tuple[_Place, _Place, _Place]) -> Moved | None:
        file, log, memory = places
        try:
            if _place(self._path) != file:
                return "ledger"
        except OSError as error:
            check_from_system(error)
            return "ledger"
        self._spares_log = False
        try:
            return None if (_place(self._log), _place(self._memory)) == (log, memory) else "log"
        except OSError as error:
            check_from_system(error)
            return "log"

    def is_without_log(self) -> bool:
        """Whether the log was removed and nobody has written another."""
        if self.moved() != "log":
            return False
        try:
            # Any tool that opens the file makes an empty one.
            return os.stat(self._log).st_size == 0  # noqa: PTH116  (the path is text)
        except FileNotFoundError:
            return True

    def leaves_log(self) -> bool:
        """Whether the log is to be left as it is, though our file is not at its path any more.

        It belongs to a copy of our file as well, and it is all that is left of what is in no file:
        one that was moved to another disk may come back. SQLite would apply it to any other file
        at the path.
        """
        if self._file is not None and not self._spares_log:
            try:
                self._spares_log = self._file.leaves_log_to(self._path)
            except FileNotFoundError:
                return self._file.is_removed()
            except OSError as error:
                check_from_system(error)
        return self._spares_log

    def leave_log(self) -> None:
        """Note that the log was cut: what is in it from now on belongs to others."""
        self._spares_log = True

    def renew(self) -> None:
        """Lock again what something in this process may have unlocked."""
        for file in (self._file, self._shared):
            if file is not None:
                file.lock(self._patience_s)

    def release(self, connections: Iterable[apsw.Connection]) -> None:
        """Close the last connections, and release the files."""
        # SQLite deletes the log by its name, whosever it is by now.
        is_left = self._spares_log and os.path.exists(self._path)  # noqa: PTH110  (it is text)
        spare_log = is_left or self._has_foreign_log()
        with self._lock.guard, self._lock:
            self._file = self._shared = self._places = self._unchanged = None
            self._spares_log = False
        held = _release_files(self)
        for connection in connections:
            with contextlib.suppress(apsw.Error):
                if spare_log:
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close(True)
        _close(held)

    def _has_foreign_log(self) -> bool:
        places = self._places
        try:
            if places is None or _place(self._log) != places[1]:
                return places is not None
        except OSError as error:
            check_from_system(error)
            return False
        try:
            # Others may have added to our log what our shared memory does not know of.
            return _place(self._memory) != places[2]
        except OSError as error:
            check_from_system(error)
            return True


class _HeldFile:
    """A file that this process has open to hold its locks."""

    def __init__(self, descriptor: int, path: str, stretch: tuple[int, int]) -> None:
        status = os.fstat(descriptor)
        self.place: _Place = (status.st_dev, status.st_ino)
        self.descriptors = [descriptor]
        self.users: weakref.WeakSet[FileGuard] = weakref.WeakSet()
        """Counted by who they are: a release that was interrupted can be repeated."""
        self.is_locked = False
        self.is_lasting = False
        self._path = path
        self._stretch = stretch

    def has_log(self) -> bool:
        """Whether the file is written through a log."""
        # Not closed again: that would drop the locks of SQLite's connections.
        return (
            not IS_SUPPORTED or os.pread(self.descriptors[0], len(_WITH_LOG), _MODE_AT) == _WITH_LOG
        )

    def is_removed(self) -> bool:
        """Whether the file has no name any more."""
        return os.fstat(self.descriptors[0]).st_nlink == 0

    def leaves_log_to(self, path: str) -> bool:
        """Whether the file at ``path`` is a copy of this one, or is in use."""
        other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if is_locked_elsewhere(other, *_SHARED):
                return True
            if os.fstat(other).st_size != os.fstat(self.descriptors[0]).st_size:
                return False
            at = 0
            while piece := os.pread(other, _PIECE_BYTES, at):
                if piece != os.pread(self.descriptors[0], _PIECE_BYTES, at):
                    return False
                at += len(piece)
            return True
        finally:
            os.close(other)

    def lock(self, patience_s: float) -> None:
        """Lock the stretch, or lock it again. Raise Busy if another program has it alone."""
        if not IS_SUPPORTED:
            self.is_locked = True
            return
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self.is_lasting = lock_bytes(self.descriptors[0], fcntl.LOCK_SH, *self._stretch)
            except (BlockingIOError, PermissionError):
                if time.monotonic() > deadline:
                    raise Busy(
                        f"another program keeps {self._path} locked",
                        hint="close other tools that have the file open, then try again",
                    ) from None
                time.sleep(PAUSE_S)
            else:
                self.is_locked = True
                return

    def unlock(self) -> None:
        """Unlock the stretch; a lock of the process is left to SQLite, which shares it."""
        self.is_locked = False
        if self.is_lasting:
            lock_bytes(self.descriptors[0], fcntl.LOCK_UN, *self._stretch)


_lock = Lock()
_files: dict[_Place, _HeldFile] = {}
"""What this process holds: one descriptor for all who use a file, since closing one drops the locks
that SQLite has on it."""
_owner = os.getpid()


def _open(path: str, stretch: tuple[int, int], user: FileGuard) -> _HeldFile:
    with _lock.guard, _lock:
        _close_inherited()
        file = _files.get(_place(path))
        if file is None:
            opened = _HeldFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, stretch)
            file = _files.setdefault(opened.place, opened)
            if file is not opened:  # It took this place just now.
                file.descriptors += opened.descriptors
        file.users.add(user)
        return file


def _release_files(user: FileGuard) -> list[_HeldFile]:
    """Release all files of ``user``, also those that it could not note; return them."""
    with _lock.guard, _lock:
        _close_inherited()
        held = [file for file in _files.values() if user in file.users]
        for file in held:
            _release(user, file)
        return held


def _release(user: FileGuard, file: _HeldFile) -> None:
    file.users.discard(user)
    if not file.users:
        file.unlock()


def _close(files: Iterable[_HeldFile]) -> None:
    """Close those of ``files`` that are not in use again."""
    with _lock.guard, _lock:
        for file in files:
            if not file.users and _files.get(file.place) is file:
                del _files[file.place]
                descriptors, file.descriptors = file.descriptors, []
                for descriptor in descriptors:
                    os.close(descriptor)


def _close_inherited() -> None:
    """Close the descriptors of a parent process; its locks stay, as it has the files open."""
    global _owner  # noqa: PLW0603  (one table for the process)
    if _owner != os.getpid():
        _owner = os.getpid()
        for file in _files.values():
            for descriptor in file.descriptors:
                os.close(descriptor)
            file.descriptors = []
        _files.clear()


def _place(path: str) -> _Place:
    status = os.stat(path)  # noqa: PTH116  (the path is text)
    return status.st_dev, status.st_ino
