"""Rows: results of SQL, the values of the events table, and the tables of projections."""

from __future__ import annotations

import contextlib
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import psycopg
from uuid_utils import UUID

from treering.ledger.records import FORGOTTEN, Record
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
from treering.storage.projections import in_format_style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from treering.storage.encoding import Row
    from treering.storage.postgres.server import Connection
    from treering.storage.sealing import Opener

KEYS: Final = {
    "tool_calls": "scope, position",
    "tool_extras": "scope, session, call, seq",
    "memory_rows": "scope, sort, key",
    "snapshots": "scope, session, view, seq",
}
"""The keys by which rows replace others."""
_PAIRS: Final = """(
  SELECT (value ->> 0)::bigint AS a, (value ->> 1)::bigint AS b
  FROM json_array_elements(:pairs::text::json)
)"""


def session_name(table: str) -> str:
    """Return SQL for the name of a session, or for its stand-in once the name is forgotten."""
    start = f"encode(substr({table}.genesis, 1, 8), 'hex')"
    return f"coalesce({table}.name, '{FORGOTTEN}' || {start})"


def fetch(connection: Connection, statement: str, values: Any) -> list[Row]:
    """Return the rows of a statement."""
    return connection.execute(statement, values, binary=True).fetchall()


def planned(connection: Connection, statement: str, values: Any) -> list[Row]:
    """Return the rows of a statement that is planned for its values."""
    # Planned each time: several indexes would do, and a plan made while the table was small may
    # use any of them for ever.
    return connection.execute(statement, values, prepare=False, binary=True).fetchall()


@contextlib.contextmanager
def streaming(connection: Connection, name: str) -> Iterator[psycopg.ServerCursor[Any]]:
    """Yield a cursor whose rows stay on the server until they are read; close it in any case."""
    cursor = connection.cursor(name=name, binary=True)
    try:
        yield cursor
    finally:
        # A lost server does not answer, and the cursor would stay open.
        with contextlib.suppress(psycopg.Error):
            cursor.close()
        psycopg.Cursor.close(cursor)


class PostgresTable:
    """Tables on one connection."""

    has_percentiles = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a statement."""
        return planned(self._connection, *translate(statement, values))

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[Row]:
        """Return the rows of a statement that may have many."""
        with streaming(self._connection, "projection") as cursor:
            cursor.execute(*translate(statement, values))
            yield from cursor

    def put(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert rows, in place of those with the same key."""
        names = ", ".join(columns)
        statement = (
            f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"
            f" ON CONFLICT ({KEYS[table]}) DO UPDATE"
            f" SET ({names}) = ({', '.join(f'excluded.{column}' for column in columns)})"
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, list(rows))


def translate(statement: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a statement of a projection, and its values, as the server takes them."""
    text = in_format_style(statement, _PAIRS)
    return text, {
        name: value.decode() if name == "pairs" else value for name, value in values.items()
    }


def empty_tables(connection: Connection, *tables: str) -> None:
    """Delete all rows of every scope. Call inside a transaction."""
    connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    for table in tables:
        connection.execute(f"DELETE FROM {table}")


def note_erased(connection: Connection, relations: Iterable[str]) -> None:
    """Note that tables hold bytes of erased rows, until they are rewritten."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO scrubs (relation) VALUES (%s)"
            " ON CONFLICT (relation) DO UPDATE SET since = clock_timestamp()",
            sorted({(relation,) for relation in relations}),
        )


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
            position, scope, sessions[session], seq,
            str(UUID(bytes=event_id)) if not flags & NAMED else name_of(event_id, name),
            kind, source, origin, run_id, run_seq, turn_id, agent_id, user_id, ts_ms, recorded_ms,
            "private" if flags & PRIVATE else "safe", version, summary, refs,
            (content := opener.recorded(
                scope, event_id, salt, payload,
                None if blob is None else partial(_opened, opener, scope, blob, blobs)))[1],
            content[0], digest, link, erasure_of(flags), payload_bytes, content[2],
        )
        for (
            position, session, seq, event_id, name, kind, source, origin, run_id, run_seq, turn_id,
            agent_id, user_id, ts_ms, recorded_ms, flags, version, payload_bytes, digest, link,
            summary, refs, payload, blob, salt, *_,
        ) in rows
    ]  # fmt: skip
