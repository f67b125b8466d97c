"""Keys of records in a file: written with their events, and read with them."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

from treering.model.codec import decode, encode
from treering.storage.encoding import GONE, id_of
from treering.storage.record_keys import (
    COLUMNS,
    KEYED_KINDS,
    RecordKey,
    erasures_of,
    hashed_name,
    hashed_part,
    is_removal,
    matching_keys,
    record_key,
    stored_keys,
)
from treering.storage.sqlite.reader import Reader, find_scope, find_session
from treering.storage.sqlite.rows import (
    EVENT,
    WITH_CONTENT,
    fetch_all,
    fetch_one,
    fetch_value,
    name_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.storage.sqlite.rows import Row

INSERT: Final = "INSERT OR IGNORE INTO record_keys VALUES (?, ?, ?, ?, ?)"
_OF_KEY: Final = "k.scope = ? AND k.name = ? AND k.part = ? AND k.key = ?"
LATEST: Final = f"""
SELECT {EVENT}
FROM record_keys AS k
CROSS JOIN events AS e ON e.position = k.position
{WITH_CONTENT}
WHERE {_OF_KEY}
ORDER BY k.position DESC
LIMIT 1
"""
HISTORY: Final = f"""
SELECT {EVENT}
FROM record_keys AS k
CROSS JOIN events AS e ON e.position = k.position
{WITH_CONTENT}
WHERE {_OF_KEY} AND k.position > ?
ORDER BY k.position
LIMIT ?
"""
_VERSION: Final = f"""
SELECT e.event_id, e.event_name, e.flags, e.refs
FROM record_keys AS k
CROSS JOIN events AS e ON e.position = k.position
WHERE {_OF_KEY}
ORDER BY k.position DESC
LIMIT 1
"""
_LISTED: Final = """
SELECT k.key, e.refs
FROM (
  SELECT key, max(position) AS position
  FROM record_keys
  WHERE scope = ? AND name = ? {part}
  GROUP BY part, key
) AS k
CROSS JOIN events AS e ON e.position = k.position
"""
_LAST_ERASURE: Final = f"""
SELECT e.seq
FROM record_keys AS k
CROSS JOIN events AS e ON e.position = k.position
WHERE {_OF_KEY}
ORDER BY k.position DESC
LIMIT 1
"""
_DELETE: Final = """
DELETE FROM record_keys WHERE scope = ? AND name = ? AND part = ? AND key = ? AND position = ?
"""
_KEYED: Final = f"""
SELECT e.scope, s.key, e.session, n.name, e.refs, e.position
FROM {{source}} AS e
JOIN scopes AS s ON s.id = e.scope
JOIN names AS n ON n.id = e.kind
WHERE e.kind IN ({{kinds}}) AND e.flags & {GONE} = 0 {{where}}
"""


class RecordKeys:
    """Finds the events of keys."""

    def __init__(self, reader: Reader) -> None:
        self._database = reader.database
        self._to_events = reader.to_events
        self._scopes: dict[str, tuple[int, bytes]] = {}
        self._epoch = -1

    def _scope(self, connection: apsw.Connection, name: str) -> tuple[int, bytes]:
        """Return the id and key of a scope, which stay the same as long as the file is open."""
        if self._epoch != self._database.epoch:
            self._scopes, self._epoch = {}, self._database.epoch
        scope = self._scopes.get(name)
        if scope is None:
            scope = find_scope(connection, name)
            if scope[0]:
                self._scopes[name] = scope
        return scope

    def latest(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, Event]:
        """Return the newest event of each key; keys without one are left out."""
        newest: dict[str, Row] = {}
        with self._database.reading() as connection:
            number, scope_key = self._scope(connection, scope)
            for key in keys:
                hashed_key = record_key(scope_key, name, key)
                if (row := fetch_one(connection, LATEST, (number, *hashed_key))) is not None:
                    newest[key] = row
        return dict(zip(newest, self._to_events(list(newest.values())), strict=True))

    def versions(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest event of each key; "" if it has none, or was removed."""
        with self._database.reading() as connection:
            number, scope_key = self._scope(connection, scope)
            return {
                key: version_of(connection, number, record_key(scope_key, name, key))
                for key in keys
            }

    def history(self, scope: Scope, name: str, key: str, *, after: int, limit: int) -> list[Event]:
        """Return events of a key after a position, the oldest first."""
        with self._database.reading() as connection:
            number, scope_key = self._scope(connection, scope)
            hashed_key = record_key(scope_key, name, key)
            rows = fetch_all(connection, HISTORY, (number, *hashed_key, after, limit))
        return self._to_events(rows)

    def keys(self, scope: Scope, name: str, prefix: str, *, after: str, limit: int) -> list[str]:
        """Return the first keys with a record that begin with ``prefix``, after another."""
        with self._database.reading() as connection:
            number, scope_key = self._scope(connection, scope)
            asked: tuple[Any, ...] = (number, hashed_name(scope_key, name))
            part = ""
            if "/" in prefix:
                part, asked = "AND part = ?", (*asked, hashed_part(scope_key, name, prefix))
            rows = connection.execute(_LISTED.format(part=part), asked)
            return heapq.nsmallest(limit, matching_keys(rows, scope_key, name, prefix, after))

    def last_erasure(self, scope: Scope, session_id: str) -> int:
        """Return the seq of the last event that vouches for an erasure in a session, or 0."""
        with self._database.reading() as connection:
            number, scope_key = self._scope(connection, scope)
            session = find_session(connection, number, scope_key, session_id)
            return fetch_value(connection, _LAST_ERASURE, (number, *erasures_of(session))) or 0

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Return the number of rows of a scope, and how they differ from the events."""
        with self._database.reading() as connection, connection:
            number = self._scope(connection, scope)[0]
            stored = fetch_all(
                connection, f"SELECT {', '.join(COLUMNS)} FROM record_keys WHERE scope = ?",
                (number,),
            )  # fmt: skip
            made = set(_rows(connection, "AND e.scope = ?", (number,)))
        if set(stored) == made:
            return len(stored), None
        return len(stored), f"{len(set(stored) ^ made)} keys of records differ from the events"


def version_of(connection: apsw.Connection, scope: int, key: RecordKey) -> str:
    """Return the id of the newest event of a key; "" if it has none, or was removed."""
    row = fetch_one(connection, _VERSION, (scope, *key))
    if row is None or is_removal(row[3] and decode(row[3])):
        return ""
    return id_of(*row[:3])


def drop(connection: apsw.Connection, positions: Iterable[int]) -> None:
    """Delete the rows of events that are about to be erased."""
    source = "json_each(CAST(? AS TEXT)) AS p CROSS JOIN events"
    where = "AND e.position = p.value"
    rows = _rows(connection, where, (encode(list(positions)),), source)
    connection.executemany(_DELETE, list(rows))


def rebuild(connection: apsw.Connection) -> None:
    """Derive all rows from the events again. Call inside a write transaction."""
    connection.execute("DELETE FROM record_keys")
    connection.executemany(INSERT, sorted(_rows(connection, "", ())))


def _rows(
    connection: apsw.Connection, where: str, values: tuple[Any, ...], source: str = "events"
) -> Iterable[Row]:
    """Yield the rows of events, as derived from them."""
    numbers = ", ".join(str(name_id(connection, kind)) for kind in sorted(KEYED_KINDS))
    statement = _KEYED.format(source=source, kinds=numbers, where=where)
    for scope, scope_key, session, kind, refs, position in fetch_all(connection, statement, values):
        for key in stored_keys(scope_key, kind, session, refs):
            yield (scope, *key, position)
