"""What importers need of a ledger beyond recording and reading: repeats, bookmarks, hidden ids.

They hold digests of what was read, and no erasure reaches them. So they are encrypted under the key
that hides ids, which is stored outside the ledger.
"""

from __future__ import annotations

import hmac
import os
from functools import partial
from hashlib import shake_256
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.lazy import LazyModule
from treering.ledger.records import ID_NOTES, MADE_IDS, mark_of_key
from treering.model.arguments import checks_arguments
from treering.model.codec import decode, encode
from treering.model.events import Header
from treering.model.fields import check_events, check_id, check_list, check_name
from treering.model.keyed_hash import keyed_hash
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    import base64
    from collections.abc import Callable, Mapping, Sequence

    import zstandard

    from treering.ledger.engine import Engine
    from treering.ledger.ports import EventStore
    from treering.model.events import NewEvent
    from treering.model.scopes import Scope
else:
    base64 = LazyModule("base64")
    zstandard = LazyModule("zstandard")


@checks_arguments
class ImportAccess:
    """What an importer needs of a ledger: ``ledger.importing``."""

    def __init__(
        self, store: EventStore, engine: Engine, withdraw: Callable[[Scope, tuple[str, ...]], None]
    ) -> None:
        self._store = store
        self._engine = engine
        self._withdraw = withdraw

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> tuple[list[Header], list[str]]:
        """Record as ``ledger.append`` does; return the headers, and the ids that were new."""
        listed = check_events(events)
        new: list[Header] = []
        if not listed:
            return [], []
        headers = self._engine.append(listed, expected_seq=expected_seq, new=new)
        return headers, [header.event_id for header in new]

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record as ``ledger.append`` does; return only the headers of events that were new."""
        listed = check_events(events)
        return self._engine.append_missing(listed) if listed else []

    def withdraw(self, scope: str, event_ids: Sequence[str]) -> None:
        """Erase events that a reader should not have made of a log.

        Transcripts that hold the log itself stay: see ``ledger.redact`` to erase what it says.
        """
        ids = tuple(map(check_id, check_list(event_ids, "event_ids")))
        self._withdraw(parse_scope(scope), ids)

    def is_unknown(self, scope: str, session_id: str) -> bool:
        """Return whether a session has no events, not even before a fork: cheaper than a handle."""
        name = check_name(session_id, "session_id")
        reader = self._store.reader
        return not reader.last_by_seq(Header, parse_scope(scope), name, before_seq=None, limit=1)

    def close_silent_runs(self, scope: str | None, *, prefix: str, silent_ms: int) -> set[str]:
        """Close imported runs whose ends never came, as interrupted; return those that stay open.

        Runs whose ids begin with ``prefix``, if nothing was recorded in their session for so long;
        without a scope, those of all scopes.
        """
        name = None if scope is None else parse_scope(scope)
        return self._engine.close_silent(name, prefix=prefix, silent_ms=silent_ms)

    def bookmarks(self, scope: str) -> Bookmarks:
        """Return the notes that importers keep in a scope about how far they have read.

        Raise KeyMissing if the scope was used with another key that hides ids.
        """
        name = parse_scope(scope)
        find_id_key(self._store, name)
        return Bookmarks(self._store, name)

    def id_key(self, scope: str | None = None) -> bytes:
        """Return the key that hides ids made from words; it is in the folder of keys.

        With a scope, the scope notes which key it is. Raise KeyMissing if it noted another one.
        """
        if scope is None:
            return self._store.vault.id_key()
        return id_key(self._store, parse_scope(scope))

    def rekeyed_ms(self) -> int | None:
        """Return when ids that words can be guessed from were hidden in this ledger.

        None if it never held any: it was made by a version that makes none.
        """
        return self._store.reader.rekeyed_ms()


_PREFIX: Final = "bookmark:"
_BASE_64: Final = ":"
"""The prefix of a note in base 64. Older ones are in base 85, which takes Python a millisecond."""
PACKED_BYTES_MIN: Final = 1_024
"""Shorter notes are not compressed."""
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
    """Note the key that is here in a scope, in place of any that was noted before."""
    mark = mark_of_key(store.vault.id_key())
    for name in ID_NOTES:
        store.cursors.set(scope, name, mark)


@checks_arguments
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
            return None if not sealed else decode(_unpacked(self._opened(_decoded(sealed))))
        except ValueError:
            return None

    def keep(self, name: str, note: Any) -> None:
        """Keep a JSON value under ``name``, in place of the one before."""
        self.keep_all({name: note})

    def keep_all(self, notes: Mapping[str, Any]) -> None:
        """Keep JSON values under their names, in one commit."""
        sealed = {
            self._key(name): _BASE_64 + base64.b64encode(self._sealed(_packed(note))).decode()
            for name, note in notes.items()
        }
        self._store.cursors.set_all(self._scope, sealed)
        id_key(self._store, self._scope)

    def _key(self, name: str) -> str:
        # A name may be a path, which may name a person.
        if not isinstance(name, str):
            raise InvalidInput(f"a name is a {type(name).__name__}, not text", hint="give a text")
        encoded = name.encode(errors="surrogateescape")
        return _PREFIX + keyed_hash(self._store.vault.id_key(), encoded).hex()[:32]

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
        return keyed_hash(self._store.vault.id_key(), nonce + plain)[:_CHECK_BYTES]

    def _masked(self, nonce: bytes, text: bytes) -> bytes:
        """Return ``text`` added to a stream of the key and ``nonce``; twice gives it back."""
        stream = shake_256(b"treering.bookmark.v1" + self._store.vault.id_key() + nonce)
        mask = int.from_bytes(stream.digest(len(text)), "big")
        return (int.from_bytes(text, "big") ^ mask).to_bytes(len(text), "big")


def _packed(note: Any) -> bytes:
    """Return a note as JSON; a long one compressed, for most have the same few ids many times."""
    plain = encode(note)
    if len(plain) < PACKED_BYTES_MIN:
        return plain
    return zstandard.ZstdCompressor(level=1).compress(plain)


def _unpacked(packed: bytes) -> bytes:
    """Return the JSON of a note, which may be of a version that compressed none."""
    is_plain = not packed.startswith(zstandard.FRAME_HEADER)
    return packed if is_plain else zstandard.ZstdDecompressor().decompress(packed)


def _decoded(note: str) -> bytes:
    if note.startswith(_BASE_64):
        return base64.b64decode(note[len(_BASE_64) :], validate=True)
    return base64.b85decode(note)
