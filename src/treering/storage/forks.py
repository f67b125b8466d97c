"""Forks: resources are released before a fork and taken again after it.

SQLite's own bookkeeping of locks would be inherited by the child and be wrong there, so every
connection is closed before the fork and reopened at its next use.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from treering.locks import Lock


class Forkable(Protocol):
    """Something that must not be in use while the process forks."""

    def before_fork(self) -> None:
        """Wait for reads and writes to end, release the files, and keep every other thread out."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Go on as the only thread there is."""


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()
_waiting: list[Forkable] = []
"""Those who wait for a fork to be over."""
_lock = Lock()
"""Held during a fork, and while the set of registered resources changes."""


def register(one: Forkable) -> None:
    """Tell ``one`` of every fork as long as it lives."""
    with _lock.guard, _lock:
        _registered.add(one)


def _before_fork() -> None:
    # Two threads may fork at once: one after the other, or each would undo the other's locks.
    _lock.take()
    _waiting.extend(_registered)
    for forkable in _waiting:
        forkable.before_fork()


def _after_fork_in_parent() -> None:
    while _waiting:
        _waiting.pop().after_fork_in_parent()
    _lock.drop()


def _after_fork_in_child() -> None:
    while _waiting:
        _waiting.pop().after_fork_in_child()
    _lock.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
