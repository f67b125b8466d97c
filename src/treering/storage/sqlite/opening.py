"""Opening the file: making it its owner's alone, and reading it without leaving a trace."""

from __future__ import annotations

import contextlib
import os
import weakref
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from treering.errors import Busy, StorageError
from treering.files import sync_folder
from treering.lazy import LazyModule

if TYPE_CHECKING:
    import shutil
    import tempfile
else:
    shutil = LazyModule("shutil")
    tempfile = LazyModule("tempfile")

CREATE: Final = int(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
"""How a file is opened that may be new."""
CHUNK_BYTES: Final = 1024**2
COPIES_MAX: Final = 20
"""How often a copy is made again because another program wrote meanwhile."""
_HEADER_BYTES: Final = 100
_LOG_HEADER_BYTES: Final = 32
"""The headers of SQLite's files: that of a database counts changes, that of a log has its salt."""


def create_private(path: str) -> None:
    """Create the file if it does not exist, readable by its owner alone, and sync its folder.

    Raise StorageError if that is not possible, as when the folder does not exist.
    """
    folder = Path(path).absolute().parent
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if Path(path).is_file():
            return
        raise StorageError(
            f"cannot create {path}: something else is in the way", hint="name a file in a folder"
        ) from None
    except FileNotFoundError:
        # Most likely a typo, which a ledger in a new folder would hide.
        raise StorageError(
            f"cannot create {path}: the folder {folder} does not exist",
            hint="create it, or correct the path",
        ) from None
    except OSError as error:
        raise StorageError(
            f"cannot create {path}: {error.strerror}",
            hint="check that the folder exists and may be written to",
        ) from error
    sync_folder(folder)


def connect(path: str, *, flags: int = CREATE, vfs: str | None = None) -> apsw.Connection:
    """Return a connection whose statements keep the plans that they were prepared with."""
    connection = apsw.Connection(path, flags=flags, vfs=vfs)
    # Built as it is, to estimate from samples of the data, SQLite prepares most joins again
    # whenever a value is bound, which takes longer than a short read. We keep no samples.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def connect_read_only(path: str) -> apsw.Connection:
    """Return a connection that changes neither the file nor its log nor their shared memory."""
    location = Path(path).absolute().as_uri() + "?mode=ro&readonly_shm=1"
    return connect(location, flags=int(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI))


def shares_live_log(path: str) -> bool:
    """Whether a live writer's shared memory lets us read along without touching a byte."""
    if not Path(path + "-shm").exists():
        return False
    try:
        connection = connect_read_only(path)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error:
        return False
    connection.close()
    return True


class PrivateCopy:
    """A copy to read from: to read a log, SQLite would have to write beside it.

    Its files have no name, so that they are gone with their last user, even one that is killed.
    """

    def __init__(self, path: str) -> None:
        self._files = _Copied({suffix: _NamelessFile() for suffix in ("", "-wal")})
        for _ in range(COPIES_MAX):
            before = _state(path)
            for suffix, file in self._files.items():
                file.copy(path + suffix)
            if _state(path) == before:
                return
        raise Busy(
            f"{path} was written to while it was copied, {COPIES_MAX} times in a row",
            hint="try again, or open it for writing",
        )

    def connect(self) -> apsw.Connection:
        """Return a connection to the copy."""
        files = _nameless_files()
        connection = connect(
            files.path_of(self._files), flags=int(apsw.SQLITE_OPEN_READONLY), vfs=files.vfs_name
        )
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Nobody else has the files, so that the log needs no shared memory.
        connection.pragma("locking_mode", "exclusive")
        connection.pragma("temp_store", "memory")
        return connection


class _Copied(dict[str, "_NamelessFile"]):
    """The files of a copy, by what their names would end in."""


class _NamelessFiles(apsw.VFS):
    """Opens databases and logs that no path of the disk leads to."""

    vfs_name: Final = "treering-nameless"

    def __init__(self) -> None:
        super().__init__(self.vfs_name, base="")
        self._copies: weakref.WeakValueDictionary[str, _Copied] = weakref.WeakValueDictionary()

    def path_of(self, files: _Copied) -> str:
        """Return the path of a copy, valid as long as the copy is."""
        path = f"/{id(files)}"
        self._copies[path] = files
        return path

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: ARG002, N802
        # SQLite would delete a log that is there beside an empty database.
        file = self._found(pathname)
        return file is not None and file.xFileSize() > 0

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        file = None if path is None else self._found(path)
        if file is None:
            return super().xOpen(name, flags)
        flags[1] = flags[0] & ~int(apsw.SQLITE_OPEN_CREATE)
        return file  # type: ignore[return-value]

    def _found(self, path: str) -> _OpenedFile | None:
        path, dash, rest = path.partition("-")
        files = self._copies.get(path)
        return _OpenedFile(files, dash + rest) if files and dash + rest in files else None


class _NamelessFile:
    """A file that is gone when nobody has it any more."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)

    def copy(self, path: str) -> None:
        """Take over what the file at ``path`` holds; nothing if there is none."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.truncate(self.descriptor, 0)
        with (
            contextlib.suppress(FileNotFoundError),
            Path(path).open("rb") as source,
            os.fdopen(self.descriptor, "wb", closefd=False) as target,
        ):
            shutil.copyfileobj(source, target, CHUNK_BYTES)


class _OpenedFile:
    """One file of a copy, which nobody writes to and nobody has to be kept out of."""

    def __init__(self, files: _Copied, suffix: str) -> None:
        # All of them: SQLite opens the log later than the database.
        self._files = files
        self._descriptor = files[suffix].descriptor

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return os.pread(self._descriptor, amount, offset)

    def xFileSize(self) -> int:  # noqa: N802
        return os.fstat(self._descriptor).st_size

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: ARG002, N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return 4_096

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0

    def xSync(self, flags: int) -> None:  # noqa: N802
        pass

    def xClose(self) -> None:  # noqa: N802
        pass


@cache
def _nameless_files() -> _NamelessFiles:
    return _NamelessFiles()


def _state(path: str) -> tuple[object, ...]:
    """Return what changes when a copy of the file and its log may not fit together.

    A log only grows until it begins again, with another header, and has all pages that are written
    to the file meanwhile: a copy of both is a state of the past, however much is written on.
    Without a log every write counts, and the time of the last one is too coarse to tell.
    """
    try:
        status = Path(path).stat()
        with contextlib.suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as log:
            if header := log.read(_LOG_HEADER_BYTES):
                return status.st_ino, header
        with Path(path).open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return (None,)
    return status.st_ino, status.st_size, status.st_mtime_ns, header
