"""A thread that keeps the memory up to date while something else goes on."""

from __future__ import annotations

import contextlib
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from treering.errors import TreeringError
from treering.surfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S: Final = 5.0
EVERY_S: Final = 600.0
END_S_MAX: Final = 3.0
"""How long the end waits for it: what it has done is kept, and the rest is due the next time."""


class _EndAsked(Exception):
    """Leaves a round in the middle."""


class MemoryThread:
    """Runs rounds in the background until it is asked to end.

    ``work`` does what is due; it calls its argument between steps, which may end it there. An error
    is reported, and the next round tries again.
    """

    def __init__(
        self,
        work: Callable[[Callable[[int], None]], None],
        *,
        first_s: float = FIRST_S,
        every_s: float = EVERY_S,
    ) -> None:
        self._work = work
        self._pauses = (first_s, every_s)
        self._ended = Event()
        # A daemon: it never keeps the process alive.
        self._thread = Thread(target=self._run, name="treering-memory", daemon=True)

    def __enter__(self) -> None:
        """Start it."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End it, after the step it is at."""
        self._ended.set()
        self._thread.join(END_S_MAX)

    def _run(self) -> None:
        pause_s, every_s = self._pauses
        with contextlib.suppress(_EndAsked):
            while not self._ended.wait(pause_s):
                try:
                    self._work(self._step)
                except TreeringError as error:
                    if self._ended.is_set():
                        return
                    note(f"the memory was not brought up to date: {error}")
                pause_s = every_s

    def _step(self, _: int) -> None:
        if self._ended.is_set():
            raise _EndAsked
