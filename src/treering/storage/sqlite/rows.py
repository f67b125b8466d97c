"""Rows of the events table, and the values they hold.

Flags never grow a row: bit 8 is always set, so the number always takes one byte.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from uuid_utils import UUID

from treering.ledger.records import Record
from treering.model.codec import SPILL_BYTES_MAX, decode, encode
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

_READ: Final = tuple(column for column in COLUMNS if column != "scope")
"""What is read of an event; its session knows the scope."""
SESSION: Final = _READ.index("session")
NAME_COLUMNS: Final = tuple(
    _READ.index(column) for column in ("kind", "source", "origin", "run", "turn", "agent", "user")
)
PREVIEW_CHARACTERS: Final = 200
PAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payloads of one page; a page of giants is cut short."""
_PAYLOAD_BYTES: Final = _READ.index("payload_bytes")

HEADER: Final = ", ".join(f"e.{column}" for column in _READ)
EVENT: Final = f"{HEADER}, c.payload, c.blob"
RECORD: Final = f"{EVENT}, c.salt"
WITH_CONTENT: Final = "JOIN contents AS c ON c.position = e.position"
_NUMBER, _TEXT, _BYTES = (int, NoneType), (str, NoneType), (bytes, NoneType)
_RECORD_TYPES: Final[tuple[Any, ...]] = (
    int, int, int, bytes, _TEXT, int, int, _NUMBER, _NUMBER, _NUMBER, _NUMBER, int, _NUMBER,
    int, int, int, int, int, bytes, bytes, _TEXT, _BYTES, _BYTES, _NUMBER, _BYTES,
)  # fmt: skip
"""What each column of a record holds, if it is not damaged."""
AT_ONCE: Final = 25
"""Rows that one statement inserts when there are many: a quarter cheaper than one by one."""
_EVENT_ROW: Final = f"({', '.join('?' * len(COLUMNS))})"
_CONTENT_ROW: Final = "(?, ?, ?, ?)"
_INTO_EVENTS: Final = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES "
_INTO_CONTENTS: Final = "INSERT INTO contents (position, salt, payload, blob) VALUES "
INSERT_EVENT: Final = _INTO_EVENTS + _EVENT_ROW
INSERT_EVENTS: Final = _INTO_EVENTS + ", ".join([_EVENT_ROW] * AT_ONCE)
INSERT_CONTENT: Final = _INTO_CONTENTS + _CONTENT_ROW
INSERT_CONTENTS: Final = _INTO_CONTENTS + ", ".join([_CONTENT_ROW] * AT_ONCE)


def id_key(scope_key: bytes, event_id: str) -> tuple[bytes, bool]:
    """Return the 16 bytes that stand for an id, and whether its text must be kept beside them."""
    if len(event_id) == 36:
        try:
            parsed = UUID(event_id)
        except ValueError:
            return name_key(scope_key, event_id), True
        if str(parsed) == event_id:
            return parsed.bytes, False
    return name_key(scope_key, event_id), True


def name_key(key: bytes, name: str) -> bytes:
    """Return a keyed hash of ``name``, so that no index holds the name itself."""
    return hmac.digest(key, name.encode(), "sha256")[:16]


def stub(payload: bytes) -> bytes:
    """Return what stands in the place of a spilled payload for plain SQL readers."""
    preview = payload[: PREVIEW_CHARACTERS * 4].decode(errors="ignore")[:PREVIEW_CHARACTERS]
    digest = sha256(payload).hexdigest()
    return encode({"spilled": {"bytes": len(payload), "preview": preview, "sha256": digest}})


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
            position, seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else _name(event_id, name),
            (place := sessions[session])[0], place[1], names[kind],
            names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe",
            REDACTED if (erased := flags & ERASED) else summary,
            refs and decode(refs), payload_bytes, erased != 0, flags >= EXPIRED,
            version, digest, link,
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs,
        ) in rows
    ]  # fmt: skip


def events(
    rows: Iterable[Row],
    names: Mapping[int, str],
    sessions: Mapping[int, tuple[str, str]],
    blobs: Mapping[int, bytes | None],
) -> list[Event]:
    """Return the events that ``rows`` hold; each row ends with its payload and blob."""
    return [
        Event(
            position, seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else _name(event_id, name),
            (place := sessions[session])[0], place[1], names[kind],
            names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe",
            REDACTED if (erased := flags & ERASED) else summary,
            refs and decode(refs), payload_bytes, erased != 0, flags >= EXPIRED,
            version, digest, link,
            decode(payload)
            if payload is not None and blob is None and version == SCHEMA_VERSION
            else _payload(names[kind], payload, blob and blobs[blob], flags, version),
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, blob,
        ) in rows
    ]  # fmt: skip


def records(
    rows: Iterable[Row],
    names: Mapping[int, str],
    sessions: Mapping[int, tuple[str, str]],
    blobs: Mapping[int, bytes | None],
) -> list[Record]:
    """Return what ``rows`` hold, bytes as they lie there; each row ends with its salt.

    Raises TypeError if a column holds something else than what was written.
    """
    rows = list(rows)
    if not all(all(map(isinstance, row, _RECORD_TYPES)) for row in rows):
        raise TypeError("a column holds another type of value")
    return [
        Record(
            position=position,
            scope=sessions[session][0],
            session_id=sessions[session][1],
            seq=seq,
            event_id=str(UUID(bytes=event_id)) if not flags & NAMED else _name(event_id, name),
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
            refs=refs,
            payload=payload if blob is None else _unspilled(payload, blobs[blob]),
            salt=salt,
            content_digest=digest,
            link=link,
            erasure=_erasure(flags),
            payload_bytes=payload_bytes,
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, blob, salt,
        ) in rows
    ]  # fmt: skip


def decompress(body: bytes) -> bytes:
    """Return the payload that a blob holds. Raises ValueError if it is damaged."""
    import zstandard  # noqa: PLC0415  (only large payloads pay for it)

    try:
        if zstandard.frame_content_size(body) > SPILL_BYTES_MAX:
            raise ValueError("a blob claims to be larger than any")
        return zstandard.ZstdDecompressor().decompress(body)
    except zstandard.ZstdError as error:
        raise ValueError(f"a blob is damaged: {error}") from error


def bounded(rows: list[Row]) -> list[Row]:
    """Return as many of ``rows`` as their payloads fit in memory together; at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += row[_PAYLOAD_BYTES] or 0
        if total > PAGE_BYTES_MAX and count:
            return rows[:count]
    return rows


def _name(event_id: bytes, name: str | None) -> str:
    """Return an id that is no UUID as its author wrote it; a hash, once that is gone."""
    return name if name is not None else f"#{event_id.hex()}"


def _payload(kind: str, payload: bytes | None, blob: bytes | None, flags: int, version: int) -> Any:
    if flags & PLACEHOLDER:
        return REDACTED
    # A blob that is gone was erased between two reads.
    encoded = (blob or encode(REDACTED)) if flags & SPILLED else payload
    return None if encoded is None else upcast(kind, decode(encoded), version)


def _unspilled(stored: bytes | None, payload: bytes | None) -> bytes | None:
    if payload is not None and stored != stub(payload):
        raise TypeError("what stands for a blob is not what it holds")
    return payload


def _erasure(flags: int) -> Erasure | None:
    # As reads have it: whatever is not below EXPIRED is shown to nobody.
    if flags >= EXPIRED:
        return "expired"
    if flags & PLACEHOLDER:
        return "placeholder"
    return "null" if flags & ERASED else None
