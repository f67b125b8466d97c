"""The files of a trace: in a folder while the run continues, or in memory for an export."""

from __future__ import annotations

import os
import zipfile
from collections import defaultdict
from typing import IO, TYPE_CHECKING, Final, Protocol

from treering.sinks.lines import OWNER_FILE, LineFile, OpenFiles, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ABOUT: Final = "meta.json"
EVENTS: Final = "events.jsonl"
TOOLS: Final = "tools.jsonl"
PAYLOADS: Final = "payloads.jsonl"
REDACTIONS: Final = "redactions.json"
FILES: Final = (ABOUT, EVENTS, TOOLS, PAYLOADS, REDACTIONS)
"""The files of every trace, in the order in which people open them."""
DRAFT: Final = ".partial"
"""The name of a file until it is complete."""

_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
_ZIP_SYSTEM_UNIX: Final = 3
_ZIP_MODE: Final = 0o100600 << 16


class BundleFiles(Protocol):
    """The files of one trace."""

    def add(self, name: str, line: bytes) -> None:
        """Append a line to a file."""

    def put(self, name: str, body: bytes) -> None:
        """Replace a file."""

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, creating the file if necessary."""

    def close(self) -> None:
        """Close the files."""


class FolderFiles:
    """Files in a folder; growing files share a pool of open files with other traces."""

    def __init__(self, folder: Path, growing: OpenFiles[LineFile]) -> None:
        self._growing = growing
        self._paths = {name: folder / name for name in (*FILES, DRAFT)}
        self._whole: dict[str, int] = {}
        make_folder(folder)

    def add(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        self._growing.at(self._paths[name]).append(line)

    def put(self, name: str, body: bytes) -> None:
        """Replace a file atomically."""
        draft = self._paths[DRAFT]
        with open(os.open(draft, _FRESH, OWNER_FILE), "wb") as stream:  # noqa: PTH123  (a descriptor)
            stream.write(body)
        draft.replace(self._paths[name])
        self._whole[name] = len(body)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, creating the file if necessary."""
        whole = self._whole.get(name)
        return self._growing.at(self._paths[name]).size if whole is None else whole

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the complete lines of a file, last one first."""
        return self._growing.at(self._paths[name]).lines_backwards()

    def close(self) -> None:
        """Close the files."""
        for name in (EVENTS, TOOLS, PAYLOADS):
            self._growing.drop(self._paths[name])


class MemoryFiles:
    """Files in memory only, bounded by the limits of a trace."""

    def __init__(self) -> None:
        self._bodies: defaultdict[str, bytearray] = defaultdict(bytearray)

    def add(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        self._bodies[name].extend(line)

    def put(self, name: str, body: bytes) -> None:
        """Replace a file."""
        self._bodies[name] = bytearray(body)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, creating the file if necessary."""
        return len(self._bodies[name])

    def close(self) -> None:
        """Do nothing: the files are still to be written out."""

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes."""
        return {name: self.size(name) for name in FILES}

    def write_zip(self, stream: IO[bytes]) -> None:
        """Write all files to ``stream`` as a zip; equal files give equal bytes."""
        with zipfile.ZipFile(stream, "w") as archive:
            for name in FILES:
                entry = zipfile.ZipInfo(name, _ZIP_TIME)
                entry.create_system = _ZIP_SYSTEM_UNIX
                entry.external_attr = _ZIP_MODE
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, bytes(self._bodies[name]))
