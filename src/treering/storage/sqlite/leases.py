"""Leases on a file: what one store holds, for all processes that share it to see.

A lease is a locked byte of a file beside the database. The kernel releases a process's locks when
the process ends, however it ends. Most kernels also release all of them when the process closes any
descriptor of the file, and see no conflict within a process. So there is one table of open files
for the whole process.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time
import weakref
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.errors import Closed, ReadOnly, StorageError, check_from_system
from treering.locks import Lock
from treering.storage import forks
from treering.storage.leases import (
    LeaseOwner,
    disuse,
    is_gone_from_sight,
    is_running,
    new_owner,
    use,
)

if TYPE_CHECKING:
    from treering.storage.sqlite.database import Database

try:
    import fcntl
except ImportError:  # Windows has no such locks: what can be learnt of processes must do.
    fcntl = None  # type: ignore[assignment]

IS_SUPPORTED: Final = fcntl is not None
ATTEMPTS_MAX: Final = 50
"""How often a file is opened that is replaced meanwhile, and a byte tried that is looked at."""
PAUSE_S: Final = 0.01
_MODE: Final = 0o600
# Linux has locks that belong to the opened file: another that opens and closes it, a backup say,
# does not drop them. A child shares them, so it closes the file at once.
_OF_FILE: Final = getattr(fcntl, "F_OFD_SETLK", None)
_LOOK_OF_FILE: Final = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK: Final = "hhqqi0q"
_SORTS: Final = (
    {fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
    if IS_SUPPORTED
    else {}
)


class LeaseFile:
    """A file of leases that this process has open."""

    def __init__(self, descriptor: int) -> None:
        self.descriptors = [descriptor]
        self.holders: dict[str, weakref.ref[Any]] = {}

    @property
    def inode(self) -> int:
        """Return the number of the file on its disk; nobody else has it while this is open."""
        return os.fstat(self.descriptors[0]).st_ino

    def lock(self, name: str) -> bool:
        """Lock the byte of ``name`` unless another process has."""
        return _locked(self.descriptors[0], fcntl.LOCK_EX, name)

    def lock_again(self, name: str) -> bool:
        """Lock what was ours before; somebody may just be looking at it."""
        for _ in range(ATTEMPTS_MAX):
            if self.lock(name):
                return True
            time.sleep(PAUSE_S)
        return False

    def unlock(self, name: str) -> None:
        """Release the byte of ``name``. With the file closed, nothing is locked in it."""
        if self.descriptors:
            _set(self.descriptors[0], fcntl.LOCK_UN, name)

    def forget_lost(self) -> None:
        """Release the bytes of stores that were dropped without being closed."""
        for name, holder in list(self.holders.items()):
            if holder() is None:
                self.unlock(name)
                disuse(name)
                self.holders.pop(name, None)

    def is_free(self, name: str) -> bool:
        """Whether no process holds ``name``. Those who look at once are not in each other's way."""
        if not _locked(self.descriptors[0], fcntl.LOCK_SH, name):
            return False
        self.unlock(name)
        return True


class LeaseFiles:
    """The files of leases that this process has open. Hold ``lock`` while they are used."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], LeaseFile] = {}
        self.lock = Lock(self._tidy)
        forks.register(self)

    def at(self, path: str, *, create: bool) -> LeaseFile | None:
        """Return the file at ``path``; None if it is not there and not to be made."""
        for _ in range(ATTEMPTS_MAX):
            try:
                status = os.stat(path)  # noqa: PTH116
            except FileNotFoundError:
                if not create:
                    return None
            else:
                if (file := self._open.get((status.st_dev, status.st_ino))) is not None:
                    file.forget_lost()
                    return file
            flags = os.O_CREAT | os.O_RDWR if create else os.O_RDONLY
            try:
                descriptor = os.open(path, flags | os.O_CLOEXEC, _MODE)
            except FileNotFoundError:
                continue
            status = os.fstat(descriptor)
            key = (status.st_dev, status.st_ino)
            if key in self._open:
                # It took this place just now. Closing one descriptor would drop all of its locks.
                self._open[key].descriptors.append(descriptor)
            else:
                self._open[key] = LeaseFile(descriptor)
            if _is_at(path, key):
                return self._open[key]
        raise StorageError(
            f"{path} is replaced again and again", hint="leave it where it is while in use"
        )

    def _tidy(self) -> None:
        """Release bytes without a user, and close the files of which nothing is held."""
        for key, file in list(self._open.items()):
            file.forget_lost()
            if not file.holders:
                del self._open[key]
                descriptors, file.descriptors = file.descriptors, []
                for descriptor in descriptors:
                    os.close(descriptor)

    def before_fork(self) -> None:
        """Keep every other thread out."""
        self.lock.take(frame=sys._getframe(1))  # noqa: SLF001

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self.lock.drop()

    def after_fork_in_child(self) -> None:
        """Go on with nothing held: what is locked is the parent's, and closing leaves it so."""
        self.lock = Lock(self._tidy)
        for file in self._open.values():
            file.holders.clear()
        self._tidy()


FILES: Final = LeaseFiles()


def _locked(descriptor: int, sort: int, name: str) -> bool:
    try:
        _set(descriptor, sort, name)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        check_from_system(error)
        raise StorageError(
            f"the file of leases cannot be locked: {error.strerror}",
            hint="keep the ledger on a disk that supports file locks",
        ) from error
    return True


def _set(descriptor: int, sort: int, name: str) -> None:
    lock_bytes(descriptor, sort, _place(name), 1)


def lock_bytes(descriptor: int, sort: int, start: int, length: int) -> bool:
    """Lock bytes of a file; return whether the lock belongs to the opened file.

    If it does not, it belongs to the process, and goes when the process closes any descriptor of
    the file. Raise BlockingIOError or PermissionError if another process has them.
    """
    if _OF_FILE is not None:
        asked = struct.pack(_FLOCK, _SORTS[sort], os.SEEK_SET, start, length, 0)
        try:
            fcntl.fcntl(descriptor, _OF_FILE, asked)
        except OSError as error:
            # The disk, or an emulated kernel, may know the older kind only.
            if error.errno != errno.EINVAL:
                raise
        else:
            return True
    patience = 0 if sort == fcntl.LOCK_UN else fcntl.LOCK_NB
    fcntl.lockf(descriptor, sort | patience, length, start)
    return False


def _place(name: str) -> int:
    """Return the byte for ``name``, far after the end of any file."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 2


def _is_at(path: str, key: tuple[int, int]) -> bool:
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == key


def is_locked_elsewhere(descriptor: int, start: int, length: int) -> bool | None:
    """Whether anything but ``descriptor`` has locked bytes of its file; None if nobody can say."""
    if _LOOK_OF_FILE is None:
        return None
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    try:
        found = fcntl.fcntl(descriptor, _LOOK_OF_FILE, asked)
    except OSError as error:
        check_from_system(error)
        return None
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)


_HOLD: Final = "hold\0"
"""Before the names that are held, so that none is an owner's."""


class Leases:
    """What one store holds."""

    can_be_lost: Final = not IS_SUPPORTED

    def __init__(self, database: Database) -> None:
        self._database = database
        self._path = None if database.in_memory else os.path.realpath(database.path) + ".leases"
        self._closed = False
        self._owner: str | None = None
        self._start()

    def owner(self) -> str:
        """Return the name under which this process holds its runs, held from now on."""
        with FILES.lock.guard, FILES.lock:
            self._enter()
            if self._owner is None:
                file = self._settle()
                owner = new_owner(self._place(file))
                self._take(file, owner)
                use(owner)
                self._owner = owner
            elif self._path is not None and IS_SUPPORTED:
                self._settle()
            return self._owner

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process of ``owner`` is certainly gone."""
        named = LeaseOwner.parse(owner)
        if named is None:
            return False
        if self._path is None:
            return self._process != os.getpid() or owner != self._owner
        if named.process == os.getpid() and is_running(named):
            return False
        with FILES.lock.guard, FILES.lock:
            free = self._is_free(named)
        if free is None:
            return is_gone_from_sight(named, time.time_ns() // 1_000_000 - seen_ms)
        return free

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` holds its runs in another ledger, of which this is a copy."""
        named = LeaseOwner.parse(owner)
        if named is None:
            return False
        if self._path is None:
            return owner != self._owner
        return IS_SUPPORTED and not named.place.startswith(f"{self._ledger()}-")

    def hold(self, name: str) -> bool:
        """Hold ``name`` alone; return False if another store has it."""
        with FILES.lock.guard, FILES.lock:
            self._enter()
            return self._take(self._settle(), _HOLD + name)

    def release(self, name: str) -> None:
        """Release ``name`` if it is held."""
        with FILES.lock.guard, FILES.lock:
            if self._process == os.getpid():
                self._release(_HOLD + name)

    def close(self) -> None:
        """Release everything."""
        with FILES.lock.guard, FILES.lock:
            self._closed = True
            if self._process != os.getpid():
                return
            for name in list(self._held):
                self._release(name)
            if self._owner is not None:
                disuse(self._owner)
                self._owner = None

    # The caller has entered the files.

    def _start(self) -> None:
        self._process = os.getpid()
        self._owner = None
        self._held: set[str] = set()
        self._file: LeaseFile | None = None

    def _enter(self) -> None:
        if self._process != os.getpid():
            self._start()
        if self._closed:
            raise Closed("the ledger has been closed", hint="open it again")
        if self._database.read_only:
            raise ReadOnly(
                f"{self._database.path} was opened read-only", hint='open it without mode="ro"'
            )

    def _settle(self) -> LeaseFile | None:
        """Return the file as it lies there now, with all that is held locked in it.

        It may have been removed, or somebody else may have closed it in this process.
        """
        if self._path is None or not IS_SUPPORTED:
            return None
        try:
            file = FILES.at(self._path, create=True)
        except OSError as error:
            check_from_system(error)
            raise StorageError(
                f"cannot open {self._path}: {error.strerror}",
                hint="check the permissions of the ledger's folder, or open it read-only",
            ) from error
        if file is None:
            raise AssertionError
        before, self._file = self._file, file
        for name in list(self._held):
            if before is not None and before is not file:
                before.holders.pop(name, None)
            if self._may_hold(file, name) and file.lock_again(name):
                file.holders[name] = weakref.ref(self)
            else:
                self._held.discard(name)
        return file

    def _take(self, file: LeaseFile | None, name: str) -> bool:
        if file is None:  # Nobody else can see it, or nothing tells.
            return True
        if not self._may_hold(file, name) or not file.lock(name):
            return False
        file.holders[name] = weakref.ref(self)
        self._held.add(name)
        return True

    def _release(self, name: str) -> None:
        # Also what is not noted as held: a thread that took it may have been interrupted.
        if self._file is not None and self._may_hold(self._file, name):
            self._file.unlock(name)
            self._file.holders.pop(name, None)
        self._held.discard(name)

    def _may_hold(self, file: LeaseFile, name: str) -> bool:
        """Whether no other store of this process holds ``name``."""
        holder = file.holders.get(name)
        return holder is None or holder() is self

    def _is_free(self, owner: LeaseOwner) -> bool | None:
        """Whether nobody holds the lock of ``owner``; None if the file cannot tell."""
        if self._path is None or not IS_SUPPORTED:
            return None
        try:
            file = FILES.at(self._path, create=False)
        except OSError as error:
            check_from_system(error)
            return None
        if file is None or owner.place != self._place(file):
            return None
        return str(owner) not in file.holders and file.is_free(str(owner))

    def _place(self, file: LeaseFile | None) -> str:
        """Return the ledger, and the file that shows what is held in it."""
        return "alone-0" if file is None else f"{self._ledger()}-{file.inode:x}"

    def _ledger(self) -> str:
        """Return what tells this ledger from its copies, and stays when it is moved."""
        return f"file-{Path(self._database.path).stat().st_ino:x}"
