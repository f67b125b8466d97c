"""File names made from ids: safe inside their folder, and distinct on every file system."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

NAME_CHARACTERS_MAX: Final = 200
"""Longer names are cut and end in a digest; file systems allow 255 bytes."""

_KEPT_CHARACTERS: Final = 150
_DIGEST_DIGITS: Final = 32
_DOT: Final = ord(".")
# Capitals are encoded as well: some file systems ignore case.
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


def file_name(text: str) -> str:
    """Return ``text`` percent-encoded, so that different texts never share a name.

    Percent-decoding restores the text, unless ``%%`` marks a name that was cut.
    """
    plain = text.encode(errors="surrogatepass")
    last = len(plain) - 1
    name = "".join(
        chr(byte) if byte in _PLAIN or (byte == _DOT and 0 < at < last) else f"%{byte:02x}"
        for at, byte in enumerate(plain)
    )
    return name if len(name) <= NAME_CHARACTERS_MAX else with_digest(name, plain)


def with_digest(name: str, identity: bytes) -> str:
    """Return ``name`` with a digest of ``identity`` appended, which no encoded text has."""
    return f"{name[:_KEPT_CHARACTERS]}%%{sha256(identity).hexdigest()[:_DIGEST_DIGITS]}"
