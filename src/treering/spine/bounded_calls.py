"""Calls of foreign code, each within its time.

A sink or a hook may block, raise or never return, and a thread cannot be ended from outside. So
foreign code is called in a Worker. Whoever waits for it continues when its time is over; the worker
is left behind, counted as hung until the call returns, and another one takes its place.

    SinkQueue   one worker takes events from a queue; a watcher sees when it is over its time
    durable     the follower hands one event to a worker, and waits for it (BoundedCaller)
    hooks       a worker for each call, since calls nest and run at the same time
    closing     a worker for each sink that wants to be closed
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from treering.locks import Bell

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

ASYNC_GRACE_S: Final = 2.0
"""A coroutine is cancelled in time by its own loop; one that blocks that loop gets this more."""
HUNG_CALLS_MAX: Final = 8
"""Foreign code is given up when this many calls hang in it: their threads cannot be ended."""


class Overtime(TimeoutError):
    """Foreign code took longer over a call than it may."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"took longer than {timeout_s:g} s")


def in_words(error: BaseException) -> str:
    """Return an error in words; one that cannot be put into words, by its name."""
    name = type(error).__name__
    try:
        return str(error) if isinstance(error, Overtime) else f"{name}: {error}"
    except Exception:  # noqa: BLE001  (foreign code may raise anything)
        return name


async def in_time(answer: Awaitable[Any], timeout_s: float) -> Any:
    """Return what ``answer`` becomes. Raises Overtime if that takes too long."""
    import asyncio  # noqa: PLC0415  (it takes longer to load than a short command to run)

    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await answer
    except TimeoutError:
        if limit.expired():
            raise Overtime(timeout_s) from None
        raise


class BoundedCall:
    """One call under way: what it gave, or what it raised."""

    __slots__ = ("_callbacks", "_is_over", "error", "is_done", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self._is_over = Bell()
        self._callbacks: deque[Callable[[], None]] = deque()

    def make(self, function: Callable[..., Any], *given: Any) -> None:
        """Make the call in this thread."""
        try:
            value = function(*given)
        except BaseException as error:  # noqa: BLE001  (foreign code may raise anything)
            self.conclude(error=error)
        else:
            self.conclude(value)

    def conclude(self, value: Any = None, error: BaseException | None = None) -> None:
        """Note how the call ended; only the first note counts."""
        if not self.is_done:
            self.value, self.error, self.is_done = value, error, True
            self._call_back()
            self._is_over.ring()

    def wait(self, timeout_s: float) -> bool:
        """Return whether the call is over by then. One thread waits for it, once."""
        return self._is_over.wait(timeout_s)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the call is over, at once if it is."""
        self._callbacks.append(callback)
        if self.is_done:
            self._call_back()

    def _call_back(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._callbacks.popleft()()


class Worker(threading.Thread):
    """A thread that makes calls, one at a time, with an event loop of its own if need be."""

    def __init__(self, name: str) -> None:
        """Start the thread. Raises RuntimeError if there are too many, or the interpreter ends."""
        super().__init__(name=name, daemon=True)
        self._calls: SimpleQueue[tuple[BoundedCall, Callable[..., Any], tuple[Any, ...]] | None]
        self._calls = SimpleQueue()
        self._runner: asyncio.Runner | None = None
        self.start()

    def begin(self, function: Callable[..., Any], *given: Any) -> BoundedCall:
        """Have a call made after those before it; return it at once."""
        call = BoundedCall()
        self._calls.put((call, function, given))
        return call

    def end(self) -> None:
        """Have the thread end after the calls that were begun."""
        self._calls.put(None)

    def run(self) -> None:
        """Make calls until ``end`` is called."""
        while (begun := self._calls.get()) is not None:
            call, function, given = begun
            call.make(function, *given)
            del begun, call, function, given  # Nobody else may have use for them.
        if self._runner is not None:
            # What foreign code left running in the loop may end in any way.
            with contextlib.suppress(Exception):
                self._runner.close()

    def finish(self, answer: Any, timeout_s: float) -> Any:
        """Return ``answer`` or, if it is awaitable, what it becomes in this thread's event loop.

        Raises Overtime if that takes too long.
        """
        if not inspect.isawaitable(answer):
            return answer
        import asyncio  # noqa: PLC0415  (it takes longer to load than a short command to run)

        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(in_time(answer, timeout_s))


class BoundedCaller:
    """Calls the same foreign code again and again, and waits for it each time, but not too long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._worker: Worker | None = None
        self._left: list[Worker] = []

    @property
    def hung(self) -> int:
        """Return how many calls hang."""
        self._left = [worker for worker in self._left if worker.is_alive()]
        return len(self._left)

    def is_here(self) -> bool:
        """Whether it is the foreign code itself that asks."""
        return threading.current_thread() in {self._worker, *self._left}

    def call(self, function: Callable[..., Any], *given: Any, timeout_s: float) -> Any:
        """Return what ``function`` returns to a worker and ``given``; raise what it raises.

        Raises Overtime if it takes too long.
        """
        worker = self._worker
        if worker is None:
            self._worker = worker = Worker(self._name)
        call = worker.begin(function, worker, *given)
        if not call.wait(timeout_s):
            self._left.append(worker)
            self.close()
            raise Overtime(timeout_s)
        if call.error is not None:
            raise call.error
        return call.value

    def close(self) -> None:
        """Have the thread end when the foreign code returns."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None
