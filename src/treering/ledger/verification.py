"""Proof: every session's chain from its genesis to its head, and the ledger against an anchor.

An anchor is the ledger's root, written out, so that a tail that was cut off is noticed: a line for
each session head, then one with the root over them all. Keep the file, or just its root, out of
reach of anybody who might truncate the ledger.
"""

from __future__ import annotations

from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Event as Flag
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from treering.errors import Corrupt, InvalidInput
from treering.ledger import chain
from treering.ledger.records import arriving, forgotten_name, shared_seq
from treering.model.receipts import AnchorReceipt, Broken, Fault, Part, Verification
from treering.model.scopes import Scope

if TYPE_CHECKING:
    import hashlib
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from treering.ledger.ports import EventStore
    from treering.ledger.records import Erasure, ProvedChain, Record, SessionRecord
    from treering.model.events import Event

PAGE: Final = 500
ATTEMPTS_MAX: Final = 5
"""How often a session is checked again if it changes while it is read."""


class _Count(msgspec.Struct):
    events: int = 0
    redacted: int = 0
    expired: int = 0
    sealed: int = 0

    def add(self, other: _Count) -> None:
        self.events += other.events
        self.redacted += other.redacted
        self.expired += other.expired
        self.sealed += other.sealed


_NAME_GONE: Final = "the session's name is gone, and no event vouches for that"
_PARTS: Final[dict[Part, str]] = {
    "events": "",
    "lookups": "",
    "sessions": "name no session",
    "scopes": "name no scope",
    "database": "name no scope",
    "derived": "add --derived",
    "anchor": "add --anchor FILE, written before and kept elsewhere",
}
"""What can be checked, and what checks it if this proof does not."""


def verify_part(
    store: EventStore,
    scope: Scope | None,
    session_id: str | None,
    progress: Callable[[int], None] | None,
) -> Verification:
    """Prove the ledger, a scope or a session, lookups and derived tables included."""
    # The database checks its tables meanwhile, on another core.
    is_stopped = Flag()
    with ThreadPoolExecutor(1, thread_name_prefix="treering-verify") as tables:
        flaw = tables.submit(find_flaw, store, scope, session_id, is_stopped.is_set)
        try:
            result = _verify_chains(store, scope, session_id, progress, flaw.result)
            broken = flaw.result() if result.intact else None
        except BaseException:
            is_stopped.set()
            raise
    if broken is not None:
        result = msgspec.structs.replace(result, intact=False, first_broken=broken)
    checked: list[Part] = ["events", "lookups"]
    if session_id is None:
        checked.append("sessions")
    if scope is None:
        checked += ["scopes", "database"]
    return with_coverage(result, checked)


def _verify_chains(
    store: EventStore,
    scope: Scope | None,
    session_id: str | None,
    progress: Callable[[int], None] | None,
    flaw: Callable[[], Broken | None],
) -> Verification:
    sessions = list(store.sessions.records(scope, session_id))
    if session_id is not None:
        return verify(store, sessions, progress=progress)
    proved = store.prove_chains(scope, progress or (lambda _: None))
    result = verify(store, sessions, proved, progress=progress)
    if proved and not (result.intact and flaw() is None):
        # The quick proof reads no index: an event that an index lacks shows in this one.
        return verify(store, sessions)
    return result


def find_flaw(
    store: EventStore,
    scope: Scope | None,
    session_id: str | None = None,
    is_stopped: Callable[[], bool] = bool,
) -> Broken | None:
    """Return the first fault outside the events of the ledger, a scope or a session; else None."""
    flaw = store.check_tables(scope, session_id, is_stopped=is_stopped)
    if flaw is None and scope is None:
        flaw = _unmarked(store, {session.scope for session in store.sessions.records()})
    if flaw is None:
        return None
    return Broken(
        scope=scope or "",
        session_id=session_id or "",
        seq=0,
        event_id=None,
        fault="file",
        detail=flaw,
    )


def with_coverage(result: Verification, parts: Iterable[Part]) -> Verification:
    """Return ``result`` with these ``parts`` added to its coverage."""
    covers = {*result.checked, *parts}
    return msgspec.structs.replace(
        result,
        checked=[part for part in _PARTS if part in covers],
        unchecked={part: otherwise for part, otherwise in _PARTS.items() if part not in covers},
    )


def verify(
    store: EventStore,
    sessions: Iterable[SessionRecord],
    proved: Mapping[bytes, ProvedChain] = MappingProxyType({}),
    *,
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Prove the chains of ``sessions`` only; ``proved`` are those that need only be compared."""
    count = _Count()
    checked = broken = 0
    first: Broken | None = None
    for session in sessions:
        checked += 1
        known = proved.get(session.genesis)
        if known is not None and _is_proved(store, session, known):
            count.add(_Count(events=known.events, sealed=known.sealed))
            continue
        fault, session_count = _check_still(store, session)
        count.add(session_count)
        if fault is not None:
            broken += 1
            first = first or fault
        if progress is not None:
            progress(session_count.events)
    return Verification(
        intact=first is None,
        sessions=checked,
        events=count.events,
        redacted=count.redacted,
        expired=count.expired,
        sealed=count.sealed,
        broken_sessions=broken,
        first_broken=first,
    )


def _unmarked(store: EventStore, scopes: Iterable[str]) -> str | None:
    """Return the fault if a scope was encrypted and its mark was removed."""
    for name in sorted({*scopes} - {*store.seals.scopes()}):
        if store.vault.has_sealed(Scope(name)):
            return f"scope {name} was encrypted, but the ledger no longer says so"
    return None


def _is_proved(store: EventStore, session: SessionRecord, known: ProvedChain) -> bool:
    """Whether a session begins as it should, and ends where ``known`` does."""
    ends = (session.head_seq, session.head_link) == (known.seq, known.link)
    return ends and _check_beginning(store, session) is None


def _check_still(store: EventStore, session: SessionRecord) -> tuple[Broken | None, _Count]:
    """Check a session; check it again if it looks broken but was written to meanwhile."""
    for _ in range(ATTEMPTS_MAX):
        count = _Count()
        try:
            fault = _check_session(store, session, count)
        except Corrupt as error:
            fault = Broken(
                scope=session.scope,
                session_id=session.session_id,
                seq=0,
                event_id=None,
                fault="content",
                detail=str(error),
            )
        moved = None if fault is None else _moved(store, session)
        if moved is None:
            break
        session = moved
    if fault is not None and _is_arriving(store, session, fault):
        fault = msgspec.structs.replace(
            fault,
            fault="incomplete",
            detail="a copy or restore was interrupted here: not all erasures are vouched for yet",
        )
    return fault, count


def _is_arriving(store: EventStore, session: SessionRecord, broken: Broken) -> bool:
    """Whether an unfinished copy explains the fault."""
    unvouched = broken.fault == "erasure" or broken.detail == _NAME_GONE
    return unvouched and bool(store.cursors.find(Scope(session.scope), arriving(session.genesis)))


def _moved(store: EventStore, session: SessionRecord) -> SessionRecord | None:
    """Return the session as it is now, if it has grown or lost its name since it was read."""
    for name in (session.session_id, forgotten_name(session.genesis)):
        for now in store.sessions.records(Scope(session.scope), name):
            is_same = (now.session_id, now.head_link) == (session.session_id, session.head_link)
            if now.genesis == session.genesis and not is_same:
                return now
    return None


def _check_session(store: EventStore, session: SessionRecord, count: _Count) -> Broken | None:
    def broken(seq: int, fault: Fault, detail: str, event_id: str | None = None) -> Broken:
        return Broken(
            scope=session.scope,
            session_id=session.session_id,
            seq=seq,
            event_id=event_id,
            fault=fault,
            detail=detail,
        )

    unfounded = _check_beginning(store, session)
    if unfounded is not None:
        return broken(shared_seq(session), *unfounded)
    covers = _Covers(store, session)
    previous, seq = session.genesis, shared_seq(session)
    for record in _records(store, session):
        if seq == session.head_seq and _moved(store, session) is not None:
            break  # Recorded after the head was read.
        seq += 1
        if record.seq != seq:
            return broken(seq, "missing", f"seq {seq} is missing: the next one is {record.seq}")
        fault = _check_content(record, covers.visit(record))
        if fault is not None:
            return broken(seq, *fault, record.event_id)
        if record.erasure != "expired" and link_of(previous, record) != record.link:
            return broken(seq, *_explain(store, session, previous, record), record.event_id)
        previous = record.link
        count.events += 1
        count.expired += record.erasure == "expired"
        count.redacted += record.erasure in {"null", "placeholder"}
        count.sealed += record.unread is not None
    unproved = covers.first_unproved()
    if unproved is not None:
        return broken(
            unproved.seq, "erasure", "what it says was erased is not what is", unproved.event_id
        )
    return _check_head(session, seq, previous, broken)


def _check_beginning(store: EventStore, session: SessionRecord) -> tuple[Fault, str] | None:
    """Return the fault in a session's genesis, or in its parent at the fork; else None."""
    cut = session.cut
    if cut is not None and not cut.genesis:
        return "missing", "the session that it was forked from is gone"
    if not session.salt:
        if not _is_forgotten(store, session):
            return "link", _NAME_GONE
    elif chain.genesis(session.salt, session.scope, session.session_id, cut) != session.genesis:
        return "link", "the session's scope or name, or where it was forked, was changed"
    if cut is None:
        return None
    there = store.sessions.link_at(Scope(session.scope), cut.genesis, cut.seq)
    if there is None:
        return "missing", f"seq {cut.seq} of {cut.parent} is gone, where it was forked"
    if there != cut.link:
        return "link", f"seq {cut.seq} of {cut.parent} is not the one that it was forked at"
    return None


def _is_forgotten(store: EventStore, session: SessionRecord) -> bool:
    """Whether an event of a session says that its name was forgotten."""
    return session.session_id == forgotten_name(session.genesis) and any(
        is_whole(event) for event in store.reader.covers(Scope(session.scope), session.session_id)
    )


def _check_head(
    session: SessionRecord, seq: int, last: bytes, broken: Callable[[int, Fault, str], Broken]
) -> Broken | None:
    if session.head_seq > seq:
        return broken(
            seq + 1, "missing", f"the session ended at seq {session.head_seq}, now at {seq}"
        )
    if session.head_seq < 0:
        return broken(seq, "head", "the record of where the session ends is gone")
    if session.head_seq < seq:
        return broken(
            session.head_seq + 1,
            "inserted",
            f"the session ended at seq {session.head_seq}, now at {seq}",
        )
    if session.head_link != last:
        return broken(seq, "head", "the record of where the session ends was changed")
    return None


def _check_content(record: Record, vouched: Erasure | None) -> tuple[Fault, str] | None:
    """Return the fault in a record whose erasure is vouched for as ``vouched``; else None."""
    if record.erasure is None and vouched is None:
        return _check_kept(record)
    if record.erasure is None:
        return "content", "there is content although an erasure is on record"
    if record.summary or record.refs or record.payload or record.salt or record.payload_bytes:
        return "content", "there is content although the event says it was erased"
    if vouched is None:
        return "erasure", "it was blanked, and no event vouches for that"
    if vouched != record.erasure:
        return "erasure", f"it says {record.erasure} where {vouched} is on record"
    if vouched == "expired" and _has_fields(record):
        return "erasure", "it says more than an expired event does"
    return None


def _check_kept(record: Record) -> tuple[Fault, str] | None:
    if record.unread == "damaged":
        return "content", "the sealed payload was changed, or belongs elsewhere"
    if record.unread is not None:
        # It cannot be opened here; its digest is in the chain all the same.
        return None
    if record.salt is None or record.summary is None:
        return "content", "content is gone, and nothing says why"
    digest = chain.content_digest(record.salt, record.summary, record.refs, record.payload)
    if digest != record.content_digest:
        return "content", "summary, refs or payload was changed"
    if record.payload_bytes != len(record.payload or b""):
        return "content", "the size of the payload was changed"
    return None


def _has_fields(record: Record) -> bool:
    """Whether an expired event still has fields that expiry removes."""
    texts = (record.source, record.origin, record.turn_id, record.agent_id, record.user_id)
    numbers = (record.run_seq, record.ts_ms, record.recorded_ms)
    return any(texts) or any(numbers) or bool(record.content_digest)


def _explain(
    store: EventStore, session: SessionRecord, previous: bytes, record: Record
) -> tuple[Fault, str]:
    """Say why ``record`` does not follow ``previous``: out of place, not ours, or changed."""
    before: Record = record
    for later in _records(store, session, after=record.seq):
        if link_of(previous, later, record.seq) == later.link:
            if link_of(before.link, record, later.seq) == record.link or (
                before is record and link_of(later.link, record, later.seq) == record.link
            ):
                return "reordered", f"it changed places with seq {later.seq}"
            return "inserted", f"it was put before the event that is now seq {later.seq}"
        before = later
    return "link", "a field of its header, or its link, was changed"


def link_of(previous: bytes, record: Record, seq: int | None = None) -> bytes:
    """Return the link that ``record`` has after ``previous``."""
    header = chain.header_digest((
        record.event_id, record.run_id, record.run_seq, record.turn_id, record.agent_id,
        record.user_id, record.kind, record.source, record.origin, record.ts_ms,
        record.recorded_ms, record.visibility, record.schema_version,
    ))  # fmt: skip
    return chain.link(previous, seq or record.seq, header, record.content_digest)


def _records(store: EventStore, session: SessionRecord, after: int = 0) -> Iterator[Record]:
    while page := store.reader.records(
        Scope(session.scope), session.session_id, after_seq=after, limit=PAGE
    ):
        yield from page
        after = page[-1].seq


class _Covers:
    """What the erasure events of a session vouch for, checked as the session is read.

    An erasure may happen while we read: a blank record is then vouched for by an event that was
    not there when we began, so these are looked up again.
    """

    def __init__(self, store: EventStore, session: SessionRecord) -> None:
        self._store = store
        self._session = session
        self._proofs = self._load()
        self._late: list[_Proof] = []
        self._coming = sorted(
            ((first, last, proof) for proof in self._proofs for first, last in proof.ranges),
            key=lambda stretch: (stretch[0], stretch[1]),
            reverse=True,
        )
        self._open: list[tuple[int, int, _Proof]] = []

    def visit(self, record: Record) -> Erasure | None:
        """Count ``record`` for every erasure that names it; return how it was erased at last."""
        if record.erasure is None and not self._coming and not self._open:
            return None  # Most sessions have no erasures at all.
        seq = record.seq
        while self._coming and self._coming[-1][0] <= seq:
            self._open.append(self._coming.pop())
        self._open = [stretch for stretch in self._open if stretch[1] >= seq]
        for _, _, proof in self._open:
            proof.add(record)
        vouching = [proof for _, _, proof in self._open]
        if record.erasure is not None and record.erasure not in {p.erasure for p in vouching}:
            vouching += self._look_again(record)
        erasures = [proof.erasure for proof in sorted(vouching, key=lambda p: p.event.seq)]
        return "expired" if "expired" in erasures else next(iter(erasures), None)

    def first_unproved(self) -> Event | None:
        """Return the first erasure whose count or digest does not hold."""
        for proof in self._late:
            for record in _records(self._store, self._session, after=proof.first - 1):
                if record.seq > proof.last:
                    break
                if proof.names(record.seq):
                    proof.add(record)
        unproved = (proof.event for proof in (*self._proofs, *self._late) if not proof.holds())
        return next(unproved, None)

    def _look_again(self, record: Record) -> list[_Proof]:
        if not any(proof.names(record.seq) for proof in self._late):
            seqs = {proof.event.seq for proof in (*self._proofs, *self._late)}
            self._late += [proof for proof in self._load() if proof.event.seq not in seqs]
        return [proof for proof in self._late if proof.names(record.seq)]

    def _load(self) -> list[_Proof]:
        session = self._session
        return [
            _Proof(e) for e in self._store.reader.covers(Scope(session.scope), session.session_id)
        ]


class _Proof:
    """One erasure event, and the digest over the erased events read so far."""

    def __init__(self, event: Event) -> None:
        self.event = event
        payload = event.payload if isinstance(event.payload, dict) else {}
        self.ranges = [stretch for stretch in covered(payload) if stretch[1] < event.seq]
        self.first = min((first for first, _ in self.ranges), default=1)
        self.last = max((last for _, last in self.ranges), default=0)
        erasure = payload.get("erasure")
        self.erasure: Erasure | None = erasure if erasure in _ERASURES.get(event.kind, ()) else None
        self._said = (payload.get("count"), payload.get("digest"))
        self._count = 0
        self._digest = sha256()

    def names(self, seq: int) -> bool:
        at = bisect_right(self.ranges, seq, key=lambda stretch: stretch[0]) - 1
        return at >= 0 and self.ranges[at][1] >= seq

    def add(self, record: Record) -> None:
        self._count += 1
        self._digest.update(record.link)

    def holds(self) -> bool:
        counted = (self._count, self._digest.hexdigest())
        return self.erasure is not None and self._said == counted


_ERASURES: Final = {
    "ledger.redacted": ("null", "placeholder"),
    "ledger.expired": ("expired",),
    "ledger.forgotten": ("expired",),
}
"""What each kind of erasure event can vouch for."""


def is_whole(event: Event) -> bool:
    """Whether an event says that its whole session is forgotten, or about to be."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    return event.kind == "ledger.forgotten" and payload.get("whole") is True


def covered(payload: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the first and last seq of each stretch that an erasure event names, in order."""
    stretches = payload.get("ranges")
    if not isinstance(stretches, list):
        return []
    return sorted(
        (stretch[0], stretch[1])
        for stretch in stretches
        if isinstance(stretch, list) and len(stretch) == 2 and all(type(n) is int for n in stretch)
    )


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
            broken = broken or _check_anchored(store, scope, entry)
    if root is None or (root.root, root.sessions) != (digest.hexdigest(), count):
        raise _damaged("its lines do not add up to its root")
    return compared, broken


def _extend(digest: hashlib._Hash, head: _Head) -> None:
    digest.update(
        bytes.fromhex(head.genesis) + head.seq.to_bytes(8, "big") + bytes.fromhex(head.link)
    )


def _check_anchored(store: EventStore, scope: Scope | None, head: _Head) -> Broken | None:
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
