"""The file of the search index, beside the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.storage.sqlite.companion_file import CompanionFile

if TYPE_CHECKING:
    from treering.storage.sqlite.database import Database

SUFFIX: Final = ".search"
LAYOUT: Final = 4
"""Raised also when other words of an event are entered: an older file lacks some of them."""
_TABLES: Final = """
-- How far each scope has been entered, and the link of the ledger's event there: a ledger restored
-- from a copy has another.
CREATE TABLE followed (
  scope INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  link BLOB
) STRICT;
-- Each holds some documents of one scope, from one position to another.
CREATE TABLE shards (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  documents INTEGER NOT NULL
) STRICT;
CREATE INDEX shards_by_scope ON shards (scope, last);
"""


class SearchFile(CompanionFile):
    """The tables of the search index."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, suffix=SUFFIX, layout=LAYOUT, tables=_TABLES)
