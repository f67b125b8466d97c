"""Rows of the events table, and the values they hold."""

from __future__ import annotations

from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from uuid_utils import UUID

from treering.ledger.records import Record
from treering.model.codec import decode
from treering.model.events import REDACTED, SCHEMA_VERSION, Event, Header
from treering.storage.encoding import (
    ERASED,
    EXPIRED,
    NAMED,
    PRIVATE,
    erasure_of,
    name_of,
    payload_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.storage.encoding import Row
    from treering.storage.sealing import Opener

_READ: Final = (
    "position", "session", "seq", "event_id", "event_name", "kind", "source", "origin", "run_id",
    "run_seq", "turn_id", "agent_id", "user_id", "ts_ms", "recorded_ms", "flags",
    "schema_version", "payload_bytes", "content_digest", "link", "summary", "refs",
)  # fmt: skip
SESSION: Final = _READ.index("session")
SEQ: Final = _READ.index("seq")
KIND: Final = _READ.index("kind")
FLAGS: Final = _READ.index("flags")
PAYLOAD_BYTES: Final = _READ.index("payload_bytes")
BLOB: Final = len(_READ) + 1
WIDTH: Final = len(_READ)

HEADER: Final = ", ".join(f"e.{column}" for column in _READ)
EVENT: Final = (
    f"{HEADER}, e.payload, e.blob,"
    " CASE WHEN e.payload IS NULL AND e.payload_bytes > 0 THEN e.salt END AS box"
)
RECORD: Final = f"{HEADER}, e.payload, e.blob, e.salt"
_NUMBER, _TEXT, _BYTES = (int, NoneType), (str, NoneType), (bytes, NoneType)
_RECORD_TYPES: Final[tuple[Any, ...]] = (
    int, int, int, bytes, _TEXT, str, str, _TEXT, _TEXT, _NUMBER, _TEXT, str, _TEXT,
    int, int, int, int, int, bytes, bytes, _TEXT, _BYTES, _BYTES, _BYTES, _BYTES,
)  # fmt: skip
"""What each column of a record holds."""


def headers(rows: Iterable[Row], scope: str, sessions: Mapping[int, str]) -> list[Header]:
    """Return the headers in ``rows``; further columns are ignored."""
    return [
        Header(
            position, seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
            scope, sessions[session], kind, source, origin, run_id, run_seq, turn_id, agent_id,
            user_id, ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe",
            REDACTED if (erased := flags & ERASED) else summary,
            refs and decode(refs), payload_bytes, erased != 0, flags >= EXPIRED,
            version, digest, link,
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run_id, run_seq, turn_id,
            agent_id, user_id, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link,
            summary, refs, *_,
        ) in rows
    ]  # fmt: skip


def events(
    rows: Iterable[Row],
    scope: str,
    sessions: Mapping[int, str],
    blobs: Mapping[bytes, bytes],
    opener: Opener,
) -> list[Event]:
    """Return the events in ``rows``; payload, blob and box follow the header."""
    return [
        Event(
            position, seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
            scope, sessions[session], kind, source, origin, run_id, run_seq, turn_id, agent_id,
            user_id, ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe",
            REDACTED if (erased := flags & ERASED) else summary,
            refs and decode(refs), payload_bytes, erased != 0, flags >= EXPIRED,
            version, digest, link,
            decode(payload)
            if payload is not None and blob is None and version == SCHEMA_VERSION
            else payload_of(
                kind,
                payload if box is None or blob else opener.payload(scope, event_id, box),
                blob and _opened(opener, scope, blob, blobs), flags, version,
            ),
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run_id, run_seq, turn_id,
            agent_id, user_id, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link,
            summary, refs, payload, blob, box, *_,
        ) in rows
    ]  # fmt: skip


def _opened(opener: Opener, scope: str, blob: bytes, blobs: Mapping[bytes, bytes]) -> bytes | None:
    # A missing one was erased between two reads.
    body = blobs.get(blob)
    return None if body is None else opener.blob(scope, blob, body)


def records(
    rows: Iterable[Row],
    scope: str,
    sessions: Mapping[int, str],
    blobs: Mapping[bytes, bytes],
    opener: Opener,
) -> list[Record]:
    """Return the records in ``rows``, bytes as they were recorded; the salt follows the blob.

    Raise TypeError if a column holds a value of another type.
    """
    rows = list(rows)
    if not all(all(map(isinstance, row, _RECORD_TYPES)) for row in rows):
        raise TypeError("a column holds another type of value")
    return [
        Record(
            position=position,
            scope=scope,
            session_id=sessions[session],
            seq=seq,
            event_id=str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
            kind=kind,
            source=source,
            origin=origin,
            run_id=run_id,
            run_seq=run_seq,
            turn_id=turn_id,
            agent_id=agent_id,
            user_id=user_id,
            ts_ms=ts_ms,
            recorded_ms=recorded_ms,
            visibility="private" if flags & PRIVATE else "safe",
            schema_version=version,
            summary=summary,
            refs=refs,
            payload=(
                content := opener.recorded(
                    scope,
                    event_id,
                    salt,
                    payload,
                    None if blob is None else partial(_opened, opener, scope, blob, blobs),
                )
            )[1],
            salt=content[0],
            unread=content[2],
            content_digest=digest,
            link=link,
            erasure=erasure_of(flags),
            payload_bytes=payload_bytes,
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run_id, run_seq, turn_id,
            agent_id, user_id, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link,
            summary, refs, payload, blob, salt, *_,
        ) in rows
    ]  # fmt: skip
