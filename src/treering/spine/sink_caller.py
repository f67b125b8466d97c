"""Handing an event to a sink, whether it answers at once or is awaited, and for how long."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from treering.locks import Bell
from treering.model.kinds import parse_kinds

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.spine.ports import Sink

ASYNC_GRACE_S: Final = 2.0
"""A coroutine is cancelled in time by its own loop; one that blocks that loop gets this more."""


def wants_private(sink: Sink) -> bool:
    """Whether ``sink`` said that it wants private content."""
    return getattr(sink, "visibility", "safe") == "private"


def acceptance(sink: Sink) -> Callable[[SafeEvent | PrivateEvent], bool]:
    """Return whether ``sink`` wants to hear of an event, as a function.

    Raises InvalidKind if it names kinds that no event can have.
    """
    asked: Any = sink
    if callable(asked.accepts):
        # Looked up for each event: a sink may choose another function as it goes on.
        return lambda event: bool(asked.accepts(event))
    chosen = parse_kinds(asked.accepts)
    return lambda event: chosen.matches(event.kind, event.envelope_kind)


def in_words(error: BaseException) -> str:
    """Return an error in words; one that cannot be put into words, by its name."""
    name = type(error).__name__
    try:
        return str(error) if isinstance(error, Overtime) else f"{name}: {error}"
    except Exception:  # noqa: BLE001  (a sink may raise anything)
        return name


class Overtime(TimeoutError):
    """A sink took longer over an event than it may."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"took longer than {timeout_s:g} s")


class SinkCaller:
    """Gives events to one sink, from one thread, with an event loop of its own if need be."""

    def __init__(self, sink: Sink, timeout_s: float) -> None:
        self._sink: Any = sink  # What it is handed was settled when the event was wrapped for it.
        self._accepts = acceptance(sink)
        self._timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(sink.handle)
        self._runner: asyncio.Runner | None = None

    @property
    def allowed_s(self) -> float:
        """Return how long the sink may take before its thread counts as hung."""
        return self._timeout_s + (ASYNC_GRACE_S if self._is_async else 0.0)

    def give(self, event: SafeEvent | PrivateEvent) -> bool:
        """Hand ``event`` over; return False if the sink does not accept it.

        Raises what the sink raises, and Overtime if it was awaited for too long.
        """
        if not self._accepts(event):
            return False
        answer = self._sink.handle(event)
        if inspect.isawaitable(answer):
            self._is_async = True
            self._await(answer)
        return True

    def close(self) -> None:
        """Let go of the event loop."""
        if self._runner is not None:
            # What the sink left running in the loop may end in any way.
            with contextlib.suppress(Exception):
                self._runner.close()

    def _await(self, answer: Awaitable[None]) -> None:
        import asyncio  # noqa: PLC0415  (it takes longer to load than a short command to run)

        async def in_time() -> None:
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    await answer
            except TimeoutError:
                if limit.expired():
                    raise Overtime(self._timeout_s) from None
                raise

        if self._runner is None:
            self._runner = asyncio.Runner()
        self._runner.run(in_time())


class TimedSinkCaller:
    """Gives events to one sink in a thread of its own, which is left behind when the sink hangs."""

    def __init__(self, sink: Sink, timeout_s: float) -> None:
        self._sink = sink
        self._timeout_s = timeout_s
        self._desk: _SinkThread | None = None
        self._left: list[_SinkThread] = []

    @property
    def hung(self) -> int:
        """Return how many threads hang in the sink."""
        self._left = [desk for desk in self._left if desk.is_alive()]
        return len(self._left)

    def is_here(self) -> bool:
        """Whether it is the sink itself that asks."""
        return threading.current_thread() in {self._desk, *self._left}

    def give(self, event: SafeEvent | PrivateEvent) -> bool:
        """Hand ``event`` over; return False if the sink does not accept it.

        Raises what the sink raises, and Overtime if it took too long.
        """
        if self._desk is None:
            self._desk = _SinkThread(self._sink, self._timeout_s)
            self._desk.start()
        desk = self._desk
        desk.given.put(event)
        if not desk.answered.wait(desk.caller.allowed_s):
            self._left.append(desk)
            self.close()
            raise Overtime(self._timeout_s)
        answer = desk.answers.popleft()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Have the thread end when the sink returns."""
        if self._desk is not None:
            self._desk.given.put(None)
            self._desk = None


class _SinkThread(threading.Thread):
    """A thread that hands over what it is given, and tells what became of it."""

    def __init__(self, sink: Sink, timeout_s: float) -> None:
        super().__init__(name=f"treering-sink-{sink.name}", daemon=True)
        self.caller = SinkCaller(sink, timeout_s)
        self.given: SimpleQueue[SafeEvent | PrivateEvent | None] = SimpleQueue()
        self.answers: deque[bool | BaseException] = deque()
        self.answered = Bell()

    def run(self) -> None:
        """Hand over until told to end."""
        while (event := self.given.get()) is not None:
            try:
                answer: bool | BaseException = self.caller.give(event)
            except BaseException as error:  # noqa: BLE001  (a sink may raise anything)
                answer = error
            self.answers.append(answer)
            self.answered.ring()
        self.caller.close()
