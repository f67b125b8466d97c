"""The file of the memory, beside the ledger: rows that were folded, and documents by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.storage.sqlite.companion_file import CompanionFile

if TYPE_CHECKING:
    from treering.storage.sqlite.database import Database

SUFFIX: Final = ".memory"
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
