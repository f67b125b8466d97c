"""Rows: results of SQL, and the values that the events table holds.

Flags never grow a row: bit 8 is always set, so the number always takes one byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import NoneType
from typing import Any, Final, TypeAlias

import apsw
from uuid_utils import UUID

from treering.errors import Corrupt
from treering.ledger.records import FORGOTTEN, Record
from treering.model.codec import decode
from treering.model.events import REDACTED, SCHEMA_VERSION, Event, Header
from treering.storage.encoding import (
    ERASED,
    EXPIRED,
    NAMED,
    PRIVATE,
    erasure_of,
    name_key,
    name_of,
    payload_of,
)
from treering.storage.sealing import Opener, is_box

Row: TypeAlias = tuple[Any, ...]
PENDING: Final = "SELECT value FROM ledger WHERE name = 'erasure_pending'"
"""Whether something that was erased is still in the files."""


def session_name(table: str) -> str:
    """Return SQL for the name of a session, or what it is called since that was forgotten."""
    return f"coalesce({table}.name, '{FORGOTTEN}' || lower(hex(substr({table}.genesis, 1, 8))))"


def fetch_all(connection: apsw.Connection, statement: str, bindings: Any = ()) -> list[Row]:
    """Return every row."""
    rows: list[Any] = connection.execute(statement, bindings).fetchall()
    return rows


def fetch_one(connection: apsw.Connection, statement: str, bindings: Any = ()) -> Row | None:
    """Return the first row, or None."""
    row: Any = connection.execute(statement, bindings).fetchone()
    return row  # type: ignore[no-any-return]


def fetch_value(connection: apsw.Connection, statement: str, bindings: Any = ()) -> Any:
    """Return the first column of the first row, or None."""
    row: Any = connection.execute(statement, bindings).fetchone()
    return None if row is None else row[0]


def is_sound(connection: apsw.Connection) -> bool:
    """Whether SQLite finds every page where it belongs."""
    try:
        return bool(fetch_value(connection, "PRAGMA integrity_check(1)") == "ok")
    except (apsw.Error, UnicodeDecodeError):
        return False


def key_of_names(connection: apsw.Connection) -> bytes:
    """Return the key of the hashes that names are found by. Raise Corrupt if it is gone."""
    key = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'name_key'")
    if not isinstance(key, bytes):
        raise Corrupt(
            "the ledger is damaged: the key by which names are found is gone",
            hint="keep a copy, then restore from an export or a backup",
        )
    return key


def name_id(connection: apsw.Connection, text: str) -> int:
    """Return the id of a name, 0 if there is none."""
    key = name_key(key_of_names(connection), text)
    return fetch_value(connection, "SELECT id FROM names WHERE key = ?", (key,)) or 0


COLUMNS: Final = (
    "position", "scope", "session", "seq", "event_id", "event_name", "kind", "source", "origin",
    "run", "run_seq", "turn", "agent", "user", "ts_ms", "recorded_ms", "flags", "schema_version",
    "payload_bytes", "content_digest", "link", "summary", "refs",
)  # fmt: skip

_READ: Final = tuple(column for column in COLUMNS if column != "scope")
"""What is read of an event; its session knows the scope."""
SESSION: Final = _READ.index("session")
SEQ: Final = _READ.index("seq")
KIND: Final = _READ.index("kind")
FLAGS: Final = _READ.index("flags")
NAME_COLUMNS: Final = tuple(
    _READ.index(column) for column in ("kind", "source", "origin", "run", "turn", "agent", "user")
)
POSITION: Final = _READ.index("position")
EVENT_ID: Final = _READ.index("event_id")
PAYLOAD_BYTES: Final = _READ.index("payload_bytes")
_PAYLOAD: Final = len(_READ)
_BLOB: Final = len(_READ) + 1

HEADER: Final = ", ".join(f"e.{column}" for column in _READ)
EVENT: Final = f"{HEADER}, c.payload, c.blob"
RECORD: Final = f"{EVENT}, c.salt"
WITH_CONTENT: Final = "JOIN contents AS c ON c.position = e.position"
_INT, _BLOB_TYPE = frozenset({int}), frozenset({bytes})
_NUMBER, _TEXT, _BYTES = (frozenset({one, NoneType}) for one in (int, str, bytes))
_RECORD_TYPES: Final[tuple[frozenset[type], ...]] = (
    _INT, _INT, _INT, _BLOB_TYPE, _TEXT, _INT, _INT, _NUMBER, _NUMBER, _NUMBER, _NUMBER, _INT,
    _NUMBER, _INT, _INT, _INT, _INT, _INT, _BLOB_TYPE, _BLOB_TYPE, _TEXT, _BYTES, _BYTES, _NUMBER,
    _BYTES,
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
    # UUID takes its bytes by position, since a keyword costs 90 ns an event.
    return [
        Header(
            position, seq,
            str(UUID(None, event_id)) if not flags & NAMED else name_of(event_id, name),
            (owner := sessions[session])[0], owner[1], names[kind],
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
    sealed: Mapping[int, bytes | None],
) -> list[Event]:
    """Return the events that ``rows`` hold; each row ends with its payload and blob.

    ``sealed`` has the payloads that are sealed, by position.
    """
    return [
        Event(
            position, seq,
            str(UUID(None, event_id)) if not flags & NAMED else name_of(event_id, name),
            (owner := sessions[session])[0], owner[1], names[kind],
            names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe",
            REDACTED if (erased := flags & ERASED) else summary,
            refs and decode(refs), payload_bytes, erased != 0, flags >= EXPIRED,
            version, digest, link,
            decode(payload)
            if payload is not None and blob is None and version == SCHEMA_VERSION
            else payload_of(
                names[kind],
                sealed[position] if payload_bytes and payload is None and blob is None else payload,
                blob and blobs[blob], flags, version,
            ),
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, blob,
        ) in rows
    ]  # fmt: skip


class Sealed(Exception):
    """There are sealed payloads among the events."""


class Unsealed(dict[int, bytes | None]):
    """No sealed payloads. Raise Sealed if one is asked for."""

    def __missing__(self, position: int) -> bytes | None:
        """Say that there is one."""
        raise Sealed(position)


def records(
    rows: Iterable[Row],
    names: Mapping[int, str],
    sessions: Mapping[int, tuple[str, str]],
    blobs: Mapping[int, bytes | None],
    opener: Opener,
) -> list[Record]:
    """Return what ``rows`` hold, bytes as they were recorded; each row ends with its salt.

    Raise TypeError if a column holds something else than what was written.
    """
    rows = list(rows)
    # Column by column: a page of rows costs 25 checks, and not 25 for each row.
    columns = zip(zip(*rows, strict=True), _RECORD_TYPES, strict=True) if rows else ()
    if not all(types.issuperset(map(type, column)) for column, types in columns):
        raise TypeError("a column holds another type of value")
    return [
        Record(
            position, (owner := sessions[session])[0], owner[1], seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
            names[kind], names[source], origin and names[origin], run and names[run], run_seq,
            turn and names[turn], names[agent], user and names[user], ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe", version, summary, refs,
            (content := (salt, payload, None)
             if blob is None and not is_box(salt)
             else opener.recorded(
                 owner[0], event_id, salt, payload,
                 None if blob is None else partial(blobs.__getitem__, blob)))[1],
            content[0], digest, link, erasure_of(flags), payload_bytes, content[2],
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run, run_seq, turn,
            agent, user, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary,
            refs, payload, blob, salt,
        ) in rows
    ]  # fmt: skip


def sealed(rows: Iterable[Row]) -> list[Row]:
    """Return those of ``rows`` whose payload is sealed."""
    return [
        row for row in rows if row[_PAYLOAD] is None and row[_BLOB] is None and row[PAYLOAD_BYTES]
    ]
