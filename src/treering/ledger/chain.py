"""The integrity chain: what is hashed, in which order.

    content_digest = SHA-256(salt ‖ [summary, refs, payload])
    header_digest  = SHA-256([event_id, run_id, …, schema_version])
    link           = SHA-256(previous link ‖ int8(seq) ‖ header_digest ‖ content_digest)

The first link of a session chains from its genesis, which holds scope and session id under a salt;
that of a fork also holds its parent's genesis and the seq and link it was forked at.
Erasing content and salt leaves the digest, so the chain still verifies and the content cannot be
guessed back. The sessions of a scope are a set, with a number and the exclusive or of their
geneses: a session is added when it is opened, and never removed.
Changing anything in this file makes every ledger unverifiable.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeAlias

from treering.model.codec import content_of, encode

if TYPE_CHECKING:
    from treering.ledger.records import ForkPoint

FixedFields: TypeAlias = tuple[
    str, str | None, int | None, str | None, str, str | None, str, str, str | None,
    int, int, str, int,
]  # fmt: skip
"""event_id, run_id, run_seq, turn_id, agent_id, user_id, kind, source, origin, ts_ms, recorded_ms,
visibility and schema_version of an event."""

SALT_BYTES: Final = 16
LINK_BYTES: Final = 32
NO_SESSIONS: Final = bytes(LINK_BYTES)
"""The digest of an empty set of sessions."""
_GENESIS_TAG: Final = b"treering.genesis.v1"
_FORK_TAG: Final = b"treering.fork.v1"


def genesis(salt: bytes, scope: str, session_id: str, cut: ForkPoint | None = None) -> bytes:
    """Return the link that the first event of a session chains from."""
    if cut is None:
        return sha256(_GENESIS_TAG + salt + encode([scope, session_id])).digest()
    parent = cut.genesis + cut.seq.to_bytes(8, "big") + cut.link
    return sha256(_FORK_TAG + salt + parent + encode([scope, session_id])).digest()


def with_session(digest: bytes, first: bytes) -> bytes:
    """Return the digest of a set of sessions after adding the one whose genesis is ``first``."""
    both = int.from_bytes(digest, "big") ^ int.from_bytes(first[:LINK_BYTES], "big")
    return both.to_bytes(LINK_BYTES, "big")


def content_digest(salt: bytes, summary: str, refs: bytes | None, payload: bytes | None) -> bytes:
    """Return the commitment to an event's erasable part; refs and payload are canonical JSON."""
    return sha256(salt + content_of(summary, refs, payload)).digest()


def header_digest(fixed: FixedFields) -> bytes:
    """Return the digest of the fields that never change; seq and position are not among them."""
    return sha256(encode(fixed)).digest()


def link(previous: bytes, seq: int, header: bytes, content: bytes) -> bytes:
    """Return the link of the event at ``seq``, after ``previous``."""
    return sha256(previous + seq.to_bytes(8, "big") + header + content).digest()
