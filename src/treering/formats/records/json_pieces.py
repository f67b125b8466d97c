"""A damaged line taken apart: the values in it, and what is between them.

{"a":1}{"b":2}             two values, welded: a line feed was lost
{"a":"hel{"b":2}           a torn one, and a good one right after it
{"a":{"x":1},"b":"hel      torn; the object inside it is not a record of its own
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.records.values import NOT_JSON, Unreadable, read_value
from treering.model.codec import NESTING_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from treering.formats.records.values import Patience

TORN: Final = "torn"
OPEN: Final = "open"
"""The last value of a line may continue on the next one."""
WELDED: Final = "welded"
STRAY: Final = "stray bytes"
NOISE: Final = b"\x00\x1e\xef\xbb\xbf"
"""Bytes before a value that are not part of it, besides blanks."""

LEVELS_MAX: Final = 10_000
"""Deeper brackets are not counted to their end: no reader accepts such a value."""
_BOM: Final = b"\xef\xbb\xbf"
_BETWEEN: Final = re.compile(rb"(?:[\s\x00\x1e,\]}]++|\xef\xbb\xbf)*+")
"""Bytes around values that mean nothing."""
_BEFORE: Final = re.compile(rb"(?:[\s\x00\x1e]++|\xef\xbb\xbf)*+")
_SEAM: Final = re.compile(rb"\s*+(?:[\x00\x1e{]|\xef\xbb\xbf|\Z)")
"""What may follow a value that comes after a torn one."""
_KEY_BYTES_MAX: Final = 256
_BEGINNING: Final = re.compile(rb'\{[ \t]*+"(?=([^"\\]{0,%d}))' % _KEY_BYTES_MAX)
_SCALAR: Final = re.compile(rb'["\-0-9NI]')
_STRING: Final = rb'"(?:[^"\\\n]++|\\[^\n])*+"'
_NUMBER: Final = rb"(?:-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?|NaN|-?Infinity)"
_PLAIN: Final = rb"(?:%b|%b|true|false|null)" % (_STRING, _NUMBER)
_B: Final = rb"[ \t\r\n]*+"
_TOKEN: Final = re.compile(rb"%b([{}\],:]|\[[ \t\r\n\[]*+|%b)" % (_B, _PLAIN))
# Not possessive: up to Python 3.11.4 such a repetition continues after a round that failed.
# Not without end: it keeps where each round began.
_MEMBERS: Final = re.compile(
    rb"(?:%b%b%b:%b%b%b,){0,4096}(?:%b%b%b:)?" % (_B, _STRING, _B, _B, _PLAIN, _B, _B, _STRING, _B)
)
"""Members with plain values, and the key of one that has another: what most objects begin with."""
_ELEMENTS: Final = re.compile(rb"(?:%b%b%b,){0,4096}" % (_B, _PLAIN, _B))
_WORDS: Final = re.compile(
    rb"(?!(?:%b|%b)%b\Z)[^\s\x00\x1e\xef{\[][^{]*+\Z" % (_STRING, _NUMBER, _B)
)
"""A line that cannot hold a value."""
_BLANK_REST: Final = re.compile(rb"[ \t\r\n]*+\Z")
_VALUE, _KEY, _COLON, _COMMA, _CLOSE = 1, 2, 4, 8, 16
_SORTS: Final = {ord(":"): _COLON, ord(","): _COMMA, ord("}"): _CLOSE, ord("]"): _CLOSE}
_BEHIND: Final = {ord("{"): _KEY | _CLOSE, ord("["): _VALUE | _CLOSE, ord(":"): _VALUE}
_CLOSERS: Final = {ord("{"): ord("}"), ord("["): ord("]")}


class JsonPiece(msgspec.Struct, frozen=True):
    """A value in a line, or a range of bytes that is not one."""

    start: int
    end: int
    value: Any = None
    fault: str | None = None
    """OPEN is only ever the last one's."""
    mended: str | None = None


class JsonExtent(msgspec.Struct, frozen=True):
    """How far a value goes, by its brackets and commas."""

    end: int
    """The byte after it, or where it stops being JSON."""
    whole: bool
    open: bool = False
    """Whether it is valid up to there."""
    steps: int = 0
    inner: array[int] | None = None
    """Where objects inside it begin, in order."""

    def holds(self, at: int) -> bool:
        """Whether an object begins inside it, at ``at``."""
        if self.inner is None:
            return False
        index = bisect_left(self.inner, at)
        return index < len(self.inner) and self.inner[index] == at


def take_apart(
    text: bytes, kin: Collection[str], patience: Patience, *, may_open: bool
) -> Iterator[JsonPiece]:
    """Yield the values of ``text`` and the stretches between them, in order.

    ``kin`` are the keys of the last good record. They settle whether an object in a torn one is a
    part of it or the next record. With ``may_open``, a sound value that ends too early is not torn
    but OPEN.
    """
    first = at = _end_of(_BEFORE, text, 0)
    if stripped := _without_nuls(text):
        yield JsonPiece(first, len(text), stripped, None, "NUL")
        return
    while at < len(text):
        is_nested = text[at] in _CLOSERS
        extent = measure(text, at, levels_max=LEVELS_MAX) if is_nested else _lone(text, at, first)
        if extent.whole:
            piece, at = _whole_piece(text, at, extent.end, alone=at == first)
        elif extent.open and may_open:
            piece, at = JsonPiece(at, len(text), fault=OPEN), len(text)
        else:
            piece, at = _torn_piece(text, at, extent, kin, patience)
        if piece.fault is None and isinstance(piece.value, dict):
            kin = piece.value.keys()
        yield piece


def is_words(text: bytes) -> bool:
    """Whether a line can neither hold a value nor begin one."""
    return _WORDS.match(text) is not None


def is_blank(text: bytes) -> bool:
    """Whether ``text`` has only blanks, NUL bytes and the like."""
    return _end_of(_BEFORE, text, 0) == len(text)


def measure(
    text: bytes, start: int, *, levels_max: int | None = None, steps_max: int | None = None
) -> JsonExtent:
    """Return how far the object or array at ``start`` goes."""
    at, expected, steps = start, _VALUE, 0
    # As small as can be: there may be millions in a line.
    closers, inner = bytearray(), array("Q")
    while steps != steps_max and (token := _TOKEN.match(text, at)):
        steps += 1
        at, end = token.span(1)
        byte = text[at]
        sort = _SORTS.get(byte) or (_KEY if byte == 0x22 and expected & _KEY else _VALUE)
        if not expected & sort or (sort == _CLOSE and byte != closers[-1]):
            return JsonExtent(at, False, False, steps, inner)
        if sort == _CLOSE:
            closers.pop()
            if not closers:
                return JsonExtent(end, True, False, steps)
        elif byte in _CLOSERS:
            closers += _closers_of(text, at, end)
            if levels_max is not None and len(closers) > levels_max:
                break
            if byte == 0x7B:
                inner.append(at)
        at, expected = _go_on(text, end, byte, sort, in_object=closers[-1] == 0x7D)
    return JsonExtent(at, False, bool(_BLANK_REST.match(text, at)), steps, inner)


def _closers_of(text: bytes, at: int, end: int) -> bytes:
    """Return what closes the bracket at ``at``, or the several that there are up to ``end``."""
    return b"}" if text[at] == 0x7B else b"]" * text.count(b"[", at, end)


def _go_on(text: bytes, at: int, byte: int, sort: int, *, in_object: bool) -> tuple[int, int]:
    """Continue after a token, over all that is plain; return where, and what is expected there."""
    if sort == _KEY:
        return at, _COLON
    if byte not in b"{[,":
        return at, _BEHIND.get(byte, _COMMA | _CLOSE)
    run = (_MEMBERS if in_object else _ELEMENTS).match(text, at)
    if run is None or run.end() == at:
        return at, _BEHIND.get(byte, _KEY if in_object else _VALUE)
    at = run.end()
    return at, _VALUE if not in_object or text[at - 1] == 0x3A else _KEY


def _lone(text: bytes, start: int, first: int) -> JsonExtent:
    """Return how far something else goes: a scalar is a value if nothing else is there."""
    if start != first or not _SCALAR.match(text, start):
        return JsonExtent(start, False)
    token = _TOKEN.match(text, start)
    whole = token is not None and _BLANK_REST.match(text, token.end()) is not None
    return JsonExtent(len(text), whole, steps=1)


def _whole_piece(text: bytes, start: int, end: int, *, alone: bool) -> tuple[JsonPiece, int]:
    """Return the value that is there, and where the next one may begin."""
    following = _end_of(_BETWEEN, text, end)
    alone = alone and following == len(text)
    around = text[:start] + text[end:following] if alone else b""
    try:
        value, mended = read_value(text[start:end])
    except Unreadable as error:
        end = following if following == len(text) else end
        return JsonPiece(start, end, fault=str(error)), following
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
    return JsonPiece(start, end, value, mended=", ".join(mended) or None), following


def _torn_piece(
    text: bytes, start: int, extent: JsonExtent, kin: Collection[str], patience: Patience
) -> tuple[JsonPiece, int]:
    """Return the stretch up to the next object that is a record of its own."""
    # Many lines of plain words begin with a bracket: [12:30] …
    fault = TORN if text[start] == 0x7B or extent.open else NOT_JSON
    end = _next_record(text, start + 1, extent, kin, patience)
    if end < extent.end:
        # The rest was measured in vain: it is measured again.
        patience.spend(extent.steps * (extent.end - end) // (extent.end - start))
    return JsonPiece(start, end, fault=fault), end


def _next_record(
    text: bytes, start: int, extent: JsonExtent, kin: Collection[str], patience: Patience
) -> int:
    """Return where the next record begins after a tear; the end of ``text`` if there is none."""
    first_keys = {key.encode(errors="surrogatepass") for key in kin}
    for beginning in _BEGINNING.finditer(text, start):
        if patience.left <= 0:
            break
        at = beginning.start()
        inner = extent.holds(at)
        if inner and beginning[1] not in first_keys:
            continue
        candidate = measure(text, at, levels_max=NESTING_MAX, steps_max=patience.left)
        patience.spend(candidate.steps)
        if not candidate.whole or not _SEAM.match(text, candidate.end):
            continue
        if not inner or _is_kin(text[at : candidate.end], kin):
            return at
    return len(text)


def _is_kin(text: bytes, kin: Collection[str]) -> bool:
    """Whether an object has the keys of a record, more or less."""
    try:
        value, _ = read_value(text)
    except Unreadable:
        return False
    shared = len(set(value) & set(kin))
    return 2 * shared > len(set(value) | set(kin))


def _without_nuls(text: bytes) -> dict[str, Any] | None:
    """Return the object that is there once NUL bytes are taken out, wherever they are."""
    if b"\x00" not in text:
        return None
    try:
        value, _ = read_value(text.replace(b"\x00", b""))
    except Unreadable:
        return None
    return value if isinstance(value, dict) else None


def _end_of(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
