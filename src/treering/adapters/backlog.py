"""What waits for a ledger that is unavailable, in memory and on disk: recorded later, in order.

    TREERING_SPOOL/writes/LEDGER-NAME/*.jsonl     one file of each writer, locked while it lives

A file without a lock was left by a process that died. The next process takes over its lines. Lines
that were recorded already come again, and are recognised by their ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import deque
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from treering.errors import Closed, InvalidInput, OutcomeUnknown, StorageError
from treering.hook import SPOOL_BYTES_MAX, SUFFIX, spool_folder
from treering.lazy import lazy_logger
from treering.model.codec import decode, encode
from treering.spine.words import describe, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.sessions import Session
    from treering.locks import Lock

WAITING_MAX: Final = 1_000
"""The most items that wait for an unavailable ledger."""
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 60.0
"""The first and the longest pause after a failure; pauses double."""
Item = TypeVar("Item")
_log: Final = lazy_logger("treering")


class WaitingLines(Protocol[Item]):
    """Stores waiting items where they outlive the process."""

    def add(self, item: Item) -> None:
        """Keep an item."""

    def take_over(self) -> list[Item]:
        """Return the items that another process left behind."""

    def clear(self) -> None:
        """Forget all items."""


class Backlog(Generic[Item]):
    """Writes items one after another, and keeps those that the storage refuses.

    They are tried again before later ones. One that can never be written, or that is too many, is
    lost: counted, logged, and reported as soon as the ledger works again. The caller locks.
    """

    def __init__(
        self,
        write: Callable[[Item], object],
        report: Callable[[str, dict[str, Any]], object],
        *,
        lines: WaitingLines[Item] | None = None,
    ) -> None:
        """Take how an item is written, and how to record that some were late or lost.

        Items that have ``lines`` may be written twice, and are recorded once.
        """
        self._write = write
        self._report_to = report
        self._lines = lines
        self.waiting: deque[Item] = deque(() if lines is None else lines.take_over())
        self.lost = 0
        """How many items were given up."""
        self.error: Exception | None = None
        """The last error."""
        self._late = self._unreported = 0
        self._pause_s = RETRY_S
        self._retry_at = 0.0

    @property
    def is_due(self) -> bool:
        """Whether something waits, and the pause after the last failure is over."""
        return bool(self.waiting) and self._retry_at <= time.monotonic()

    def add(self, item: Item) -> None:
        """Write an item after all that wait, or keep it."""
        if len(self.waiting) >= WAITING_MAX:
            self.waiting.popleft()
            self.lose(StorageError("too many records wait for the ledger"))
        self.waiting.append(item)
        if self.is_due:
            self.drain()
        if self.waiting:
            self._late = max(self._late, len(self.waiting))
            if self._lines is not None:
                self._lines.add(item)

    def drain(self) -> bool:
        """Write the waiting items; return whether none is left."""
        has_waited = bool(self.waiting)
        while self.waiting:
            try:
                self._write(self.waiting[0])
            except StorageError as error:
                if self._lines is None and isinstance(error, Closed | OutcomeUnknown):
                    self.lose(error)
                else:
                    self.postpone(error)
                    return False
            except Exception as error:  # noqa: BLE001  (a recorder never breaks what it records)
                self.lose(error)
            self.waiting.popleft()
        if has_waited and self._lines is not None:
            self._lines.clear()
        self._pause_s, self._retry_at = RETRY_S, 0.0
        self.report()
        return True

    def postpone(self, error: StorageError) -> None:
        """Pause after a failure of the ledger."""
        if self._retry_at == 0.0:
            _log.warning("recording is delayed: %s", error)
            self._late = 0
        self.error = error
        self._retry_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, RETRY_S_MAX)

    def lose(self, error: Exception) -> None:
        """Count an item that is not recorded."""
        self.error = error
        self.lost += 1
        self._unreported += 1
        cause = describe(error)
        _log.warning("not recorded: %s: %s", cause["class"], cause["message"])

    def report(self) -> None:
        """Record in the ledger how many items were lost or late."""
        if not self._unreported and not self._late:
            return
        counts = {"lost": self._unreported, "late": self._late}
        code = "records_lost" if self._unreported else "records_late"
        last = {} if self.error is None else {"error_class": type(self.error).__name__}
        summary = f"{counts['lost']} records lost, {counts['late']} late"
        try:
            self._report_to(summary, {"code": code, **counts, **last})
        except Exception as error:  # noqa: BLE001  (it is reported after the next write)
            self.error = error
            return
        self._unreported = self._late = 0


class BacklogStatus:
    """What somebody who writes through a backlog says about it."""

    _backlog: Backlog[Any]
    _lock: Lock

    def flush(self) -> bool:
        """Write what waits, without a pause, and report; return whether nothing waits any more."""
        with self._lock.guard, self._lock:
            return self._backlog.drain()

    @property
    def waiting(self) -> int:
        """Return how many changes wait for the ledger."""
        return len(self._backlog.waiting)

    @property
    def lost(self) -> int:
        """Return how many changes were given up."""
        return self._backlog.lost

    @property
    def error(self) -> Exception | None:
        """Return the last error."""
        return self._backlog.error


def report_in(session: Session) -> Callable[[str, dict[str, Any]], None]:
    """Return what records the reports of a backlog in a session, as warnings."""

    def report(summary: str, payload: dict[str, Any]) -> None:
        refs = {name: payload[name] for name in ("code", "error_class") if name in payload}
        session.record("ops.warning", summary, payload=payload, refs=refs, origin="runtime")

    return report


WRITES_FOLDER: Final = "writes"
"""The part of the spool that adapters write to; hooks have the rest."""
_FILE_MODE: Final = 0o600
_spool_log: Final = lazy_logger("treering")


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
            _spool_log.warning("cannot write to the spool: %s", error)

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
