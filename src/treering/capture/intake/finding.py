"""Finding logs: the files that a path stands for, and those that only repeat others."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.openclaw import passed_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILES_MAX: Final = 200_000
"""Files that one call takes in."""

_LOG: Final = re.compile(
    r"\.(?:jsonl|json|ndjson|sqlite|sqlite3|db)(?:\.zst|\.gz|\.(?:reset|deleted)\..*)?$"
)
"""Names of files in a folder that are looked into; what they are is told by their content."""
_OURS: Final = re.compile(r"\.treering-(?:extract|state)\.json$|\.treering-backup-")
"""Files that Treering keeps beside the logs of others."""


class Found(msgspec.Struct, frozen=True):
    """A file that may be a log."""

    path: Path
    left_out: str | None = None
    """What it is instead, if its name says that it only repeats others."""
    is_named: bool = False
    """Whether somebody named this very file, and not a folder that it lies in."""


def find_files(paths: Sequence[Path]) -> list[Found]:
    """Return the files that ``paths`` stand for; in a folder, those that may be logs.

    A file that is named itself is always among them. Raises InvalidInput if one is not there.
    """
    found: dict[Path, Found] = {}
    for path in paths:
        if path.is_dir():
            for one in _inside(path):
                found.setdefault(one.path, one)
        elif path.exists():
            found[path] = Found(path, is_named=True)
        else:
            raise InvalidInput(f"{path} is not there", hint="name a log, or a folder of logs")
        if len(found) > FILES_MAX:
            raise InvalidInput(
                f"{path} holds more than {FILES_MAX:,} files", hint="name a smaller folder"
            )
    return list(found.values())


def _inside(folder: Path) -> Iterator[Found]:
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            left_out = passed_over(name)
            if left_out is not None or (_LOG.search(name) and not _OURS.search(name)):
                yield Found(Path(root) / name, left_out)
