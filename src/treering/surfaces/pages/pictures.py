"""Pictures of a recording: type and size, read from their first bytes."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from treering.model.media import Media

PICTURE_BYTES_MAX: Final = 8_000_000
"""A larger one is named, and not shown."""
_HEAD_BASE64: Final = 262_144
"""Characters of base64 that are searched for the size of a picture."""
_SIDE_MAX: Final = 30_000


class PictureFacts(msgspec.Struct, frozen=True):
    """Type and size of a picture."""

    mime: str
    width: int
    height: int


def picture_facts(media: Media) -> PictureFacts | None:
    """Return type and size of a picture; None if a browser must not get it.

    Only the four formats of pixels are shown. A drawing (SVG) could hold scripts and links.
    """
    if media.data is None or media.size > PICTURE_BYTES_MAX:
        return None
    try:
        head = base64.b64decode(media.data[:_HEAD_BASE64], validate=True)
    except (binascii.Error, ValueError):
        return None
    facts = _facts(head)
    if facts is None or not (0 < facts.width <= _SIDE_MAX and 0 < facts.height <= _SIDE_MAX):
        return None
    return facts


def _facts(head: bytes) -> PictureFacts | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return PictureFacts("image/png", _big(head[16:20]), _big(head[20:24]))
    if head[:6] in {b"GIF87a", b"GIF89a"} and len(head) >= 10:
        return PictureFacts("image/gif", _little(head[6:8]), _little(head[8:10]))
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp(head)
    return None


def _jpeg(head: bytes) -> PictureFacts | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        # Frames are C0 to CF; three codes among them are tables.
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return PictureFacts(
                "image/jpeg", _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
            )
        at += 2 + max(_big(head[at + 2 : at + 4]), 2)
    return None


def _webp(head: bytes) -> PictureFacts | None:
    match head[12:16]:
        case b"VP8X":
            width, height = _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L":
            bits = _little(head[21:25])
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case _:
            return None
    return PictureFacts("image/webp", width, height)


def _big(part: bytes) -> int:
    return int.from_bytes(part, "big")


def _little(part: bytes) -> int:
    return int.from_bytes(part, "little")
