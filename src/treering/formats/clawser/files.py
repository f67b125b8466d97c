"""Files of a workspace, read as a whole and replaced as a whole."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Final

from treering.errors import TooLarge

FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The largest file that is read: all of it is held in memory."""


def read_bytes(path: Path) -> bytes:
    """Return what a file holds. Raises TooLarge, or OSError if it cannot be read."""
    size = path.stat().st_size
    if size > FILE_BYTES_MAX:
        raise TooLarge(f"{path.name} has {size} bytes", hint="split it by lines")
    return path.read_bytes()


def set_aside(path: Path) -> None:
    """Give a file that cannot be read another name, so that nothing takes its place."""
    if path.exists():
        names = (path.with_name(f"{path.name}.broken-{n}") for n in itertools.count(1))
        path.rename(next(name for name in names if not name.exists()))


def replace_file(path: Path, body: bytes) -> None:
    """Have ``path`` hold ``body``, durably: whoever reads it finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
