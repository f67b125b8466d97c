"""News of appends, spread within one process."""

from __future__ import annotations

import os
from queue import Empty, SimpleQueue


class News:
    """Wakes the followers of this process when there is something new."""

    def __init__(self) -> None:
        self._start()

    def spread(self) -> None:
        """Wake all who wait."""
        if self._bells and self._pid == os.getpid():
            for bell in tuple(self._bells):
                # One that is rung already is enough, and nobody may be there any more to hear it.
                if bell.empty():
                    bell.put(None)

    def wait(self, timeout_s: float) -> None:
        """Return when somebody spreads news, or after the timeout."""
        if self._pid != os.getpid():
            self._start()
        bell: SimpleQueue[None] = SimpleQueue()
        self._bells.append(bell)
        try:
            bell.get(timeout=timeout_s)
        except Empty:
            return
        finally:
            self._bells.remove(bell)

    def after_fork(self) -> None:
        """Go on as the only thread of a child."""
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._bells: list[SimpleQueue[None]] = []
        """One for each who waits."""
