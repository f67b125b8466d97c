"""Ids of events that come from logs: the same whenever, and by whichever way, they come.

An id that is made of what was said is hashed under a key that lies apart from the ledger: ids stay
when words are erased, and nobody may find the words by trying guesses.
"""

from __future__ import annotations

import hmac
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from uuid_utils import UUID

from treering.errors import InvalidInput
from treering.formats.parsed import is_content_key, without_mark
from treering.model.fields import check_id, check_name

if TYPE_CHECKING:
    from collections.abc import Callable

NAME_DIGITS = 16


class EventIds:
    """Makes the ids of events, and the names of sessions, of one format's logs."""

    def __init__(self, form: str, id_key: Callable[[], bytes]) -> None:
        self._form = form
        self._id_key = id_key
        self._legacy: set[str] = set()
        """Sessions that a ledger knows by the names that earlier versions gave them."""

    def keep_legacy_name(self, session: str) -> None:
        """Go on with the name that an earlier version gave a session."""
        self._legacy.add(session)

    def named(self, session: str, key: str) -> str:
        """Return the id of an event whose key holds within a session."""
        session = without_mark(session) if session in self._legacy else session
        if not is_content_key(key) and not is_content_key(session):
            return named_id(self._form, session, key)
        return hidden_id(self._key, self._form, without_mark(session), without_mark(key))

    @cached_property
    def _key(self) -> bytes:
        return self._id_key()

    def everywhere(self, key: str) -> str:
        """Return the id of an event whose key holds everywhere: as it is, if it may be."""
        return self.named("", key) if is_content_key(key) else _global_id(self._form, key)

    def legacy(self, session: str, key: str) -> str | None:
        """Return the id that earlier versions gave an event, if they gave it another."""
        if not is_content_key(key) and not is_content_key(session):
            return None
        session, key = without_mark(session), without_mark(key)
        return named_id(self._form, session, key) if session else _global_id(self._form, key)

    def hidden(self, value: Any) -> Any:
        """Return a JSON value with the names in it that are made of words hidden."""
        if isinstance(value, str):
            return self._hidden_name(value) if is_content_key(value) else value
        if isinstance(value, dict):
            return {at: self.hidden(part) for at, part in value.items()}
        return [self.hidden(part) for part in value] if isinstance(value, list) else value

    def session(self, name: str) -> str:
        """Return the name of a session, as it is if a ledger can hold it."""
        if name in self._legacy or not is_content_key(name):
            return ledger_name(without_mark(name), self._form)
        return self._hidden_name(name)

    def _hidden_name(self, name: str) -> str:
        told = f"{self._form}\0{without_mark(name)}".encode(errors="surrogatepass")
        return f"{self._form}-{_digest(self._key, told).hex()[:NAME_DIGITS]}"


def named_id(form: str, session: str, key: str) -> str:
    """Return the id of an event of a log: the same for the same key, however often it is read."""
    return _uuid(sha256(_told(form, session, key)).digest())


def hidden_id(id_key: bytes, form: str, session: str, key: str) -> str:
    """Return the id of an event whose key is made of what it says."""
    return _uuid(_digest(id_key, _told(form, session, key)))


def ledger_name(session: str, form: str, between: str = "-") -> str:
    """Return the name of a session, or an agent, as it is if a ledger can hold it."""
    try:
        return check_name(session, "name")
    except InvalidInput:
        digest = sha256(session.encode(errors="surrogatepass")).hexdigest()[:NAME_DIGITS]
        return f"{form}{between}{digest}"


def _global_id(form: str, key: str) -> str:
    try:
        return check_id(key)
    except InvalidInput:
        return named_id(form, "", key)


def _told(form: str, session: str, key: str) -> bytes:
    return f"{form}\0{session}\0{key}".encode(errors="surrogatepass")


def _digest(id_key: bytes, told: bytes) -> bytes:
    return hmac.digest(id_key, told, "sha256")


def _uuid(digest: bytes) -> str:
    """Return a digest in the layout of a UUID of version 8, which is free for digests."""
    made = bytearray(digest[:16])
    made[6] = 0x80 | made[6] & 0x0F
    made[8] = 0x80 | made[8] & 0x3F
    return str(UUID(bytes=bytes(made)))
