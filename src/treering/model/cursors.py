"""Cursors: opaque text that says where to go on."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

import msgspec

from treering.errors import InvalidCursor

Parts = TypeVar("Parts")


def pack(parts: Any) -> str:
    """Return ``parts`` as a cursor."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(parts)).decode().rstrip("=")


def unpack(cursor: str, parts: type[Parts]) -> Parts:
    """Return what ``pack`` was given. Raises InvalidCursor if that cannot be."""
    try:
        body = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(body, type=parts)
    except (binascii.Error, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor(
            "the cursor is damaged", hint="pass it exactly as it was given"
        ) from error
