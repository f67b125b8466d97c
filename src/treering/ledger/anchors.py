"""Anchors: the ledger's root, written out, so that a tail that was cut off is noticed.

A line for each session head, then one with the root over them all. Keep the file, or just its
root, out of reach of anybody who might truncate the ledger.
"""

from __future__ import annotations

from hashlib import sha256
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from treering.errors import InvalidInput
from treering.ledger.records import shared_seq
from treering.model.receipts import AnchorReceipt, Broken

if TYPE_CHECKING:
    import hashlib
    from collections.abc import Iterable

    from treering.ledger.ports import EventStore
    from treering.ledger.records import SessionRecord
    from treering.model.scopes import Scope

FORMAT: Final = "treering.anchor.v1"


_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _Head(msgspec.Struct, frozen=True, tag_field="record", tag="head"):
    genesis: _Digest
    seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    link: _Digest


class _Root(msgspec.Struct, frozen=True, tag_field="record", tag="root"):
    format: Literal["treering.anchor.v1"]
    root: str
    sessions: int
    events: int
    at_ms: int


def write_anchor(
    sessions: Iterable[SessionRecord], stream: IO[bytes], *, at_ms: int
) -> AnchorReceipt:
    """Write an anchor over ``sessions`` to ``stream``."""
    digest, count, events = sha256(), 0, 0
    for session in sessions:
        head = _Head(session.genesis.hex(), session.head_seq, session.head_link.hex())
        _extend(digest, head)
        stream.write(msgspec.json.encode(head) + b"\n")
        count += 1
        events += session.head_seq - shared_seq(session)
    root = _Root(FORMAT, digest.hexdigest(), count, events, at_ms)
    stream.write(msgspec.json.encode(root) + b"\n")
    return AnchorReceipt(root=root.root, sessions=count, events=events, at_ms=at_ms)


def check_anchor(
    store: EventStore, stream: IO[bytes], scope: Scope | None = None
) -> tuple[int, Broken | None]:
    """Return how many sessions were compared, and the first that no longer reaches the anchor.

    With a scope, only sessions that it still has are compared, and none of another is named.
    Raises InvalidInput if the anchor itself is damaged.
    """
    own = None if scope is None else {s.genesis.hex() for s in store.sessions.records(scope)}
    decoder = msgspec.json.Decoder(_Head | _Root)
    digest, count, compared = sha256(), 0, 0
    root: _Root | None = None
    broken: Broken | None = None
    for line in stream:
        try:
            entry = decoder.decode(line)
        except (msgspec.MsgspecError, ValueError) as error:
            raise _damaged("it has a line that does not belong to an anchor") from error
        if isinstance(entry, _Root):
            root = entry
            break
        _extend(digest, entry)
        count += 1
        if own is None or entry.genesis in own:
            compared += 1
            broken = broken or _check_head(store, scope, entry)
    if root is None or (root.root, root.sessions) != (digest.hexdigest(), count):
        raise _damaged("its lines do not add up to its root")
    return compared, broken


def _extend(digest: hashlib._Hash, head: _Head) -> None:
    digest.update(
        bytes.fromhex(head.genesis) + head.seq.to_bytes(8, "big") + bytes.fromhex(head.link)
    )


def _check_head(store: EventStore, scope: Scope | None, head: _Head) -> Broken | None:
    if head.seq == 0:
        return None
    link = store.sessions.link_at(scope, bytes.fromhex(head.genesis), head.seq)
    if link is None:
        detail = f"the anchor knows a session up to seq {head.seq} that is gone, or ends before"
        return _broken(store, scope, head, "missing", detail)
    if link.hex() != head.link:
        detail = f"seq {head.seq} is not the one that was anchored"
        return _broken(store, scope, head, "link", detail)
    return None


def _broken(
    store: EventStore,
    scope: Scope | None,
    head: _Head,
    fault: Literal["missing", "link"],
    detail: str,
) -> Broken:
    matching = (
        record for record in store.sessions.records(scope) if record.genesis.hex() == head.genesis
    )
    session = next(matching, None)
    return Broken(
        scope=session.scope if session is not None else "",
        session_id=session.session_id if session is not None else "",
        seq=head.seq,
        event_id=None,
        fault=fault,
        detail=detail,
    )


def _damaged(reason: str) -> InvalidInput:
    return InvalidInput(f"the anchor file is damaged: {reason}", hint="use an intact copy of it")
