"""The native JSONL: lines that restore a scope, or one session, to the same bytes and chain.

{"record":"export", …}        what this is
{"record":"session", …}       before the first event of each session
{"record":"event", …}         in the ledger's order
{"record":"end", …}           how many there were, so that a cut file is noticed
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from treering.ledger.records import Erasure

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
