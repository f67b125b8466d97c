"""Ids of events that come from logs: the same whenever, and by whichever way, they come."""

from __future__ import annotations

from hashlib import sha256

from uuid_utils import UUID

from treering.errors import InvalidInput
from treering.model.fields import check_id


def named_id(form: str, session: str, key: str) -> str:
    """Return the id of an event of a log: the same for the same key, however often it is read."""
    told = f"{form}\0{session}\0{key}".encode(errors="surrogatepass")
    digest = bytearray(sha256(told).digest()[:16])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return str(UUID(bytes=bytes(digest)))


def global_id(form: str, key: str) -> str:
    """Return the id of an event whose key holds everywhere: as it is, if a ledger can hold it."""
    try:
        return check_id(key)
    except InvalidInput:
        return named_id(form, "", key)
