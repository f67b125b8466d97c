"""A lock that is never lost, wherever its holder is interrupted.

An exception of a signal handler, Ctrl-C above all, can be raised between any two steps of Python
code: also after a lock was taken and before anything could note that, and inside the code that
lets go of it. ``with lock:`` alone can therefore leave a lock held for ever. So:

* ``with lock.guard, lock:`` lets go twice. One interrupt cannot stop both.
* The lock knows the frame that took it. A lock whose frame has left its thread's stack was left
  behind, and belongs to whoever wants it next: at once in the same thread, after three looks in
  another one.
* What a holder did not finish is put right by ``tidy`` before anybody else gets the lock.
* Nobody waits for ever: Busy is raised when ``patience_s`` has passed.
"""

from __future__ import annotations

import sys
import threading
import time
from threading import get_ident
from typing import TYPE_CHECKING, Final

from treering.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

PATIENCE_S: Final = 120.0
"""How long a lock is waited for by default: longer than anything that is done under one."""
LOOK_S: Final = 0.1
"""How often those who wait look whether the holder is still at work."""
LOOKS_MIN: Final = 3
"""How many looks in a row must agree. One may go wrong: the other thread runs on meanwhile."""

_frame = sys._getframe  # noqa: SLF001


class Lock:
    """A reentrant lock. The outermost function that took it is its holder, and lets go of it."""

    __slots__ = (
        "__weakref__", "_holder", "_inner", "_replaceable", "_thread", "_tidy", "_untidy", "guard",
    )  # fmt: skip

    def __init__(self, tidy: Callable[[], None] | None = None) -> None:
        """Have ``tidy`` called, with the lock held, whenever its holder leaves. It can be repeated.

        It must raise nothing of its own.
        """
        self._tidy = tidy
        self._untidy = False
        self._inner = threading.RLock()
        self._replaceable = [self._inner]
        """The inner lock, until somebody takes it upon them to replace it."""
        self._holder: FrameType | None = None
        self._thread = 0
        self.guard = LockRelease(self)
        """Lets go of the lock at the end of a ``with``, if the lock has not."""

    def __enter__(self) -> None:
        # Nobody has it, mostly: then it is taken in the fewest steps. Every append does it.
        inner = self._inner
        if inner._is_owned() or not inner.acquire(False):  # type: ignore[attr-defined]  # noqa: SLF001
            self.take(frame=_frame(1))
            return
        self._thread = get_ident()
        self._holder = _frame(1)
        if self._untidy:
            self._put_right()

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        holder = self._holder
        if holder is None or holder is _frame(1):
            self.drop()

    def take(self, patience_s: float = PATIENCE_S, *, frame: FrameType | None = None) -> bool:
        """Take the lock for ``frame``, the caller's if none is given; for nested calls do nothing.

        Return False if it is held by another thread and there is no patience. Raise Busy if
        patience runs out.
        """
        caller = frame or _frame(1)
        if self._inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            if _is_in(self._holder, caller):
                return True
            self._replace(self._inner)
        if not self._inner.acquire(False):
            if not patience_s:
                return False
            self._wait(patience_s)
        self._thread = get_ident()
        self._holder = caller
        if self._untidy:
            self._put_right()
        return True

    def let_go(self, frame: FrameType) -> None:
        """Let go of the lock if it was taken for ``frame``."""
        # Without a holder it was taken by ``frame``, which was interrupted before it could say so.
        if self._holder is frame or self._holder is None:
            self.drop()

    def drop(self) -> None:
        """Let go of the lock if this thread holds it, whoever took it."""
        inner = self._inner
        if not inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            return
        if self._tidy is not None:
            self._tidy()
        self._holder = None
        inner.release()

    def is_held_here(self) -> bool:
        """Whether a function that this thread is in holds the lock."""
        return self._is_owned() and _is_in(self._holder, _frame(1))

    # What threading.Condition asks of its lock.

    acquire, release = take, drop

    def _is_owned(self) -> bool:
        return self._inner._is_owned()  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001

    def _release_save(self) -> FrameType | None:
        holder, self._holder = self._holder, None
        self._inner.release()
        return holder

    def _acquire_restore(self, holder: FrameType | None) -> None:
        if not self._inner.acquire(blocking=False):
            self._wait(PATIENCE_S)
        self._thread = get_ident()
        self._holder = holder

    def _put_right(self) -> None:
        """Put right what a holder left behind that was interrupted. The lock is held."""
        if self._tidy is not None:
            self._tidy()
        self._untidy = False

    def _wait(self, patience_s: float) -> None:
        deadline, looks, suspect = time.monotonic() + patience_s, 0, None
        while True:
            left_s = deadline - time.monotonic()
            inner, holder = self._inner, self._holder
            if inner.acquire(timeout=max(min(LOOK_S, left_s), 0.0)):
                return
            if left_s <= 0:
                raise Busy(
                    f"another thread of this process kept a lock for {patience_s:g} s",
                    hint="look for a thread that is stuck in the ledger, then try again",
                )
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001
            left = holder is not None and holder is self._holder and not _is_in(holder, frame)
            looks = looks + 1 if left and holder is suspect else int(left)
            suspect = holder
            if looks >= LOOKS_MIN:
                self._replace(inner)

    def _replace(self, inner: threading.RLock) -> None:
        """Put another lock in the place of one that was left behind. One of several does it."""
        self._untidy = True
        try:
            self._replaceable.remove(inner)
        except ValueError:
            return
        fresh = threading.RLock()
        self._replaceable.append(fresh)
        self._holder = None
        self._inner = fresh


class LockRelease:
    """Lets go of a lock at the end of a ``with``, if the lock itself has not."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        lock = self._lock
        if lock._inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            lock.let_go(_frame(1))


class LockSet:
    """Several locks that are held together: ``with held, held: held.take()``. It lets go twice."""

    __slots__ = ("_locks",)

    def __init__(self, locks: Sequence[Lock]) -> None:
        """Have ``locks``, which everybody takes in the same order."""
        self._locks = locks

    def take(self) -> None:
        """Take all for the caller."""
        frame = _frame(1)
        for lock in self._locks:
            lock.take(frame=frame)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        frame = _frame(1)
        for lock in self._locks:
            lock.let_go(frame)


class Bell:
    """Wakes the thread that waits for it; one that was rung before wakes it at once.

    A timed ``get`` of ``queue.SimpleQueue`` is no way to wait: it waits for ever if the time is
    over before it has begun.
    """

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake who waits; ringing again before that makes no difference."""
        try:  # noqa: SIM105  (suppress is slower, and this is part of every append)
            self._silent.release()
        except RuntimeError:
            pass

    def wait(self, timeout_s: float) -> bool:
        """Return True once it was rung, False after the timeout."""
        return self._silent.acquire(timeout=min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))


def _is_in(holder: FrameType | None, frame: FrameType | None) -> bool:
    """Whether ``holder`` is ``frame`` or has called it."""
    while frame is not None and frame is not holder:
        frame = frame.f_back
    return frame is not None
