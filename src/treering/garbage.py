"""Python's search for garbage, while much is made that stays."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

GARBAGE_OBJECTS: Final = 500_000
"""Objects after which Python looks for cycles meanwhile: more than a batch has; else 700."""

_lock = threading.RLock()
_users: set[object] = set()
"""Those who have it look rarely now, in any thread."""
_before = _during = gc.get_threshold()


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Have Python look for cycles rarely: where what is made is in use, it looks in vain.

    Whether it looks at all is for the process to say, which may change that meanwhile.
    """
    user = object()
    try:
        with _lock:
            _users.add(user)
            if len(_users) == 1:
                _look_rarely()
        yield
    finally:
        with _lock:
            if user in _users:
                _users.remove(user)
                if not _users:
                    _look_as_before()


def _look_rarely() -> None:
    global _before, _during  # noqa: PLW0603
    _before = gc.get_threshold()
    _during = (max(_before[0], GARBAGE_OBJECTS), *_before[1:]) if _before[0] else _before
    gc.set_threshold(*_during)


def _look_as_before() -> None:
    if gc.get_threshold() == _during:
        gc.set_threshold(*_before)


def _after_fork_in_child() -> None:
    # The other threads are not here, and never say that they are done.
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()
    if _users:
        _users.clear()
        _look_as_before()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
