"""Blocking work away from an event loop, with the context variables of the caller.

A call that has begun is completed although the task that asked is cancelled: when CancelledError
arrives, it is done, or it never will be.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar

from treering.errors import Closed, TreeringError
from treering.lazy import lazy_logger

_log = lazy_logger("treering")

THREADS_MAX: Final = 64
"""Calls that are carried out at the same time; others wait."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def off_loop(
    thread: Executor | DaemonThread | None,
    act: Callable[Given, Result],
    *args: Given.args,
    **named: Given.kwargs,
) -> Result:
    """Call ``act`` in ``thread``. A cancelled caller waits until it is done."""
    loop = asyncio.get_running_loop()
    call = _Call(loop, partial(act, *args, **named))
    if thread is None:
        loop.run_in_executor(None, call.carry_out)
    else:
        thread.submit(call.carry_out)
    return await call.complete()


class DaemonThread:
    """A thread for calls that may wait for ever: the process ends without waiting for them."""

    def __init__(self) -> None:
        self._pid = 0

    def submit(self, call: Callable[[], object]) -> None:
        """Have it carry out ``call`` after all that it was given before."""
        if self._pid != os.getpid():
            # It begins with the first call; that of a parent process is not here.
            self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
            thread = threading.Thread(
                target=_carry_out_all, args=(self._calls,), name="treering-follow", daemon=True
            )
            thread.start()
            weakref.finalize(self, self._calls.put, None)
            self._pid = os.getpid()
        self._calls.put(call)


def _carry_out_all(calls: SimpleQueue[Callable[[], object] | None]) -> None:
    for call in iter(calls.get, None):
        call()
        del call  # It holds what holds the thread.


def in_event_loop(begun: asyncio.AbstractEventLoop | None = None) -> bool:
    """Whether the caller runs in an event loop of asyncio, and can wait there.

    A coroutine that has ``begun`` in a loop that is closed, or stopped, may be collected while
    another one runs. One that continues in another loop waits there.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return begun in {None, running} or not isinstance(sys.exception(), GeneratorExit)


async def off_any_loop(act: Callable[..., Result], *args: Any) -> Result:
    """Call ``act`` off the event loop; in another library's loop, at once."""
    if in_event_loop():
        return await off_loop(None, act, *args)
    return act(*args)


def after_loop(act: Callable[..., object], *args: Any) -> None:
    """Call ``act`` in a thread, for a coroutine whose loop is closed: it cannot wait any more."""
    with contextlib.suppress(RuntimeError):  # The process ends, and with it all that is open.
        call = _LastCall(partial(act, *args))
        threading.Thread(target=call.carry_out, name="treering-after-loop").start()


class Lanes:
    """Carries out calls in threads: those of one lane one at a time, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_Call[Any] | _LastCall]] = {}
        """Calls by lane; a lane that is here has a thread."""
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0
        self._closed = False

    async def run(
        self, lane: Hashable, act: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
    ) -> Result:
        """Return what ``act`` returns. ``lane`` None is a lane of its own.

        If the task is cancelled, a call that waits is withdrawn, and one that has begun is waited
        for.
        """
        call = _Call(asyncio.get_running_loop(), partial(act, *args, **named))
        self._put(lane, call)
        return await call.result()

    async def complete(
        self, lane: Hashable, act: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
    ) -> Result:
        """Do the same, but never withdraw the call: it is done although the task is cancelled."""
        call = _Call(asyncio.get_running_loop(), partial(act, *args, **named))
        self._put(lane, call)
        return await call.complete()

    def after_loop(self, lane: Hashable, act: Callable[..., object], *args: Any) -> None:
        """Do the same for a coroutine whose loop is closed: nobody waits."""
        with contextlib.suppress(Closed, RuntimeError):  # Whatever was open ends with it.
            self._put(lane, _LastCall(partial(act, *args)))

    def _put(self, lane: Hashable, call: _Call[Any] | _LastCall) -> None:
        lane = call if lane is None else lane
        with self._lock:
            if self._closed:
                raise Closed("the ledger is closed", hint="open it again")
            if self._pid != os.getpid():
                # The threads of a parent process are not here.
                self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="treering-aio")
                self._waiting, self._pid = {}, os.getpid()
            if lane in self._waiting:
                self._waiting[lane].append(call)
                return
            self._waiting[lane] = deque([call])
            pool = self._pool
        if pool is not None:
            pool.submit(self._carry_out, lane)

    def _carry_out(self, lane: Hashable) -> None:
        while True:
            with self._lock:
                calls = self._waiting[lane]
                if not calls:
                    del self._waiting[lane]
                    return
                call = calls.popleft()
            call.carry_out()

    def close(self) -> None:
        """Complete the waiting calls, and end the threads."""
        with self._lock:
            pool, pid, self._closed = self._pool, self._pid, True
        if pool is not None and pid == os.getpid():
            pool.shutdown()


class _LastCall:
    """A call for a coroutine whose loop is closed: nobody is left to hear of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def carry_out(self) -> None:
        """Do the work."""
        try:
            self._work()
        except TreeringError:
            pass
        except Exception:  # noqa: BLE001  (the thread has more to do)
            _log.warning("could not end what a coroutine of a closed loop held", exc_info=True)


class _Call(Generic[Result]):
    """A call on its way: it waits, has begun, or was withdrawn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Result]) -> None:
        self._loop = loop
        self._work = work
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._state: Literal["waiting", "begun", "withdrawn"] = "waiting"
        self._future: asyncio.Future[Result] = loop.create_future()

    async def result(self) -> Result:
        """Return the result; withdraw a call that waits if the task is cancelled."""
        try:
            await asyncio.wait([self._future])
        except asyncio.CancelledError:
            if not self._withdraw():
                await self._wait()
            raise
        except GeneratorExit:  # The loop is closed: the caller is gone.
            self._withdraw()
            raise
        return self._future.result()

    async def complete(self) -> Result:
        """Return the result; raise CancelledError only once it is there."""
        try:
            await asyncio.wait([self._future])
        except asyncio.CancelledError:
            await self._wait()
            raise
        return self._future.result()

    async def _wait(self) -> None:
        while not self._future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._future])
        self._future.exception()  # Otherwise the loop complains that nobody asked.

    def _withdraw(self) -> bool:
        """Have it not begin; return False if it has begun."""
        with self._lock:
            if self._state == "waiting":
                self._state = "withdrawn"
            return self._state == "withdrawn"

    def carry_out(self) -> None:
        """Do the work and hand the result to the loop, unless the call was withdrawn."""
        with self._lock:
            if self._state == "withdrawn":
                return
            self._state = "begun"
        try:
            settle = partial(self._settle, self._context.run(self._work), None)
        except BaseException as error:  # noqa: BLE001  (raised where it was awaited)
            settle = partial(self._settle, None, error)
        # The loop may be gone by now; what was recorded is recorded.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(settle)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is None:
            self._future.set_result(result)
        elif isinstance(error, StopIteration):
            self._future.set_exception(RuntimeError("the call raised StopIteration"))
        else:
            self._future.set_exception(error)
