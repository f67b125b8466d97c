"""Results of SQL, typed as loosely as they are."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import apsw

from treering.errors import Corrupt
from treering.ledger.records import FORGOTTEN
from treering.storage.encoding import name_key

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
