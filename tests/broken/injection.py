"""Exceptions raised from outside, at any line or any bytecode of Treering in this thread."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import treering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

HOME: Final = str(Path(treering.__file__).parent)
LIMIT_S: Final = 15.0
"""Within this time everything that a test starts must be over."""


class Steps:
    """Counts the steps of Treering's code in this thread; raises at one of them.

    With ``at_locks``, only those that enter or leave a ``with``: there locks are taken.
    """

    def __init__(
        self,
        error: type[BaseException] | None = None,
        *,
        at: int = 0,
        bytecodes: bool = False,
        at_locks: bool = False,
    ) -> None:
        self.count = 0
        self.place = "nowhere"
        """Where it has raised last."""
        self._error = error
        self._at = at
        self._event = "opcode" if bytecodes else "line"
        self._at_locks = at_locks

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Count, and raise, in what is done meanwhile."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        if event == self._event and (not self._at_locks or _is_with(frame)):
            self.count += 1
            if self._error is not None and self.count == self._at:
                code = frame.f_code
                self.place = f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_qualname}"
                raise self._error(f"injected at step {self.count}, {self.place}")
        return self._step


def _is_with(frame: FrameType) -> bool:
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("with ")


@contextmanager
def within(limit_s: float = LIMIT_S) -> Iterator[None]:
    """Raise TimeoutError in the main thread if what is done meanwhile takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_another_thread(work: Callable[[], object]) -> None:
    """Do ``work`` in a thread; fail if it raises or is not done in time."""
    failures: list[BaseException] = []

    def body() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failures.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), "it hangs"
    if failures:
        raise failures[0]
