"""News of appends, spread within one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from treering.locks import Bell

POLL_S_MIN: Final = 0.004
POLL_S_MAX: Final = 0.02
"""How often one of those who wait looks for what other processes have written: more often just
after they have."""


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

    def wait_until(self, look: Callable[[], bool], timeout_s: float) -> bool:
        """Return True once ``look`` does, False after the timeout.

        All look at each notification. Only the first of them looks in between, for what other
        processes did: many who wait cost no more than one.
        """
        if self._pid != os.getpid():
            self._start()
        bells, bell = self._bells, Bell()
        until = time.monotonic() + timeout_s
        pause_s = POLL_S_MIN
        found = False
        bells.append(bell)
        try:
            while not (found := look()):
                left_s = until - time.monotonic()
                if left_s <= 0:
                    return False
                bell.wait(min(pause_s, left_s) if bells[0] is bell else left_s)
                pause_s = min(pause_s * 1.5, POLL_S_MAX)
            return True
        finally:
            is_first = bells[0] is bell
            bells.remove(bell)
            if is_first:
                # All look if it has found something; else the next one looks in its place.
                for other in tuple(bells) if found else bells[:1]:
                    other.ring()

    def after_fork(self) -> None:
        """Go on as the only thread of a child."""
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._bells: list[Bell] = []
        """One for each who waits."""
