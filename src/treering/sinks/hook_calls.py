"""Calls of hooks: the functions registered, each within a time limit, with its metrics.

A hook may block, raise or never return. So no hook runs in the thread that asks for it: that
thread waits as long as the hook may take and then continues without it. Asynchronous hooks get an
event loop of their own, so that they can be asked for from inside another one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import msgspec

from treering.errors import InvalidInput, TooLarge
from treering.spine.sink_queue import HUNG_CALLS_MAX, BoundedCall, Overtime, Worker, in_time

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
    """Calls hooks, counts their calls and logs their failures; it raises none of them.

    A hook with too many calls that never came back is not called until one of them does.
    """

    def __init__(self, counts: HookCounts) -> None:
        self._counts = counts
        self._stuck: Counter[int] = Counter()
        self._lock = threading.Lock()

    def call(self, hook: Registered, *given: Any) -> HookOutcome:
        """Call one hook and wait for it, and for an awaitable that it returns."""
        return self._settle(self._begin(hook, partial(_finished, hook, given)))

    def call_now(self, hook: Registered, *given: Any) -> HookOutcome:
        """Call one hook and wait for it, but not for an awaitable that it returns."""
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

    def _begin(self, hook: Registered, work: Callable[[], Any]) -> _HookCall:
        call = _HookCall(hook)
        if not self._refuse(call):
            _in_thread(hook.label, partial(call.make, work), [call])
        return call

    def _begin_on_one_loop(
        self, hooks: Sequence[Registered], given: Callable[[], tuple[Any, ...]]
    ) -> list[_HookCall]:
        begun = [_HookCall(hook) for hook in hooks]
        accepted = [call for call in begun if not self._refuse(call)]

        async def gathered() -> None:
            await asyncio.gather(*(call.answer(given()) for call in accepted))

        if accepted:
            _in_thread("on a loop", lambda: asyncio.run(gathered()), accepted)
        return begun

    def _refuse(self, call: _HookCall) -> bool:
        with self._lock:
            is_stuck = self._stuck[id(call.hook)] >= HUNG_CALLS_MAX
        if is_stuck:
            call.conclude(error=Overtime(call.hook.timeout_s))
        return is_stuck

    def _settle(self, call: _HookCall) -> HookOutcome:
        hook = call.hook
        if not call.over.wait(call.left_s):
            self._leave_behind(call)
            outcome = HookOutcome(timed_out=True, seconds=hook.timeout_s)
        else:
            outcome = call.outcome
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

    def _leave_behind(self, call: _HookCall) -> None:
        which = id(call.hook)

        def came_back() -> None:
            with self._lock:
                self._stuck[which] -= 1
                if not self._stuck[which]:
                    del self._stuck[which]

        with self._lock:
            self._stuck[which] += 1
        call.when_done(came_back)


class _HookCall(BoundedCall):
    """A running call of a hook."""

    __slots__ = ("_ends_at", "hook", "seconds")

    def __init__(self, hook: Registered) -> None:
        super().__init__()
        self.hook = hook
        self.seconds = 0.0
        self._ends_at = time.monotonic() + hook.timeout_s

    @property
    def left_s(self) -> float:
        """Return how much longer it may take."""
        return max(0.0, self._ends_at - time.monotonic())

    @property
    def outcome(self) -> HookOutcome:
        """Return how it ended, once it has."""
        if isinstance(self.error, Overtime):
            return HookOutcome(timed_out=True, seconds=self.seconds)
        return HookOutcome(value=self.value, error=self.error, seconds=self.seconds)

    def make(self, function: Callable[..., Any], *given: Any) -> None:
        """Make the call in this thread, and note how long it takes."""
        begun = time.monotonic()
        try:
            value = function(*given)
        except BaseException as error:  # noqa: BLE001  (reported to the one that waits for the hook)
            self.seconds = time.monotonic() - begun
            self.conclude(error=error)
        else:
            self.seconds = time.monotonic() - begun
            self.conclude(value)

    async def answer(self, given: tuple[Any, ...]) -> None:
        """Make the call in this event loop."""
        begun = time.monotonic()
        try:
            value = await in_time(_called(self.hook, given), self.hook.timeout_s)
        except BaseException as error:  # noqa: BLE001  (reported to the one that waits for the hook)
            self.seconds = time.monotonic() - begun
            self.conclude(error=error)
        else:
            self.seconds = time.monotonic() - begun
            self.conclude(value)


def _called(hook: Registered, given: tuple[Any, ...]) -> Any:
    return hook.function(*given[: hook.arguments])


def _finished(hook: Registered, given: tuple[Any, ...]) -> Any:
    value = _called(hook, given)
    return asyncio.run(in_time(value, hook.timeout_s)) if inspect.isawaitable(value) else value


def _in_thread(label: str, work: Callable[[], Any], calls: Sequence[BoundedCall]) -> None:
    """Run ``work`` in a daemon thread."""
    try:
        worker = Worker(f"treering hook {label}")
    except RuntimeError as error:  # No more threads: the hook fails, and not the run.
        for call in calls:
            call.conclude(error=error)
        return
    whole = worker.begin(copy_context().run, work)
    worker.end()

    def note_failure() -> None:
        if whole.error is not None:  # Before it could tell the calls apart.
            for call in calls:
                call.conclude(error=whole.error)

    whole.when_done(note_failure)


HOOKS_PER_NAME_MAX: Final = 100


class Registered(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A function registered for a hook."""

    hook: str
    function: Any
    arguments: int
    """The number of arguments it takes: the event, or the event and its context."""
    priority: int
    order: int
    """The registration number: equal priorities are called in this order."""
    timeout_s: float

    @property
    def label(self) -> str:
        """Return the name under which its calls are counted."""
        function = self.function
        while isinstance(function, partial):
            function = function.func
        named = function if hasattr(function, "__qualname__") else type(function)
        return f"{named.__module__ or type(function).__module__}.{named.__qualname__}"

    @property
    def is_async(self) -> bool:
        """Return whether calling it returns a coroutine."""
        own = getattr(type(self.function), "__call__", None)  # noqa: B004  (the method itself is needed)
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(own)


class Registry:
    """Functions by hook name. Reading needs no lock: each change is one assignment."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._order = 0
        self._by_name: dict[str, tuple[Registered, ...]] = {}

    def of(self, name: str) -> tuple[Registered, ...]:
        """Return the functions of a hook in the order of their calls."""
        return self._by_name.get(name, ())

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        arguments: int,
        priority: int,
        timeout_s: float,
    ) -> None:
        """Register ``function``, which takes ``arguments`` or fewer of them."""
        taken = _arguments_taken(function, arguments)
        if not timeout_s > 0:
            raise InvalidInput(f"invalid timeout_s: {timeout_s}", hint="use more than 0 seconds")
        with self.lock:
            present = self.of(name)
            if len(present) >= HOOKS_PER_NAME_MAX:
                raise TooLarge(
                    f"{name} has {HOOKS_PER_NAME_MAX} functions already",
                    hint="remove some with hooks.remove(...)",
                )
            self._order += 1
            new = Registered(
                hook=name,
                function=function,
                arguments=taken,
                priority=priority,
                order=self._order,
                timeout_s=timeout_s,
            )
            self._by_name[name] = tuple(
                sorted((*present, new), key=lambda entry: (-entry.priority, entry.order))
            )

    def savepoint(self) -> int:
        """Return a savepoint for ``roll_back``."""
        return self._order

    def roll_back(self, savepoint: int) -> None:
        """Remove everything registered since ``savepoint``."""
        self.drop(lambda entry: entry.order > savepoint)

    def drop(self, is_dropped: Callable[[Registered], bool]) -> int:
        """Remove what ``is_dropped`` chooses; return the number of removed registrations."""
        dropped = 0
        with self.lock:
            for name, present in list(self._by_name.items()):
                remaining = tuple(entry for entry in present if not is_dropped(entry))
                dropped += len(present) - len(remaining)
                if remaining:
                    self._by_name[name] = remaining
                else:
                    del self._by_name[name]
        return dropped


def _arguments_taken(function: Callable[..., Any], most: int) -> int:
    """Return how many of ``most`` arguments ``function`` takes. Raises InvalidInput for none."""
    if not callable(function):
        raise InvalidInput(f"{function!r} is not a function", hint="register a function")
    try:
        signature = inspect.signature(function)
    except ValueError:  # Some C functions have no signature.
        return most
    for count in range(most, 0, -1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise InvalidInput(
        f"{getattr(function, '__qualname__', function)} cannot be called with an event",
        hint=f"let it take {'(event, context)' if most > 1 else '(event)'}",
    )


FUNCTIONS_MAX: Final = 1_000
"""The number of functions counted by name; later ones are counted together."""
THE_REST: Final = "(others)"


class HookMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one function for one hook."""

    hook: str
    function: str
    calls: int = 0
    errors: int = 0
    timeouts: int = 0
    last_error: str | None = None
    """The class of the last error."""
    total_ms: float = 0.0
    max_ms: float = 0.0


class HookCounts:
    """The metrics of all hooks of a registry; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], HookMetrics] = {}

    def add(
        self,
        hook: str,
        function: str,
        *,
        ms: float = 0.0,
        error: str | None = None,
        timed_out: bool = False,
    ) -> None:
        """Count one call; ``error`` is the class of its error."""
        with self._lock:
            if (hook, function) not in self._rows and len(self._rows) >= FUNCTIONS_MAX:
                hook, function = THE_REST, THE_REST
            row = self._rows.get((hook, function)) or HookMetrics(hook=hook, function=function)
            self._rows[hook, function] = msgspec.structs.replace(
                row,
                calls=row.calls + 1,
                errors=row.errors + (error is not None),
                timeouts=row.timeouts + timed_out,
                last_error=error or row.last_error,
                total_ms=row.total_ms + ms,
                max_ms=max(row.max_ms, ms),
            )

    def rows(self) -> list[HookMetrics]:
        """Return the metrics so far, by hook and function."""
        with self._lock:
            return [self._rows[key] for key in sorted(self._rows)]
