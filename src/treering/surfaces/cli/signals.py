"""Signals that ask a command to end, as an exception: it is put in order on the way out."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED: Final = 128 + signal.SIGINT
"""How shells report a signal: 128 and its number."""
ORDER_S: Final = 3.0
"""How long putting in order may wait for something; a supervisor kills after ten seconds."""
_FINAL: Final = (signal.SIGTERM, signal.SIGHUP)


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
