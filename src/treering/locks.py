"""A lock that is never lost, wherever its holder is interrupted.

A signal handler, above all that of Ctrl-C, can raise between any two steps of Python code: also
after a lock was taken and before anything could note it, and inside the code that releases it.
``with lock:`` alone can therefore leave a lock held forever. So:

* ``with lock.guard, lock:`` releases twice. One interrupt cannot stop both.
* The lock knows the frame that took it. If that frame has left its thread's stack, the lock was
  abandoned, and the next thread may take it: at once in the same thread, after three checks in
  another one.
* ``tidy`` cleans up after an interrupted holder before anybody else gets the lock.
* Nobody waits forever: Busy is raised after ``patience_s``.
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
"""The default wait for a lock: longer than any operation under one."""
LOOK_S: Final = 0.1
"""How often waiting threads check whether the holder is still running."""
LOOKS_MIN: Final = 3
"""How many checks in a row must agree. One may be wrong: the other thread keeps running."""

_frame = sys._getframe  # noqa: SLF001


class Lock:
    """A reentrant lock. The outermost function that took it is its holder, and releases it."""

    __slots__ = (
        "__weakref__", "_inner", "_patience_s", "_replaceable", "_thread", "_tidy", "_untidy",
        "guard", "holder",
    )  # fmt: skip

    def __init__(
        self, tidy: Callable[[], None] | None = None, *, patience_s: float = PATIENCE_S
    ) -> None:
        """Call ``tidy``, with the lock held, whenever its holder leaves. It may be called twice.

        It must not raise.
        """
        self._tidy = tidy
        self._patience_s = patience_s
        self._untidy = False
        self._inner = threading.RLock()
        self._replaceable = [self._inner]
        """The inner lock, until one thread undertakes to replace it."""
        self.holder: FrameType | None = None
        """The frame it was taken for; None while it is free."""
        self._thread = 0
        self.guard = LockRelease(self)
        """Releases the lock at the end of a ``with``, if the lock itself has not."""

    def __enter__(self) -> None:
        # The lock is usually free: take it in the fewest steps, since every append does.
        inner = self._inner
        if inner._is_owned() or not inner.acquire(False):  # type: ignore[attr-defined]  # noqa: SLF001
            self.take(frame=_frame(1))
            return
        self._thread = get_ident()
        self.holder = _frame(1)
        if self._untidy:
            self._repair()

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        holder = self.holder
        inner = self._inner
        if (holder is None or holder is _frame(1)) and inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            # As ``drop`` does, without a call: every append passes here.
            if self._tidy is not None:
                self._tidy()
            self.holder = None
            inner.release()

    def take(self, patience_s: float | None = None, *, frame: FrameType | None = None) -> bool:
        """Take the lock for ``frame``, by default the caller's; nested calls do nothing.

        Return False if another thread holds it and we may not wait. Raise Busy when patience
        runs out.
        """
        caller = frame or _frame(1)
        if self._inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            if _is_in(self.holder, caller):
                return True
            self._replace(self._inner)
        if not self._inner.acquire(False):
            if patience_s == 0:
                return False
            self._wait(self._patience_s if patience_s is None else patience_s)
        self._thread = get_ident()
        self.holder = caller
        if self._untidy:
            self._repair()
        return True

    def release_for(self, frame: FrameType) -> None:
        """Release the lock if it was taken for ``frame``."""
        # Without a holder, ``frame`` took it and was interrupted before it could say so.
        if self.holder is frame or self.holder is None:
            self.drop()

    def drop(self) -> None:
        """Release the lock if this thread holds it, whichever frame took it."""
        inner = self._inner
        if not inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            return
        if self._tidy is not None:
            self._tidy()
        self.holder = None
        inner.release()

    def is_held_here(self) -> bool:
        """Return whether a function on this thread's stack holds the lock."""
        return self._is_owned() and _is_in(self.holder, _frame(1))

    # The interface that threading.Condition needs.

    acquire, release = take, drop

    def _is_owned(self) -> bool:
        return self._inner._is_owned()  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001

    def _release_save(self) -> FrameType | None:
        holder, self.holder = self.holder, None
        self._inner.release()
        return holder

    def _acquire_restore(self, holder: FrameType | None) -> None:
        if not self._inner.acquire(blocking=False):
            self._wait(self._patience_s)
        self._thread = get_ident()
        self.holder = holder

    def _repair(self) -> None:
        """Clean up after a holder that was interrupted. The lock is held."""
        if self._tidy is not None:
            self._tidy()
        self._untidy = False

    def _wait(self, patience_s: float) -> None:
        deadline, checks, suspect = time.monotonic() + patience_s, 0, None
        while True:
            left_s = deadline - time.monotonic()
            inner, holder = self._inner, self.holder
            if inner.acquire(timeout=max(min(LOOK_S, left_s), 0.0)):
                return
            if left_s <= 0:
                raise Busy(
                    f"another thread of this process kept a lock for {patience_s:g} s",
                    hint="look for a thread that is stuck in the ledger, then try again",
                )
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001
            is_abandoned = (
                holder is not None and holder is self.holder and not _is_in(holder, frame)
            )
            checks = checks + 1 if is_abandoned and holder is suspect else int(is_abandoned)
            suspect = holder
            if checks >= LOOKS_MIN:
                self._replace(inner)

    def _replace(self, inner: threading.RLock) -> None:
        """Replace a lock that was left behind. Only one of several threads does so."""
        self._untidy = True
        try:
            self._replaceable.remove(inner)
        except ValueError:
            return
        fresh = threading.RLock()
        self._replaceable.append(fresh)
        self.holder = None
        self._inner = fresh


class LockRelease:
    """Releases a lock at the end of a ``with``, if the lock itself has not."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        lock = self._lock
        if lock._inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            lock.release_for(_frame(1))


class LockSet:
    """Several locks held together: ``with held, held: held.take()``. It releases them twice."""

    __slots__ = ("_locks",)

    def __init__(self, locks: Sequence[Lock]) -> None:
        """Everybody must acquire ``locks`` in the same order."""
        self._locks = locks

    def take(self) -> None:
        """Take all locks for the caller."""
        frame = _frame(1)
        for lock in self._locks:
            lock.take(frame=frame)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        frame = _frame(1)
        for lock in self._locks:
            if lock._inner._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
                lock.release_for(frame)


class Bell:
    """Wakes the thread that waits for it, at once if it was rung before.

    A timed ``get`` of ``queue.SimpleQueue`` would not do: it waits forever if the time is over
    before it begins.
    """

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake the waiting thread; ringing again before that has no effect."""
        try:  # noqa: SIM105  (suppress is slower, and this is part of every append)
            self._silent.release()
        except RuntimeError:
            pass

    def wait(self, timeout_s: float) -> bool:
        """Return True once it was rung, False after the timeout."""
        return self._silent.acquire(timeout=min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))


def _is_in(holder: FrameType | None, frame: FrameType | None) -> bool:
    """Return whether ``holder`` is ``frame`` or one of its callers."""
    while frame is not None and frame is not holder:
        frame = frame.f_back
    return frame is not None
