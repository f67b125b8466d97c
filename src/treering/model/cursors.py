"""Cursors: opaque text that marks where a listing continues."""

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
    """Return the parts that were packed. Raises InvalidCursor if the cursor is invalid."""
    try:
        body = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(body, type=parts)
    except (binascii.Error, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor("the cursor is damaged", hint="pass the cursor unchanged") from error
