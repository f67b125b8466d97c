"""Keys of records on a server: written with their events, and read with them."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

from treering.model.codec import decode
from treering.storage.encoding import GONE, Row, id_of
from treering.storage.postgres.rows import EVENT, empty_tables, fetch
from treering.storage.postgres.server import Bytes, Connection
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.storage.postgres.reader import Reader

INSERT: Final = f"""
INSERT INTO record_keys ({", ".join(COLUMNS)}) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_NEWEST: Final = """
FROM unnest(%(names)s::bigint[], %(parts)s::bigint[], %(keys)b::bytea[]) WITH ORDINALITY
  AS asked (name, part, key, at)
CROSS JOIN LATERAL (
  SELECT k.position
  FROM record_keys AS k
  WHERE k.scope = %(scope)s AND k.name = asked.name AND k.part = asked.part AND k.key = asked.key
  ORDER BY k.position DESC
  LIMIT 1
) AS newest
CROSS JOIN LATERAL (
  SELECT *
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.position BETWEEN newest.position AND newest.position
  ORDER BY e.position
  LIMIT 1
) AS e
"""
LATEST: Final = f"SELECT {EVENT}, asked.at {_NEWEST}"
_VERSIONS: Final = f"SELECT asked.at, e.event_id, e.event_name, e.flags, e.refs {_NEWEST}"
HISTORY: Final = f"""
SELECT {EVENT}
FROM (
  SELECT k.position
  FROM record_keys AS k
  WHERE k.scope = %(scope)s AND k.name = %(name)s AND k.part = %(part)s AND k.key = %(key)s
    AND k.position > %(after)s
  ORDER BY k.position
  LIMIT %(limit)s
) AS k
CROSS JOIN LATERAL (
  SELECT *
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.position BETWEEN k.position AND k.position
  ORDER BY e.position
  LIMIT 1
) AS e
ORDER BY k.position
"""
_LISTED: Final = """
SELECT k.key, e.refs
FROM (
  SELECT key, max(position) AS position
  FROM record_keys
  WHERE scope = %(scope)s AND name = %(name)s {part}
  GROUP BY part, key
) AS k
CROSS JOIN LATERAL (
  SELECT e.refs
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.position BETWEEN k.position AND k.position
  ORDER BY e.position
  LIMIT 1
) AS e
"""
_DELETE: Final = """
DELETE FROM record_keys
WHERE scope = %s AND name = %s AND part = %s AND key = %s AND position = %s
"""
_KEYED: Final = f"""
SELECT e.scope, s.key, e.session, e.kind, e.refs, e.position
FROM events AS e
JOIN scopes AS s ON s.scope = e.scope
WHERE e.kind = ANY(%(kinds)s::text[]) AND e.flags & {GONE} = 0
"""
_OF_SCOPE: Final = " AND e.scope = %(scope)s"
_AT: Final = f"""
{_OF_SCOPE}
  AND (e.session, e.seq) IN (SELECT * FROM unnest(%(sessions)s::bigint[], %(seqs)s::bigint[]))
"""


class RecordKeys:
    """Finds the events of keys."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._server = reader.server
        self._cache = reader.cache

    def latest(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, Event]:
        """Return the newest event of each key; keys without one are left out."""
        listed = list(keys)
        asked_at: list[int] = []

        def look(connection: Connection) -> list[Row]:
            scope_key = self._cache.scope_key(connection, scope)
            if scope_key is None:
                return []
            places = [record_key(scope_key, name, key) for key in listed]
            rows = fetch(connection, LATEST, _asked(scope, places))
            asked_at[:] = [row[-1] for row in rows]
            return rows

        events: list[Event] = self._reader.read(scope, look, self._reader.to_events)
        return {listed[at - 1]: event for at, event in zip(asked_at, events, strict=True)}

    def versions(self, scope: Scope, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the id of the newest event of each key; "" if it has none, or was removed."""

        def look(connection: Connection) -> dict[str, str]:
            scope_key = self._cache.scope_key(connection, scope)
            if scope_key is None:
                return dict.fromkeys(keys, "")
            places = {key: record_key(scope_key, name, key) for key in keys}
            return versions_of(connection, scope, places)

        return self._server.read(look, scope)

    def history(self, scope: Scope, name: str, key: str, *, after: int, limit: int) -> list[Event]:
        """Return events of a key after a position, the oldest first."""

        def look(connection: Connection) -> list[Row]:
            scope_key = self._cache.scope_key(connection, scope)
            if scope_key is None:
                return []
            asked = {"scope": scope, "after": after, "limit": limit}
            return fetch(connection, HISTORY, asked | record_key(scope_key, name, key)._asdict())

        events: list[Event] = self._reader.read(scope, look, self._reader.to_events)
        return events

    def keys(self, scope: Scope, name: str, prefix: str, *, after: str, limit: int) -> list[str]:
        """Return the first keys with a record that begin with ``prefix``, after another."""

        def look(connection: Connection) -> list[str]:
            scope_key = self._cache.scope_key(connection, scope)
            if scope_key is None:
                return []
            asked = {
                "scope": scope,
                "name": hashed_name(scope_key, name),
                "part": hashed_part(scope_key, name, prefix),
            }
            statement = _LISTED.format(part="AND part = %(part)s" if "/" in prefix else "")
            rows = fetch(connection, statement, asked)
            return heapq.nsmallest(limit, matching_keys(rows, scope_key, name, prefix, after))

        return self._server.read(look, scope)

    def last_erasure(self, scope: Scope, session_id: str) -> int:
        """Return the seq of the last event that vouches for an erasure in a session, or 0."""

        def look(connection: Connection) -> int:
            session = self._cache.session(connection, scope, session_id)
            if session is None:
                return 0
            rows = fetch(
                connection, f"SELECT e.seq {_NEWEST}", _asked(scope, [erasures_of(session)])
            )
            return int(rows[0][0]) if rows else 0

        return self._server.read(look, scope)

    def compare(self, scope: Scope) -> tuple[int, str | None]:
        """Return the number of rows of a scope, and how they differ from the events."""

        def look(connection: Connection) -> tuple[int, str | None]:
            statement = f"SELECT {', '.join(COLUMNS)} FROM record_keys WHERE scope = %s"
            stored = set(fetch(connection, statement, (scope,)))
            made = set(_rows(connection, _OF_SCOPE, {"scope": scope}))
            if stored == made:
                return len(stored), None
            return len(stored), f"{len(stored ^ made)} keys of records differ from the events"

        return self._server.read_state(look, scope)


def versions_of(
    connection: Connection, scope: str, places: Mapping[str, RecordKey]
) -> dict[str, str]:
    """Return the id of the newest event of each key; "" if it has none, or was removed."""
    versions = dict.fromkeys(places, "")
    names = list(places)
    for at, event_id, name, flags, refs in fetch(
        connection, _VERSIONS, _asked(scope, list(places.values()))
    ):
        if not is_removal(refs and decode(refs)):
            versions[names[at - 1]] = id_of(event_id, name, flags)
    return versions


def drop(connection: Connection, scope: str, sessions: list[int], seqs: list[int]) -> bool:
    """Delete the rows of events that are about to be erased; return whether there were any."""
    asked = {"scope": scope, "sessions": sessions, "seqs": seqs}
    rows = list(_rows(connection, _AT, asked))
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_DELETE, rows)
    return bool(rows)


def rebuild(connection: Connection) -> None:
    """Derive all rows from the events again, of every scope. Call inside a transaction."""
    empty_tables(connection, "record_keys")
    with connection.cursor() as cursor:
        cursor.executemany(INSERT, sorted(_rows(connection, "", {})))


def _rows(connection: Connection, where: str, values: dict[str, Any]) -> Iterable[Row]:
    """Yield the rows of events, as derived from them."""
    asked = values | {"kinds": sorted(KEYED_KINDS)}
    for scope, scope_key, session, kind, refs, position in fetch(connection, _KEYED + where, asked):
        for key in stored_keys(scope_key, kind, session, refs):
            yield (scope, *key, position)


def _asked(scope: str, places: Sequence[RecordKey]) -> dict[str, Any]:
    return {
        "scope": scope,
        "names": [place.name for place in places],
        "parts": [place.part for place in places],
        "keys": [Bytes(place.key) for place in places],
    }
