"""Type and size of a picture, from its first bytes."""

from __future__ import annotations

from typing import Final

import msgspec

_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG markers that are followed by the size; three codes among them are tables."""


class PictureFacts(msgspec.Struct, frozen=True):
    """Type and size of a picture."""

    mime: str
    width: int
    height: int


def picture_in(head: bytes) -> PictureFacts | None:
    """Return type and size of the picture that begins with ``head``; None if that is unknown.

    Only the four formats of pixels are known. A drawing (SVG) could hold scripts and links.
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return PictureFacts("image/png", _big(head[16:20]), _big(head[20:24]))
    if head[:6] in {b"GIF87a", b"GIF89a"} and len(head) >= 10:
        return PictureFacts("image/gif", _little(head[6:8]), _little(head[8:10]))
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    return _webp(head) if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def _jpeg(head: bytes) -> PictureFacts | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        if head[at + 1] in _FRAMES:
            return PictureFacts(
                "image/jpeg", _big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7])
            )
        at += 2 + max(_big(head[at + 2 : at + 4]), 2)
    return None


def _webp(head: bytes) -> PictureFacts | None:
    match head[12:16]:
        case b"VP8X" if len(head) >= 30:
            width, height = _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L" if len(head) >= 25:
            bits = _little(head[21:25])
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if len(head) >= 30:
            width, height = _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case _:
            return None
    return PictureFacts("image/webp", width, height)


def _big(part: bytes) -> int:
    return int.from_bytes(part, "big")


def _little(part: bytes) -> int:
    return int.from_bytes(part, "little")
