"""Bookmarks: how far somebody has come who reads other things than the ledger for it."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from treering.model.codec import decode, encode

if TYPE_CHECKING:
    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope

_PREFIX: Final = "bookmark:"


class Bookmarks:
    """Notes of one scope, kept in the ledger itself: a ledger that is gone took them along."""

    def __init__(self, store: EventStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope

    def find(self, name: str) -> Any:
        """Return what was noted under ``name``; None if nothing was, or it cannot be read."""
        kept = self._store.cursor(self._scope, _key(name))
        try:
            return None if not kept else decode(kept.encode())
        except ValueError:
            return None

    def keep(self, name: str, note: Any) -> None:
        """Note something as JSON under ``name``, in place of what was noted before."""
        self._store.set_cursor(self._scope, _key(name), encode(note).decode())


def _key(name: str) -> str:
    # A name may be a path, which may name a person.
    return _PREFIX + sha256(name.encode(errors="surrogateescape")).hexdigest()[:32]
