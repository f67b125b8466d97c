"""Which functions are registered for which hooks, in the order in which they are called."""

from __future__ import annotations

import inspect
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable

HOOKS_PER_NAME_MAX: Final = 100


class Registered(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A function that is registered for a hook."""

    hook: str
    function: Any
    arguments: int
    """How many arguments it takes: the event, or the event and its context."""
    priority: int
    order: int
    """Counts registrations: among equals, who came first is called first."""
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
        """Whether calling it gives a coroutine."""
        own = getattr(type(self.function), "__call__", None)  # noqa: B004  (the method is asked for)
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(own)


class Registry:
    """Functions by the name of their hook. Reading needs no lock: each change is one assignment."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._order = 0
        self._by_name: dict[str, tuple[Registered, ...]] = {}

    def of(self, name: str) -> tuple[Registered, ...]:
        """Return the functions of a hook, the first to be called first."""
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
        """Register ``function``, which is to take ``arguments`` or fewer of them."""
        taken = _arguments_taken(function, arguments)
        if not timeout_s > 0:
            raise InvalidInput(f"invalid timeout_s: {timeout_s}", hint="give seconds above 0")
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
                sorted((*present, new), key=lambda one: (-one.priority, one.order))
            )

    def remove(self, function: Callable[..., Any], name: str | None) -> int:
        """Forget ``function``, for one hook or for all; return how often it was registered."""
        return self._drop(
            lambda one: one.function == function and (name is None or one.hook == name)
        )

    def mark(self) -> int:
        """Return a mark to go back to."""
        return self._order

    def go_back(self, mark: int) -> None:
        """Forget what was registered since ``mark``."""
        self._drop(lambda one: one.order > mark)

    def _drop(self, goes: Callable[[Registered], bool]) -> int:
        dropped = 0
        with self.lock:
            for name, present in list(self._by_name.items()):
                left = tuple(one for one in present if not goes(one))
                dropped += len(present) - len(left)
                if left:
                    self._by_name[name] = left
                else:
                    del self._by_name[name]
        return dropped


def _arguments_taken(function: Callable[..., Any], most: int) -> int:
    """Return how many of ``most`` arguments ``function`` takes; none is too few."""
    if not callable(function):
        raise InvalidInput(f"{function!r} is no function", hint="register a function")
    try:
        signature = inspect.signature(function)
    except ValueError:  # Some that are written in C do not say.
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
