"""Calling hooks: each in a thread, within its time, its errors kept to itself.

A hook may block, raise or never return. So no hook runs in the thread that asks for it: that
thread waits as long as the hook may take and then goes on without it. Asynchronous hooks get an
event loop of their own, so that they can be asked for from inside another one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from treering.sinks.hook_metrics import HookCounts
    from treering.sinks.hook_registry import Registered

STUCK_CALLS_MAX: Final = 8
"""A hook with so many calls that never came back is not called until one of them does."""

log: Final = logging.getLogger("treering.hooks")


class HookOutcome(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How one call of a hook ended."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether the hook returned."""
        return self.error is None and not self.timed_out


class Caller:
    """Calls hooks, counts their calls and logs their failures; it raises none of them."""

    def __init__(self, counts: HookCounts) -> None:
        self._counts = counts
        self._stuck: Counter[int] = Counter()
        self._lock = threading.Lock()

    def call(self, hook: Registered, *given: Any) -> HookOutcome:
        """Call one hook and wait for it, also for what it promises to return."""
        return self._settle(self._begin(hook, partial(_finished, hook, given)))

    def call_now(self, hook: Registered, *given: Any) -> HookOutcome:
        """Call one hook and wait for it, but not for what it promises to return."""
        return self._settle(self._begin(hook, partial(_called, hook, given)))

    def call_together(
        self, hooks: Sequence[Registered], given: Callable[[], tuple[Any, ...]]
    ) -> None:
        """Call ``hooks`` in parallel, each with its own ``given()``, and wait for them all."""
        begun = [
            self._begin(hook, partial(_finished, hook, given()))
            for hook in hooks
            if not hook.is_async
        ]
        begun += self._begin_on_one_loop([hook for hook in hooks if hook.is_async], given)
        for call in begun:
            self._settle(call)

    def _begin(self, hook: Registered, work: Callable[[], Any]) -> _Call:
        call = _Call(hook)
        if not self._refuse(call):
            _in_thread(hook.label, lambda: call.conclude(_attempted(work)), [call])
        return call

    def _begin_on_one_loop(
        self, hooks: Sequence[Registered], given: Callable[[], tuple[Any, ...]]
    ) -> list[_Call]:
        begun = [_Call(hook) for hook in hooks]
        going = [call for call in begun if not self._refuse(call)]

        async def gathered() -> None:
            await asyncio.gather(*(_answered(call, given()) for call in going))

        if going:
            _in_thread("on a loop", lambda: asyncio.run(gathered()), going)
        return begun

    def _refuse(self, call: _Call) -> bool:
        with self._lock:
            stuck = self._stuck[id(call.hook)] >= STUCK_CALLS_MAX
        if stuck:
            call.conclude(HookOutcome(timed_out=True))
        return stuck

    def _settle(self, call: _Call) -> HookOutcome:
        hook, outcome = call.hook, call.wait()
        if outcome is None:
            self._leave_behind(call)
            outcome = HookOutcome(timed_out=True, seconds=hook.timeout_s)
        self._counts.add(
            hook.hook,
            hook.label,
            ms=outcome.seconds * 1_000,
            error=type(outcome.error).__name__ if outcome.error else None,
            timed_out=outcome.timed_out,
        )
        if outcome.timed_out:
            log.error("hook %s: %s gave no answer in time", hook.hook, hook.label)
        elif outcome.error:
            log.error("hook %s: %s failed", hook.hook, hook.label, exc_info=outcome.error)
        return outcome

    def _leave_behind(self, call: _Call) -> None:
        which = id(call.hook)

        def came_back() -> None:
            with self._lock:
                self._stuck[which] -= 1
                if not self._stuck[which]:
                    del self._stuck[which]

        with self._lock:
            self._stuck[which] += 1
        call.when_done(came_back)


class _Call:
    """A call of a hook that is under way."""

    def __init__(self, hook: Registered) -> None:
        self.hook = hook
        self._ends_at = time.monotonic() + hook.timeout_s
        self._outcome: Future[HookOutcome] = Future()

    def conclude(self, outcome: HookOutcome) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    def wait(self) -> HookOutcome | None:
        try:
            return self._outcome.result(max(0.0, self._ends_at - time.monotonic()))
        except TimeoutError:
            return None

    def when_done(self, told: Callable[[], None]) -> None:
        self._outcome.add_done_callback(lambda _: told())


class _TimeIsUp(Exception):
    """The hook was cut off, since nobody waits for it any more."""


def _called(hook: Registered, given: tuple[Any, ...]) -> Any:
    return hook.function(*given[: hook.arguments])


def _finished(hook: Registered, given: tuple[Any, ...]) -> Any:
    value = _called(hook, given)
    return asyncio.run(_in_time(hook, value)) if inspect.isawaitable(value) else value


async def _in_time(hook: Registered, value: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(hook.timeout_s) as limit:
            return await value
    except TimeoutError:
        if limit.expired():
            raise _TimeIsUp from None
        raise


async def _answered(call: _Call, given: tuple[Any, ...]) -> None:
    begun = time.monotonic()
    try:
        value = await _in_time(call.hook, _called(call.hook, given))
    except BaseException as error:  # noqa: BLE001  (reported by whoever waits for the hook)
        call.conclude(_failed(error, begun))
    else:
        call.conclude(HookOutcome(value=value, seconds=time.monotonic() - begun))


def _attempted(work: Callable[[], Any]) -> HookOutcome:
    begun = time.monotonic()
    try:
        value = work()
    except BaseException as error:  # noqa: BLE001  (reported by whoever waits for the hook)
        return _failed(error, begun)
    return HookOutcome(value=value, seconds=time.monotonic() - begun)


def _failed(error: BaseException, begun: float) -> HookOutcome:
    seconds = time.monotonic() - begun
    if isinstance(error, _TimeIsUp):
        return HookOutcome(timed_out=True, seconds=seconds)
    return HookOutcome(error=error, seconds=seconds)


def _in_thread(label: str, work: Callable[[], Any], calls: Sequence[_Call]) -> None:
    """Do ``work`` in a thread that ends with the process, whatever it waits for."""
    context = copy_context()

    def body() -> None:
        try:
            context.run(work)
        except BaseException as error:  # noqa: BLE001  (reported by whoever waits for the calls)
            for call in calls:
                call.conclude(HookOutcome(error=error))

    try:
        threading.Thread(target=body, name=f"treering hook {label}", daemon=True).start()
    except RuntimeError as error:  # No more threads: the hook fails, and not the run.
        for call in calls:
            call.conclude(HookOutcome(error=error))
