"""Logs followed while they are written: what has changed is taken in, again and again.

Notices of the system say where to look; a slow look at everything finds what they miss. Without
them, as on a network drive, looking has to do.
"""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from threading import Event

TICK_S: Final = 1.0
SWEEP_S: Final = 30.0
"""How often everything is looked at, though no notice came."""
PLACES_TICKS: Final = 3
"""How often it is looked whether folders have come or gone."""
DEBOUNCE_MS: Final = 300
"""Notices that come so closely behind each other are one."""
RETRY_S_MAX: Final = 30.0
TRIES_MAX: Final = 6
"""How often it is tried, if it is to be done once."""
REST: Final = 10
"""Looking at everything takes at most one part in so many of the time."""
_PASSING: Final = (Busy, Unavailable, StorageFull, OutcomeUnknown)
"""Errors that may be gone the next time."""
_DATABASES: Final = (".db", ".sqlite", ".sqlite3")

_Signature = tuple[int, ...]


class Followed(Protocol):
    """A folder, or a file, that is followed."""

    @property
    def root(self) -> Path:
        """Where it is, or may be later."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one look came to."""

    paths: list[Path]
    receipt: Any = None
    """What taking them in gave back, unless it failed."""
    error: str | None = None
    is_final: bool = True
    """Whether that is the end of it; else it is tried again."""


class Watch:
    """Follows places, and takes in what changes there.

    ``take`` is handed files that have changed, and may be handed what it knows. ``report`` hears
    what came of it, and ``remark`` what else is worth saying. ``drain`` is asked, often, to do
    something about the spool: it is given a ``take`` of this watch.
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
        self._waiting: dict[Path, None] = {}
        self._tries = 0
        self._retry_at = 0.0
        self._drain_failed = False

    def once(self, pause: Callable[[float], object] = time.sleep) -> bool:
        """Take in what there is. Returns whether all of it could be."""
        self.catch_up()
        while self._is_behind() and self._tries < TRIES_MAX:
            pause(max(0.0, self._retry_at - self._clock()))
            self._tick()
        return not self._is_behind()

    def run(self, stop: Event, *, poll: bool = False) -> None:
        """Take in what there is, then what comes, until ``stop`` is set."""
        self.catch_up()
        while not stop.is_set():
            roots = self._roots()
            if poll or not roots:
                began = self._clock()
                self.catch_up()
                stop.wait(max(self._tick_s, REST * (self._clock() - began)))
                continue
            try:
                self._heed(roots, stop)
            except (OSError, RuntimeError) as error:
                # Too many folders for the system to watch, or a disk that gives no notice.
                self._remark(f"the system gives no notice ({error}): looking every few seconds")
                poll = True

    def catch_up(self) -> None:
        """Look at everything once."""
        self._look([place.root for place in self._places()])
        self._tick()

    def _is_behind(self) -> bool:
        return bool(self._waiting) or self._drain_failed

    def _heed(self, roots: dict[Path, int], stop: Event) -> None:
        """Look where notices point, until the folders themselves are others."""
        from watchfiles import watch  # noqa: PLC0415  (only where there is something to watch)

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
                # The first time as well: something may have come before the watch was set up.
                self.catch_up()
                sweep_at = self._clock() + SWEEP_S
            else:
                self._look({_nearest(Path(name)) for _, name in batch})
                self._look([place.root for place in self._places() if place.root.is_file()])
                self._tick()
            if now >= places_at:
                places_at = now + PLACES_TICKS * self._tick_s
                if self._roots() != roots:
                    return

    def _roots(self) -> dict[Path, int]:
        """Return the folders that are there, each with what tells it from a later one."""
        folders = [*(place.root for place in self._places()), *self._also]
        return {path: _identity(path) for path in folders if path.is_dir()}

    def _look(self, folders: Iterable[Path]) -> None:
        changed: dict[Path, _Signature] = {}
        for path in _logs(folders):
            signature = _signature(path)
            if signature is not None and self._seen.get(path) != signature:
                changed[path] = signature
        if changed:
            self._try(changed)

    def _tick(self) -> None:
        """Try again what had to wait, and see to the spool."""
        if self._waiting and self._clock() >= self._retry_at:
            again = {path: _signature(path) for path in self._waiting}
            self._waiting.clear()
            self._try({path: signature for path, signature in again.items() if signature})
        if self._drain is not None and self._clock() >= self._retry_at:
            self._drain_failed = False
            try:
                self._drain(self._take_named)
            except (*_PASSING, OSError) as error:
                # Nothing is lost: what was not recorded is still in the spool.
                self._drain_failed = True
                self._put_off()
                self._report(Round(paths=[], error=str(error), is_final=False))

    def _take_named(self, paths: Sequence[Path]) -> None:
        """Take in what the spool names, unless it is taken in already. Raises StorageError."""
        found = {path: _signature(path) for path in paths}
        changed = {path: signature for path, signature in found.items() if signature}
        changed = {path: mark for path, mark in changed.items() if self._seen.get(path) != mark}
        if changed:
            self._enter(changed)

    def _try(self, changed: dict[Path, _Signature]) -> None:
        try:
            self._enter(changed)
        except _PASSING as error:
            self._waiting |= dict.fromkeys(changed)
            self._put_off()
            self._report(Round(paths=list(changed), error=str(error), is_final=False))
        else:
            self._tries = 0

    def _enter(self, changed: dict[Path, _Signature]) -> None:
        """Take in files; if that fails because of one of them, each by itself.

        Raises StorageError: that is about the ledger, and not about them.
        """
        paths = list(changed)
        try:
            receipt = self._take(paths)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  (one log that trips a reader must not end it)
            if len(paths) > 1:
                for path, signature in changed.items():
                    self._enter({path: signature})
            elif not paths[0].exists():
                self._seen.pop(paths[0], None)
            else:
                # It is tried again when it changes.
                self._seen |= changed
                self._report(Round(paths=paths, error=_words(error)))
            return
        # As it was before it was read: what came meanwhile is a change.
        self._seen |= changed
        self._report(Round(paths=paths, receipt=receipt))

    def _put_off(self) -> None:
        self._tries += 1
        self._retry_at = self._clock() + min(RETRY_S_MAX, 0.5 * 2.0 ** min(self._tries, 10))


def _logs(folders: Iterable[Path]) -> Iterator[Path]:
    """Give the files that may be logs; what vanishes meanwhile is left out."""
    for folder in folders:
        try:
            found = find_files([folder])
        except (TreeringError, OSError):
            continue
        yield from (one.path for one in found if one.left_out is None)


def _words(error: Exception) -> str:
    # The text of an unforeseen error may quote what was being read.
    foreseen = isinstance(error, TreeringError | OSError)
    return str(error) if foreseen else f"unexpected {type(error).__name__}"


def _nearest(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _identity(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _signature(path: Path) -> _Signature | None:
    """Return what changes whenever a file does; None if there is none."""
    names = [path]
    if path.suffix in _DATABASES:
        # What was written to a database may lie beside it for long.
        names.append(path.with_name(f"{path.name}-wal"))
    marks: list[int] = []
    for name in names:
        try:
            found = name.stat()
        except OSError:
            if name is path:
                return None
            continue
        marks += [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
    return tuple(marks)
