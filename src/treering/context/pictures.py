"""Sizes of pictures, sounds and documents, from the first bytes of their files."""

from __future__ import annotations

import base64
import binascii
import re
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.model.media import Media

HEAD_CHARACTERS: Final = 262_144
"""Base64 characters of a picture that are read: its size comes before its pixels."""
SOUND_BYTES_PER_SECOND: Final = 4_000
"""A sound of unknown length has at least this many bytes per second."""
PAGE_BYTES: Final = 50_000
"""Bytes per page of a document whose pages cannot be counted."""

_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG markers that are followed by the size."""


def size_of(media: Media) -> tuple[int, int] | None:
    """Return width and height of a picture in pixels; None if unknown."""
    raw = _bytes(media, HEAD_CHARACTERS)
    if raw.startswith(b"\x89PNG") and len(raw) >= 24:
        return _pair(raw, 16, 4, "big")
    if raw.startswith(b"GIF8") and len(raw) >= 10:
        return _pair(raw, 6, 2, "little")
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return _webp(raw)
    return _jpeg(raw) if raw.startswith(b"\xff\xd8") else None


def seconds_of(media: Media) -> int:
    """Return the length of a sound, rounded up."""
    head = _bytes(media, 64)
    per_second = SOUND_BYTES_PER_SECOND
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and len(head) >= 32:
        per_second = int.from_bytes(head[28:32], "little") or per_second
    return max(1, ceil(media.size / per_second))


def pages_of(media: Media) -> int:
    """Return the number of pages of a document, counted or estimated."""
    counted = len(_PAGE.findall(_bytes(media, None)))
    return counted or max(1, ceil(media.size / PAGE_BYTES))


def _bytes(media: Media, characters: int | None) -> bytes:
    text = (media.data or "")[:characters]
    text = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _pair(raw: bytes, at: int, width: int, order: str) -> tuple[int, int]:
    little = order == "little"
    first = int.from_bytes(raw[at : at + width], "little" if little else "big")
    second = int.from_bytes(raw[at + width : at + 2 * width], "little" if little else "big")
    return first, second


def _webp(raw: bytes) -> tuple[int, int] | None:
    chunk = raw[12:16]
    if chunk == b"VP8X" and len(raw) >= 30:
        return (
            int.from_bytes(raw[24:27], "little") + 1,
            int.from_bytes(raw[27:30], "little") + 1,
        )
    if chunk == b"VP8L" and len(raw) >= 25:
        bits = int.from_bytes(raw[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and len(raw) >= 30:
        width, height = _pair(raw, 26, 2, "little")
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        if raw[at + 1] in _FRAMES:
            height, width = _pair(raw, at + 5, 2, "big")
            return width, height
        at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return None
