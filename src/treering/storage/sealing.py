"""Sealed content: what is encrypted, how its bytes lie, and how it is opened again.

    0x01 ‖ generation of the key, 4 bytes, big-endian ‖ nonce, 12 bytes ‖ ciphertext and tag

The cipher is AES-256-GCM. What is sealed is bound to its place: the scope and the event's key, or
the blob's, are authenticated with it, so that it cannot be opened anywhere else.

Of a sealed event one box holds the salt and the payload, or the stub of its blob. It is stored
in the column of the salt. The salt is part of it because the digest of the content stays
legible: with the salt beside it, a short payload could be guessed back.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.errors import Corrupt, KeyMissing, Unsupported
from treering.ledger.chain import SALT_BYTES
from treering.model.codec import encode
from treering.model.events import REDACTED, Header
from treering.model.kinds import ERASURE_KINDS
from treering.storage.encoding import decompress, stub, unspilled
from treering.storage.repeats import same_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.ledger.ports import Key, Vault
    from treering.ledger.records import Draft, Unread

KEY_BYTES: Final = 32
_MARK: Final = 0x01
"""The first byte of what is sealed; no zstd frame begins with it."""
_GENERATION: Final = slice(1, 5)
_NONCE: Final = slice(5, 17)
_SEALED_BYTES_MIN: Final = 17 + 16
_BLOB_PURPOSE: Final = b"treering.blob.v1"
_GONE: Final = encode(REDACTED)


class AesKey:
    """One generation of a scope's key."""

    __slots__ = ("_cipher", "_digest_key", "_opening", "_unopened", "generation", "is_proved")

    def __init__(self, generation: int, material: bytes) -> None:
        self.generation = generation
        self.is_proved = False
        self._opening = bytes([_MARK]) + generation.to_bytes(4, "big")
        self._cipher = cipher()(material)
        self._unopened = _unopened()
        self._digest_key = hmac.digest(material, _BLOB_PURPOSE, "sha256")

    def seal(self, plain: bytes, bound_to: bytes) -> bytes:
        """Return ``plain`` encrypted; it opens only together with ``bound_to``."""
        nonce = os.urandom(12)
        sealed: bytes = self._cipher.encrypt(nonce, plain, bound_to)
        return self._opening + nonce + sealed

    def unseal(self, sealed: bytes, bound_to: bytes) -> bytes:
        """Return what was sealed. Raise Corrupt if it was changed, or belongs elsewhere."""
        try:
            plain: bytes = self._cipher.decrypt(sealed[_NONCE], sealed[_NONCE.stop :], bound_to)
        except self._unopened as error:
            raise Corrupt(
                "a sealed payload was changed after it was sealed",
                hint="run treering verify; if it says so everywhere, the key is another one",
            ) from error
        return plain

    def digest(self, plain: bytes) -> bytes:
        """Return a hash of ``plain`` that nobody without the key can compare a guess with."""
        return hmac.digest(self._digest_key, plain, "sha256")


def cipher() -> Any:
    """Return the cipher's class. Raise Unsupported if it is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise Unsupported(
            "sealed payloads need the package cryptography",
            hint="install it: pip install 'treering[encryption]'",
        ) from error
    return AESGCM


def _unopened() -> type[Exception]:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (optional)

    return InvalidTag


def is_sealable(kind: str) -> bool:
    """Whether payloads of a kind are sealed in a scope that is.

    What vouches for erasures holds no content, and has to be read when the key is gone.
    """
    return kind not in ERASURE_KINDS


def check_unsealed(scope: str, *, has_key: bool, has_boxes: Callable[[], bool]) -> None:
    """Raise Corrupt if a scope without a mark was encrypted: the mark was removed.

    ``has_key`` says whether a key of the scope was in use before the mark was looked for,
    ``has_boxes`` whether sealed content was recorded in the scope lately.
    """
    if has_key or has_boxes():
        raise Corrupt(
            f"scope {scope} was encrypted, but the ledger no longer says so: it was changed from"
            " outside, and nothing is recorded there in plain text",
            hint=f"run treering verify, then treering keys create --scope {scope}",
        )


def prove(key: Key, scope: str, boxes: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise KeyMissing if ``key`` opens none of the boxes that its generation sealed.

    ``boxes`` are those of the scope's last events, with their keys.
    """
    sealed = [(at, box) for at, box in boxes if generation_of(box) == key.generation]
    if sealed and not any(_opens(key, _place(scope, at), box) for at, box in sealed):
        raise KeyMissing(
            f"the key of scope {scope} is another one than that which sealed its last payloads",
            hint="put back the key file that belongs to this ledger",
        )
    key.is_proved = True


def _opens(key: Key, place: bytes, box: bytes) -> bool:
    try:
        key.unseal(box, place)
    except Corrupt:
        return False
    return True


def is_box(salt: bytes | None) -> bool:
    """Whether the column of the salt holds sealed content."""
    return salt is not None and len(salt) > SALT_BYTES


def is_sealed(body: bytes) -> bool:
    """Whether a blob's body is sealed."""
    return body[:1] == b"\x01"


def generation_of(sealed: bytes) -> int:
    """Return the generation of the key that opens ``sealed``."""
    return int.from_bytes(sealed[_GENERATION], "big")


def seal_content(key: Key, scope: str, event_key: bytes, salt: bytes, content: bytes) -> bytes:
    """Return the box of an event; ``content`` is its payload, or the stub of its blob."""
    return key.seal(salt + content, _place(scope, event_key))


def seal_blob(key: Key, scope: str, blob_key: bytes, body: bytes) -> bytes:
    """Return a blob's body, sealed; ``blob_key`` is ``key.digest`` of the payload."""
    return key.seal(body, _place(scope, blob_key))


class Stored(NamedTuple):
    """Content as it is stored: plain, or sealed."""

    salt: bytes | None
    payload: bytes | None
    blob_key: bytes | None = None
    blob: bytes | None = None


def stored_content(
    key: Key | None,
    scope: tuple[str, bytes],
    event_key: bytes,
    salt: bytes | None,
    payload: bytes | None,
    body: bytes | None,
) -> Stored:
    """Return content as it is stored, sealed under ``key`` if there is one.

    ``scope`` is its name and its key for hashes; ``body`` the payload compressed, if it is large.
    """
    if payload is None or salt is None:
        return Stored(salt, payload)
    name, scope_key = scope
    inline = payload if body is None else stub(payload)
    if key is None:
        blob_key = None if body is None else hmac.digest(scope_key, payload, "sha256")
        return Stored(salt, inline, blob_key, body)
    box = seal_content(key, name, event_key, salt, inline)
    if body is None:
        return Stored(box, None)
    blob_key = key.digest(payload)
    return Stored(box, None, blob_key, seal_blob(key, name, blob_key, body))


class Opener:
    """Opens what is sealed, with the keys of one vault."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def content(self, scope: str, event_key: bytes, box: bytes) -> tuple[bytes, bytes] | None:
        """Return salt and content of an event, or None if the key was destroyed.

        Raise KeyMissing if the key is not here, Corrupt if the box was changed.
        """
        plain = self._open(scope, event_key, box)
        return None if plain is None else (plain[:SALT_BYTES], plain[SALT_BYTES:])

    def payload(self, scope: str, event_key: bytes, box: bytes) -> bytes:
        """Return the payload that a reader gets; one that cannot be opened reads as redacted."""
        opened = self.content(scope, event_key, box)
        return _GONE if opened is None else opened[1]

    def blob(self, scope: str, blob_key: bytes, body: bytes) -> bytes | None:
        """Return the payload that a blob holds, or None if the key was destroyed."""
        plain = self._open(scope, blob_key, body) if is_sealed(body) else body
        return None if plain is None else decompress(plain)

    def blob_key(self, scope: str, blob_key: bytes, body: bytes) -> bytes | None:
        """Return the key that a sealed blob has to lie under; None if it cannot be opened."""
        try:
            payload = self.blob(scope, blob_key, body)
            key = self._vault.find(scope, generation_of(body))
        except KeyMissing:
            return None
        return None if payload is None or key is None else key.digest(payload)

    def is_misplaced(self, scope: str, scope_key: bytes, key: bytes, body: bytes) -> bool:
        """Whether a blob is damaged, or lies under another key than its own."""
        try:
            if is_sealed(body):
                made = self.blob_key(scope, key, body)
                return made is not None and made != key
            return hmac.digest(scope_key, decompress(body), "sha256") != key
        except (Corrupt, ValueError):
            return True

    def says_the_same(self, draft: Draft, header: Header, event_key: bytes, salt: bytes) -> bool:
        """Whether a draft says what was recorded; ``salt`` may be the box of a sealed payload."""
        if is_box(salt):
            opened = self.content(draft.scope, event_key, salt)
            if opened is None:
                return True  # Its key was destroyed: it is known, and that is all.
            salt = opened[0]
        return same_stored(draft, header, salt)

    def recorded(
        self,
        scope: str,
        event_key: bytes,
        salt: bytes | None,
        stored: bytes | None,
        blob: Callable[[], bytes | None] | None,
    ) -> tuple[bytes | None, bytes | None, Unread | None]:
        """Return salt and payload as they were recorded, or why they cannot be read.

        ``stored`` is in the column of the payload; ``blob`` reads the blob it was spilled to.
        """
        try:
            if salt is not None and is_box(salt):
                if stored is not None:
                    return None, None, "damaged"
                opened = self.content(scope, event_key, salt)
                if opened is None:
                    return None, None, "destroyed"
                salt, stored = opened
            payload = stored if blob is None else unspilled(stored, blob())
        except KeyMissing:
            return None, None, "missing"
        except Corrupt:
            return None, None, "damaged"
        return salt, payload, None

    def _open(self, scope: str, place: bytes, sealed: bytes) -> bytes | None:
        if len(sealed) < _SEALED_BYTES_MIN or sealed[0] != _MARK:
            raise Corrupt(
                "the column of a sealed payload is not empty, and not a mirror",
                hint="keep a copy, then run treering verify and restore from an export",
            )
        key = self._vault.find(scope, generation_of(sealed))
        return None if key is None else key.unseal(sealed, _place(scope, place))


def _place(scope: str, key: bytes) -> bytes:
    # No scope holds a NUL, so two different places never read the same.
    return scope.encode() + b"\0" + key
