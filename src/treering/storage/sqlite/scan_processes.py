"""Scanning a large ledger on every core: a process each, over stretches of the file.

This process hands out stretches, and scans others itself meanwhile. What another does not answer
for in time, it scans as well: without any other process the result is the same.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from treering.storage.keys import KeyFolder
from treering.storage.sqlite.chain_scan import Positions, Scan, scan
from treering.storage.sqlite.database import Database
from treering.storage.sqlite.opening import shares_live_log
from treering.storage.sqlite.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS_MIN: Final = 50_000
"""Fewer are scanned before another process has started."""
STRETCH: Final = 20_000
HELPERS_MAX: Final = 7
PATIENCE_S: Final = 60.0
"""How long a process may take for a stretch; it takes a fraction of a second."""
_CHUNK_BYTES: Final = 1 << 20
_FAILURES: Final = (OSError, ValueError, msgspec.MsgspecError)


class ScanJob(msgspec.Struct, frozen=True):
    """The ledger that other processes have to open."""

    path: str
    keys: str
    """The folder of its keys."""


def helper_count(events: int) -> int:
    """Return how many other processes are worth starting for this number of events."""
    if events < EVENTS_MIN or not sys.executable or getattr(sys, "frozen", False):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min((cores or 1) - 1, HELPERS_MAX)


def scan_all(
    reader: Reader,
    whole: Positions,
    progress: Callable[[int], None],
    *,
    job: ScanJob,
    helpers: int,
    size: int = STRETCH,
) -> list[Scan]:
    """Return what the stretches of ``whole`` prove, in order, with the help of other processes."""
    starts = range(whole.after, whole.until, size)
    waiting = deque(Positions(at, min(at + size, whole.until), whole.scope) for at in starts)
    scans: dict[int, Scan] = {}

    def keep(stretch: Positions, result: Scan) -> None:
        scans[stretch.after] = result
        progress(result.count())

    with _Helpers(job, helpers) as others:
        while waiting or others.are_busy():
            others.exchange(waiting, keep, wait_s=0 if waiting else PATIENCE_S)
            if waiting:
                own = waiting.popleft()
                keep(own, scan(reader, own, lambda: others.exchange(waiting, keep, wait_s=0)))
    return [scans[after] for after in sorted(scans)]


class _Helpers:
    """The other processes, each with at most one stretch to scan."""

    def __init__(self, job: ScanJob, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._helpers: list[_Helper] = []
        with contextlib.suppress(OSError):  # Without another process, all is scanned here.
            for _ in range(count):
                helper = _Helper(job)
                self._helpers.append(helper)
                self._selector.register(helper.output, selectors.EVENT_READ, helper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._helpers:
            helper.kill()
        self._selector.close()

    def are_busy(self) -> bool:
        return any(helper.stretch is not None for helper in self._helpers)

    def exchange(
        self, waiting: deque[Positions], keep: Callable[[Positions, Scan], None], *, wait_s: float
    ) -> None:
        """Take results, and hand out stretches of ``waiting``; those of failures return to it."""
        ready = {key.data for key, _ in self._selector.select(wait_s)} if self._helpers else set()
        for helper in tuple(self._helpers):
            stretch, result = helper.stretch, None
            try:
                if helper in ready:
                    result = helper.receive()
                if helper.stretch is None and waiting:
                    helper.send(waiting.pop())
                helper.check_time()
            except _FAILURES:
                self._drop(helper, waiting)
            if stretch is not None and result is not None:
                keep(stretch, result)

    def _drop(self, helper: _Helper, waiting: deque[Positions]) -> None:
        if helper.stretch is not None:
            waiting.append(helper.stretch)
        self._helpers.remove(helper)
        self._selector.unregister(helper.output)
        helper.kill()


class _Helper:
    """One other process."""

    def __init__(self, job: ScanJob) -> None:
        """Start it. Raises OSError if that is not possible."""
        pipe = subprocess.PIPE
        # In a session of its own: Ctrl-C at the terminal stops us, and we stop it.
        self._process = subprocess.Popen(  # noqa: S603  (ours)
            [sys.executable, "-P", "-m", __name__],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101  (a pipe)
        assert self._process.stdout is not None  # noqa: S101  (a pipe)
        self._input, self.output = self._process.stdin, self._process.stdout
        self._received = bytearray()
        self._deadline = 0.0
        self.stretch: Positions | None = None
        self._unsent = _line(job)

    def send(self, stretch: Positions) -> None:
        """Have it scan a stretch. Raises OSError if it has ended."""
        self.stretch = stretch
        self._deadline = time.monotonic() + PATIENCE_S
        self._input.write(self._unsent + _line(stretch))
        self._input.flush()
        self._unsent = b""

    def receive(self) -> Scan | None:
        """Return its result if that is complete. Raises OSError if it has ended."""
        chunk = os.read(self.output.fileno(), _CHUNK_BYTES)
        if not chunk:
            raise OSError("the process has ended")
        self._received += chunk
        if not chunk.endswith(b"\n"):
            return None
        result = msgspec.json.decode(self._received, type=Scan)
        self._received.clear()
        self.stretch = None
        return result

    def check_time(self) -> None:
        """Raise TimeoutError if it takes too long."""
        if self.stretch is not None and time.monotonic() > self._deadline:
            raise TimeoutError("the process does not answer")

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        with contextlib.suppress(OSError):
            self._input.close()
        self.output.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)


def _line(message: ScanJob | Positions | Scan) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def main() -> None:
    """Scan the stretches that standard input names, and write to standard output."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ScanJob)
    if not shares_live_log(job.path):
        return  # To read it, the file would be copied first.
    database = Database(job.path, mode="ro")
    reader = Reader(database, KeyFolder(lambda: Path(job.keys), database.ledger_id))
    # The other process may be gone by now.
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            result = scan(reader, msgspec.json.decode(line, type=Positions), lambda: None)
            sys.stdout.buffer.write(_line(result))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
