"""Opening the file: making it its owner's alone, and reading it without leaving a trace."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import apsw

from treering.errors import StorageError

_COPY: Final = "ledger.db"


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


def copy_privately(path: str) -> tempfile.TemporaryDirectory[str]:
    """Return a folder with a copy: to read a log, SQLite would have to write beside it."""
    folder = tempfile.TemporaryDirectory(prefix="treering-ro-")
    for suffix in ("", "-wal"):
        if Path(path + suffix).exists():
            shutil.copyfile(path + suffix, copy_in(folder) + suffix)
    return folder


def copy_in(folder: tempfile.TemporaryDirectory[str]) -> str:
    """Return the path of the copy in ``folder``."""
    return str(Path(folder.name) / _COPY)
