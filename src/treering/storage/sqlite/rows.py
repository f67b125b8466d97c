"""Rows of the events table, and the values they hold.

Flags never grow a row: bit 8 is always set, so the number always takes one byte.
"""

from __future__ import annotations

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
    PAGE_BYTES_MAX,
    PRIVATE,
    erasure_of,
    name_of,
    payload_of,
    unspilled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.storage.sqlite.sql import Row


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


def headers(
    rows: Iterable[Row], names: Mapping[int, str], sessions: Mapping[int, tuple[str, str]]
) -> list[Header]:
    """Return the headers that ``rows`` hold."""
    return [
        Header(
            position, seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
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
            str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
            (place := sessions[session])[0], place[1], names[kind],
            names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe",
            REDACTED if (erased := flags & ERASED) else summary,
            refs and decode(refs), payload_bytes, erased != 0, flags >= EXPIRED,
            version, digest, link,
            decode(payload)
            if payload is not None and blob is None and version == SCHEMA_VERSION
            else payload_of(names[kind], payload, blob and blobs[blob], flags, version),
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
            event_id=str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
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
            payload=payload if blob is None else unspilled(payload, blobs[blob]),
            salt=salt,
            content_digest=digest,
            link=link,
            erasure=erasure_of(flags),
            payload_bytes=payload_bytes,
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, blob, salt,
        ) in rows
    ]  # fmt: skip


def bounded(rows: list[Row]) -> list[Row]:
    """Return as many of ``rows`` as their payloads fit in memory together; at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += row[_PAYLOAD_BYTES] or 0
        if total > PAGE_BYTES_MAX and count:
            return rows[:count]
    return rows
