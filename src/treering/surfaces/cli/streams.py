"""The standard streams of the process, when they were closed or take nothing more."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from treering.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
INTERRUPTED: Final = 128 + signal.SIGINT
"""How shells report a signal: 128 and its number."""
ORDER_S: Final = 6.0
"""How long putting in order may wait for something; a supervisor kills after ten seconds."""
_FINAL: Final = (signal.SIGTERM, signal.SIGHUP)


def stand_in_for_closed() -> None:
    """Give every closed stream a stand-in, so that no file of ours is opened under its number.

    Standard input has nothing to read, standard output refuses all that is written.
    """
    # In this order: an opened file gets the lowest number that is free.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def escape_unencodable() -> None:
    """Write characters that the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        # Flush what is written first; the next write reports that it cannot.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")


def drop_unwritten() -> None:
    """Let go of what could not be written: the interpreter would try, and complain, once more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def writing_output(done: str = "") -> Iterator[None]:
    """Do the writing to standard output inside. Raises StorageError if it takes nothing more.

    ``done`` is what has happened nevertheless. A reader that has left stays a BrokenPipeError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error, done) from error


def unwritable(error: OSError, done: str = "") -> StorageError:
    """Return what to say of an ``error`` of standard output."""
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    if done:
        return StorageError(
            f"{done}; only its receipt could not be written to standard output: {reason}",
            hint="do not run it again just for the receipt; check where the output goes",
        )
    return StorageError(
        f"standard output cannot be written: {reason}", hint="check where the output goes"
    )


class Stopped(KeyboardInterrupt):
    """The process was asked to end."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__("interrupted" if number == signal.SIGINT else f"stopped by {name}")
        self.status = 128 + number


def heed_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise Stopped; one that is ignored stays ignored."""
    for number in (signal.SIGINT, *_FINAL):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    # Near its end, the interpreter takes its handlers back: an alarm would kill the process.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)


def status_of(stopped: BaseException) -> int:
    """Return the exit status of a process that ends because of ``stopped``."""
    return stopped.status if isinstance(stopped, Stopped) else INTERRUPTED


def _stop(number: int, _: FrameType | None) -> NoReturn:
    # Being asked again must not cut short what the first time has set going.
    for each in _FINAL:
        signal.signal(each, signal.SIG_IGN)

    def stop_again(_: int, __: FrameType | None) -> NoReturn:
        raise Stopped(number)

    # An exception that strikes while a lock changes hands can leave it locked. Whoever then waits
    # for it on the way out is called off, so that the rest of the way is gone.
    signal.signal(signal.SIGALRM, stop_again)
    signal.setitimer(signal.ITIMER_REAL, ORDER_S, ORDER_S)
    raise Stopped(number)
