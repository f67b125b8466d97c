"""The folder of traces, and the removal of old ones."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.sinks.bundle_files import ABOUT, DRAFT, EVENTS, FILES, PAYLOADS, REDACTIONS, TOOLS
from treering.sinks.names import file_name, with_digest

DAY_S: Final = 86_400
ABANDONED_DAYS: Final = 7
"""An unfinished trace without changes for this long counts as finished."""
ABOUT_BYTES_MAX: Final = 64 * 1024
LOOK_EVERY: Final = 256
"""After this many own traces, scan the folder for those of others."""

_REMOVED: Final = (DRAFT, EVENTS, TOOLS, PAYLOADS, REDACTIONS, ABOUT)
"""The files to remove, with the one that identifies a trace last."""


class _Kept(msgspec.Struct, frozen=True, order=True):
    """A finished trace."""

    changed_s: float
    path: Path
    size: int


class TraceFolder:
    """Keeps finished traces within limits of days and bytes; the oldest are removed first."""

    def __init__(self, folder: Path, *, keep_days: float | None, keep_bytes: int | None) -> None:
        for name, value in (("keep_days", keep_days), ("keep_bytes", keep_bytes)):
            if value is not None and value <= 0:
                raise InvalidInput(
                    f"{name} must be more than 0, not {value}", hint="None keeps all of them"
                )
        self.folder = folder
        self._keep_s = None if keep_days is None else keep_days * DAY_S
        self._keep_bytes = keep_bytes
        self._kept: deque[_Kept] = deque()
        self._total = 0
        self._until_look = 0

    def find(self, run_id: str, owner: tuple[str, str, str]) -> tuple[Path, dict[str, Any] | None]:
        """Return the folder of a run's trace, and its metadata, if it exists.

        ``owner`` is its scope, session and visibility: runs of others may have the same id.
        """
        name = file_name(run_id)
        distinct = with_digest(name, "\0".join((run_id, *owner)).encode(errors="surrogatepass"))
        for path in (self.folder / name, self.folder / distinct):
            about = read_about(path)
            if about is None and not os.path.lexists(path):
                return path, None
            if about is not None and _owner(about) == owner and about.get("runId") == run_id:
                return path, about
        return self.folder / distinct, None

    def finished(self, path: Path, size: int) -> None:
        """Note a finished trace, and remove traces over the limits."""
        if self._keep_s is None and self._keep_bytes is None:
            return
        if self._until_look == 0:
            self._until_look = LOOK_EVERY
            others = (_kept(other) for other in self._folders() if other != path)
            self._kept = deque(sorted(filter(None, others)))
            self._total = sum(trace.size for trace in self._kept)
        self._until_look -= 1
        self._kept.append(_Kept(time.time(), path, size))
        self._total += size
        while len(self._kept) > 1 and self._is_due(self._kept[0]):
            oldest = self._kept.popleft()
            self._total -= oldest.size
            _remove(oldest.path)

    def _is_due(self, kept: _Kept) -> bool:
        if self._keep_bytes is not None and self._total > self._keep_bytes:
            return True
        return self._keep_s is not None and time.time() - kept.changed_s > self._keep_s

    def _folders(self) -> list[Path]:
        with os.scandir(self.folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def read_about(path: Path) -> dict[str, Any] | None:
    """Return the metadata of a trace; None if ``path`` holds no trace."""
    try:
        with (path / ABOUT).open("rb") as stream:
            about = msgspec.json.decode(stream.read(ABOUT_BYTES_MAX))
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    is_trace = isinstance(about, dict) and isinstance(about.get("runId"), str)
    return about if is_trace else None


def _owner(about: dict[str, Any]) -> tuple[Any, Any, Any]:
    return about.get("scope"), about.get("sessionId"), about.get("visibility")


def _kept(path: Path) -> _Kept | None:
    """Return the trace at ``path`` if it is one and finished."""
    about = read_about(path)
    if (
        about is None
        or path.name.partition("%%")[0] != file_name(about["runId"]).partition("%%")[0]
    ):
        return None
    statuses = []
    for name in FILES:
        with contextlib.suppress(OSError):
            statuses.append((path / name).lstat())
    changed_s = max((status.st_mtime for status in statuses), default=0.0)
    abandoned = time.time() - changed_s > ABANDONED_DAYS * DAY_S
    if not (about.get("complete") is True or abandoned):
        return None
    return _Kept(changed_s, path, sum(status.st_size for status in statuses))


def _remove(path: Path) -> None:
    for name in _REMOVED:
        with contextlib.suppress(OSError):
            (path / name).unlink(missing_ok=True)
    # The folder stays if it contains other files.
    with contextlib.suppress(OSError):
        path.rmdir()
