"""Python's search for garbage, while much is made that stays."""

from __future__ import annotations

import contextlib
import gc
import os
import weakref
from collections.abc import Iterator
from typing import Final

from treering.locks import Lock

GARBAGE_OBJECTS: Final = 500_000
"""Objects after which Python looks for cycles meanwhile: more than a batch has; else 700."""


class _User:
    """Somebody who has it look rarely now, in any thread."""


_lock = Lock()
_users: weakref.WeakSet[_User] = weakref.WeakSet()
"""One that was interrupted before it could leave is gone with its frame."""
_thresholds: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
"""What the threshold was, and what it is now, while it is raised."""


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Have Python look for cycles rarely: where what is made is in use, it looks in vain.

    Whether it looks at all is for the process to say, which may change that meanwhile.
    """
    user = _User()
    try:
        with _lock.guard, _lock:
            _users.add(user)
            _adjust()
        yield
    finally:
        with _lock.guard, _lock:
            _users.discard(user)
            _adjust()


def _adjust() -> None:
    """Raise the threshold for the first user, and lower it after the last."""
    if _users and not _thresholds:
        before = gc.get_threshold()
        during = (max(before[0], GARBAGE_OBJECTS), *before[1:]) if before[0] else before
        _thresholds.append((before, during))
        gc.set_threshold(*during)
    elif _thresholds and not _users:
        [(earlier, raised)] = _thresholds
        if gc.get_threshold() == raised:
            gc.set_threshold(*earlier)
        _thresholds.clear()


def _after_fork_in_child() -> None:
    # The other threads are not here, and never say that they are done.
    global _lock, _users
    _lock, _users = Lock(), weakref.WeakSet()
    _adjust()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
