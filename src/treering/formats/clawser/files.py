"""Files of a workspace, read and replaced as a whole."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.errors import TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows has no flock: write from one process at a time there.
    fcntl = None  # type: ignore[assignment]

FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The largest file to read: files are held in memory."""


def read_bytes(path: Path) -> bytes:
    """Return a file's content. Raises TooLarge, or OSError if it cannot be read."""
    size = path.stat().st_size
    if size > FILE_BYTES_MAX:
        raise TooLarge(f"{path.name} has {size} bytes", hint="split it by lines")
    return path.read_bytes()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a conversation against other processes, creating its folder if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            file = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def set_aside(path: Path) -> None:
    """Rename an unreadable file, so that it is not overwritten."""
    if path.exists():
        path.rename(_unused_name(path))


def keep_copy(path: Path) -> None:
    """Save a copy of a file under another name beside it."""
    replace_file(_unused_name(path), path.read_bytes())


def _unused_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.broken-{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def replace_file(path: Path, body: bytes) -> None:
    """Replace ``path`` with ``body``, durably: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
