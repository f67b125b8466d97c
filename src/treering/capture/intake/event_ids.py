"""Ids of events that come from logs: the same at every reading, from any copy.

An id that is made of words is hashed under a key that is stored outside the ledger: ids stay when
words are erased, and must not let anyone find the words by guessing.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.formats.parsed import is_content_key, without_mark
from treering.model.fields import check_id, check_name
from treering.model.keyed_hash import keyed_hash

if TYPE_CHECKING:
    from collections.abc import Callable

NAME_DIGITS = 16
_VARIANTS: Final = {f"{digit:x}": f"{0x8 | digit & 0x3:x}" for digit in range(16)}
"""The digit of a UUID that has two bits of its variant, by the digit in its place."""


class EventIds:
    """Makes the ids of events, and the names of sessions, of one format's logs."""

    def __init__(self, format_name: str, id_key: Callable[[], bytes]) -> None:
        self._format = format_name
        self._id_key = id_key
        self._legacy: set[str] = set()
        """Sessions that a ledger has under the names of earlier versions."""

    def keep_legacy_name(self, session: str) -> None:
        """Keep the name that an earlier version gave a session."""
        self._legacy.add(session)

    def named(self, session: str, key: str) -> str:
        """Return the id of an event whose key is unique within its session."""
        session = without_mark(session) if session in self._legacy else session
        if not is_content_key(key) and not is_content_key(session):
            return named_id(self._format, session, key)
        return hidden_id(self._key, self._format, without_mark(session), without_mark(key))

    @cached_property
    def _key(self) -> bytes:
        return self._id_key()

    def everywhere(self, key: str) -> str:
        """Return the id of an event whose key is unique anywhere: the key itself, if possible."""
        if is_content_key(key):
            return self.named("", key)
        try:
            return check_id(key)
        except InvalidInput:
            return named_id(self._format, "", key)

    def legacy(self, session: str, key: str) -> str | None:
        """Return the id that earlier versions gave an event, if it was another."""
        if not is_content_key(key) and not is_content_key(session):
            return None
        session, key = without_mark(session), without_mark(key)
        return named_id(self._format, session, key) if session else self.everywhere(key)

    def hidden(self, value: Any) -> Any:
        """Return a JSON value in which names that are made of words are hidden."""
        if isinstance(value, str):
            return self._hidden_name(value) if is_content_key(value) else value
        if isinstance(value, dict):
            return {at: self.hidden(part) for at, part in value.items()}
        return [self.hidden(part) for part in value] if isinstance(value, list) else value

    def session(self, name: str) -> str:
        """Return the name of a session: its own, if a ledger can hold that."""
        if name in self._legacy or not is_content_key(name):
            return ledger_name(without_mark(name), self._format)
        return self._hidden_name(name)

    def _hidden_name(self, name: str) -> str:
        text = f"{self._format}\0{without_mark(name)}".encode(errors="surrogatepass")
        return f"{self._format}-{keyed_hash(self._key, text).hex()[:NAME_DIGITS]}"


def named_id(format_name: str, session: str, key: str) -> str:
    """Return the id of an event of a log: the same for the same key."""
    return _uuid(sha256(_joined(format_name, session, key)).digest())


def hidden_id(id_key: bytes, format_name: str, session: str, key: str) -> str:
    """Return the id of an event whose key is made of its words."""
    return _uuid(keyed_hash(id_key, _joined(format_name, session, key)))


def ledger_name(session: str, format_name: str, between: str = "-") -> str:
    """Return the name of a session or an agent: its own, if a ledger can hold that."""
    try:
        return check_name(session, "name")
    except InvalidInput:
        digest = sha256(session.encode(errors="surrogatepass")).hexdigest()[:NAME_DIGITS]
        return f"{format_name}{between}{digest}"


def _joined(format_name: str, session: str, key: str) -> bytes:
    return f"{format_name}\0{session}\0{key}".encode(errors="surrogatepass")


def _uuid(digest: bytes) -> str:
    """Return a digest as a UUID of version 8, which is free for digests."""
    digits = digest.hex()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
