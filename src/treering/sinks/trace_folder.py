"""The folder that traces are kept in, and which of them may go."""

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
"""A trace that never ended counts as over when nothing was added to it for so long."""
ABOUT_BYTES_MAX: Final = 64 * 1024
LOOK_EVERY: Final = 256
"""After so many traces of our own, see what others put there."""

_REMOVED: Final = (DRAFT, EVENTS, TOOLS, PAYLOADS, REDACTIONS, ABOUT)
"""What is removed of a trace: what tells that it is one goes last."""


class _Kept(msgspec.Struct, frozen=True, order=True):
    """A trace that is over."""

    changed_s: float
    path: Path
    size: int


class TraceFolder:
    """Keeps finished traces for some days and up to some bytes; the oldest go first."""

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
        """Return the folder of a run's trace, and what is written there of it, if anything.

        ``owner`` is its scope, session and visibility: runs of others may have the same id.
        """
        name = file_name(run_id)
        told_apart = with_digest(name, "\0".join((run_id, *owner)).encode(errors="surrogatepass"))
        for path in (self.folder / name, self.folder / told_apart):
            about = read_about(path)
            if about is None and not os.path.lexists(path):
                return path, None
            if about is not None and _owner(about) == owner and about.get("runId") == run_id:
                return path, about
        return self.folder / told_apart, None

    def finished(self, path: Path, size: int) -> None:
        """Take note of a trace that is over, and let go of what is too old or too much."""
        if self._keep_s is None and self._keep_bytes is None:
            return
        if self._until_look == 0:
            self._until_look = LOOK_EVERY
            others = (_kept(found) for found in self._folders() if found != path)
            self._kept = deque(sorted(filter(None, others)))
            self._total = sum(kept.size for kept in self._kept)
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
            return [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]


def read_about(path: Path) -> dict[str, Any] | None:
    """Return what a trace says it is about; None if there is no trace at ``path``."""
    try:
        with (path / ABOUT).open("rb") as stream:
            found = msgspec.json.decode(stream.read(ABOUT_BYTES_MAX))
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    is_trace = isinstance(found, dict) and isinstance(found.get("runId"), str)
    return found if is_trace else None


def _owner(about: dict[str, Any]) -> tuple[Any, Any, Any]:
    return about.get("scope"), about.get("sessionId"), about.get("visibility")


def _kept(path: Path) -> _Kept | None:
    """Return the trace at ``path`` if it is one, and over."""
    about = read_about(path)
    if (
        about is None
        or path.name.partition("%%")[0] != file_name(about["runId"]).partition("%%")[0]
    ):
        return None
    found = []
    for name in FILES:
        with contextlib.suppress(OSError):
            found.append((path / name).lstat())
    changed_s = max((status.st_mtime for status in found), default=0.0)
    abandoned = time.time() - changed_s > ABANDONED_DAYS * DAY_S
    if not (about.get("complete") is True or abandoned):
        return None
    return _Kept(changed_s, path, sum(status.st_size for status in found))


def _remove(path: Path) -> None:
    for name in _REMOVED:
        with contextlib.suppress(OSError):
            (path / name).unlink(missing_ok=True)
    # Something that is not ours may lie there; then the folder stays.
    with contextlib.suppress(OSError):
        path.rmdir()
