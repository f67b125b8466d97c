"""The functions registered for hooks, in the order in which they are called."""

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

    def remove(self, function: Callable[..., Any], name: str | None) -> int:
        """Remove ``function`` from one hook or all; return the number of removed registrations."""
        return self._drop(
            lambda entry: entry.function == function and (name is None or entry.hook == name)
        )

    def savepoint(self) -> int:
        """Return a savepoint for ``roll_back``."""
        return self._order

    def roll_back(self, savepoint: int) -> None:
        """Remove everything registered since ``savepoint``."""
        self._drop(lambda entry: entry.order > savepoint)

    def _drop(self, is_dropped: Callable[[Registered], bool]) -> int:
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
