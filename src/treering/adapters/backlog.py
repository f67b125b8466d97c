"""Items that wait for a ledger that is unavailable: recorded later, in order."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from treering.errors import Closed, OutcomeUnknown, StorageError
from treering.lazy import lazy_logger
from treering.spine.words import describe

if TYPE_CHECKING:
    from collections.abc import Callable

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
