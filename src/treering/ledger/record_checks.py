"""Checks on records from elsewhere: a copy never holds an event that no ledger would record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput, InvalidKind, TooLarge
from treering.ledger import chain
from treering.ledger.records import check_readable, forgotten_name
from treering.model.codec import REFS_BYTES_MAX, SPILL_BYTES_MAX
from treering.model.fields import COUNT_MAX, check_id, check_name, check_summary
from treering.model.kinds import KINDS, SOURCES, VISIBILITIES

if TYPE_CHECKING:
    from treering.ledger.records import ForkPoint, Record, SessionRecord

_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 32
SEQ_MAX: Final = 2**63 - 1
_EXPIRED_ID: Final = re.compile(
    r"#[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""What remains of an id: the hash of a name, or a UUID."""
_UNCHANGED: Final = "take it from where it is unchanged"


def check_session(session: SessionRecord) -> None:
    """Raise InvalidInput unless a session can begin where ``session`` says."""
    name = check_name(session.session_id, "session_id")
    forgotten = not session.salt and name == forgotten_name(session.genesis)
    sizes = (0 if forgotten else chain.SALT_BYTES, _KEY_BYTES, _DIGEST_BYTES)
    if (len(session.salt), len(session.scope_key), len(session.genesis)) != sizes:
        raise InvalidInput(
            f"session {name} has a salt, key or genesis of another size", hint=_UNCHANGED
        )
    if session.cut is not None:
        _check_cut(name, session.cut)
    # Whether an event vouches for a forgotten name is checked once all events are here.
    if (
        not forgotten
        and chain.genesis(session.salt, session.scope, name, session.cut) != session.genesis
    ):
        raise InvalidInput(
            f"session {name} comes from another scope, was renamed, or forked elsewhere",
            hint=_UNCHANGED,
        )


def without_parent(session: SessionRecord, cut: ForkPoint) -> InvalidInput:
    """Return the error for a fork whose parent is missing."""
    return InvalidInput(
        f"session {session.session_id} was forked from {cut.parent} at seq {cut.seq}, and that is"
        f" not here: import {cut.parent} first, or an export of the fork that includes it",
        hint=f"export the fork, or its whole scope, where {cut.parent} is, and import that",
    )


def _check_cut(name: str, cut: ForkPoint) -> None:
    check_name(cut.parent, "session_id")
    if not 0 < cut.seq <= SEQ_MAX or {len(cut.genesis), len(cut.link)} != {_DIGEST_BYTES}:
        raise InvalidInput(f"session {name} cannot have been forked there", hint=_UNCHANGED)


def check_record(record: Record) -> None:
    """Raise InvalidInput, saying what is wrong, unless a ledger could hold ``record``.

    Raises KeyMissing if its payload is sealed and cannot be opened.
    """
    check_readable(record)
    _check_kind(record.kind)
    if record.visibility not in VISIBILITIES:
        raise InvalidInput(f"invalid visibility: {record.visibility[:200]!r}", hint=_UNCHANGED)
    if record.schema_version < 1:
        raise InvalidInput("schema_version must be > 0", hint=_UNCHANGED)
    if len(record.link) != _DIGEST_BYTES:
        raise InvalidInput("link is not a SHA-256", hint=_UNCHANGED)
    if record.run_id is not None:
        check_name(record.run_id, "run_id")
    if record.erasure != "expired":
        _check_header(record)
    elif not _EXPIRED_ID.fullmatch(record.event_id) or _is_complete(record):
        raise InvalidInput("an expired event has fields that expiry removes", hint=_UNCHANGED)
    if record.erasure is None:
        _check_content(record)
    elif record.salt or record.summary or record.refs or record.payload or record.payload_bytes:
        raise InvalidInput(
            "there is content although the event says it was erased", hint=_UNCHANGED
        )


def _check_kind(name: str) -> None:
    kind = KINDS.get(check_name(name, "kind"))
    if kind is None or not kind.durable:
        raise InvalidKind(
            f"invalid kind: {name!r} is not one that this version of Treering records",
            hint="update Treering",
        )


def _check_header(record: Record) -> None:
    check_id(record.event_id)
    check_name(record.agent_id, "agent_id")
    for field in ("origin", "turn_id", "user_id"):
        name = getattr(record, field)
        if name is not None:
            check_name(name, field)
    if record.source not in SOURCES:
        raise InvalidInput(f"invalid source: {record.source[:200]!r}", hint=_UNCHANGED)
    if record.run_seq is not None and record.run_seq < 1:
        raise InvalidInput("run_seq must be > 0", hint=_UNCHANGED)
    for field, time_ms in (("ts_ms", record.ts_ms), ("recorded_ms", record.recorded_ms)):
        # Earlier versions kept whatever their clock said, before 1970 too.
        if not time_ms or abs(time_ms) > COUNT_MAX:
            raise InvalidInput(f"{field} {time_ms} is not a time", hint=_UNCHANGED)
    if len(record.content_digest) != _DIGEST_BYTES:
        raise InvalidInput("content_digest is not a SHA-256", hint=_UNCHANGED)


def _check_content(record: Record) -> None:
    label = f"seq {record.seq} of session {record.session_id}"
    salt, summary, refs, payload = record.salt, record.summary, record.refs, record.payload
    if salt is None or summary is None:
        raise InvalidInput(f"{label} lacks its content", hint=_UNCHANGED)
    check_summary(summary)
    if len(salt) != chain.SALT_BYTES:
        raise InvalidInput(f"{label} has a salt of another size", hint=_UNCHANGED)
    if len(refs or b"") > REFS_BYTES_MAX or len(payload or b"") > SPILL_BYTES_MAX:
        raise TooLarge(f"refs or payload of {label} exceeds its cap", hint=_UNCHANGED)
    if chain.content_digest(salt, summary, refs, payload) != record.content_digest:
        raise InvalidInput(f"{label} does not hold what its digest says", hint=_UNCHANGED)


def _is_complete(record: Record) -> bool:
    """Whether a record still has fields that an expired one has lost."""
    absent = (record.origin, record.run_seq, record.turn_id, record.user_id)
    blank = (record.source, record.agent_id, record.ts_ms, record.recorded_ms)
    return any(v is not None for v in absent) or any(blank) or bool(record.content_digest)
