"""The files of a trace, in a folder or in memory, and their lines within its limits."""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
from collections import Counter, defaultdict
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from treering.errors import InvalidInput
from treering.files import OWNER_FILE, make_folder
from treering.sinks.lines import LineFile, OpenFiles, json_line

if TYPE_CHECKING:
    from collections.abc import Callable
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

Line = TypeVar("Line")
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

    def lines(self, name: str, decoder: msgspec.json.Decoder[Line]) -> list[Line]:
        """Return the lines of a file, in order, without incomplete ones."""
        decoded = []
        for body in self._growing.at(self._paths[name]).lines_backwards():
            with contextlib.suppress(msgspec.MsgspecError):
                decoded.append(decoder.decode(body))
        return decoded[::-1]

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


LINE_BYTES_MIN: Final = 8 * 1024
FILE_BYTES_MIN: Final = 64 * 1024
TRUNCATED: Final = "trace_truncated"
"""The code of the warning in place of events that were left out for lack of space."""

_RESERVE_BYTES: Final = 16 * 1024
"""Space reserved for the mark of a cut and for the event that ends the run."""
_MASK: Final = re.compile(rb"\[redacted:([a-z0-9-]+):[0-9a-f]{8}\]")


class TraceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The size limits of a trace."""

    line_bytes_max: int = 256 * 1024
    """A longer line loses its private content, and is marked."""
    file_bytes_max: int = 10 * 1024 * 1024
    """Lines after a file is full are left out, and counted."""

    def __post_init__(self) -> None:
        if self.line_bytes_max < LINE_BYTES_MIN or self.file_bytes_max < FILE_BYTES_MIN:
            raise InvalidInput(
                "the limits of a trace are too small",
                hint=f"allow {LINE_BYTES_MIN} bytes a line and {FILE_BYTES_MIN} a file, or more",
            )


class CappedLines:
    """Adds lines to the files of a trace while there is space."""

    def __init__(self, files: BundleFiles, caps: TraceLimits) -> None:
        self._files = files
        self._caps = caps
        self._full: set[str] = set()
        self._shortened = 0
        self._left_out: Counter[str] = Counter()
        self._masked: Counter[str] = Counter()

    @property
    def is_truncated(self) -> bool:
        """Return whether anything was cut or left out for lack of space."""
        return bool(self._shortened or self._full)

    def add(
        self,
        name: str,
        full: dict[str, Any],
        safe: Callable[[], dict[str, Any]] | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Add a line, or only its ``safe`` part, or nothing; the last line is always added."""
        line = json_line(full)
        room = self._caps.file_bytes_max - _RESERVE_BYTES - self._files.size(name)
        if len(line) > min(self._caps.line_bytes_max, room) and safe and (left := safe()) != full:
            self._shortened += 1
            line = json_line(_shortened(left, len(line)))
        if (name in self._full or len(line) > room) and not is_last:
            self._left_out[name] += 1
            if name in self._full:
                return
            self._full.add(name)
            line = json_line(_end_mark(name, full))
        self._files.add(name, line)
        if b"[redacted:" in line:
            self._masked.update(rule.decode() for rule in _MASK.findall(line))

    def mark_full(self, name: str) -> None:
        """Note that a file was full before."""
        self._full.add(name)

    def masked(self) -> dict[str, int]:
        """Return the number of masks written, by rule."""
        return dict(sorted(self._masked.items()))

    def truncated(self) -> dict[str, Any]:
        """Return the number of shortened lines, and of lines left out of each file."""
        left_out = {name: self._left_out[name] for name in (EVENTS, TOOLS, PAYLOADS)}
        return {"lines": self._shortened, "leftOut": left_out}


def _shortened(safe: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the safe part of a line that was too long, with a mark."""
    mark = {"truncated": {"bytes": size}}
    if isinstance(safe.get("payload"), dict):
        return {**safe, "payload": {**safe["payload"], **mark}}
    return {**safe, **mark}


def _end_mark(name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Return the line that marks the cut; among events it is an event itself."""
    if name != EVENTS:
        return {"truncated": True}
    return {
        **line,
        "source": "kernel",
        "visibility": "safe",
        "kind": "warning",
        "payload": {"code": TRUNCATED},
    }


NAME_CHARACTERS_MAX: Final = 200
"""Longer names are cut and end in a digest; file systems allow 255 bytes."""

_KEPT_CHARACTERS: Final = 150
_DIGEST_DIGITS: Final = 32
_DOT: Final = ord(".")
# Capitals are encoded as well: some file systems ignore case.
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


def file_name(text: str) -> str:
    """Return ``text`` percent-encoded, so that different texts never share a name.

    Percent-decoding restores the text, unless ``%%`` marks a name that was cut.
    """
    plain = text.encode(errors="surrogatepass")
    last = len(plain) - 1
    name = "".join(
        chr(byte) if byte in _PLAIN or (byte == _DOT and 0 < at < last) else f"%{byte:02x}"
        for at, byte in enumerate(plain)
    )
    return name if len(name) <= NAME_CHARACTERS_MAX else with_digest(name, plain)


def with_digest(name: str, identity: bytes) -> str:
    """Return ``name`` with a digest of ``identity`` appended, which no encoded text has."""
    return f"{name[:_KEPT_CHARACTERS]}%%{sha256(identity).hexdigest()[:_DIGEST_DIGITS]}"
