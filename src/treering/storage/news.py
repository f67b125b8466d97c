"""News of appends, spread within one process."""

from __future__ import annotations

import os
import threading


class News:
    """Wakes the followers of this process when there is something new."""

    def __init__(self) -> None:
        self._start()

    def spread(self) -> None:
        """Wake all who wait."""
        if self._waiting and self._pid == os.getpid():
            with self._condition:
                self._condition.notify_all()

    def wait(self, timeout_s: float) -> None:
        """Return when somebody spreads news, or after the timeout."""
        if self._pid != os.getpid():
            self._start()
        with self._condition:
            self._waiting += 1
            try:
                self._condition.wait(timeout_s)
            finally:
                self._waiting -= 1

    def after_fork(self) -> None:
        """Go on as the only thread of a child: one that is not there any more held the lock."""
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._condition = threading.Condition()
        self._waiting = 0
