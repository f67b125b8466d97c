"""The native JSONL: lines that restore a scope, or one session, to the same bytes and chain.

{"record":"export", …}        what this is
{"record":"session", …}       before the first event of each session; a fork names its parent
{"record":"event", …}         in the ledger's order
{"record":"end", …}           how many there were, so that a cut file is noticed
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from treering.errors import InvalidInput
from treering.ledger.records import Erasure, ForkPoint, Record, SessionRecord
from treering.model.codec import canonical, decode
from treering.model.fields import check_name

FORMAT: Final = "treering.export.v1"

Payloads = Literal["included", "withheld"]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Digest = Annotated[str, msgspec.Meta(pattern="^(?:[0-9a-f]{2})*$")]

ABSENT: Final = msgspec.Raw(b"null")
"""JSON that is not there; left out of a line."""


class OpeningLine(
    msgspec.Struct, frozen=True, tag_field="record", tag="export", omit_defaults=True
):
    """What the file holds."""

    format: Literal["treering.export.v1"]
    scope: str
    payloads: Payloads
    at_ms: Number
    id_keys: dict[str, str] = {}
    """By what to know the keys under which ids of the scope are hidden."""


class ParentFields(msgspec.Struct, frozen=True):
    """What a fork leaves, and where: events of its parent up to ``seq`` come before its own."""

    session_id: str
    genesis: Digest
    seq: Number
    link: Digest


class SessionLine(
    msgspec.Struct, frozen=True, tag_field="record", tag="session", omit_defaults=True
):
    """Where a session's chain begins."""

    session_id: str
    salt: Digest
    genesis: Digest
    scope_key: Digest
    parent: ParentFields | None = None


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
_UNCHANGED: Final = "import an unchanged export"


def parse_line(line: bytes) -> Line:
    """Return what a line of a file says. Raises InvalidInput if it is not a line of an export."""
    try:
        entry: Line = decode_line(line)
    except _UNREADABLE as error:
        raise InvalidInput(f"not a line of an export: {error}", hint=_UNCHANGED) from error
    return entry


def to_session(line: SessionLine, scope: str) -> SessionRecord:
    """Return where the session of a line begins."""
    first = bytes.fromhex(line.genesis)
    return SessionRecord(
        scope=scope,
        scope_key=bytes.fromhex(line.scope_key),
        session_id=line.session_id,
        salt=bytes.fromhex(line.salt),
        genesis=first,
        head_seq=0 if line.parent is None else line.parent.seq,
        head_link=first,
        cut=None if line.parent is None else _to_cut(line.parent),
    )


def from_session(session: SessionRecord) -> SessionLine:
    """Return the line that introduces a session."""
    cut = session.cut
    return SessionLine(
        session.session_id,
        session.salt.hex(),
        session.genesis.hex(),
        session.scope_key.hex(),
        None
        if cut is None
        else ParentFields(cut.parent, cut.genesis.hex(), cut.seq, cut.link.hex()),
    )


def _to_cut(parent: ParentFields) -> ForkPoint:
    return ForkPoint(
        parent=parent.session_id,
        genesis=bytes.fromhex(parent.genesis),
        seq=parent.seq,
        link=bytes.fromhex(parent.link),
    )


def to_record(line: EventLine, scope: str) -> Record:
    """Return the record that a line holds. Raises InvalidInput if its content cannot be read."""
    return Record(
        0, scope, check_name(line.session_id, "session_id"), line.seq, line.event_id,
        line.kind, line.source, line.origin, line.run_id, line.run_seq, line.turn_id,
        line.agent_id, line.user_id, line.ts_ms, line.recorded_ms, line.visibility,
        line.schema_version, line.summary, _content(line.refs, "refs"),
        _content(line.payload, "payload"), None if line.salt is None else bytes.fromhex(line.salt),
        bytes.fromhex(line.content_digest), bytes.fromhex(line.link), line.erasure,
        line.payload_bytes, None,
    )  # fmt: skip


def _content(raw: msgspec.Raw, name: str) -> bytes | None:
    # Encoded again, so that a file that was pretty-printed on the way still holds.
    try:
        value = decode(raw)
    except _UNREADABLE as error:
        raise InvalidInput(f"{name} cannot be read: {error}", hint=_UNCHANGED) from error
    return None if value is None else canonical(value, name)
