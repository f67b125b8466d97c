"""Rows of the events table, and the values they hold.

Flags never grow a row: bit 8 is always set, so the number always takes one byte.
"""

from __future__ import annotations

import hmac
import uuid
from typing import TYPE_CHECKING, Any, Final

from treering.ledger.records import Record
from treering.model.codec import decode
from treering.model.events import REDACTED, SCHEMA_VERSION, Event, Header
from treering.model.upcast import upcast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.ledger.records import Erasure
    from treering.storage.sqlite.sql import Row

PRIVATE: Final = 1
ERASED: Final = 2
PLACEHOLDER: Final = 4
ALWAYS: Final = 8
SPILLED: Final = 16
NAMED: Final = 32
EXPIRED: Final = 64


COLUMNS: Final = (
    "position", "scope", "session", "seq", "event_id", "event_name", "kind", "source", "origin",
    "run", "run_seq", "turn", "agent", "user", "ts_ms", "recorded_ms", "flags", "schema_version",
    "payload_bytes", "content_digest", "link", "summary", "refs",
)  # fmt: skip

HEADER: Final = ", ".join(f"e.{column}" for column in COLUMNS)
CONTENT: Final = "c.payload, c.salt, b.body"
JOINS: Final = """
JOIN contents AS c ON c.position = e.position
LEFT JOIN blobs AS b ON b.id = c.blob
"""
INSERT_EVENT: Final = (
    f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
)
INSERT_CONTENT: Final = "INSERT INTO contents (position, salt, payload, blob) VALUES (?, ?, ?, ?)"


def id_key(scope_key: bytes, event_id: str) -> tuple[bytes, bool]:
    """Return the 16 bytes that stand for an id, and whether its text must be kept beside them."""
    if len(event_id) == 36:
        try:
            parsed = uuid.UUID(event_id)
        except ValueError:
            return name_key(scope_key, event_id), True
        if str(parsed) == event_id:
            return parsed.bytes, False
    return name_key(scope_key, event_id), True


def name_key(key: bytes, name: str) -> bytes:
    """Return a keyed hash of ``name``, so that no index holds the name itself."""
    return hmac.digest(key, name.encode(), "sha256")[:16]


def erasure_flags(erasure: Erasure | None) -> int:
    """Return the flags that say how content was erased."""
    match erasure:
        case None:
            return 0
        case "null":
            return ERASED
        case "placeholder":
            return ERASED | PLACEHOLDER
        case "expired":
            return ERASED | EXPIRED


def headers(
    rows: Iterable[Row], names: Mapping[int, str], sessions: Mapping[int, tuple[str, str]]
) -> list[Header]:
    """Return the headers that ``rows`` hold."""
    return [
        Header(
            position, seq, event_text(event_id, name, flags), *sessions[session], names[kind],
            names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe", REDACTED if flags & ERASED else summary,
            refs and decode(refs), payload_bytes, flags & ERASED != 0, flags & EXPIRED != 0,
            version, digest, link,
        )
        for (
            position, _, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs,
        ) in rows
    ]  # fmt: skip


def events(
    rows: Iterable[Row], names: Mapping[int, str], sessions: Mapping[int, tuple[str, str]]
) -> list[Event]:
    """Return the events that ``rows`` hold; each row ends with payload, salt and blob."""
    return [
        Event(
            position, seq, event_text(event_id, name, flags), *sessions[session], names[kind],
            names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe", REDACTED if flags & ERASED else summary,
            refs and decode(refs), payload_bytes, flags & ERASED != 0, flags & EXPIRED != 0,
            version, digest, link,
            decode(payload)
            if payload is not None and flags & SPILLED == 0 and version == SCHEMA_VERSION
            else _payload(names[kind], payload, blob, flags, version),
        )
        for (
            position, _, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, _, blob,
        ) in rows
    ]  # fmt: skip


def records(
    rows: Iterable[Row], names: Mapping[int, str], sessions: Mapping[int, tuple[str, str]]
) -> list[Record]:
    """Return what ``rows`` hold, bytes as they lie there."""
    return [
        Record(
            position=position,
            scope=sessions[session][0],
            session_id=sessions[session][1],
            seq=seq,
            event_id=event_text(event_id, name, flags),
            kind=names[kind],
            source=names[source],
            origin=origin and names[origin],
            run_id=run and names[run],
            run_seq=run_seq,
            turn_id=turn and names[turn],
            agent_id=names[agent],
            user_id=user and names[user],
            ts_ms=ts_ms,
            recorded_ms=recorded_ms,
            visibility="private" if flags & PRIVATE else "safe",
            schema_version=version,
            summary=summary,
            refs=refs and refs.encode(),
            payload=decompress(blob) if flags & SPILLED and blob is not None else payload,
            salt=salt,
            content_digest=digest,
            link=link,
            erasure=_erasure(flags),
            payload_bytes=payload_bytes,
        )
        for (
            position, _, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, salt, blob,
        ) in rows
    ]  # fmt: skip


def event_text(event_id: bytes, name: str | None, flags: int) -> str:
    """Return an id as its author wrote it; a hash, once that is gone."""
    if not flags & NAMED:
        text = event_id.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return name if name is not None else f"#{event_id.hex()}"


def decompress(blob: bytes) -> bytes:
    """Return the payload that a blob holds."""
    import zstandard  # noqa: PLC0415  (only large payloads pay for it)

    return zstandard.ZstdDecompressor().decompress(blob)


def _payload(kind: str, payload: bytes | None, blob: bytes | None, flags: int, version: int) -> Any:
    if flags & PLACEHOLDER:
        return REDACTED
    encoded = decompress(blob) if flags & SPILLED and blob is not None else payload
    return None if encoded is None else upcast(kind, decode(encoded), version)


def _erasure(flags: int) -> Erasure | None:
    if not flags & ERASED:
        return None
    if flags & EXPIRED:
        return "expired"
    return "placeholder" if flags & PLACEHOLDER else "null"
