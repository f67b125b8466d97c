"""Files: replaced as a whole, locked against other processes, and readable by their owner only."""

from __future__ import annotations

import contextlib
import os
import time
from typing import IO, TYPE_CHECKING, Final

try:
    import fcntl
except ImportError:  # Without it, as on Windows, other processes are not waited for.
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER_FILE: Final = 0o600
OWNER_FOLDER: Final = 0o700
POLL_S: Final = 0.02


def make_folder(path: Path) -> None:
    """Create a folder and its parents with permissions for the owner only."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=OWNER_FOLDER, exist_ok=True)


def sync_folder(folder: Path | str) -> None:
    """Sync ``folder``, so that a new name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of the owner's that takes the place of ``path``, durably, once it is whole.

    After an error, what was there stays.
    """
    # Named by chance, so that it is ours to remove whatever the moment of an interruption; and by
    # the start of the name, which alone may be as long as a name can be.
    draft = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}.partial")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_FILE)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def lock(descriptor: int, patience_s: float = 0.0) -> bool:
    """Lock an open file; return False if another process holds it for longer than one waits."""
    until = time.monotonic() + patience_s
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        else:
            break
    return True
