"""Names of files made from ids: inside their folder, and distinct on every disk."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

NAME_CHARACTERS_MAX: Final = 200
"""Longer names are cut and end in a digest; file systems take 255 bytes."""

_KEPT_CHARACTERS: Final = 150
_DIGEST_DIGITS: Final = 32
_DOT: Final = ord(".")
# Capitals are written out as well: some disks take A for a.
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


def file_name(text: str) -> str:
    """Return ``text`` percent-encoded, so that no two texts share a name whatever the disk.

    Percent-decoding gives the text back, unless ``%%`` says that the name was cut.
    """
    plain = text.encode(errors="surrogatepass")
    last = len(plain) - 1
    name = "".join(
        chr(byte) if byte in _PLAIN or (byte == _DOT and 0 < at < last) else f"%{byte:02x}"
        for at, byte in enumerate(plain)
    )
    return name if len(name) <= NAME_CHARACTERS_MAX else with_digest(name, plain)


def with_digest(name: str, told_apart_by: bytes) -> str:
    """Return ``name`` with an ending of its own, such as no encoded text has."""
    return f"{name[:_KEPT_CHARACTERS]}%%{sha256(told_apart_by).hexdigest()[:_DIGEST_DIGITS]}"
