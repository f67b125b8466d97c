"""What a token permits, and the file that stores the hashes of tokens."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from treering.errors import InvalidInput, NotAuthenticated, NotFound, NotPermitted, StorageError
from treering.files import replacing
from treering.model.scopes import Scope, parse_scope

Right = Literal["read", "write", "erase"]

RIGHTS: Final[tuple[Right, ...]] = ("read", "write", "erase")
TOKEN_PREFIX: Final = "trt_"  # noqa: S105  (how every token begins, so that people recognise one)
TOKEN_CHARACTERS_MAX: Final = 200
FILE_VERSION: Final = 1
_SECRET_BYTES: Final = 32
_ID_CHARACTERS: Final = 8


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What the holder of a token may do."""

    id: str
    """The beginning of the token's hash: names the token without revealing it."""
    name: str
    rights: tuple[Right, ...]
    scopes: tuple[str, ...] = ()
    """The scopes that it covers; all if empty."""
    expires_ms: int | None = None

    def covers(self, scope: str) -> bool:
        """Return whether the token is good for a scope."""
        return not self.scopes or scope in self.scopes

    def check(self, right: Right, scopes: Iterable[Scope]) -> None:
        """Raise NotPermitted unless the token has ``right`` in every one of ``scopes``."""
        if right not in self.rights:
            raise NotPermitted(
                f"the token may not {right}", hint=f"use a token with the right to {right}"
            )
        for scope in scopes:
            if not self.covers(scope):
                raise NotPermitted(
                    f"the token is not for scope {scope}", hint="use a token for this scope"
                )


class StoredToken(Grant, frozen=True, kw_only=True):
    """A token as its file stores it."""

    hash: str
    created_ms: int


class _TokenList(msgspec.Struct, frozen=True, kw_only=True):
    version: int = FILE_VERSION
    tokens: list[StoredToken] = []


def new_token() -> str:
    """Return a random token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def token_hash(token: str) -> str:
    """Return the hash by which a token is recognised; 256 random bits need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenFile:
    """A file of token hashes, readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_at: tuple[int, int, int] | None = None
        self._tokens: dict[str, StoredToken] = {}

    def tokens(self) -> list[StoredToken]:
        """Return all tokens, the oldest first; none if the file does not exist."""
        return list(self.by_hash().values())

    def add(
        self,
        *,
        name: str,
        rights: Sequence[Right],
        scopes: Sequence[str],
        expires_ms: int | None,
        now_ms: int,
    ) -> tuple[str, StoredToken]:
        """Make a token and store its hash; return the token, which is stored nowhere."""
        unknown = [right for right in rights if right not in RIGHTS]
        if unknown or not rights:
            raise InvalidInput(
                f"invalid right: {', '.join(unknown) or '<none>'}", hint=f"use {', '.join(RIGHTS)}"
            )
        token = new_token()
        digest = token_hash(token)
        stored = StoredToken(
            id=digest[:_ID_CHARACTERS],
            name=name,
            rights=tuple(right for right in RIGHTS if right in rights),
            scopes=tuple(dict.fromkeys(parse_scope(scope) for scope in scopes)),
            expires_ms=expires_ms,
            hash=digest,
            created_ms=now_ms,
        )
        with self._changing() as tokens:
            tokens.append(stored)
        return token, stored

    def remove(self, token_id: str) -> StoredToken:
        """Remove a token; a running server refuses it from then on. Raise NotFound."""
        with self._changing() as tokens:
            for token in tokens:
                if token.id == token_id:
                    tokens.remove(token)
                    return token
        raise NotFound(f"no token {token_id} in {self.path}", hint="see treering tokens list")

    def by_hash(self) -> dict[str, StoredToken]:
        """Return the tokens by hash; the file is read again after it has changed."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return {}
        read_at = (status.st_mtime_ns, status.st_ino, status.st_size)
        if read_at != self._read_at:
            self._tokens = {token.hash: token for token in self._read()}
            self._read_at = read_at
        return self._tokens

    def _read(self) -> list[StoredToken]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            listed = msgspec.json.decode(content, type=_TokenList)
        except msgspec.MsgspecError as error:
            raise _unreadable(self.path) from error
        if listed.version != FILE_VERSION:
            raise _unreadable(self.path)
        return listed.tokens

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[StoredToken]]:
        """Yield the tokens to change; one process at a time, and the whole file is replaced."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Path(f"{self.path}.lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = self._read()
            yield tokens
            with replacing(self.path) as stream:
                stream.write(msgspec.json.format(msgspec.json.encode(_TokenList(tokens=tokens))))


class TokenSet:
    """The tokens that a server accepts: those of a file, and the one made at its start."""

    def __init__(
        self, clock: Callable[[], int], *, file: TokenFile | None = None, token: str | None = None
    ) -> None:
        self._clock = clock
        self._file = file
        self._token = token

    def grant_of(self, token: str) -> Grant:
        """Return what a token permits. Raise NotAuthenticated if it is unknown or expired."""
        if len(token) <= TOKEN_CHARACTERS_MAX and token.isascii():
            if self._token is not None and hmac.compare_digest(token, self._token):
                return Grant(id="start", name="made at the start", rights=RIGHTS)
            grant = None if self._file is None else self._file.by_hash().get(token_hash(token))
            if grant is not None:
                if grant.expires_ms is None or self._clock() < grant.expires_ms:
                    return grant
                raise NotAuthenticated(
                    "the token has expired", hint="make one: treering tokens add"
                )
        raise NotAuthenticated("the token is unknown", hint="send Authorization: Bearer <token>")


def _unreadable(path: Path) -> StorageError:
    return StorageError(f"{path} is not a token file", hint="restore it, or create a new one")
