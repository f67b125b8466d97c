"""What the ledger's own events say was erased."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from treering.errors import InvalidInput
from treering.ledger.records import Erasure, Record, SessionErasure, SessionRecord

_VOUCHED: Final = {
    "ledger.redacted": ("null", "placeholder"),
    "ledger.expired": ("expired",),
    "ledger.forgotten": ("expired",),
}
"""How content is erased that an event of each kind vouches for."""


def cover_of(session_id: str, erased: list[tuple[int, bytes]]) -> SessionErasure:
    """Return what an erasure takes from a session: seq and link of each event, in order."""
    return SessionErasure(
        session_id=session_id,
        count=len(erased),
        ranges=_ranges([seq for seq, _ in erased]),
        digest=sha256(b"".join(link for _, link in erased)).digest(),
    )


class ErasureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure event says it took."""

    erasure: Erasure
    count: int
    digest: str
    ranges: list[tuple[int, int]]
    whole: bool = False
    """The session was forgotten, and its name with it."""


def claim_of(record: Record) -> ErasureRecord | None:
    """Return what ``record`` says, if a ledger could have said it at its place."""
    try:
        claim = msgspec.json.decode(record.payload or b"null", type=ErasureRecord)
    except msgspec.MsgspecError:
        return None
    places = [0, *(seq for stretch in claim.ranges for seq in stretch), record.seq]
    ordered = all(first <= last for first, last in claim.ranges) and all(
        last < first for last, first in zip(places[::2], places[1::2], strict=True)
    )
    return claim if ordered and claim.erasure in _VOUCHED.get(record.kind, ()) else None


def check_same_key(key: bytes, session: SessionRecord) -> None:
    """Raise InvalidInput if expired ids of ``session`` would not be known under ``key``."""
    if key != session.scope_key:
        raise InvalidInput(
            f"session {session.session_id} holds expired ids, which scope {session.scope} here"
            " would not know again: import into a ledger that does not have the scope yet",
            hint="import into a ledger that does not have the scope yet",
        )


def _ranges(seqs: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges
