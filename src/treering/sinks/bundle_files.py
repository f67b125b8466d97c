"""Where the files of a trace lie: in a folder as a run goes on, or in memory on their way out."""

from __future__ import annotations

import os
import zipfile
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
"""What a file is called until it is whole."""

_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
_ZIP_SYSTEM_UNIX: Final = 3
_ZIP_MODE: Final = 0o100600 << 16


class BundleFiles(Protocol):
    """The files of one trace."""

    def add(self, name: str, line: bytes) -> None:
        """Append a line to a file."""

    def put(self, name: str, body: bytes) -> None:
        """Write a file as a whole, over what was there."""

    def size(self, name: str) -> int:
        """Return how many bytes a file has; it is made if it is not there."""

    def close(self) -> None:
        """Let go of the files."""


class FolderFiles:
    """Files in a folder; those that grow are kept open among those of other traces."""

    def __init__(self, folder: Path, growing: OpenFiles[LineFile]) -> None:
        self._growing = growing
        self._paths = {name: folder / name for name in (*FILES, DRAFT)}
        self._whole: dict[str, int] = {}
        make_folder(folder)

    def add(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        self._growing.at(self._paths[name]).append(line)

    def put(self, name: str, body: bytes) -> None:
        """Write a file as a whole; until it is, what was there stays."""
        draft = self._paths[DRAFT]
        with open(os.open(draft, _FRESH, OWNER_FILE), "wb") as stream:  # noqa: PTH123  (a descriptor)
            stream.write(body)
        draft.replace(self._paths[name])
        self._whole[name] = len(body)

    def size(self, name: str) -> int:
        """Return how many bytes a file has; it is made if it is not there."""
        whole = self._whole.get(name)
        return self._growing.at(self._paths[name]).size if whole is None else whole

    def lines(self, name: str) -> Iterator[bytes]:
        """Give the lines of a file, the last one first; not a torn end."""
        return self._growing.at(self._paths[name]).lines_backwards()

    def close(self) -> None:
        """Let go of the files."""
        for name in (EVENTS, TOOLS, PAYLOADS):
            self._growing.drop(self._paths[name])


class MemoryFiles:
    """Files that were never on a disk; the caps of a trace bound them."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytearray] = {}

    def add(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        self._body(name).extend(line)

    def put(self, name: str, body: bytes) -> None:
        """Write a file as a whole."""
        self._bodies[name] = bytearray(body)

    def size(self, name: str) -> int:
        """Return how many bytes a file has; it is made if it is not there."""
        return len(self._body(name))

    def close(self) -> None:
        """Keep them: they are yet to be written out."""

    def sizes(self) -> dict[str, int]:
        """Return how many bytes each file has."""
        return {name: self.size(name) for name in FILES}

    def write_zip(self, stream: IO[bytes]) -> None:
        """Write all of them to ``stream`` as a zip; the same files make the same bytes."""
        with zipfile.ZipFile(stream, "w") as archive:
            for name in FILES:
                entry = zipfile.ZipInfo(name, _ZIP_TIME)
                entry.create_system = _ZIP_SYSTEM_UNIX
                entry.external_attr = _ZIP_MODE
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, bytes(self._body(name)))

    def _body(self, name: str) -> bytearray:
        return self._bodies.setdefault(name, bytearray())
