"""A cache of limited size for what was put or read last."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from treering.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


class RecentValues(Generic[Key, Value]):
    """A least-recently-used cache of values by key.

    Safe to share between threads.
    """

    def __init__(self, size_max: int, size_of: Callable[[Value], int] = lambda _: 1) -> None:
        self._size_max = size_max
        self._size_of = size_of
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, None if it is not here."""
        with self._lock.guard, self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def all_keys(self) -> list[Key]:
        """Return all keys that are here."""
        with self._lock.guard, self._lock:
            return list(self._values)

    def add(self, key: Key, value: Value) -> None:
        """Keep a value, unless it is too large to leave room for others."""
        with self._lock.guard, self._lock:
            self._drop(key)
            if self._size_of(value) * 4 <= self._size_max:
                self._values[key] = value
                self._size += self._size_of(value)
            while self._size > self._size_max:
                self._drop(next(iter(self._values)))

    def drop(self, is_gone: Callable[[Key], bool]) -> None:
        """Forget the values of all keys that ``is_gone`` names."""
        with self._lock.guard, self._lock:
            for key in [key for key in self._values if is_gone(key)]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        if key in self._values:
            self._size -= self._size_of(self._values.pop(key))
