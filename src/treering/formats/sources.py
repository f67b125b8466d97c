"""Other systems' log files, opened read-only.

Compressed files are recognized by their first bytes and decompressed; offsets refer to the content.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import io
import mmap
import os
import re
import stat
import zlib
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, cast

import msgspec

from treering.errors import InvalidInput, NotFound, TreeringError
from treering.formats.records import RECORD_BYTES_MAX, list_elements, read_records
from treering.formats.records.json_pieces import TORN
from treering.model.codec import NESTING_MAX, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.formats.parsed import LogRecord

FINGERPRINT_BYTES_MAX: Final = 4_096
TAIL_BYTES_MAX: Final = 256
SNIFFED_MAX: Final = 40
SNIFFED_BYTES_MAX: Final = 1024 * 1024
SNIFFED_TEXT_BYTES_MAX: Final = 64 * 1024
SNIFFED_LIST_BYTES_MAX: Final = 8 * 1024 * 1024

UNPACKED_BYTES_FREE: Final = 256 * 1024 * 1024
UNPACKED_TIMES_MAX: Final = 200
"""Above UNPACKED_BYTES_FREE, a file that expands more than this many times is refused."""

_EMPTY: Final[tuple[Any, ...]] = ({}, [], "", None)
"""Values that mean nothing: there may be thousands of them."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GZIP: Final = b"\x1f\x8b"
_OPENING_LINES: Final = 6
"""The lines that are shown of a document whose first line says nothing."""
_UTF_16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_SQLITE: Final = b"SQLite format 3\x00"
_JSON_BEGINS: Final = re.compile(r"\ufeff?(?:\{\s*(?:\"|$)|\[\s*(?:[\[{\"]|$))")
_PACKED_BYTES: Final = 1_024
"""Compressed bytes per read: even in the worst case they expand to a few tens of megabytes."""
_SKIP_BYTES: Final = 1024 * 1024
_BUFFER_BYTES: Final = 64 * 1024
"""Most logs fit in it, and are read at once."""
_READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file's current state. A growing file keeps its device and inode."""

    path: Path
    size: int
    """The size on disk, compressed or not."""
    mtime_ns: int
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> Source:
        """Return the state of the file at ``path`` that ``status`` says."""
        return cls(
            path=path,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            device=status.st_dev,
            inode=status.st_ino,
        )


def source_at(path: Path | str) -> Source:
    """Return the current state of the file at ``path``.

    Raises NotFound if it does not exist, InvalidInput if it is not a regular file.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  (every file passes here: a path costs)
    except OSError as error:
        raise _refusal(path, error) from error
    _check_file(path, status.st_mode)
    return Source.of(path if isinstance(path, Path) else Path(path), status)


def open_source(path: Path | str) -> BinaryIO:
    """Open ``path`` for reading: zstd and gzip are decompressed, UTF-16 becomes UTF-8.

    A damaged file is read up to the damage, where reading raises OSError. Raises NotFound or
    InvalidInput as ``source_at`` does, or if the file may not be read.
    """
    try:
        # Opening a device may trigger it.
        _check_file(path, os.stat(path).st_mode)  # noqa: PTH116  (as above)
        descriptor = os.open(path, _READ_ONLY)
    except OSError as error:
        raise _refusal(path, error) from error
    stream = os.fdopen(descriptor, "rb", _BUFFER_BYTES)
    try:
        _check_file(path, os.fstat(descriptor).st_mode)
        start = stream.read(len(_ZSTD))
        stream.seek(0)
    except OSError as error:
        stream.close()
        raise _refusal(path, error) from error
    except BaseException:
        stream.close()
        raise
    unpack = _unpacking(start)
    return stream if unpack is None else cast("BinaryIO", _Unpacked(stream, unpack))


def fingerprint(stream: BinaryIO, size: int) -> str:
    """Return the SHA-256 of the first bytes of ``stream``, at most ``size``.

    It stays the same when a file grows and changes when a file is replaced. Leaves the stream after
    these bytes.
    """
    return _digest(stream, 0, min(size, FINGERPRINT_BYTES_MAX))


def tail_print(stream: BinaryIO, offset: int) -> str:
    """Return the SHA-256 of the last bytes before ``offset``. Leaves the stream there."""
    start = max(0, offset - TAIL_BYTES_MAX)
    return _digest(stream, start, offset - start)


def sniff(stream: BinaryIO, most: int = SNIFFED_MAX) -> list[Any]:
    """Return the first values of a log, at most ``most``, to detect its format.

    Reads only the start of the stream, but a first value completely.
    """
    stream.seek(0)
    values = _first_values(stream, most) if isinstance(stream, io.BufferedReader) else None
    if values is not None:
        return values
    stream.seek(0)
    values = []
    for record in read_records(cast("BinaryIO", _Beginning(stream, RECORD_BYTES_MAX))):
        if record.fault is None and record.value not in _EMPTY:
            values.append(record.value)
        if len(values) == most or record.end >= SNIFFED_BYTES_MAX:
            break
    if values:
        return values
    # A list that is too long, or that was cut off, may have whole elements.
    stream.seek(0)
    try:
        start = stream.read(SNIFFED_LIST_BYTES_MAX)
    except OSError:
        return []
    if not start.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"["):
        return []
    elements = (record.value for record in list_elements(start) if record.fault is None)
    return list(islice((value for value in elements if value), most))


def _first_values(stream: BinaryIO, most: int) -> list[Any] | None:
    """Return the first values of a log whose first lines are a value each; None if they are not.

    As ``read_records`` would, at half of its price: every file passes here.
    """
    values: list[Any] = []
    size = 0
    while len(values) < most and size < SNIFFED_BYTES_MAX:
        try:
            line = stream.readline(SNIFFED_BYTES_MAX)
            value = decode(line) if line else None
        except (OSError, ValueError, RecursionError):
            return None
        if line.count(b"{") + line.count(b"[") > NESTING_MAX:
            return None  # It may be too deep.
        if not line:
            break
        size += len(line)
        if value not in _EMPTY:
            values.append(value)
    return values or None


def read_list(path: Path) -> Iterator[LogRecord]:
    """Yield the elements of the list that a file holds; another value is one element."""
    with open_source(path) as stream:
        try:
            # Not a copy, as exports are large. It is closed with the last element.
            content: bytes | mmap.mmap = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # It is packed, or empty.
            content = stream.read()
        yield from list_elements(content)


def first_line(path: Path | str) -> str | None:
    """Return the first line that is not blank, possibly cut; None if there is none.

    A line that only opens a document is followed by the next ones.
    """
    with open_source(path) as stream:
        try:
            start = stream.read(FINGERPRINT_BYTES_MAX)
        except OSError:
            return None
    lines = [line.strip() for line in start.decode(errors="replace").splitlines()]
    first = next((line for line in lines if line.strip("\x00\ufeff")), None)
    return " ".join(filter(None, lines[:_OPENING_LINES])) if first in {"{", "[", "[{"} else first


def first_lines(path: Path | str) -> list[str]:
    """Return the first lines that are not blank, to detect the format of a text."""
    with open_source(path) as stream:
        try:
            start = stream.read(SNIFFED_TEXT_BYTES_MAX)
        except OSError:
            return []
    lines = start.decode(errors="replace").removeprefix("\ufeff").splitlines()
    return [line for line in lines if line.strip("\x00\ufeff \t")][:SNIFFED_MAX]


def with_others(source: Source, others: Iterable[Path]) -> Source:
    """Return ``source`` with the size and the last change of ``others``, too."""
    size, mtime_ns = source.size, source.mtime_ns
    for path in others:
        with contextlib.suppress(OSError):
            status = path.stat()
            size, mtime_ns = size + status.st_size, max(mtime_ns, status.st_mtime_ns)
    return msgspec.structs.replace(source, size=size, mtime_ns=mtime_ns)


def is_torn(path: Path | str) -> bool:
    """Return whether a file starts as JSON but contains no complete value."""
    if not _JSON_BEGINS.match(first_line(path) or ""):
        return False
    with open_source(path) as stream:
        first = next(read_records(cast("BinaryIO", _Beginning(stream, RECORD_BYTES_MAX))), None)
    return first is not None and first.fault == TORN


def is_sqlite(stream: BinaryIO) -> bool:
    """Return whether ``stream`` is an SQLite database. Leaves it at its start."""
    try:
        start = stream.read(len(_SQLITE))
    except OSError:
        start = b""
    stream.seek(0)
    return start == _SQLITE


class _Unpacking(Protocol):
    """The common interface of zlib and zstandard."""

    @property
    def eof(self) -> bool: ...
    def decompress(self, packed: bytes, /) -> bytes: ...


class _Unpacked(io.RawIOBase):
    """The content of a compressed stream, which may consist of several members."""

    def __init__(self, packed: BinaryIO, begin: Callable[[], _Unpacking]) -> None:
        super().__init__()
        self._packed = packed
        self._begin = begin
        self._ready: bytes
        self._taken: int
        self._position: int
        self._ended: bool
        self._restart()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to ``offset``; everything before it may be decompressed again."""
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("a compressed file can only seek from its beginning")
        if offset < self._position:
            self._packed.seek(0)
            self._restart()
        while self._position < offset and self.read(min(_SKIP_BYTES, offset - self._position)):
            pass
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, or as many as are ready. Raises OSError at damage."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_SKIP_BYTES), b""))
        while len(self._ready) - self._taken == 0 and not self._ended:
            self._ready = self._unpack()
            self._taken = 0
        part = self._ready[self._taken : self._taken + size]
        self._taken += len(part)
        self._position += len(part)
        return part

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _restart(self) -> None:
        self._unpacking = self._begin()
        self._rest = b""
        self._packed_bytes = self._unpacked_bytes = 0
        self._begun = False
        self._ready = b""
        self._taken = 0
        self._position = 0
        self._ended = False

    def _unpack(self) -> bytes:
        packed = self._rest or self._packed.read(_PACKED_BYTES)
        self._rest = b""
        if self._unpacking.eof:
            packed = packed.lstrip(b"\x00")  # Archives are padded with zeros.
            if packed:
                self._unpacking, self._begun = self._begin(), False
        if not packed:
            return self._finish()
        self._begun = True
        self._packed_bytes += len(packed)
        try:
            unpacked = self._unpacking.decompress(packed)
        except Exception as error:  # zlib and zstandard raise errors of their own.
            self._ended = True
            raise OSError(f"the compressed file is damaged: {error}") from error
        if self._unpacking.eof:
            self._rest = getattr(self._unpacking, "unused_data", b"")
            self._packed_bytes -= len(self._rest)
        self._unpacked_bytes += len(unpacked)
        if self._unpacked_bytes > max(UNPACKED_BYTES_FREE, UNPACKED_TIMES_MAX * self._packed_bytes):
            self._ended = True
            raise OSError(
                f"the compressed file expands to more than {UNPACKED_TIMES_MAX} times its size"
            )
        return unpacked

    def _finish(self) -> bytes:
        if len(self._packed.read(1)):
            self._packed.seek(-1, os.SEEK_CUR)
            return b""
        self._ended = True
        if self._begun and not self._unpacking.eof and self._begin is not _Recoding:
            raise OSError("the compressed file ends too early")
        return b""


class _Recoding:
    """Converts UTF-16 to UTF-8, as a decompressor that never ends."""

    eof = False

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")

    def decompress(self, packed: bytes, /) -> bytes:
        return self._decoder.decode(packed).encode()


class _Beginning(io.RawIOBase):
    """The first bytes of a stream."""

    def __init__(self, stream: BinaryIO, left: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = left

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` of the remaining bytes."""
        part = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(part)
        return part


def _unpacking(start: bytes) -> Callable[[], _Unpacking] | None:
    if start.startswith(_ZSTD):
        import zstandard  # noqa: PLC0415  # Imported only to read compressed files.

        return lambda: zstandard.ZstdDecompressor().decompressobj()
    if start.startswith(_GZIP):
        return lambda: zlib.decompressobj(wbits=31)
    if start.startswith(_UTF_16_BOMS):
        return _Recoding
    return None


def _digest(stream: BinaryIO, start: int, size: int) -> str:
    stream.seek(start)
    digest, left = hashlib.sha256(), size
    while left > 0 and (part := stream.read(left)):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest()


def _check_file(path: Path | str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    what = kinds.get(stat.S_IFMT(mode), "not a file")
    raise InvalidInput(f"{path} is {what}", hint="name a file")


def _refusal(path: Path | str, error: OSError) -> TreeringError:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"no file {path}", hint="check the path")
    if isinstance(error, PermissionError):
        return InvalidInput(f"{path} may not be read", hint="check its permissions")
    return InvalidInput(f"{path} cannot be read: {error.strerror}", hint="check the path")
