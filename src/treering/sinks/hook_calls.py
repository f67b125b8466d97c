"""Calls hooks, each in a thread, with a timeout, and without passing on their errors.

A hook may block, raise or never return. So no hook runs in the calling thread, which waits for the
hook's timeout and then continues without it. Asynchronous hooks get an event loop of their own, so
that they can be called from inside another one.
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
"""A hook with this many calls that never returned is not called until one of them returns."""

log: Final = logging.getLogger("treering.hooks")


class HookOutcome(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The outcome of one call of a hook."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Return whether the hook returned."""
        return self.error is None and not self.timed_out


class Caller:
    """Calls hooks, counts their calls and logs their failures; it never raises those."""

    def __init__(self, counts: HookCounts) -> None:
        self._counts = counts
        self._stuck: Counter[int] = Counter()
        self._lock = threading.Lock()

    def call(self, hook: Registered, *given: Any) -> HookOutcome:
        """Call one hook and wait for it, including an awaitable it returns."""
        return self._settle(self._begin(hook, partial(_finished, hook, given)))

    def call_now(self, hook: Registered, *given: Any) -> HookOutcome:
        """Call one hook and wait for it, but not for an awaitable it returns."""
        return self._settle(self._begin(hook, partial(_called, hook, given)))

    def call_together(
        self, hooks: Sequence[Registered], given: Callable[[], tuple[Any, ...]]
    ) -> None:
        """Call ``hooks`` in parallel, each with its own ``given()``, and wait for them all."""
        calls = [
            self._begin(hook, partial(_finished, hook, given()))
            for hook in hooks
            if not hook.is_async
        ]
        calls += self._begin_on_one_loop([hook for hook in hooks if hook.is_async], given)
        for call in calls:
            self._settle(call)

    def _begin(self, hook: Registered, work: Callable[[], Any]) -> _Call:
        call = _Call(hook)
        if not self._refuse(call):
            _in_thread(hook.label, lambda: call.conclude(_attempted(work)), [call])
        return call

    def _begin_on_one_loop(
        self, hooks: Sequence[Registered], given: Callable[[], tuple[Any, ...]]
    ) -> list[_Call]:
        calls = [_Call(hook) for hook in hooks]
        started = [call for call in calls if not self._refuse(call)]

        async def gathered() -> None:
            await asyncio.gather(*(_answered(call, given()) for call in started))

        if started:
            _in_thread("on a loop", lambda: asyncio.run(gathered()), started)
        return calls

    def _refuse(self, call: _Call) -> bool:
        with self._lock:
            stuck = self._stuck[id(call.hook)] >= STUCK_CALLS_MAX
        if stuck:
            call.conclude(HookOutcome(timed_out=True))
        return stuck

    def _settle(self, call: _Call) -> HookOutcome:
        hook, outcome = call.hook, call.wait()
        if outcome is None:
            self._abandon(call)
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

    def _abandon(self, call: _Call) -> None:
        hook_id = id(call.hook)

        def returned() -> None:
            with self._lock:
                self._stuck[hook_id] -= 1
                if not self._stuck[hook_id]:
                    del self._stuck[hook_id]

        with self._lock:
            self._stuck[hook_id] += 1
        call.when_done(returned)


class _Call:
    """A running call of a hook."""

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

    def when_done(self, callback: Callable[[], None]) -> None:
        self._outcome.add_done_callback(lambda _: callback())


class _HookTimeout(Exception):
    """The hook was cancelled because its time is over."""


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
            raise _HookTimeout from None
        raise


async def _answered(call: _Call, given: tuple[Any, ...]) -> None:
    begun = time.monotonic()
    try:
        value = await _in_time(call.hook, _called(call.hook, given))
    except BaseException as error:  # noqa: BLE001  (reported to the waiting caller)
        call.conclude(_failed(error, begun))
    else:
        call.conclude(HookOutcome(value=value, seconds=time.monotonic() - begun))


def _attempted(work: Callable[[], Any]) -> HookOutcome:
    begun = time.monotonic()
    try:
        value = work()
    except BaseException as error:  # noqa: BLE001  (reported to the waiting caller)
        return _failed(error, begun)
    return HookOutcome(value=value, seconds=time.monotonic() - begun)


def _failed(error: BaseException, begun: float) -> HookOutcome:
    seconds = time.monotonic() - begun
    if isinstance(error, _HookTimeout):
        return HookOutcome(timed_out=True, seconds=seconds)
    return HookOutcome(error=error, seconds=seconds)


def _in_thread(label: str, work: Callable[[], Any], calls: Sequence[_Call]) -> None:
    """Run ``work`` in a daemon thread."""
    context = copy_context()

    def body() -> None:
        try:
            context.run(work)
        except BaseException as error:  # noqa: BLE001  (reported to the waiting callers)
            for call in calls:
                call.conclude(HookOutcome(error=error))

    try:
        threading.Thread(target=body, name=f"treering hook {label}", daemon=True).start()
    except RuntimeError as error:  # Out of threads: the hook fails, but not the run.
        for call in calls:
            call.conclude(HookOutcome(error=error))
