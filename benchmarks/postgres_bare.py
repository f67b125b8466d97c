"""The limit on PostgreSQL: a table like the ledger's own, written and read with psycopg alone.

It has the same columns, keys, indexes and partitions, and none of the promises: digests and links
are filled with bytes of their size, nobody looks for repeats, and the writer counts by itself.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import msgspec
import psycopg
import uuid_utils
from psycopg import sql

from treering import NewEvent
from treering.app import administer
from treering.storage.postgres.batch import COLUMN_TYPES, COLUMNS
from treering.storage.postgres.rows import EVENT
from workload import SCOPE, SOURCES

SCHEMA: Final = "bare"
_WRITTEN: Final = COLUMNS[1:]  # The position is given by the table.
INSERT: Final = (
    f"INSERT INTO bare.events ({', '.join(_WRITTEN)}) VALUES ({', '.join(['%s'] * len(_WRITTEN))})"
)
COPY: Final = f"COPY bare.events ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
READ: Final = f"SELECT {EVENT} FROM bare.events AS e WHERE e.scope = %s AND e.session = %s"
FIRST: Final = f"{READ} ORDER BY e.seq LIMIT %s"
LAST: Final = f"{READ} ORDER BY e.seq DESC LIMIT %s"
_REFS, _PAYLOAD = (EVENT.split(", ").index(f"e.{column}") for column in ("refs", "payload"))
_SIZE: Final = """
SELECT sum(pg_total_relation_size(oid))::bigint
FROM pg_class
WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'S')
"""
_DIGEST, _SALT = os.urandom(32), os.urandom(16)
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class BareEvents:
    """A connection to the bare table."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._seqs: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def append(self, events: Sequence[NewEvent]) -> None:
        """Encode and store ``events`` in one transaction."""
        if len(events) == 1:
            self._connection.execute(INSERT, self._row(events[0]))
            return
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(INSERT, [self._row(event) for event in events])

    def copy(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Store rows of the ledger's own columns, in binary and in one transaction."""
        with self._connection.cursor() as cursor, cursor.copy(COPY) as copy:
            copy.set_types(COLUMN_TYPES)
            for row in rows:
                copy.write_row(row)

    def first(self, session: int, count: int) -> list[tuple[Any, ...]]:
        """Return the first rows of a session, refs and payload decoded."""
        return _decoded(self._connection.execute(FIRST, (SCOPE, session, count), binary=True))

    def last(self, session: int, count: int) -> list[tuple[Any, ...]]:
        """Return the last rows of a session in order, refs and payload decoded."""
        found = self._connection.execute(LAST, (SCOPE, session, count), binary=True)
        return _decoded(found)[::-1]

    def _row(self, event: NewEvent) -> tuple[Any, ...]:
        session = int(event.session_id.rpartition("-")[2])
        seq = self._seqs[session] = self._seqs.get(session, 0) + 1
        made = uuid_utils.UUID(event.event_id) if event.event_id else uuid_utils.uuid7()
        payload = _encode(event.payload)
        return (
            session, seq, event.ts_ms, event.ts_ms, event.run_seq, 1, len(payload), 8, 1,
            event.scope, made.bytes, event.kind, SOURCES[event.kind],
            event.agent_id, _DIGEST, _DIGEST, _SALT, None, None, event.run_id, event.turn_id,
            None, event.summary, _encode(event.refs), None, payload,
        )  # fmt: skip


@contextmanager
def fresh_ledger(url: str, schema: str) -> Iterator[str]:
    """Give the address of a new ledger, and remove it afterwards."""
    place = f"{url}&schema={schema}"
    administer(place).init(with_roles=False)
    try:
        yield place
    finally:
        _drop(url, schema)


@contextmanager
def bare_table(url: str, *, like: str) -> Iterator[None]:
    """Lay out the bare table after the events of the ledger in schema ``like``."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute("CREATE SEQUENCE bare.positions")
        connection.execute(
            sql.SQL(
                "CREATE TABLE bare.events (LIKE {} INCLUDING ALL) PARTITION BY HASH (scope)"
            ).format(sql.Identifier(like, "events"))
        )
        connection.execute(
            "ALTER TABLE bare.events ALTER position SET DEFAULT nextval('bare.positions')"
        )
        partitions = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass", (f"{like}.events",)
        ).fetchone()
        count = partitions[0] if partitions else 0
        for remainder in range(count):
            connection.execute(
                f"CREATE TABLE bare.events_{remainder:02} PARTITION OF bare.events"
                f" FOR VALUES WITH (MODULUS {count}, REMAINDER {remainder})"
            )
    try:
        yield
    finally:
        _drop(url, SCHEMA)


def size(url: str, schema: str) -> int:
    """Return the bytes of all tables and indexes of a schema."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_SIZE, (schema,)).fetchone()
    return int(row[0]) if row else 0


def settle(url: str) -> None:
    """Have the server finish what it would else do at a time of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def _drop(url: str, schema: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def _decoded(found: psycopg.Cursor[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        (*row[:_REFS], _decode(row[_REFS]), _decode(row[_PAYLOAD]), *row[_PAYLOAD + 1 :])
        for row in found.fetchall()
    ]
