"""Opening the file: making it its owner's alone, and reading it without leaving a trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final

import apsw

from treering.errors import Busy, StorageError

_PREFIX: Final = "treering-ro-"
COPIES_MAX: Final = 20
"""How often a copy is made anew because somebody wrote meanwhile."""


def create_private(path: str) -> None:
    """Make the file if it is not there, readable by its owner alone, and its name durable."""
    folder = Path(path).absolute().parent
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if Path(path).is_file():
            return
        raise StorageError(
            f"cannot create {path}: something else is in the way", hint="name a file in a folder"
        ) from None
    except OSError as error:
        raise StorageError(
            f"cannot create {path}: {error.strerror}",
            hint="check that the folder exists and may be written to",
        ) from error
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def connect_read_only(path: str) -> apsw.Connection:
    """Return a connection that changes neither the file nor its log nor their shared memory."""
    location = Path(path).absolute().as_uri() + "?mode=ro&readonly_shm=1"
    return apsw.Connection(location, flags=int(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI))


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

    It goes when it is no longer used, at the latest with its process; one that was killed leaves
    its copy to the next who makes one.
    """

    def __init__(self, path: str) -> None:
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.path = str(folder / "ledger.db")
        self._finalizer = weakref.finalize(self, _remove, folder, os.getpid())
        for _ in range(COPIES_MAX):
            before = _state(path)
            for suffix in ("", "-wal"):
                Path(self.path + suffix).unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(path + suffix, self.path + suffix)
            if _state(path) == before:
                return
        self.remove()
        raise Busy(
            f"{path} was written to while it was copied, {COPIES_MAX} times in a row",
            hint="try again, or open it for writing",
        )

    def remove(self) -> None:
        """Remove the copy now."""
        self._finalizer()


def _remove(folder: Path, maker: int) -> None:
    # A forked child inherits the duty and must not fulfil it.
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def _state(path: str) -> list[tuple[int, int, int] | None]:
    """Return what changes when somebody writes to the file or its log."""
    states: list[tuple[int, int, int] | None] = []
    for suffix in ("", "-wal"):
        try:
            found = Path(path + suffix).stat()
        except FileNotFoundError:
            states.append(None)
        else:
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return states


def _sweep() -> None:
    """Remove copies whose makers are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        maker = folder.name.removeprefix(_PREFIX).split("-")[0]
        if maker.isdigit() and not _is_alive(int(maker)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
