"""Records of a log: one JSON value after the other, whatever has become of the file.

Logs are cut off, welded together, filled with NUL bytes and pretty-printed. Every byte that is
not blank lies in one record, if only in one that has a fault; what can be read is.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.parsed import LogRecord
from treering.formats.records.json_pieces import (
    NOISE,
    OPEN,
    TORN,
    WELDED,
    JsonPiece,
    is_blank,
    is_words,
    measure,
    take_apart,
)
from treering.formats.records.values import (
    NOT_JSON,
    STEPS_A_LINE,
    TOO_DEEP,
    Patience,
    Unreadable,
    is_deep,
    read_value,
)
from treering.model.codec import NESTING_MAX, decode

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator
    from mmap import mmap
    from typing import BinaryIO, TypeAlias

    _Taken: TypeAlias = Generator[LogRecord, None, "RawLine | None"]


_OPENS: Final = b" \t\r\n\xef\xbb\xbf["
"""What comes before the first element."""
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])

__all__ = ["RECORD_BYTES_MAX", "read_records", "read_text"]

BLANK: Final = "blank"
UTF_16: Final = "UTF-16"
DAMAGED: Final = "damaged"
"""The stream broke off: its disk, or what it is packed in."""

_UTF_16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
_HELD_BYTES_A_STEP: Final = 64
BLANKS_MAX: Final = 1_000
"""No value has more blank lines in a row."""
_BRACKET: Final = re.compile(rb"[{}\[\]]")
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_records(
    stream: BinaryIO, *, offset: int = 0, line: int = 1, final: bool = True
) -> Iterator[LogRecord]:
    """Read the records of ``stream``, which is positioned at ``offset``, in line ``line``.

    A record's ``end`` is after its line feed, so reading can continue there. Without ``final`` the
    file is still being written: a last line without a line feed is a record only if it is an
    object, whole as it is; anything else that is unfinished is left for later and gives nothing.
    Nothing is raised for the content of the stream: it is reported as a fault.
    """
    lines = RawLines(stream, offset, line)
    take = lines.take
    reading = _ValueScan(lines, final=final)
    kin: Any = None
    last = take()
    if last is not None and offset == 0 and last.text.startswith(_UTF_16_BOMS):
        yield from reading.unread(last)
        return
    if last is not None and offset > 0 and last.fed and not last.text.strip(b"\r"):
        last = take()  # The line feed of a record that had none when it was read.
    while last is not None:
        text = last.text
        try:
            value = decode(text)
        except _UNDECODABLE:
            reading.kin = kin.keys() if type(kin) is dict else ()
            yield from reading.mend(last)
        else:
            deep = text.count(b"{") + text.count(b"[") > NESTING_MAX and is_deep(text, value)
            if deep or not (final or last.whole or type(value) is dict):
                yield from reading.mend(last)
            else:
                kin = value
                yield LogRecord(value, last.number, last.offset, last.end)
        last = take()
    if lines.damage is not None and final:
        yield LogRecord(None, lines.number, lines.end, lines.end, DAMAGED)


def read_text(
    stream: BinaryIO, *, offset: int = 0, line: int = 1, final: bool = True
) -> Iterator[LogRecord]:
    """Read the lines of a text as ``read_records`` reads values.

    A value is a line with its line feed, so that a blank one is a value, too.
    """
    lines = RawLines(stream, offset, line)
    while (last := lines.take()) is not None:
        if last.fault is not None:
            yield LogRecord(None, last.number, last.offset, last.end, last.fault)
        elif last.whole or final:
            text = last.text.removeprefix(b"\xef\xbb\xbf") if last.number == 1 else last.text
            value = text.decode(errors="replace").replace("\x00", "\ufffd").rstrip("\r") + "\n"
            mended = None if value.rstrip("\n").encode() == text.rstrip(b"\r") else "encoding"
            yield LogRecord(value, last.number, last.offset, last.end, None, mended)
    if lines.damage is not None and final:
        yield LogRecord(None, lines.number, lines.end, lines.end, DAMAGED)


class _ValueScan:
    """Reads lines that are not a value each."""

    def __init__(self, lines: RawLines, *, final: bool) -> None:
        self._lines = lines
        self._final = final
        self._patience = Patience(lines.end)
        self.kin: Collection[str] = ()
        """The keys of the last good record."""

    def mend(self, line: RawLine) -> Iterator[LogRecord]:
        """Yield the records of ``line``, and of later lines if its last value continues there."""
        if not line.whole and not self._final:
            return
        if line.fault is not None:
            yield LogRecord(None, line.number, line.offset, line.end, line.fault)
        elif is_blank(line.text):
            if b"\x00" in line.text or not line.fed:
                fault = NULS if b"\x00" in line.text else BLANK
                yield LogRecord(None, line.number, line.offset, line.end, fault)
                return
            # Millions of them are one record.
            more, end = self._lines.pass_blanks()
            end = end if more else line.end
            yield LogRecord(None, line.number, line.offset, end, BLANK, None, 1 + more)
        elif is_words(line.text):
            fault = NOT_JSON if line.whole else TORN
            yield LogRecord(None, line.number, line.offset, line.end, fault)
        else:
            self._patience.renew(line.offset, line.end)
            if self._patience.left <= 0 and _is_hopeless(line.text):
                yield LogRecord(None, line.number, line.offset, line.end, TORN)
                return
            may_open = line.fed and self._patience.left > 0
            opened = yield from self._take_apart(line, may_open=may_open)
            while opened is not None:
                opened = yield from self._continue(opened)

    def unread(self, line: RawLine) -> Iterator[LogRecord]:
        """Yield one record for a whole file in UTF-16."""
        while self._lines.take() is not None:
            pass
        if self._final:
            yield LogRecord(None, line.number, line.offset, self._lines.end, UTF_16)

    def _take_apart(self, line: RawLine, *, may_open: bool) -> _Taken:
        """Yield the records of ``line``; return its last value, if it may continue."""
        number, counted = line.number, 0
        for piece in take_apart(line.text, self.kin, self._patience, may_open=may_open):
            number += line.text.count(b"\n", counted, piece.start)
            counted = piece.start
            if piece.fault == OPEN:
                return _rest_of(line, piece.start)
            if isinstance(piece.value, dict):
                self.kin = piece.value.keys()
            yield _record_of(line, piece, number)
        return None

    def _continue(self, line: RawLine) -> _Taken:
        """Yield the value that ``line`` begins, or the rest of it; return one that continues."""
        shape, held = _Shape(line.text), bytearray(line.text + b"\n")
        while True:
            following = self._lines.take()
            if not self._final and (following is None or not following.whole):
                return (yield from self._last(line, held, following))
            fault = shape.fault_with(following)
            if following is None or fault is not None:
                return (yield from self._give_up(line, held, fault or TORN, following))
            held += following.text + b"\n" * following.fed
            if len(held) > RECORD_BYTES_MAX:
                return (yield from self._give_up(line, held, TOO_LONG, None))
            if shape.depth <= 0:
                break
        joined = bytes(held[:-1]) if following.fed else bytes(held)
        whole = RawLine(joined, line.offset, following.end, line.number, following.whole)
        if (value := _value_of(joined)) is not None:
            self.kin = value.keys() if isinstance(value, dict) else self.kin
            yield LogRecord(value, line.number, line.offset, whole.end)
            return None
        if measure(joined, 0).whole:
            return (yield from self._take_apart(whole, may_open=whole.fed))
        return (yield from self._give_up(line, held, TORN, None))

    def _last(self, line: RawLine, held: bytearray, following: RawLine | None) -> _Taken:
        """Yield the value if the unfinished line of a growing file completes it."""
        if following is not None and following.fault is None:
            value = _value_of(bytes(held) + following.text)
            if isinstance(value, dict):
                yield LogRecord(value, line.number, line.offset, following.end)
        return None

    def _give_up(
        self, line: RawLine, held: bytearray, fault: str, following: RawLine | None
    ) -> _Taken:
        """Yield the values of ``line`` alone; the lines after it are read again."""
        fed = len(line.text) + 1
        self._patience.spend(STEPS_A_LINE * held.count(b"\n") + len(held) // _HELD_BYTES_A_STEP)
        self._lines.put_back(bytes(held[fed:]), line.offset + fed, line.number + 1, following)
        for piece in take_apart(line.text, self.kin, self._patience, may_open=False):
            record = _record_of(line, piece, line.number)
            if piece.fault == TORN and piece.end == len(line.text):
                end = self._end_of_torn(line)
                record = msgspec.structs.replace(record, end=end, fault=fault)
            yield record
        return None

    def _end_of_torn(self, line: RawLine) -> int:
        """Return where the lines end that can only have been part of a torn value.

        The next record begins no further in than it did.
        """
        beginning = re.compile(rb"[ \t]{0,%d}[{\[]" % line.indent)
        end = line.end
        while (following := self._lines.take()) is not None:
            unfinished = not following.whole and not self._final
            if following.fault or unfinished or beginning.match(following.text.lstrip(NOISE)):
                self._lines.put_back(b"", 0, 0, following)
                break
            end = following.end
            if not following.text:
                more, blanks_end = self._lines.pass_blanks()
                end = blanks_end if more else end
        return end


class _Shape:
    """How deep in brackets a value over several lines is, and whether a line can be the next."""

    def __init__(self, text: bytes) -> None:
        self.depth = 0
        self._last = ord(",")
        self._blanks = 0
        self._read(text)

    def fault_with(self, line: RawLine | None) -> str | None:
        """Continue with ``line``; return the fault, if it cannot be next."""
        if line is None or line.fault is not None or (line.whole and not line.fed):
            return TORN
        return self._read(line.text)

    def _read(self, text: bytes) -> str | None:
        bare = text.strip()
        self._blanks = 0 if bare else self._blanks + 1
        if not bare:
            return TORN if self._blanks > BLANKS_MAX else None
        # Nothing follows a value but a comma or an end.
        if self._last not in b",:[{" and bare[0] not in b",:]}":
            return TORN
        self._last = bare[-1]
        if _BRACKET.search(bare) is None:
            return None
        bare = _STRING.sub(b"", bare)
        if b'"' in bare:  # No string continues on another line.
            return TORN
        self.depth += bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
        return TOO_DEEP if self.depth > NESTING_MAX else None


def _is_hopeless(text: bytes) -> bool:
    """Whether a value is begun, and none ends."""
    return text[0] in b"{[" and b"}" not in text and b"]" not in text


def _record_of(line: RawLine, piece: JsonPiece, number: int) -> LogRecord:
    last = piece.end == len(line.text)
    fault = TORN if last and not line.whole and piece.fault == NOT_JSON else piece.fault
    return LogRecord(
        piece.value,
        number,
        line.offset + piece.start,
        line.end if last else line.offset + piece.end,
        fault,
        piece.mended,
    )


def _rest_of(line: RawLine, start: int) -> RawLine:
    before = line.text[:start]
    return RawLine(
        line.text[start:],
        line.offset + start,
        line.end,
        line.number + before.count(b"\n"),
        line.whole,
        indent=0 if before.strip(b" \t") else start,
    )


def _value_of(text: bytes) -> Any:
    """Return the value of ``text``, None if it is not valid."""
    try:
        value = decode(text)
    except _UNDECODABLE:
        return None
    return None if is_deep(text, value) else value


def list_elements(content: bytes | mmap) -> Iterator[LogRecord]:
    """Yield the elements of a list, each numbered as a line; another value is one element."""
    try:
        listed = _LIST.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        yield from _pieces(bytes(content))
        return
    offset = 1
    for number, raw in enumerate(listed, start=1):
        text = bytes(raw)
        end = offset + len(text)
        try:
            value, mended = read_value(text)
        except Unreadable as error:
            yield LogRecord(None, number, offset, end, str(error))
        else:
            yield LogRecord(value, number, offset, end, None, mended[0] if mended else None)
        offset = end + 1


def _pieces(text: bytes) -> Iterator[LogRecord]:
    """Yield what is whole in a list that is not, and what is left of the rest."""
    start = len(text) - len(text.lstrip(_OPENS))
    patience = Patience()
    patience.renew(0, len(text))
    for number, piece in enumerate(take_apart(text[start:], (), patience, may_open=False), start=1):
        offset, end = start + piece.start, start + piece.end
        mended = None if piece.mended == WELDED else piece.mended
        yield LogRecord(piece.value, number, offset, end, piece.fault, mended)


CHUNK_BYTES: Final = 64 * 1024
"""Bytes that are read at once: they are decoded while they are in the processor's cache."""
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
