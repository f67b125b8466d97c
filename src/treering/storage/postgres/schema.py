"""Migrations: numbered SQL files, each applied once, all in one transaction."""

from __future__ import annotations

import os
import re
import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import uuid_utils
from psycopg import sql

from treering.errors import Corrupt, NotFound, SchemaTooNew, SchemaTooOld, Unsupported

if TYPE_CHECKING:
    from treering.storage.postgres.address import Address
    from treering.storage.postgres.connections import Connection

SERVER_VERSION_MIN: Final = 15
PARTITIONS: Final = 16
PARTITIONED: Final = ("events", "blobs")
SCRUBBED: Final = (*PARTITIONED, "search_documents", "memory_documents")
"""Tables whose partitions are rewritten after an erasure."""
HASHING: Final = (
    "heads", "sessions", "runs", "record_keys", "memory_rows", "tool_calls", "tool_extras",
)  # fmt: skip
"""Tables that hold names, or hashes of names and words: rewritten after those were erased."""
ERASABLE: Final = {
    "events": (
        "agent_id", "blob", "content_digest", "event_name", "origin", "payload", "payload_bytes",
        "recorded_ms", "refs", "run_seq", "salt", "source", "summary", "ts_ms", "turn_id",
        "user_id",
    ),
    "blobs": ("body", "key"),
}  # fmt: skip
"""Columns that an erasure blanks."""
_LAYING_OUT: Final = 0x74726E67
"""The lock for creating or upgrading a ledger, and for its roles."""
_EXTENSION: Final = re.compile(r"^-- requires extension: (\w+)$", re.MULTILINE)


@cache
def migrations() -> tuple[str, ...]:
    """Return the SQL of every migration, in order; the first is version 1."""
    folder = resources.files(__package__).joinpath("migrations")
    files = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return tuple(entry.read_text() for entry in files if entry.name.endswith(".sql"))


def check_server(connection: Connection, address: Address) -> None:
    """Raise Unsupported if the server is too old or its encoding is not UTF8."""
    version = connection.info.server_version // 10_000
    if version < SERVER_VERSION_MIN:
        raise Unsupported(
            f"{address.shown} runs PostgreSQL {version}, {SERVER_VERSION_MIN} or newer is needed",
            hint="upgrade the server",
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise Unsupported(
            f"the database of {address.shown} is encoded in {encoding}, not UTF8",
            hint="create a database with ENCODING 'UTF8'",
        )


def stored_version(connection: Connection, address: Address) -> int:
    """Return the schema version of the ledger; 0 if the database has none."""
    table = connection.execute("SELECT to_regclass(%s)", (f"{address.schema}.ledger",)).fetchone()
    if table is None or table[0] is None:
        return 0
    row = connection.execute("SELECT value FROM ledger WHERE name = 'version'").fetchone()
    if row is not None and not row[0].isdecimal():
        raise damaged(address, f"its version is {row[0]!r:.40}")
    return int(row[0]) if row else 0


def damaged(address: Address, what: str) -> Corrupt:
    """Return the error for notes of a ledger that are not what was written."""
    return Corrupt(
        f"{address.shown} is damaged: {what}",
        hint="restore from a backup, then run treering verify",
    )


def check_version(version: int, address: Address) -> None:
    """Raise if this program cannot use a ledger of schema ``version``; 0 means no ledger."""
    newest = len(migrations())
    if not version:
        raise NotFound(f"no ledger at {address.shown}", hint="make one with treering db init")
    if version > newest:
        raise SchemaTooNew(
            f"{address.shown} has schema {version}, this program knows up to {newest}",
            hint="upgrade treering: pip install --upgrade treering",
        )
    if version < newest:
        raise SchemaTooOld(
            f"{address.shown} has schema {version} and needs {newest}",
            hint="run treering db init as the owner",
        )


def is_current(version: int) -> bool:
    """Whether a ledger of schema ``version`` needs no migration."""
    return version == len(migrations())


def migrate(connection: Connection, address: Address, partitions: int = PARTITIONS) -> int:
    """Upgrade the ledger to the newest schema, or create it; return the version it had, or 0.

    No other process does so until the caller's transaction ends.
    """
    schema = sql.Identifier(address.schema)
    with connection.transaction():
        lock(connection)
        # Read under the lock: another process may have been faster.
        version = stored_version(connection, address)
        if version > len(migrations()):
            check_version(version, address)
        if not version:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        for number, statements in enumerate(migrations()[version:], start=version + 1):
            check_extensions(connection, statements, address)
            connection.execute(statements)
            if number == 1:
                _found(connection, address, partitions)
            connection.execute(
                "INSERT INTO ledger (name, value) VALUES ('version', %s)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (str(number),),
            )
    return version


def lock(connection: Connection) -> None:
    """Keep others from changing the schema or its roles until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LAYING_OUT,))


def check_extensions(connection: Connection, statements: str, address: Address) -> None:
    """Raise Unsupported if the server lacks an extension that a migration says it requires."""
    for name in _EXTENSION.findall(statements):
        row = connection.execute(
            "SELECT 1 FROM pg_available_extensions WHERE name = %s", (name,)
        ).fetchone()
        if row is None:
            raise Unsupported(
                f"the server of {address.shown} lacks the extension {name}",
                hint=f"install {name} on the server (its package, or your provider's switch),"
                " then run treering db init",
            )


def _keep_no_samples(connection: Connection, table: str, relation: str) -> None:
    """Keep erasable columns out of the statistics; a partition does not inherit that."""
    changes = (
        sql.SQL("ALTER COLUMN {} SET STATISTICS 0").format(sql.Identifier(column))
        for column in ERASABLE[table]
    )
    connection.execute(
        sql.SQL("ALTER TABLE {} {}").format(sql.Identifier(relation), sql.SQL(", ").join(changes))
    )


def _found(connection: Connection, address: Address, partitions: int) -> None:
    for table in PARTITIONED:
        _keep_no_samples(connection, table, table)
        for remainder in range(partitions):
            partition = f"{table}_{remainder:02}"
            name = sql.Identifier(partition)
            connection.execute(
                sql.SQL(
                    "CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})"
                ).format(name, sql.Identifier(table), partitions, remainder)
            )
            _keep_no_samples(connection, table, partition)
            # A query that names a partition is subject to the partition's policies: it has none.
            connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name))
    connection.execute(
        sql.SQL("ALTER FUNCTION enter_epoch() SET search_path = {}, pg_temp").format(
            sql.Identifier(address.schema)
        )
    )
    connection.execute("REVOKE ALL ON FUNCTION enter_epoch() FROM PUBLIC")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO ledger (name, value) VALUES (%s, %s)",
            [
                ("id", str(uuid_utils.uuid7())),
                ("created_ms", str(time.time_ns() // 1_000_000)),
                ("lock_key", os.urandom(8).hex()),
                ("cluster", ""),
                ("epoch", "0"),
                ("partitions", str(partitions)),
            ],
        )
