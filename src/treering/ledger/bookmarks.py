"""Bookmarks: how far an importer has read each file, kept in the ledger.

They hold digests of what was read, and no erasure reaches them. So they are encrypted under the key
that hides ids, which is stored outside the ledger.
"""

from __future__ import annotations

import hmac
import os
from base64 import b64decode, b64encode, b85decode
from functools import partial
from hashlib import shake_256
from typing import TYPE_CHECKING, Any, Final

from treering.ledger.records import ID_NOTES, MADE_IDS, mark_of_key
from treering.model.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope

_PREFIX: Final = "bookmark:"
_BASE_64: Final = ":"
"""The prefix of a note in base 64. Older ones are in base 85, which takes Python a millisecond."""
_NONCE_BYTES: Final = 16
_CHECK_BYTES: Final = 8


def find_id_key(store: EventStore, scope: Scope) -> bytes:
    """Return the key that hides the ids of a scope; nothing if none was needed yet.

    Raises KeyMissing if the scope was used with a key other than this one.
    """
    return store.vault.find_id_key(scope, partial(store.cursors.find, scope), *ID_NOTES)


def id_key(store: EventStore, scope: Scope) -> bytes:
    """Return the key that hides the ids of a scope, and note in the scope which one it is.

    Raises KeyMissing if the scope was used with a key other than this one.
    """
    key = find_id_key(store, scope) or store.vault.id_key()
    if store.cursors.find(scope, MADE_IDS) is None:
        store.cursors.set(scope, MADE_IDS, mark_of_key(key))
    return key


def accept_id_key(store: EventStore, scope: Scope) -> None:
    """Note in a scope the key that is here, whichever it noted before."""
    mark = mark_of_key(store.vault.id_key())
    for name in ID_NOTES:
        store.cursors.set(scope, name, mark)


class Bookmarks:
    """The notes of one scope, kept in the ledger itself: they are lost with it."""

    def __init__(self, store: EventStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._is_checked = False
        """Whether this key is known to be the scope's."""

    def find(self, name: str) -> Any:
        """Return the note under ``name``; None if there is none, or it cannot be read."""
        return self.find_all([name])[name]

    def find_all(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the notes under ``names``; None for one that is not there or cannot be read."""
        if not self._is_checked and not find_id_key(self._store, self._scope):
            return dict.fromkeys(names)
        self._is_checked = True
        keys = {name: self._key(name) for name in names}
        sealed = self._store.cursors.find_all(self._scope, list(keys.values()))
        return {name: self._note(sealed.get(key)) for name, key in keys.items()}

    def _note(self, sealed: str | None) -> Any:
        try:
            return None if not sealed else decode(self._opened(_decoded(sealed)))
        except ValueError:
            return None

    def keep(self, name: str, note: Any) -> None:
        """Keep a JSON value under ``name``, in place of the one before."""
        self.keep_all({name: note})

    def keep_all(self, notes: Mapping[str, Any]) -> None:
        """Keep JSON values under their names, in one commit."""
        sealed = {
            self._key(name): _BASE_64 + b64encode(self._sealed(encode(note))).decode()
            for name, note in notes.items()
        }
        self._store.cursors.set_all(self._scope, sealed)
        id_key(self._store, self._scope)

    def _key(self, name: str) -> str:
        # A name may be a path, which may name a person.
        encoded = name.encode(errors="surrogateescape")
        return _PREFIX + hmac.digest(self._store.vault.id_key(), encoded, "sha256").hex()[:32]

    def _sealed(self, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._masked(nonce, plain + self._check(nonce, plain))

    def _opened(self, sealed: bytes) -> bytes:
        """Return the plain text. Raises ValueError if it was not sealed under this key."""
        nonce = sealed[:_NONCE_BYTES]
        opened = self._masked(nonce, sealed[_NONCE_BYTES:])
        plain, check = opened[:-_CHECK_BYTES], opened[-_CHECK_BYTES:]
        if not hmac.compare_digest(check, self._check(nonce, plain)):
            raise ValueError("this is not a bookmark, or its key is not here")
        return plain

    def _check(self, nonce: bytes, plain: bytes) -> bytes:
        return hmac.digest(self._store.vault.id_key(), nonce + plain, "sha256")[:_CHECK_BYTES]

    def _masked(self, nonce: bytes, text: bytes) -> bytes:
        """Return ``text`` added to a stream of the key and ``nonce``; twice gives it back."""
        stream = shake_256(b"treering.bookmark.v1" + self._store.vault.id_key() + nonce)
        mask = int.from_bytes(stream.digest(len(text)), "big")
        return (int.from_bytes(text, "big") ^ mask).to_bytes(len(text), "big")


def _decoded(note: str) -> bytes:
    if note.startswith(_BASE_64):
        return b64decode(note[len(_BASE_64) :], validate=True)
    return b85decode(note)
