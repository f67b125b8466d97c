"""Follow logs while they are written, and import what has changed.

Notifications of the file system show where to look; a slow scan of everything finds what they miss.
Without notifications, as on a network drive, only scans are used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from treering.capture.intake.log_search import find_files
from treering.errors import (
    Busy,
    OutcomeUnknown,
    StorageError,
    StorageFull,
    TreeringError,
    Unavailable,
)
from treering.files import lock
from treering.formats.registry import others_of
from treering.hook import state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from threading import Event

TICK_S: Final = 1.0
SWEEP_S: Final = 30.0
"""The interval of scans of everything."""
PLACES_TICKS: Final = 3
"""The interval, in ticks, of checks for new or removed folders."""
DEBOUNCE_MS: Final = 300
"""Notifications within this time are grouped."""
RETRY_S_MAX: Final = 30.0
TRIES_MAX: Final = 6
"""The number of attempts for a single pass."""
REST: Final = 10
"""Scans take at most this fraction of the time, as 1 / REST."""
_PASSING: Final = (Busy, Unavailable, StorageFull, OutcomeUnknown)
"""Errors that may be temporary."""

_Signature = tuple[int, ...]
_SIZE_AT: Final = 2
"""Where in a signature the size of the file is."""
_WHOLE: Final = frozenset({".db", ".json", ".sqlite", ".sqlite3", ".vscdb"})
"""The endings of files that are read whole."""


class Followed(Protocol):
    """A folder or file to follow."""

    @property
    def root(self) -> Path:
        """Its path, which may not exist yet."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one pass."""

    paths: list[Path]
    receipt: Any = None
    """The result of the import, unless it failed."""
    error: str | None = None
    is_final: bool = True
    """Whether it is final; otherwise it is retried."""


class Watch:
    """Follows folders, and imports what changes in them.

    ``take`` receives changed files, possibly known ones. ``report`` receives the results, and
    ``remark`` other messages. ``drain`` is called often to process the spool, with a ``take`` of
    this watch.
    """

    def __init__(
        self,
        places: Callable[[], Sequence[Followed]],
        *,
        take: Callable[[Sequence[Path]], Any],
        report: Callable[[Round], None],
        remark: Callable[[str], None] = lambda _: None,
        drain: Callable[[Callable[[Sequence[Path]], Any]], None] | None = None,
        also: Sequence[Path] = (),
        tick_s: float = TICK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = places
        self._take = take
        self._report = report
        self._remark = remark
        self._drain = drain
        self._also = list(also)
        self._tick_s = tick_s
        self._clock = clock
        self._seen: dict[Path, _Signature] = {}
        self._rested_at: dict[Path, float] = {}
        """When databases and documents may be read again that took long: each time, all of them
        are read."""
        self._put_back: set[Path] = set()
        """Those of them that have changed since."""
        self._waiting: dict[Path, None] = {}
        self._tries = 0
        self._retry_at = 0.0
        self._drain_failed = False

    def once(self, pause: Callable[[float], object] = time.sleep) -> bool:
        """Import everything once. Return whether all of it succeeded."""
        self.catch_up()
        while self._is_behind() and self._tries < TRIES_MAX:
            pause(max(0.0, self._retry_at - self._clock()))
            self._tick()
        return not self._is_behind()

    def run(self, stop: Event, *, poll: bool = False) -> None:
        """Import everything, then all changes, until ``stop`` is set."""
        self.catch_up()
        while not stop.is_set():
            roots = self._roots()
            if poll or not roots:
                began = self._clock()
                self.catch_up()
                stop.wait(max(self._tick_s, REST * (self._clock() - began)))
                continue
            try:
                self._follow_notices(roots, stop)
            except (OSError, RuntimeError) as error:
                # Too many folders to watch, or a file system without notifications.
                self._remark(f"no file system notifications ({error}): scanning every few seconds")
                poll = True

    def catch_up(self) -> None:
        """Scan everything once."""
        self._look([followed.root for followed in self._places()])
        self._tick()

    def _is_behind(self) -> bool:
        return bool(self._waiting) or self._drain_failed

    def _follow_notices(self, roots: dict[Path, int], stop: Event) -> None:
        """Scan where notifications point, until the set of folders changes."""
        from watchfiles import watch  # noqa: PLC0415  (only needed to watch)

        notices = watch(
            *roots,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            stop_event=stop,
            rust_timeout=int(self._tick_s * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        sweep_at = places_at = self._clock()
        for batch in notices:
            now = self._clock()
            if now >= sweep_at:
                # Also the first time: files may have changed before the watch was set up.
                self.catch_up()
                sweep_at = self._clock() + SWEEP_S
            else:
                self._look({_nearest(Path(name)) for _, name in batch})
                self._look(
                    [followed.root for followed in self._places() if followed.root.is_file()]
                )
                self._tick()
            if now >= places_at:
                places_at = now + PLACES_TICKS * self._tick_s
                if self._roots() != roots:
                    return

    def _roots(self) -> dict[Path, int]:
        """Return the existing folders, each with its inode, to detect a replaced one."""
        folders = [*(followed.root for followed in self._places()), *self._also]
        return {path: _identity(path) for path in folders if path.is_dir()}

    def _look(self, folders: Iterable[Path]) -> None:
        changed: dict[Path, _Signature] = {}
        began = self._clock()
        for path in _logs(folders):
            signature = _signature(path)
            if signature is None or self._seen.get(path) == signature:
                continue
            if self._rested_at.get(path, began) > began:
                self._put_back.add(path)
            else:
                changed[path] = signature
        if changed:
            self._try(changed)
            self._rest(changed, self._clock() - began)

    def _rest(self, changed: dict[Path, _Signature], took: float) -> None:
        """Note how long files that are read whole rest, by the seconds that reading them took."""
        size = sum(map(_size, changed.values())) or 1
        for path, signature in changed.items():
            share = took * _size(signature) / size
            if path.suffix in _WHOLE and share > self._tick_s:
                self._rested_at[path] = self._clock() + REST * share

    def _tick(self) -> None:
        """Retry what had to wait, and drain the spool."""
        if rested := {path for path in self._put_back if self._rested_at[path] <= self._clock()}:
            self._put_back -= rested
            self._look(rested)
        if self._waiting and self._clock() >= self._retry_at:
            retried = {path: _signature(path) for path in self._waiting}
            self._waiting.clear()
            self._try({path: signature for path, signature in retried.items() if signature})
        if self._drain is not None and self._clock() >= self._retry_at:
            self._drain_failed = False
            try:
                self._drain(self._take_named)
            except (*_PASSING, OSError) as error:
                # Nothing is lost: unrecorded lines are still in the spool.
                self._drain_failed = True
                self._put_off()
                self._report(Round(paths=[], error=str(error), is_final=False))

    def _take_named(self, paths: Sequence[Path]) -> None:
        """Import the files that the spool names, unless they are unchanged. Raises StorageError."""
        signatures = {path: _signature(path) for path in paths}
        changed = {path: signature for path, signature in signatures.items() if signature}
        changed = {
            path: signature
            for path, signature in changed.items()
            if self._seen.get(path) != signature
        }
        if changed:
            self._import(changed)

    def _try(self, changed: dict[Path, _Signature]) -> None:
        try:
            self._import(changed)
        except _PASSING as error:
            self._waiting |= dict.fromkeys(changed)
            self._put_off()
            self._report(Round(paths=list(changed), error=str(error), is_final=False))
        else:
            self._tries = 0

    def _import(self, changed: dict[Path, _Signature]) -> None:
        """Import files; if that fails because of one of them, one by one.

        Raises StorageError, which concerns the ledger and not the files.
        """
        paths = list(changed)
        try:
            receipt = self._take(paths)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  (one log that breaks a reader must not end the watch)
            if len(paths) > 1:
                for path, signature in changed.items():
                    self._import({path: signature})
            elif not paths[0].exists():
                self._seen.pop(paths[0], None)
            else:
                # Retry when it changes.
                self._seen |= changed
                self._report(Round(paths=paths, error=_words(error)))
            return
        # The signature from before the import: later writes count as a change.
        self._seen |= changed
        self._report(Round(paths=paths, receipt=receipt))

    def _put_off(self) -> None:
        self._tries += 1
        self._retry_at = self._clock() + min(RETRY_S_MAX, 0.5 * 2.0 ** min(self._tries, 10))


@contextlib.contextmanager
def only_watcher(ledger: str) -> Iterator[None]:
    """Hold the watch lock of ``ledger`` on this machine. Raises Busy if another process does.

    Two watchers of one ledger would read every log twice to record it once.
    """
    location = ledger if "://" in ledger else os.path.realpath(ledger)
    name = hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:16]
    folder = Path(state_folder()) / "watch"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not lock(descriptor):
            process = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            raise Busy(
                f"another treering watch is running for this ledger (process {process})",
                hint="use that one, or stop it first",
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _logs(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that may be logs, without those that vanish meanwhile."""
    for folder in folders:
        try:
            files = find_files([folder])
        except (TreeringError, OSError):
            continue
        yield from (file.path for file in files if file.left_out is None)


def _words(error: Exception) -> str:
    # The text of an unexpected error may quote the log.
    is_expected = isinstance(error, TreeringError | OSError)
    return str(error) if is_expected else f"unexpected {type(error).__name__}"


def _nearest(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _size(signature: _Signature) -> int:
    return signature[_SIZE_AT]


def _identity(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _signature(path: Path) -> _Signature | None:
    """Return a value that changes with the file; None if it does not exist."""
    marks: list[int] = []
    for name in (path, *others_of(path)):
        try:
            status = name.stat()
        except OSError:
            if name is path:
                return None
            continue
        marks += [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
    return tuple(marks)
