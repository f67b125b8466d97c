"""Files that other programs append to, read by complete lines from where the last pass ended.

A small state file beside it stores how far, in which file, and a fingerprint of it. The fingerprint
tells a file that was truncated and has grown again from one that only grew. It is a hash under a
key stored elsewhere, because the state file outlives the text, which may be erased.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import stat
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Final, TypeVar

import msgspec

from treering.errors import Busy, InvalidInput, NotFound
from treering.files import OWNER_FILE, lock, make_folder, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHUNK_BYTES: Final = 256 * 1024
LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A longer line is skipped, and never held in memory."""
FINGERPRINT_BYTES: Final = 4_096
"""The bytes at the beginning and before the offset that a fingerprint covers."""

State = TypeVar("State", bound=msgspec.Struct)


def open_plain(path: Path) -> IO[bytes]:
    """Open a regular file for reading. Raises NotFound for anything else, which might never end."""
    try:
        # Without blocking: opening a pipe without a writer would hang.
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENOTDIR}:
            raise NotFound(f"{path} is not a file", hint="name a file") from error
        raise
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise NotFound(f"{path} is not a file", hint="name a file")
    return stream


class FileLine(msgspec.Struct, frozen=True, gc=False):
    """One complete line of a file."""

    start: int
    body: bytes
    """Without the newline; empty if it is too long."""
    too_long: bool = False


class WholeLines:
    """The complete lines between two offsets of a file, read in chunks.

    Bytes after the last newline are left for the next pass.
    """

    def __init__(self, stream: IO[bytes], start: int, end: int) -> None:
        self._stream = stream
        self._end = end
        self._read = start
        self.offset = start
        """The offset after the last complete line."""
        self._digest, self._complete = sha256(), sha256()

    @property
    def trailing(self) -> int:
        """Return the number of bytes after the last newline."""
        return self._read - self.offset

    @property
    def sha256(self) -> str:
        """Return the hash of all complete lines, once they have been read."""
        return self._complete.hexdigest()

    def __iter__(self) -> Iterator[FileLine]:
        self._stream.seek(self.offset)
        held = bytearray()
        too_long = False
        while self._read < self._end:
            chunk = self._stream.read(min(CHUNK_BYTES, self._end - self._read))
            if not chunk:
                return
            *pieces, rest = chunk.split(b"\n")
            for piece in pieces:
                if not too_long:
                    held += piece
                    too_long = len(held) > LINE_BYTES_MAX
                start, self.offset = self.offset, self._read + len(piece) + 1
                self._read = self.offset
                yield FileLine(start, b"" if too_long else bytes(held), too_long)
                held.clear()
                too_long = False
            if pieces:
                self._digest.update(chunk[: len(chunk) - len(rest)])
                self._complete = self._digest.copy()
            self._digest.update(rest)
            self._read += len(rest)
            if not too_long:
                held += rest
                too_long = len(held) > LINE_BYTES_MAX
            if too_long:
                held.clear()


class Fingerprint(msgspec.Struct, frozen=True):
    """A fingerprint of a file up to the offset where it was last read."""

    offset: int
    head: str
    tail: str
    is_keyed: bool = False
    """Whether a key protects it from guessing: states of earlier versions have plain hashes."""

    def fits(self, stream: IO[bytes], key: Callable[[], bytes]) -> bool:
        """Return whether a file still has this fingerprint."""
        current = fingerprint_of(stream, self.offset, key() if self.is_keyed else None)
        return current == self


def fingerprint_of(stream: IO[bytes], offset: int, key: bytes | None) -> Fingerprint:
    """Return the fingerprint of a file up to ``offset``, under a key stored elsewhere."""
    size = min(offset, FINGERPRINT_BYTES)
    head = os.pread(stream.fileno(), size, 0)
    tail = os.pread(stream.fileno(), size, offset - size)
    if key is None:
        return Fingerprint(offset, sha256(head).hexdigest(), sha256(tail).hexdigest())
    start, end = (hmac.digest(key, part, "sha256").hex() for part in (head, tail))
    return Fingerprint(offset, start, end, is_keyed=True)


def load_state(path: Path, kind: type[State]) -> State | None:
    """Return the state in ``path``, or None if it does not exist. Raises InvalidInput."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} is not a valid state file",
            hint="remove it to start over: known events are not recorded twice",
        ) from error


def save_state(path: Path, state: msgspec.Struct) -> None:
    """Replace the state file durably."""
    make_folder(path.parent)
    with replacing(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")


@contextlib.contextmanager
def locked(path: Path, *, patience_s: float) -> Iterator[None]:
    """Hold the lock file of ``path``, ``<path>.lock``. Raises Busy after ``patience_s``."""
    name = path.with_name(f"{path.name}.lock")
    descriptor = os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, OWNER_FILE)
    try:
        if not lock(descriptor, patience_s):
            raise Busy(
                f"another program holds {name}", hint="wait until it finishes, then try again"
            )
        yield
    finally:
        os.close(descriptor)
