"""The lines of a log, read in pieces: memory never grows with the file, nor with a line of it.

Lines end at a line feed. A long run of NUL bytes ends one too: no JSON holds it, and a disk that
lost power leaves gigabytes of it.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from typing import BinaryIO

CHUNK_BYTES: Final = 1024 * 1024
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest line, or value over several lines, that is read."""
NUL_RUN_MIN: Final = 4_096
"""From here on a run of NUL bytes is a stretch of its own: a page that was never written."""

TOO_LONG: Final = "too long"
NULS: Final = "NUL bytes"
_NUL_RUN: Final = bytes(NUL_RUN_MIN)
_REST_BYTES: Final = 64
_BLANK_LINES: Final = re.compile(rb"(?:[ \t\r]*+\n)*+")


class RawLine(msgspec.Struct, frozen=True, gc=False):
    """A line without its line feed, or a range of bytes that is not kept."""

    text: bytes
    offset: int
    end: int
    """The byte after its line feed."""
    number: int
    whole: bool = True
    """Whether it is complete: only the last line of a file may not be."""
    fault: str | None = None
    """Why the text is missing: TOO_LONG or NULS."""
    indent: int = 0
    """How far in it begins, if what is before it was cut off."""

    @property
    def fed(self) -> bool:
        """Whether a line feed ends it."""
        return self.end - self.offset > len(self.text) and self.fault is None


class RawLines:
    """The lines of ``stream``, which is positioned at ``offset``, in line ``number``."""

    def __init__(self, stream: BinaryIO, offset: int, number: int) -> None:
        self._stream = stream
        self._buffer = b""
        self._at = 0
        self._base = offset  # Where in the stream the buffer begins.
        self._number = number
        self._nuls = False
        self._ended = False  # What is written after the end meanwhile is left for later.
        self._waiting: list[RawLines | RawLine] = []  # To be taken again, the last one first.
        self.damage: str | None = None
        """Why the stream could not be read to its end."""

    @property
    def number(self) -> int:
        """The line where what comes next begins."""
        return self._number

    @property
    def end(self) -> int:
        """The byte after all lines that were taken."""
        return self._base + self._at

    def take(self) -> RawLine | None:
        """Return the next line; None at the end."""
        if self._waiting:
            return self._take_again()
        at, base, number = self._at, self._base, self._number
        stop = -1 if self._nuls else self._buffer.find(b"\n", at)
        if stop < 0:
            return self._take_far()
        # As _cut does, without a call: every line passes here.
        self._at, self._number = stop + 1, number + 1
        return RawLine(self._buffer[at:stop], base + at, base + stop + 1, number)

    def pass_blanks(self) -> tuple[int, int]:
        """Skip blank lines that come next; return how many, and the byte after them."""
        if self._waiting:
            ahead = self._waiting[-1]
            return (0, self.end) if isinstance(ahead, RawLine) else ahead.pass_blanks()
        before = self._number
        while True:
            match = _BLANK_LINES.match(self._buffer, self._at)
            stop = match.end() if match else self._at
            self._number += self._buffer.count(b"\n", self._at, stop)
            self._at = stop
            # A short rest may be the beginning of another one.
            goes_on = len(self._buffer) - stop < _REST_BYTES and not self._buffer[stop:].strip()
            if not goes_on or not self._fill(CHUNK_BYTES):
                return self._number - before, self.end

    def put_back(self, text: bytes, offset: int, number: int, following: RawLine | None) -> None:
        """Have the lines of ``text`` taken again, and ``following`` after them."""
        if following is not None:
            self._waiting.append(following)
        if text:
            self._waiting.append(RawLines(io.BytesIO(text), offset, number))

    def _take_again(self) -> RawLine | None:
        waiting = self._waiting[-1]
        if isinstance(waiting, RawLine):
            self._waiting.pop()
            return waiting
        line = waiting.take()
        if line is None:
            self._waiting.pop()
            return self.take()
        return line

    def _take_far(self) -> RawLine | None:
        """Take a line that has NUL bytes near, or does not end in the buffer."""
        looked = self._at
        while True:
            stop = self._buffer.find(b"\n", looked)
            limit = len(self._buffer) if stop < 0 else stop
            if self._nuls:
                run = self._buffer.find(_NUL_RUN, max(self._at, looked - NUL_RUN_MIN), limit)
                if run >= 0:
                    return self._cut_at_nuls(run)
            if limit - self._at > RECORD_BYTES_MAX:
                return self._skip_long()
            if stop >= 0:
                return self._cut(stop)
            looked = limit - self._at
            # As much again as there is: a long line is copied only twice on the whole.
            if not self._fill(max(CHUNK_BYTES, looked)):
                return self._cut_rest() if self._buffer else None

    def _cut(self, stop: int) -> RawLine:
        base = self._base
        line = RawLine(
            self._buffer[self._at : stop], base + self._at, base + stop + 1, self._number
        )
        self._at = stop + 1
        self._number += 1
        return line

    def _cut_rest(self) -> RawLine:
        line = RawLine(
            self._buffer, self._base, self._base + len(self._buffer), self._number, False
        )
        self._at = len(self._buffer)
        return line

    def _cut_at_nuls(self, stop: int) -> RawLine:
        offset = self.end
        if stop > self._at:
            text = self._buffer[self._at : stop]
            self._at = stop
            return RawLine(text, offset, self.end, self._number)
        while True:
            rest = self._buffer[self._at :].lstrip(b"\x00")
            self._at = len(self._buffer) - len(rest)
            if rest or not self._fill(CHUNK_BYTES):
                break
        number = self._number
        if rest.startswith(b"\n"):
            self._at += 1
            self._number += 1
        return RawLine(b"", offset, self.end, number, bool(rest), NULS)

    def _skip_long(self) -> RawLine:
        offset = self.end
        while (stop := self._buffer.find(b"\n", self._at)) < 0:
            self._at = len(self._buffer)
            if not self._fill(CHUNK_BYTES):
                return RawLine(b"", offset, self.end, self._number, False, TOO_LONG)
        self._at = stop + 1
        self._number += 1
        return RawLine(b"", offset, self.end, self._number - 1, True, TOO_LONG)

    def _fill(self, size: int) -> bool:
        """Read up to ``size`` more bytes; return whether there were any."""
        parts = [self._buffer[self._at :]]
        left = size
        while left > 0 and self.damage is None and not self._ended:
            try:
                part = self._stream.read(min(left, CHUNK_BYTES))
            except (OSError, EOFError) as error:
                self.damage = str(error) or type(error).__name__
                break
            if not part:
                self._ended = True
                break
            parts.append(part)
            left -= len(part)
        self._base += self._at
        self._at = 0
        self._buffer = b"".join(parts)
        self._nuls = b"\x00" in self._buffer
        return left < size
