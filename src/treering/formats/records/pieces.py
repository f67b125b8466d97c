"""A damaged line taken apart: the values that stand in it, and what lies between them.

{"a":1}{"b":2}             two values, welded: a line feed was lost
{"a":"hel{"b":2}           a torn one, and a good one right behind it
{"a":{"x":1},"b":"hel      torn; what is inside it is no record of its own
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.records.values import NOT_JSON, Unreadable, read_value
from treering.model.codec import NESTING_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

TORN: Final = "torn"
OPEN: Final = "open"
"""The last value of a line may go on in the next one."""
WELDED: Final = "welded"
STRAY: Final = "stray bytes"
NOISE: Final = b"\x00\x1e\xef\xbb\xbf"
"""Bytes before a value that are no part of it, but for blanks."""

_BOM: Final = b"\xef\xbb\xbf"
_BETWEEN: Final = re.compile(rb"(?:[\s\x00\x1e,\]}]|\xef\xbb\xbf)*+")
"""What may lie around values without being any: it tells nothing."""
_BEFORE: Final = re.compile(rb"(?:[\s\x00\x1e]|\xef\xbb\xbf)*+")
_SEAM: Final = re.compile(rb"\s*+(?:[\x00\x1e{]|\xef\xbb\xbf|\Z)")
"""What may follow a value that is found behind a torn one."""
_BEGINNING: Final = re.compile(rb'\{[ \t]*"([^"\\]*)')
_SCALAR: Final = re.compile(rb'["\-0-9NI]')
_TOKEN: Final = re.compile(
    rb"[ \t\r\n]*+("
    rb'[{}\[\],:]|"(?:[^"\\\n]++|\\[^\n])*+"|'
    rb"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?|true|false|null|NaN|-?Infinity)"
)
_BLANK_REST: Final = re.compile(rb"[ \t\r\n]*+\Z")
_TRIES_BYTES: Final = 1024 * 1024
"""Bytes that may be looked at in vain behind a torn value, besides a few times the line's own."""

_VALUE, _KEY, _COLON, _COMMA, _CLOSE = 1, 2, 4, 8, 16
_SORTS: Final = {ord(":"): _COLON, ord(","): _COMMA, ord("}"): _CLOSE, ord("]"): _CLOSE}
_CLOSERS: Final = {ord("{"): ord("}"), ord("["): ord("]")}


class Piece(msgspec.Struct, frozen=True):
    """A value in a line, or a stretch that is none."""

    start: int
    end: int
    value: Any = None
    fault: str | None = None
    """OPEN is only ever the last one's."""
    mended: str | None = None


class Extent(msgspec.Struct, frozen=True):
    """How far a value goes, by its brackets and commas."""

    end: int
    """Behind it, or where it stops being JSON."""
    whole: bool
    open: bool = False
    """Whether it is sound as far as it goes."""
    inner: Collection[int] = ()
    """Where objects inside it begin."""


def take_apart(text: bytes, kin: Collection[str], *, may_open: bool) -> Iterator[Piece]:
    """Give the values of ``text`` and the stretches between them, in order.

    ``kin`` are the keys of the last good record. They settle whether an object in a torn one is a
    part of it or the next record. With ``may_open``, a sound value that ends too early is not torn
    but OPEN.
    """
    first = at = _behind(_BEFORE, text, 0)
    if stripped := _without_nuls(text):
        yield Piece(first, len(text), stripped, None, "NUL")
        return
    while at < len(text):
        extent = measure(text, at)
        if extent.whole:
            piece, at = _whole_piece(text, at, extent.end, alone=at == first)
        elif extent.open and may_open:
            piece, at = Piece(at, len(text), fault=OPEN), len(text)
        else:
            piece, at = _torn_piece(text, at, extent, kin)
        if piece.fault is None and isinstance(piece.value, dict):
            kin = piece.value.keys()
        yield piece


def is_blank(text: bytes) -> bool:
    """Whether nothing stands in ``text`` but blanks, NUL bytes and the like."""
    return _behind(_BEFORE, text, 0) == len(text)


def measure(text: bytes, start: int, *, levels_max: int | None = None) -> Extent:
    """Return how far the object or array at ``start`` goes; a lone scalar is the whole text."""
    if text[start] not in _CLOSERS:
        lone = start == _behind(_BEFORE, text, 0) and bool(_SCALAR.match(text, start))
        return Extent(len(text) if lone else start, lone and _is_value(text[start:]))
    at, expected = start, _VALUE
    closers: list[int] = []
    inner: set[int] = set()
    while token := _TOKEN.match(text, at):
        at = token.start(1)
        byte = text[at]
        sort = _SORTS.get(byte) or (_KEY if byte == 0x22 and expected & _KEY else _VALUE)
        if not expected & sort or (sort == _CLOSE and byte != closers[-1]):
            return Extent(at, False, inner=inner)
        if sort == _CLOSE:
            closers.pop()
            if not closers:
                return Extent(token.end(), True)
        elif byte in _CLOSERS:
            if len(closers) == levels_max:
                break
            closers.append(_CLOSERS[byte])
            inner.add(at)
        expected = _expected_behind(sort, byte, in_object=closers[-1] == 0x7D)
        at = token.end()
    return Extent(at, False, open=bool(_BLANK_REST.match(text, at)), inner=inner)


def _expected_behind(sort: int, byte: int, *, in_object: bool) -> int:
    if byte == 0x7B:
        return _KEY | _CLOSE
    if byte == 0x5B:
        return _VALUE | _CLOSE
    if sort == _KEY:
        return _COLON
    if sort == _COLON:
        return _VALUE
    if sort == _COMMA:
        return _KEY if in_object else _VALUE
    return _COMMA | _CLOSE


def _whole_piece(text: bytes, start: int, end: int, *, alone: bool) -> tuple[Piece, int]:
    """Return the value that is there, and where the next one may begin."""
    following = _behind(_BETWEEN, text, end)
    alone = alone and following == len(text)
    around = text[:start] + text[end:following] if alone else b""
    try:
        value, mended = read_value(text[start:end])
    except Unreadable as error:
        end = following if following == len(text) else end
        return Piece(start, end, fault=str(error)), following
    if not alone:
        mended = [WELDED, *mended]
    elif b"\x00" in around:
        mended = ["NUL", *mended]
    elif _BOM in around:
        mended = ["BOM", *mended]
    elif around.strip():
        mended = [STRAY, *mended]
    # The last one has what is left of the line.
    end = following if following == len(text) else end
    return Piece(start, end, value, mended=", ".join(mended) or None), following


def _torn_piece(text: bytes, start: int, extent: Extent, kin: Collection[str]) -> tuple[Piece, int]:
    """Return the stretch up to the next object that is a record of its own."""
    # Many lines of plain words begin with a bracket: [12:30] …
    fault = TORN if text[start] == 0x7B or extent.open else NOT_JSON
    tries = _TRIES_BYTES + 2 * len(text)
    first_keys = {key.encode() for key in kin}
    for beginning in _BEGINNING.finditer(text, start + 1):
        at = beginning.start()
        inner = at in extent.inner
        if inner and beginning[1] not in first_keys:
            continue
        found = measure(text, at, levels_max=NESTING_MAX)
        tries -= found.end - at
        if tries < 0:
            break
        if not found.whole or not _SEAM.match(text, found.end):
            continue
        if not inner or _is_kin(text[at : found.end], kin):
            return Piece(start, at, fault=fault), at
    return Piece(start, len(text), fault=fault), len(text)


def _is_kin(text: bytes, kin: Collection[str]) -> bool:
    """Whether an object has the keys of a record, more or less."""
    try:
        value, _ = read_value(text)
    except Unreadable:
        return False
    shared = len(set(value) & set(kin))
    return 2 * shared > len(set(value) | set(kin))


def _is_value(text: bytes) -> bool:
    try:
        read_value(text)
    except Unreadable:
        return False
    return True


def _without_nuls(text: bytes) -> dict[str, Any] | None:
    """Return the object that is there once NUL bytes are taken out, wherever they are."""
    if b"\x00" not in text:
        return None
    try:
        value, _ = read_value(text.replace(b"\x00", b""))
    except Unreadable:
        return None
    return value if isinstance(value, dict) else None


def _behind(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
