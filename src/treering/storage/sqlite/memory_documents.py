"""The shelves of the memory in a file: documents follow the events, and leave with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.memory.records import Document, DocumentColumns, IndexState
from treering.model.codec import encode
from treering.model.queries import FollowStep
from treering.storage.memory_documents import STEP_EVENTS, entries
from treering.storage.sqlite.rows import fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw

    from treering.memory.records import IndexEntry, IndexName
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.storage.sqlite.memory_file import MemoryFile
    from treering.storage.sqlite.memory_reader import MemoryReader

_NUMBERS: Final = msgspec.json.Decoder(list[int])
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
_COLUMNS: Final = """
SELECT
  json_group_array(number),
  json_group_array(position),
  json_group_array(session),
  json_group_array(seq),
  json_group_array(ts_ms),
  json_group_array(length(terms)),
  json_group_array(length(vectors)),
  CAST(coalesce(group_concat(terms, ''), '') AS BLOB),
  CAST(coalesce(group_concat(vectors, ''), '') AS BLOB)
FROM (
  SELECT number, position, session, seq, ts_ms, terms, iif(embedder = ?, vectors, x'') AS vectors
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


def columns(
    connection: apsw.Connection, scope: int, shelf: IndexName, span: tuple[int, int], embedder: str
) -> DocumentColumns:
    """Return as many documents after a number as columns, in order."""
    [(*numbers, terms, vectors)] = fetch_all(connection, _COLUMNS, (embedder, scope, shelf, *span))
    fields: list[Any] = [*map(_NUMBERS.decode, numbers), terms, vectors]
    return DocumentColumns(*fields)


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
