"""Processes that tests start: they get default signals, and none outlives its test."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

running: weakref.WeakSet[Child] = weakref.WeakSet()
"""Processes that were started and may still run."""
spared: set[int] = set()
"""Ids of those that are there for all tests."""


class Child(subprocess.Popen[Any]):
    """A process that is killed, not waited for, when the block that started it fails."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        running.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, traceback)

    def end(self) -> None:
        """Kill it, and leave no descriptor open."""
        self.kill()
        with suppress(ValueError, OSError):  # A pipe that its test has closed already.
            self.communicate(timeout=PATIENCE_S)
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()


def run_python(
    program: str, *arguments: object, status: int | None = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own; it ends in time, with ``status`` if given."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **options,
    )
    assert status in {None, ended.returncode}, ended.stderr
    return ended


def started() -> frozenset[int]:
    """Return the ids of all processes that are running now."""
    children = {child.pid for child in list(running) if child.poll() is None}
    return frozenset(children | {child.pid or 0 for child in multiprocessing.active_children()})


def end_all_but(expected: Iterable[int]) -> list[str]:
    """End what runs beside ``expected``; return what each was."""
    expected = spared.union(expected)
    left: list[str] = []
    for child in list(running):
        if child.pid not in expected and child.poll() is None:
            left.append(str(child.args))
            child.end()
    for process in multiprocessing.active_children():
        if process.pid not in expected:
            left.append(str(process))
            process.kill()
            process.join(PATIENCE_S)
    return left


def restore_signals() -> None:
    """Let processes that are started from here have default signals, whatever we inherited.

    Build servers and ``nohup`` start us with SIGINT or SIGHUP ignored, and a process that we start
    would ignore them, too. A handler that does nothing is as good for us and is not inherited.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
