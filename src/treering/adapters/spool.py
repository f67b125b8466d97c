"""What waits for a ledger, on disk: it outlives the process, and another one records it.

    TREERING_SPOOL/writes/LEDGER-NAME/*.jsonl     one file of each writer, locked while it lives

A file without a lock was left by a process that died. The next process takes over its lines. Lines
that were recorded already come again, and are recognised by their ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.hook import SPOOL_BYTES_MAX, SUFFIX, spool_folder
from treering.lazy import lazy_logger
from treering.model.codec import decode, encode
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITES_FOLDER: Final = "writes"
"""The part of the spool that adapters write to; hooks have the rest."""
_FILE_MODE: Final = 0o600
_log: Final = lazy_logger("treering")


class Spool:
    """The lines of one writer. Without a disk to write to, nothing is kept."""

    def __init__(self, name: str) -> None:
        """Take what the lines are for: the ledger, and who writes."""
        digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
        self._folder = Path(spool_folder()) / WRITES_FOLDER / digest
        self._file: int | None = None
        self._paths: list[Path] = []
        """Files of this writer, with those that it took over."""
        self._held: list[int] = []
        self._process = os.getpid()

    def add(self, line: Any) -> None:
        """Keep a line, as JSON. A disk that is full costs the copy, not the caller."""
        self._leave_parent()
        try:
            if self._file is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = self._folder / f"{new_id()}{SUFFIX}"
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _FILE_MODE)
                fcntl.flock(self._file, fcntl.LOCK_EX)
                self._paths.append(path)
                self._held.append(self._file)
            encoded = b"\n%b\n" % encode(line)  # A line that was cut short ends before it.
            if os.fstat(self._file).st_size + len(encoded) <= SPOOL_BYTES_MAX:
                os.write(self._file, encoded)
        except OSError as error:
            _log.warning("cannot write to the spool: %s", error)

    def take_over(self) -> Iterator[Any]:
        """Yield the lines that others left behind, the oldest first. They are ours from now on."""
        self._leave_parent()
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                with contextlib.suppress(OSError):  # It belongs to another, or is gone.
                    yield from self._taken(path)

    def _taken(self, path: Path) -> list[Any]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = path.read_bytes().splitlines()
        except OSError:
            os.close(descriptor)
            raise
        self._paths.append(path)
        self._held.append(descriptor)
        return [line for encoded in lines for line in _decoded(encoded)]

    def clear(self) -> None:
        """Remove all lines: they are recorded, or given up."""
        self._leave_parent()
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.unlink()
        for descriptor in self._held:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._file, self._paths, self._held = None, [], []

    def __del__(self) -> None:
        """Let another writer take over what is left."""
        if self._process == os.getpid():
            for descriptor in self._held:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _leave_parent(self) -> None:
        """In a child process, leave the files to the parent."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._file, self._paths, self._held = None, [], []


def _decoded(line: bytes) -> list[Any]:
    try:
        return [decode(line)] if line.strip() else []
    except (InvalidInput, ValueError):
        return []  # A crash or a full disk cut it short.
