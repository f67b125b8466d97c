"""Events in stored form, as storage takes them and returns them for proofs and copies."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from treering.errors import Corrupt, KeyMissing
from treering.ledger.chain import header_digest
from treering.model.codec import encode
from treering.model.events import SCHEMA_VERSION, Header
from treering.model.scopes import Scope
from treering.model.views import taken_number

Erasure = Literal["null", "placeholder", "expired"]
"""How content was erased: payload reads null, payload reads [REDACTED], or the event expired."""

Unread = Literal["destroyed", "missing", "damaged"]
"""Why a sealed payload cannot be read: its key was destroyed or is not here, or it was changed."""

AGENT: Final = "treering"
"""The agent of what the ledger records by itself."""
FORGOTTEN: Final = "forgotten:"
"""What begins the name of something whose own was forgotten."""

MADE_IDS: Final = "id-key:made"
"""The cursor in which a scope notes the mark of the key that ids made of words are hashed under."""
HIDDEN_IDS: Final = "id-key:hidden"
"""The same for ids of what is gone."""
ID_NOTES: Final = (MADE_IDS, HIDDEN_IDS)


def mark_of_key(id_key: bytes) -> str:
    """Return a mark that identifies a key that hides ids, and reveals nothing of it."""
    return hmac.digest(id_key, b"treering.id-key.v1", "sha256").hex()[:32]


Names: TypeAlias = tuple[Scope, str, str, str | None, str | None, str | None, str | None]
"""What an event names: its scope, session, agent, run, turn and user, and its origin."""


class Draft(msgspec.Struct, gc=False):
    """A checked event, encoded and digested; only order and link are missing."""

    # What a Header holds from its id to its refs, by the same names and in the same order.
    event_id: str
    scope: Scope
    session_id: str
    kind: str
    source: str
    origin: str | None
    run_id: str | None
    run_seq: int | None
    turn_id: str | None
    agent_id: str
    user_id: str | None
    ts_ms: int
    recorded_ms: int
    visibility: str
    summary: str
    refs: Any

    names: Names
    stored_refs: bytes | None
    payload: bytes | None
    payload_bytes: int
    blob: bytes | None
    """The payload compressed, when it is over the inline cap."""
    salt: bytes
    content_digest: bytes
    header_digest: bytes
    """Empty as long as the number in the run is missing."""
    made_id: bytes | None
    """The id's bytes, if it was made here; one that the caller chose may be there already."""
    given_ts: bool
    given_run_seq: bool
    """Whether the caller states its number in the run; one that was given here is not compared."""
    counted: bool
    """Whether the store gives it its number in the run, or checks the one that it states."""
    wordless: bool
    """Whether its summary and refs are fit for a scope whose payloads are sealed."""
    is_first: bool = False
    """Whether it has to be the first of its session."""
    expected: dict[str, str] | None = None
    """The version that some keys must have, "" if none: otherwise it is refused."""
    least_run_seq: int = 0
    """The number in the run of one that was given here: a higher one, if that is taken."""

    def number_after(self, last: int) -> int:
        """Return the number in a run that has come to ``last``; the store calls it.

        Raises InvalidInput if the caller states one that is not above.
        """
        if self.given_run_seq:
            stated: int = self.run_seq  # type: ignore[assignment]  # the caller states it
            if stated <= last:
                raise taken_number(stated, self.run_id or "", last)
            return stated
        number = max(last + 1, self.least_run_seq)
        if number != self.run_seq or not self.header_digest:
            self.run_seq = number
            self.header_digest = header_digest((
                self.event_id, self.run_id, number, self.turn_id, self.agent_id, self.user_id,
                self.kind, self.source, self.origin, self.ts_ms, self.recorded_ms,
                self.visibility, SCHEMA_VERSION,
            ))  # fmt: skip
        return number

    def header_around_number(self) -> tuple[bytes, bytes]:
        """Return the JSON whose digest is ``header_digest``, before and after the run's number."""
        before = encode((self.event_id, self.run_id))
        after = encode((
            self.turn_id, self.agent_id, self.user_id, self.kind, self.source, self.origin,
            self.ts_ms, self.recorded_ms, self.visibility, SCHEMA_VERSION,
        ))  # fmt: skip
        return before[:-1] + b",", b"," + after[1:]

    def header(self, position: int, seq: int, last: bytes) -> Header:
        """Return the header that it gets at its place, with ``last`` for its link."""
        return Header(
            position, seq, self.event_id, self.scope, self.session_id, self.kind, self.source,
            self.origin, self.run_id, self.run_seq, self.turn_id, self.agent_id, self.user_id,
            self.ts_ms, self.recorded_ms, self.visibility, self.summary, self.refs,
            self.payload_bytes, False, False, SCHEMA_VERSION, self.content_digest, last,
        )  # fmt: skip


class SealedMeanwhile(Exception):
    """A draft may repeat words of its payload, and its scope has been encrypted meanwhile."""

    def __init__(self, scope: str) -> None:
        super().__init__(scope)
        self.scope = scope


class Record(msgspec.Struct, gc=False):
    """A stored event, bytes as they were recorded."""

    position: int
    scope: str
    session_id: str
    seq: int
    event_id: str
    kind: str
    source: str
    origin: str | None
    run_id: str | None
    run_seq: int | None
    turn_id: str | None
    agent_id: str
    user_id: str | None
    ts_ms: int
    recorded_ms: int
    visibility: str
    schema_version: int
    summary: str | None
    refs: bytes | None
    payload: bytes | None
    salt: bytes | None
    content_digest: bytes
    link: bytes
    erasure: Erasure | None
    payload_bytes: int
    unread: Unread | None
    """Why payload and salt are not given, though they are there."""


def check_readable(record: Record) -> None:
    """Raise KeyMissing or Corrupt if a sealed payload cannot be copied."""
    label = f"seq {record.seq} of session {record.session_id} in scope {record.scope}"
    match record.unread:
        case None:
            return
        case "damaged":
            raise Corrupt(
                f"the sealed payload of {label} was changed after it was sealed",
                hint="keep a copy, then run treering verify and restore from an export",
            )
        case "missing":
            raise KeyMissing(
                f"the key that opens {label} is not here",
                hint="put the key file into the folder of keys, or leave payloads out",
            )
        case "destroyed":
            raise KeyMissing(
                f"the key that opens {label} was destroyed",
                hint="redact the event or its session, or leave payloads out",
            )


class EventLocation(msgspec.Struct, frozen=True, gc=False):
    """Where an event is, or was before it was erased."""

    session_id: str
    seq: int
    ts_ms: int = 0
    """When it happened; 0 if that is not known any more."""


class ForkPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fork leaves its parent: up to ``seq`` their past is one."""

    parent: str
    """The parent's session id."""
    genesis: bytes
    """The parent's own."""
    seq: int
    link: bytes
    """The parent's link at ``seq``."""


class SessionHead(msgspec.Struct, frozen=True, kw_only=True):
    """A session at its last event."""

    session_id: str
    position: int
    """Of its last event: sessions are listed by it."""
    head_seq: int
    updated_ms: int
    """When its last event was recorded."""
    cut: ForkPoint | None = None


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A session's place in the chain."""

    scope: str
    scope_key: bytes
    """Keys the scope's hashes, so that a copy recognises the ids of expired events."""
    session_id: str
    salt: bytes
    """Empty once its name is forgotten."""
    genesis: bytes
    head_seq: int
    head_link: bytes
    cut: ForkPoint | None = None
    """Where it was forked from, if it was."""


class ProvedChain(msgspec.Struct, frozen=True, kw_only=True):
    """A session's chain as far as it was proved; no event of it is or names an erased one."""

    seq: int
    link: bytes
    events: int = 0
    sealed: int = 0
    """Events of which only the place was proved: their payloads cannot be opened here."""


def shared_seq(session: SessionRecord) -> int:
    """Return the seq after which a session's own events begin."""
    return 0 if session.cut is None else session.cut.seq


def forgotten_name(genesis: bytes) -> str:
    """Return the name of a session whose own name was forgotten; the old one cannot be guessed."""
    return f"{FORGOTTEN}{genesis[:8].hex()}"


def arriving(genesis: bytes) -> str:
    """Return the follower whose cursor says that a session is being copied here.

    It is set with erased events, whose vouchers come later, and emptied when the copy has ended.
    """
    return f"arriving:{genesis[:8].hex()}"


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of a scope's key, without the key."""

    generation: int
    created_ms: int
    destroyed_ms: int | None
    in_use: bool


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one scope to erase: some events, one session, or all older than their cutoff."""

    scope: Scope
    event_ids: tuple[str, ...] = ()
    session_id: str | None = None
    cutoffs: dict[str, int] | None = None
    """Time by kind before which events expire; sessions with an open run are left alone."""
    kept_if_imported: frozenset[str] = frozenset()
    """Kinds that do not expire in sessions that were imported."""
    until_seq: int | None = None
    """The last seq of a session that is erased; None is its last."""
    spare: frozenset[str] = frozenset()
    """Kinds of a session that are left as they are."""
    users: frozenset[str] | None = None
    """Of a session, only the events about one of these; None is all."""
    with_name: bool = False
    """The session's name goes with the last of its events."""


class SessionErasure(msgspec.Struct, frozen=True, kw_only=True):
    """What one erasure took from one session; a chained event carries it and vouches for it."""

    session_id: str
    count: int
    ranges: list[tuple[int, int]]
    """First and last seq of each unbroken stretch."""
    digest: bytes
    """SHA-256 over the links of the erased events, in order."""


class Projection(msgspec.Struct, frozen=True):
    """Rows that a store derives from the events: dropped ones are derived again, the same."""

    name: str
    rows: Callable[[], list[tuple[Any, ...]]]
    """Returns all rows, in an order of their own."""
    drop: Callable[[], None]
    """Deletes all rows. They come back when they are asked for, or at once."""
    lag: Callable[[Scope], int]
    """Returns how many events of a scope it has not followed yet."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a session holds of some users."""

    events: int
    """About them."""
    said: int
    """Those of them that they said themselves."""
    others: int
    """About other users, or said by somebody who is not named."""


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of erasure did."""

    by_kind: dict[str, int]
    sessions: list[str]
    blobs_erased: int
    blobs_shared: int
    more: bool
    """There is more to erase; go another round."""
    projections: dict[str, int] = {}
    """How many rows were removed from each derived table, by its name."""
    named: int = 0
    """Sessions that lost their names."""
