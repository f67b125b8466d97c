"""Lists: files that hold one JSON list, which is rewritten when it grows.

Each element is a record. A list that was cut off, or damaged inside, is taken apart: what is whole
in it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.formats.parsed import LogRecord
from treering.formats.records.json_pieces import WELDED, take_apart
from treering.formats.records.patience import Patience
from treering.formats.records.values import Unreadable, read_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from mmap import mmap

_OPENS: Final = b" \t\r\n\xef\xbb\xbf["
"""What comes before the first element."""
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


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
