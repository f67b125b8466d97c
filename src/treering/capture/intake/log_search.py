"""Finding logs: their folders, the files under a path, and those that only repeat others."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.format import LogRetention
from treering.formats.registry import formats, is_pattern_of, left_out_by
from treering.model.intakes import OTHERS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.formats.format import LogPlace


FILES_MAX: Final = 200_000
"""Files that one call imports."""

_LOG: Final = re.compile(
    r"\.(?:jsonl|json|ndjson|sqlite|sqlite3|db)(?:\.zst|\.gz|\.(?:reset|deleted)\..*)?$"
)
"""Names of files in a folder that are probed; their format is known by their content."""
_COMPANION: Final = re.compile(r"-(?:wal|shm|journal)$")
"""Files that belong to a database and are read with it."""
_OURS: Final = re.compile(r"\.treering-(?:extract|state)\.json$|\.treering-backup-")
"""Files that Treering keeps beside the logs of others."""


class LogCandidate(msgspec.Struct, frozen=True):
    """A file that may be a log."""

    path: Path
    left_out: str | None = None
    """What it is instead, if its name says that it only repeats others."""
    is_named: bool = False
    """Whether the caller named the file itself, not a folder that it is in."""


class Files(msgspec.Struct, kw_only=True):
    """The files under some paths: those that may be logs, and those that are not by their names."""

    found: dict[Path, LogCandidate] = {}
    others: Counter[str] = msgspec.field(default_factory=Counter)
    """How many are not logs, by the endings of their names."""
    named: list[str] = []
    """The first of them."""
    unreadable: list[str] = []
    """Folders that may not be read."""

    def pass_over(self, folder: str, name: str) -> None:
        """Count a file that is not a log by its name."""
        self.others[os.path.splitext(name)[1] or name] += 1  # noqa: PTH122  (no path for each)
        if len(self.named) < OTHERS_MAX:
            self.named.append(str(Path(folder, name)))


def find_files(paths: Sequence[Path]) -> list[LogCandidate]:
    """Return the files that ``paths`` name; in a folder, those that may be logs.

    A file that a path names is always among them. Raises InvalidInput if one does not exist.
    """
    return list(look_through(paths).found.values())


def look_through(paths: Sequence[Path]) -> Files:
    """Return the files that ``paths`` name, as ``find_files`` does, and those that are skipped."""
    files = Files()
    candidates = files.found
    for path in paths:
        if path.is_dir():
            _look_inside(path, files)
        elif path.exists():
            candidates[path] = LogCandidate(path, is_named=True)
        else:
            raise InvalidInput(f"{path} does not exist", hint="name a log, or a folder of logs")
        if len(candidates) > FILES_MAX:
            raise InvalidInput(
                f"{path} holds more than {FILES_MAX:,} files", hint="name a smaller folder"
            )
    return files


def _look_inside(folder: Path, files: Files) -> None:
    def refuse(error: OSError) -> None:
        files.unreadable.append(str(error.filename or folder))

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        for name in sorted(names):
            if _LOG.search(name) is None and not is_pattern_of(root, name):
                if _COMPANION.search(name) is None:
                    files.pass_over(root, name)
            elif _OURS.search(name) is None:
                path = Path(root, name)
                files.found.setdefault(path, LogCandidate(path, left_out_by(path)))


class LogFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of an agent's logs."""

    agent: str
    root: Path
    keeping: LogRetention


def log_folders(home: Path | None = None) -> list[LogFolder]:
    """Return the existing folders of agents whose logs can be read; in ``home``, if given."""
    return [folder for folder in all_log_folders(home) if folder.root.exists()]


def all_log_folders(home: Path | None = None) -> Iterator[LogFolder]:
    """Yield the folders where agents keep their logs, whether they exist or not.

    Without ``home``, environment variables may name others, as the agents allow.
    """
    for log_format in formats():
        for place in log_format.places:
            keeping = _keeping(place, place.at(home))
            for root in place.folders(home):
                yield LogFolder(agent=log_format.name, root=root, keeping=keeping)


def _keeping(place: LogPlace, base: Path) -> LogRetention:
    """Return the retention in an agent's settings, or an unknown one if they cannot be read."""
    try:
        return place.keeping(base)
    except (OSError, ValueError, RecursionError):
        return LogRetention(days=None, source="its settings cannot be read")
