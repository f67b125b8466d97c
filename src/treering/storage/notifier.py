"""News of appends, spread within one process."""

from __future__ import annotations

import os

from treering.locks import Bell


class Notifier:
    """Wakes the followers of this process when there is something new."""

    def __init__(self) -> None:
        self._start()

    def notify(self) -> None:
        """Wake all who wait."""
        if self._bells and self._pid == os.getpid():
            for bell in tuple(self._bells):
                bell.ring()

    def wait(self, timeout_s: float) -> None:
        """Return at the next notification, or after the timeout."""
        if self._pid != os.getpid():
            self._start()
        bell = Bell()
        self._bells.append(bell)
        try:
            bell.wait(timeout_s)
        finally:
            self._bells.remove(bell)

    def after_fork(self) -> None:
        """Go on as the only thread of a child."""
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._bells: list[Bell] = []
        """One for each who waits."""
