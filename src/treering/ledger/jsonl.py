"""The native JSONL: lines that restore a scope, or one session, to the same bytes and chain.

{"record":"export", …}        what this is
{"record":"session", …}       before the first event of each session
{"record":"event", …}         in the ledger's order
{"record":"end", …}           how many there were, so that a cut file is noticed

What comes in is checked as what is appended is: a copy never holds what no ledger would record.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

import msgspec

from treering.errors import InvalidInput, InvalidKind, TooLarge
from treering.ledger import chain
from treering.ledger.drafts import TIME_MS_MAX, check_id, check_name, check_summary, check_time
from treering.ledger.records import Erasure, Record, SessionRecord
from treering.model.codec import REFS_BYTES_MAX, SPILL_BYTES_MAX, canonical, decode
from treering.model.kinds import KINDS, SOURCES, VISIBILITIES

FORMAT: Final = "treering.export.v1"

Payloads = Literal["included", "withheld"]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Digest = Annotated[str, msgspec.Meta(pattern="^(?:[0-9a-f]{2})*$")]

ABSENT: Final = msgspec.Raw(b"null")
"""JSON that is not there; left out of a line."""


class OpeningLine(msgspec.Struct, frozen=True, tag_field="record", tag="export"):
    """What the file holds."""

    format: Literal["treering.export.v1"]
    scope: str
    payloads: Payloads
    at_ms: Number


class SessionLine(msgspec.Struct, frozen=True, tag_field="record", tag="session"):
    """Where a session's chain begins."""

    session_id: str
    salt: Digest
    genesis: Digest
    scope_key: Digest


class EventLine(msgspec.Struct, frozen=True, tag_field="record", tag="event", omit_defaults=True):
    """One event, with its order, digests and content."""

    session_id: str
    seq: Number
    event_id: str
    kind: str
    source: str
    agent_id: str
    ts_ms: Number
    recorded_ms: Number
    visibility: str
    schema_version: Number
    summary: str | None
    content_digest: Digest
    link: Digest
    salt: Digest | None = None
    refs: msgspec.Raw = ABSENT
    payload: msgspec.Raw = ABSENT
    payload_bytes: Number = 0
    origin: str | None = None
    run_id: str | None = None
    run_seq: Number | None = None
    turn_id: str | None = None
    user_id: str | None = None
    erasure: Erasure | None = None


class EndLine(msgspec.Struct, frozen=True, tag_field="record", tag="end"):
    """How much there was."""

    sessions: Number
    events: Number


Line = OpeningLine | SessionLine | EventLine | EndLine

decode_line = msgspec.json.Decoder(Line).decode
encode_line = msgspec.json.Encoder().encode

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 32
_EXPIRED_ID: Final = re.compile(
    r"#[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""What is left of an id: the hash of a name, or a UUID."""
_UNCHANGED: Final = "import an unchanged export"


def parse_line(line: bytes) -> Line:
    """Return what a line of a file says. Raises InvalidInput if it is no line of an export."""
    try:
        entry: Line = decode_line(line)
    except _UNREADABLE as error:
        raise InvalidInput(f"not a line of an export: {error}", hint=_UNCHANGED) from error
    return entry


def to_session(line: SessionLine, scope: str) -> SessionRecord:
    """Return where a session begins. Raises InvalidInput unless it can begin there."""
    name = check_name(line.session_id, "session_id")
    salt, first = bytes.fromhex(line.salt), bytes.fromhex(line.genesis)
    key = bytes.fromhex(line.scope_key)
    if len(salt) != chain.SALT_BYTES or len(key) != _KEY_BYTES:
        raise InvalidInput(f"session {name} has a salt or key of another size", hint=_UNCHANGED)
    if chain.genesis(salt, scope, name) != first:
        raise InvalidInput(
            f"session {name} was exported from another scope or renamed",
            hint="import the file as it was exported",
        )
    return SessionRecord(
        scope=scope,
        scope_key=key,
        session_id=name,
        salt=salt,
        genesis=first,
        head_seq=0,
        head_link=first,
    )


def to_record(line: EventLine, scope: str) -> Record:
    """Return the record that a line holds. Raises InvalidInput if no ledger could hold it."""
    record = Record(
        scope=scope,
        session_id=line.session_id,
        seq=line.seq,
        event_id=line.event_id,
        kind=line.kind,
        source=line.source,
        origin=line.origin,
        run_id=line.run_id,
        run_seq=line.run_seq,
        turn_id=line.turn_id,
        agent_id=line.agent_id,
        user_id=line.user_id,
        ts_ms=line.ts_ms,
        recorded_ms=line.recorded_ms,
        visibility=line.visibility,
        schema_version=line.schema_version,
        summary=line.summary,
        refs=_content(line.refs, "refs"),
        payload=_content(line.payload, "payload"),
        salt=None if line.salt is None else bytes.fromhex(line.salt),
        content_digest=bytes.fromhex(line.content_digest),
        link=bytes.fromhex(line.link),
        erasure=line.erasure,
        payload_bytes=line.payload_bytes,
    )
    _check(record)
    return record


def _content(raw: msgspec.Raw, name: str) -> bytes | None:
    # Encoded anew, so that a file that was pretty-printed on the way still holds.
    try:
        value = decode(raw)
    except _UNREADABLE as error:
        raise InvalidInput(f"{name} cannot be read: {error}", hint=_UNCHANGED) from error
    return None if value is None else canonical(value, name)


def _check(record: Record) -> None:
    """Raise InvalidInput, saying what is wrong, unless this ledger could hold ``record``."""
    _check_kind(record.kind)
    if record.visibility not in VISIBILITIES:
        raise InvalidInput(f"invalid visibility: {record.visibility[:200]!r}", hint=_UNCHANGED)
    if record.schema_version < 1:
        raise InvalidInput("schema_version must be > 0", hint=_UNCHANGED)
    if len(record.link) != _DIGEST_BYTES:
        raise InvalidInput("link is no SHA-256", hint=_UNCHANGED)
    if record.run_id is not None:
        check_name(record.run_id, "run_id")
    if record.erasure != "expired":
        _check_header(record)
    elif not _EXPIRED_ID.fullmatch(record.event_id) or _told(record):
        raise InvalidInput("an expired event says more than is left of one", hint=_UNCHANGED)
    if record.erasure is None:
        _check_content(record)
    elif record.salt or record.summary or record.refs or record.payload or record.payload_bytes:
        raise InvalidInput("content stands where the event says it was erased", hint=_UNCHANGED)


def _check_kind(name: str) -> None:
    known = KINDS.get(check_name(name, "kind"))
    if known is None or not known.durable:
        raise InvalidKind(
            f"invalid kind: {name!r} is none that this Treering keeps", hint="update Treering"
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
    check_time(record.ts_ms)
    if not 0 < record.recorded_ms <= TIME_MS_MAX:
        raise InvalidInput(f"recorded_ms {record.recorded_ms} is no such time", hint=_UNCHANGED)
    if len(record.content_digest) != _DIGEST_BYTES:
        raise InvalidInput("content_digest is no SHA-256", hint=_UNCHANGED)


def _check_content(record: Record) -> None:
    place = f"seq {record.seq} of session {record.session_id}"
    salt, summary, refs, payload = record.salt, record.summary, record.refs, record.payload
    if salt is None or summary is None:
        raise InvalidInput(f"{place} lacks its content", hint=_UNCHANGED)
    check_summary(summary)
    if len(salt) != chain.SALT_BYTES:
        raise InvalidInput(f"{place} has a salt of another size", hint=_UNCHANGED)
    if len(refs or b"") > REFS_BYTES_MAX or len(payload or b"") > SPILL_BYTES_MAX:
        raise TooLarge(f"refs or payload of {place} exceeds its cap", hint=_UNCHANGED)
    if chain.content_digest(salt, summary, refs, payload) != record.content_digest:
        raise InvalidInput(f"{place} does not hold what its digest says", hint=_UNCHANGED)


def _told(record: Record) -> bool:
    """Whether a record says who, when or what for, as an expired one does not."""
    absent = (record.origin, record.run_seq, record.turn_id, record.user_id)
    blank = (record.source, record.agent_id, record.ts_ms, record.recorded_ms)
    return any(v is not None for v in absent) or any(blank) or bool(record.content_digest)
