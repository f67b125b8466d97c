"""The shelves of the memory in a file: documents follow the events, and leave with them.

They are in a file beside the ledger, as the rows that were folded are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from treering.memory.records import Document, IndexState
from treering.model.codec import encode
from treering.model.queries import FollowedEvents, FollowStep
from treering.storage.encoding import GONE, bounded, name_key
from treering.storage.memory import FOLDED_KINDS, MEMORIES, STEP_EVENTS, entries
from treering.storage.runs import state_after
from treering.storage.sqlite.companion_file import CompanionFile
from treering.storage.sqlite.reader import find_scope
from treering.storage.sqlite.rows import (
    EVENT,
    PAYLOAD_BYTES,
    POSITION,
    WITH_CONTENT,
    fetch_all,
    fetch_one,
    fetch_value,
    key_of_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw

    from treering.memory.records import IndexEntry, IndexName
    from treering.model.events import Event
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.reader import Reader
    from treering.storage.sqlite.rows import Row

SUFFIX: Final = ".memory"
CACHE_KIB: Final = 2_048
"""It is read from one end to the other: pages that are kept only take memory."""
LAYOUT: Final = 3
_TABLES: Final = """
-- Generations count up from here, so that a file that is made again has others. What is
-- deleted makes the file untidy: its pages may have copies, until they are all written again.
INSERT INTO facts (name, value) VALUES ('generation', random() & 0xffffffffff), ('untidy', 0);
-- What was folded from the events of a scope up to its mark. Only numbers, hashes and ids.
CREATE TABLE memory_rows (
  scope INTEGER NOT NULL,
  sort TEXT NOT NULL,
  key TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (scope, sort, key)
) STRICT, WITHOUT ROWID;
-- With the link of the ledger's event there: a ledger that was put back from a copy has another.
CREATE TABLE marks (
  scope INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  link BLOB
) STRICT;
-- How far each shelf has followed the events, and what stands on it.
CREATE TABLE shelves (
  scope INTEGER NOT NULL,
  shelf TEXT NOT NULL,
  position INTEGER NOT NULL,
  link BLOB,
  newest INTEGER NOT NULL,         -- the number of the last document
  documents INTEGER NOT NULL,
  departures INTEGER NOT NULL,     -- how often documents were taken out
  PRIMARY KEY (scope, shelf)
) STRICT, WITHOUT ROWID;
CREATE TABLE documents (
  number INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  shelf TEXT NOT NULL,
  position INTEGER NOT NULL,
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  ts_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  embedder TEXT NOT NULL,          -- empty if there are no vectors
  terms BLOB NOT NULL,
  vectors BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX documents_by_position ON documents (scope, position);
CREATE INDEX documents_by_shelf ON documents (scope, shelf);
"""


class MemoryFile(CompanionFile):
    """The tables of the memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, suffix=SUFFIX, layout=LAYOUT, tables=_TABLES)

    def _settle(self, connection: apsw.Connection) -> None:
        super()._settle(connection)
        connection.pragma("cache_size", -CACHE_KIB)


LOOKED_AT_MAX: Final = 20_000
"""Positions of all scopes that one step looks at: those of other kinds are passed over quickly."""

_LIVE: Final = f"""
SELECT {EVENT}
FROM events AS e
CROSS {WITH_CONTENT}
WHERE e.position > :after AND e.position <= :until AND e.scope = :scope AND e.flags & {GONE} = 0
"""
_IN_ORDER: Final = "ORDER BY e.position LIMIT :limit"
REMEMBERED: Final = f"""
{_LIVE} AND e.kind IN ({{folded}})
  AND (e.run IS NULL OR EXISTS (
    SELECT 1 FROM runs AS r
    WHERE r.session = e.session AND r.run = e.run AND r.state = {state_after("run.ended")}
  ))
{_IN_ORDER}
"""
ON_SHELF: Final[dict[IndexName, str]] = {
    "events": f"{_LIVE} AND e.kind NOT IN ({{folded}}) {_IN_ORDER}",
    "memories": f"{_LIVE} AND e.kind IN ({{memories}}) {_IN_ORDER}",
}
_LAG: Final = f"""
SELECT count(*)
FROM events AS e
WHERE e.position > :after AND e.scope = :scope AND e.flags & {GONE} = 0
"""
LAG: Final[dict[IndexName, str]] = {
    "events": f"{_LAG} AND e.kind NOT IN ({{folded}})",
    "memories": f"{_LAG} AND e.kind IN ({{memories}})",
}
# Most events are of other kinds. The order of time by kind has all up to its mark but expired ones,
# so everything before the next entry is passed over; up to the mark, without an entry.
_BEFORE_NEXT: Final = """
SELECT coalesce(
  min(t.position) - 1,
  (SELECT value FROM ledger WHERE name = 'timed_position'),
  0
)
FROM times_by_kind AS t
WHERE t.scope = :scope AND t.kind IN ({kinds}) AND t.position > :after
"""
AT_POSITIONS: Final = f"""
SELECT {EVENT}
FROM json_each(CAST(? AS TEXT)) AS one
CROSS JOIN events AS e ON e.position = one.value
CROSS {WITH_CONTENT}
WHERE e.scope = ? AND e.flags & {GONE} = 0
"""
_SESSIONS: Final = """
SELECT e.position, e.session
FROM json_each(CAST(? AS TEXT)) AS one
CROSS JOIN events AS e ON e.position = one.value
WHERE e.scope = ?
"""


class MemoryReader:
    """Answers reads of events for the memory."""

    def __init__(self, reader: Reader) -> None:
        self._database = reader.database
        self._to_events = reader.to_events

    def remembered_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return events that the memory folds, and those that vouch for erasures."""
        rows, last, more = self._of_kinds(REMEMBERED, scope, position_of(mark), limit, FOLDED_KINDS)
        return FollowedEvents(self._to_events(rows), [row[:1] for row in rows], (last,), more)

    def shelved_after(
        self, scope: Scope, shelf: IndexName, position: int, *, limit: int
    ) -> tuple[list[tuple[int, Event]], int, bool]:
        """Return events of an index with their sessions' numbers, where to continue, whether to."""
        kinds = MEMORIES if shelf == "memories" else ()
        rows, last, more = self._of_kinds(ON_SHELF[shelf], scope, position, limit, kinds)
        return (
            [(row[1], event) for row, event in zip(rows, self._to_events(rows), strict=True)],
            last,
            more,
        )

    def shelf_lag(self, scope: Scope, shelf: IndexName, position: int) -> int:
        """Return how many events of an index's kinds come after a position."""
        with self._database.reading() as connection:
            bindings = {"after": position, "scope": find_scope(connection, scope)[0]}
            return int(fetch_value(connection, self._filled(connection, LAG[shelf]), bindings))

    def events_at_positions(self, scope: Scope, positions: Sequence[int]) -> list[Event]:
        """Return events of a scope by position; erased ones are left out."""
        with self._database.reading() as connection:
            number = find_scope(connection, scope)[0]
            rows = fetch_all(connection, AT_POSITIONS, (encode(list(positions)), number))
        by_position = {row[POSITION]: row for row in rows}
        return self._to_events(
            [by_position[position] for position in positions if position in by_position]
        )

    def sessions_at_positions(self, scope: Scope, positions: Sequence[int]) -> dict[int, int]:
        """Return the number of the session of the event at each position."""
        with self._database.reading() as connection:
            number = find_scope(connection, scope)[0]
            return dict(fetch_all(connection, _SESSIONS, (encode(list(positions)), number)))

    def _of_kinds(
        self,
        statement: str,
        scope: Scope,
        after: int,
        limit: int,
        kinds: Sequence[str],
    ) -> tuple[list[Row], int, bool]:
        """Return rows of a stretch, where it ends, and whether more follow.

        With ``kinds``, a stretch that is not the last begins at the next event of one of them.
        """
        with self._database.reading() as connection, connection:
            newest = fetch_value(connection, "SELECT max(position) FROM events") or 0
            if newest <= after:
                return [], after, False
            number = find_scope(connection, scope)[0]
            if kinds and newest - after > LOOKED_AT_MAX:
                next_of = _BEFORE_NEXT.format(kinds=_numbers(connection, kinds))
                bindings = {"scope": number, "after": after}
                after = max(after, fetch_value(connection, next_of, bindings))
            last = min(newest, after + LOOKED_AT_MAX)
            bindings = {"after": after, "until": last, "scope": number, "limit": limit}
            rows = fetch_all(connection, self._filled(connection, statement), bindings)
        page = bounded(rows, PAYLOAD_BYTES)
        if len(page) == limit or len(page) < len(rows):
            last = page[-1][POSITION]
        last = max(last, after)
        return page, last, last < newest

    def _filled(self, connection: apsw.Connection, statement: str) -> str:
        """Return a statement with the numbers of the kinds in it."""
        kinds = {"folded": FOLDED_KINDS, "memories": MEMORIES}
        return statement.format_map(
            {name: _numbers(connection, of) for name, of in kinds.items() if name in statement}
        )


def position_of(mark: Mark) -> int:
    """Return the position that a mark is all of; 0 for the beginning."""
    return mark[0] if mark else 0


def _numbers(connection: apsw.Connection, kinds: Sequence[str]) -> str:
    """Return the numbers of those kinds that have events, with commas between."""
    keys = _keys(key_of_names(connection), tuple(kinds))
    marks = ", ".join("?" * len(kinds))
    rows = fetch_all(connection, f"SELECT id FROM names WHERE key IN ({marks})", keys)
    return ", ".join(str(row[0]) for row in rows)


@lru_cache(maxsize=16)
def _keys(key: bytes, kinds: tuple[str, ...]) -> list[bytes]:
    """Return the hashes that kinds are found by."""
    return [name_key(key, kind) for kind in kinds]


_INTO: Final = """
INSERT INTO documents (
  scope, shelf, position, session, seq, ts_ms, kind, embedder, terms, vectors
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_NOTE: Final = """
INSERT INTO shelves (scope, shelf, position, link, newest, documents, departures)
VALUES (:scope, :shelf, :position, :link, :newest, :documents, 0)
ON CONFLICT (scope, shelf) DO UPDATE SET
  position = excluded.position,
  link = excluded.link,
  newest = max(newest, excluded.newest),
  documents = documents + excluded.documents
"""
_PAGE: Final = """
SELECT number, position, session, seq, ts_ms, kind, embedder, terms, vectors
FROM documents INDEXED BY documents_by_shelf
WHERE scope = ? AND shelf = ? AND number > ?
ORDER BY number
LIMIT ?
"""
# One row: to make a tuple of each document takes longer than to read all of them.
COLUMNS: Final = """
SELECT
  json_group_array(number),
  json_group_array(position),
  json_group_array(session),
  json_group_array(seq),
  json_group_array(length(terms)),
  json_group_array(length(vectors)),
  CAST(coalesce(group_concat(terms, ''), '') AS BLOB),
  CAST(coalesce(group_concat(vectors, ''), '') AS BLOB)
FROM (
  SELECT number, position, session, seq, terms, iif(embedder = ?, vectors, x'') AS vectors
  FROM documents INDEXED BY documents_by_shelf
  WHERE scope = ? AND shelf = ? AND number > ?
  ORDER BY number
  LIMIT ?
)
"""
_ERASED: Final = """
SELECT number, shelf
FROM documents
WHERE scope = ? AND position IN (SELECT value FROM json_each(CAST(? AS TEXT)))
"""
_HELD: Final = """
SELECT f.value + coalesce(s.departures, 0), coalesce(s.newest, 0), coalesce(s.documents, 0)
FROM facts AS f
LEFT JOIN shelves AS s ON s.scope = ? AND s.shelf = ?
WHERE f.name = 'generation'
"""


def follow(
    file: MemoryFile,
    connection: apsw.Connection,
    reader: MemoryReader,
    place: tuple[Scope, int, IndexName],
    read: Callable[[Sequence[Event]], Sequence[IndexEntry]],
    embedder: str,
) -> FollowStep:
    """Enter the next stretch of a shelf's events. Call inside a write transaction."""
    scope, number, shelf = place
    after = followed(file, connection, number, shelf)
    stretch, last, more = reader.shelved_after(scope, shelf, after, limit=STEP_EVENTS)
    sessions = {event.position: session for session, event in stretch}
    documents = entries([event for _, event in stretch], read)
    connection.executemany(
        _INTO,
        [
            (
                *(number, shelf, event.position, sessions[event.position], event.seq),
                *(event.ts_ms, event.kind, embedder if entry.vectors else ""),
                *(entry.terms, entry.vectors),
            )
            for event, entry in documents
        ],
    )
    if last > after:
        noted: dict[str, Any] = {
            "scope": number,
            "shelf": shelf,
            "position": last,
            "link": file.link_at(last),
            "newest": connection.last_insert_rowid() if documents else 0,
            "documents": len(documents),
        }
        connection.execute(_NOTE, noted)
    return FollowStep(len(stretch), more=more)


def followed(file: MemoryFile, connection: apsw.Connection, scope: int, shelf: IndexName) -> int:
    """Return how far a shelf has come. Raise Unsound if the ledger is another one there."""
    statement = "SELECT position, link FROM shelves WHERE scope = ? AND shelf = ?"
    return file.followed(fetch_one(connection, statement, (scope, shelf)))


def page(
    connection: apsw.Connection, scope: int, shelf: IndexName, after: int, limit: int
) -> list[tuple[int, Document]]:
    """Return documents after a number, in order."""
    rows = fetch_all(connection, _PAGE, (scope, shelf, after, limit))
    if any(None in row for row in rows):
        raise ValueError("a document lacks a required field")
    return [(row[0], Document(*row[1:])) for row in rows]


def index_state(connection: apsw.Connection, scope: int, shelf: IndexName) -> IndexState:
    """Return the state of a shelf."""
    row = fetch_one(connection, _HELD, (scope, shelf))
    return IndexState(*row) if row else IndexState(0, 0, 0)


def take_out(connection: apsw.Connection, scope: int, positions: Iterable[int]) -> int:
    """Take out the documents of events that were erased; return how many there were."""
    rows = fetch_all(connection, _ERASED, (scope, encode(list(positions))))
    connection.executemany("DELETE FROM documents WHERE number = ?", [row[:1] for row in rows])
    for shelf in sorted({row[1] for row in rows}):
        connection.execute(
            "UPDATE shelves SET departures = departures + 1, documents = documents - ?"
            " WHERE scope = ? AND shelf = ?",
            (sum(row[1] == shelf for row in rows), scope, shelf),
        )
    return len(rows)


def empty(connection: apsw.Connection, scope: int | None, shelf: IndexName | None = None) -> int:
    """Take out all documents of a scope, of one shelf, or of all; return how many there were."""
    values = [value for value in (scope, shelf) if value is not None]
    columns = [("scope", scope), ("shelf", shelf)]
    wanted = " AND ".join(f"{name} = ?" for name, value in columns if value is not None)
    where = f" WHERE {wanted}" if wanted else ""
    count: int = fetch_value(connection, f"SELECT count(*) FROM documents{where}", values)
    connection.execute(f"DELETE FROM documents{where}", values)
    connection.execute(
        "UPDATE shelves SET departures = departures + 1, documents = 0, newest = 0, position = 0,"
        f" link = NULL{where}",
        values,
    )
    return count
