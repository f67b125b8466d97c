"""A lock for one watcher per ledger: two would read every log twice to record it once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from treering.errors import Busy
from treering.hook import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def only_watcher(ledger: str) -> Iterator[None]:
    """Hold the watch lock of ``ledger`` on this machine. Raises Busy if another process does."""
    location = ledger if "://" in ledger else os.path.realpath(ledger)
    name = hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:16]
    folder = Path(state_folder()) / "watch"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            process = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            raise Busy(
                f"another treering watch is running for this ledger (process {process})",
                hint="use that one, or stop it first",
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
