"""Sources: other systems' files, opened to be read and for nothing else.

What is packed is unpacked on the way, told by its first bytes; offsets are those of the content.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import re
import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from treering.errors import InvalidInput, NotFound, TreeringError
from treering.formats.records import RECORD_BYTES_MAX, read_records
from treering.formats.records.json_pieces import TORN

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

FINGERPRINT_BYTES_MAX: Final = 4_096
TAIL_BYTES_MAX: Final = 256
SNIFFED_MAX: Final = 40
SNIFFED_BYTES_MAX: Final = 1024 * 1024

UNPACKED_BYTES_FREE: Final = 256 * 1024 * 1024
UNPACKED_TIMES_MAX: Final = 200
"""Behind so many bytes, what unpacks to more than so many times its size is no log."""

_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GZIP: Final = b"\x1f\x8b"
_UTF_16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_SQLITE: Final = b"SQLite format 3\x00"
_JSON_BEGINS: Final = re.compile(r"\ufeff?(?:\{\s*(?:\"|$)|\[\s*(?:[\[{\"]|$))")
_PACKED_BYTES: Final = 1_024
"""Packed bytes taken at a time: even of the worst, they unpack to a few tens of megabytes."""
_SKIP_BYTES: Final = 1024 * 1024
_READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is now. One that grows keeps its device and inode."""

    path: Path
    size: int
    """On disk, packed or not."""
    mtime_ns: int
    device: int
    inode: int


def source_at(path: Path | str) -> Source:
    """Return the file at ``path`` as it is now.

    Raises NotFound if there is none, InvalidInput if it is not a file.
    """
    path = Path(path)
    try:
        found = path.stat()
    except OSError as error:
        raise _refusal(path, error) from error
    _check_file(path, found.st_mode)
    return Source(
        path=path,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        device=found.st_dev,
        inode=found.st_ino,
    )


def open_source(path: Path | str) -> BinaryIO:
    """Open ``path`` to be read: the content, unpacked if it is zstd or gzip, as UTF-8.

    What is damaged is read as far as it goes; then reading raises OSError. Raises NotFound or
    InvalidInput as ``source_at`` does, and if the file may not be read.
    """
    path = Path(path)
    source_at(path)  # Before it is opened: a device may act on that.
    try:
        descriptor = os.open(path, _READ_ONLY)
    except OSError as error:
        raise _refusal(path, error) from error
    stream = os.fdopen(descriptor, "rb")
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
    """Return the SHA-256 of the first bytes of ``stream``, of no more than ``size``.

    A file that grew has the same; one that was replaced has not. The stream is left behind them.
    """
    return _digest(stream, 0, min(size, FINGERPRINT_BYTES_MAX))


def tail_print(stream: BinaryIO, offset: int) -> str:
    """Return the SHA-256 of the last bytes before ``offset``. The stream is left there."""
    start = max(0, offset - TAIL_BYTES_MAX)
    return _digest(stream, start, offset - start)


def sniff(path: Path | str) -> list[Any]:
    """Return the first values of a log: enough to tell whose it is.

    They are looked for near its beginning, but a first value is read whole.
    """
    values: list[Any] = []
    with open_source(path) as stream:
        for record in read_records(cast("BinaryIO", _Beginning(stream, RECORD_BYTES_MAX))):
            # What is empty says nothing, and there may be thousands of them.
            if record.fault is None and record.value not in ({}, [], "", None):
                values.append(record.value)
            if len(values) == SNIFFED_MAX or record.end >= SNIFFED_BYTES_MAX:
                break
    return values


def first_line(path: Path | str) -> str | None:
    """Return the first line of a file that is not blank, or its beginning; None if all is blank."""
    with open_source(path) as stream:
        try:
            start = stream.read(FINGERPRINT_BYTES_MAX)
        except OSError:
            return None
    lines = (line.strip() for line in start.decode(errors="replace").splitlines())
    return next((line for line in lines if line.strip("\x00\ufeff")), None)


def is_torn(path: Path | str) -> bool:
    """Whether a file begins as JSON, and no value in it is whole."""
    if not _JSON_BEGINS.match(first_line(path) or ""):
        return False
    with open_source(path) as stream:
        first = next(read_records(cast("BinaryIO", _Beginning(stream, RECORD_BYTES_MAX))), None)
    return first is not None and first.fault == TORN


def is_sqlite(path: Path | str) -> bool:
    """Whether ``path`` is an SQLite database."""
    with open_source(path) as stream:
        try:
            return stream.read(len(_SQLITE)) == _SQLITE
        except OSError:
            return False


class _Unpacking(Protocol):
    """What zlib and zstandard have in common."""

    @property
    def eof(self) -> bool: ...
    def decompress(self, packed: bytes, /) -> bytes: ...


class _Unpacked(io.RawIOBase):
    """The content of a packed stream; several may be packed one behind the other."""

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
        """Go to ``offset``; all before it is unpacked again."""
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("a packed file is read from its beginning")
        if offset < self._position:
            self._packed.seek(0)
            self._restart()
        while self._position < offset and self.read(min(_SKIP_BYTES, offset - self._position)):
            pass
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, or as many as are at hand; raise OSError where it breaks."""
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
            packed = packed.lstrip(b"\x00")  # Archives are padded with them.
            if packed:
                self._unpacking, self._begun = self._begin(), False
        if not packed:
            return self._finish()
        self._begun = True
        self._packed_bytes += len(packed)
        try:
            unpacked = self._unpacking.decompress(packed)
        except Exception as error:  # zlib and zstandard have errors of their own.
            self._ended = True
            raise OSError(f"the packed file is damaged: {error}") from error
        if self._unpacking.eof:
            self._rest = getattr(self._unpacking, "unused_data", b"")
            self._packed_bytes -= len(self._rest)
        self._unpacked_bytes += len(unpacked)
        if self._unpacked_bytes > max(UNPACKED_BYTES_FREE, UNPACKED_TIMES_MAX * self._packed_bytes):
            self._ended = True
            raise OSError(f"the packed file holds more than {UNPACKED_TIMES_MAX} times its size")
        return unpacked

    def _finish(self) -> bytes:
        if len(self._packed.read(1)):
            self._packed.seek(-1, os.SEEK_CUR)
            return b""
        self._ended = True
        if self._begun and not self._unpacking.eof and self._begin is not _Recoding:
            raise OSError("the packed file ends too early")
        return b""


class _Recoding:
    """UTF-16 as UTF-8, in the manner of an unpacking; it has no end of its own."""

    eof = False

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")

    def decompress(self, packed: bytes, /) -> bytes:
        return self._decoder.decode(packed).encode()


class _Beginning(io.RawIOBase):
    """No more than the first bytes of a stream."""

    def __init__(self, stream: BinaryIO, left: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = left

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes of what is left."""
        part = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(part)
        return part


def _unpacking(start: bytes) -> Callable[[], _Unpacking] | None:
    if start.startswith(_ZSTD):
        import zstandard  # noqa: PLC0415  # Only who reads packed files waits for it.

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


def _check_file(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    what = kinds.get(stat.S_IFMT(mode), "no file")
    raise InvalidInput(f"{path} is {what}", hint="name a file")


def _refusal(path: Path, error: OSError) -> TreeringError:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"no file {path}", hint="check the path")
    if isinstance(error, PermissionError):
        return InvalidInput(f"{path} may not be read", hint="check its permissions")
    return InvalidInput(f"{path} cannot be read: {error.strerror}", hint="check the path")
