"""Migrations: numbered SQL files, each applied once, in a transaction of its own."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uuid_utils

from treering.errors import NotALedger, NotFound, SchemaTooNew, SchemaTooOld
from treering.storage.sqlite.id_cache import count_scopes, count_sessions

if TYPE_CHECKING:
    import apsw

APPLICATION_ID: Final = 0x54524E47
"""«TRNG», in the file's header, so that ``file`` and we know it."""


# One snapshot: another process may be making the ledger at this moment.
_STORED: Final = """
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
FROM pragma_application_id, pragma_user_version
"""


@cache
def migrations() -> tuple[str, ...]:
    """Return the SQL of every migration, in order; the first is version 1."""
    # importlib.resources would cost a short command 10 ms.
    folder = Path(__file__).with_name("migrations")
    return tuple(path.read_text() for path in sorted(folder.glob("*.sql")))


def stored_version(connection: apsw.Connection, path: str) -> int:
    """Return the schema version of the file. Raise NotALedger if it holds something else."""
    found: Any = connection.execute(_STORED).fetchall()[0]
    application_id, version, tables = found
    if application_id == APPLICATION_ID:
        return int(version)
    if application_id or version or tables:
        raise NotALedger(f"{path} is a SQLite file of another program", hint="name another file")
    return 0


def check_version(version: int, path: str, *, upgradable: bool) -> None:
    """Raise if this program cannot use a ledger of schema ``version``."""
    newest = len(migrations())
    if version > newest:
        raise SchemaTooNew(
            f"{path} has schema {version}, this program knows up to {newest}",
            hint="upgrade treering: pip install --upgrade treering",
        )
    if not version and not upgradable:
        raise NotFound(
            f"no ledger at {path}: the file is empty",
            hint="check the path; a ledger that was copied needs its -wal file, too",
        )
    if version < newest and not upgradable:
        raise SchemaTooOld(
            f"{path} has schema {version} and needs an upgrade to {newest}",
            hint="run treering verify where it may be written; else copy it, with its -wal file"
            " if there is one, make the copy writable, and run treering verify --db COPY",
        )


def is_current(version: int) -> bool:
    """Whether a ledger of schema ``version`` needs no migration."""
    return version == len(migrations())


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the file to the newest schema. The caller holds the write lock."""
    for number, statements in enumerate(migrations(), start=1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Looked at again under the lock: another process may have been faster.
            if stored_version(connection, path) < number:
                connection.execute(statements)
                if number == 1:
                    _found(connection)
                if number == len(migrations()):
                    count_scopes(connection)
                    count_sessions(connection)
                connection.pragma("user_version", number)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _found(connection: apsw.Connection) -> None:
    connection.pragma("application_id", APPLICATION_ID)
    connection.executemany(
        "INSERT INTO ledger (name, value) VALUES (?, ?)",
        [
            ("id", str(uuid_utils.uuid7())),
            ("created_ms", time.time_ns() // 1_000_000),
            ("name_key", os.urandom(32)),
            ("erasure_pending", 0),
            ("timed_position", 0),
        ],
    )
