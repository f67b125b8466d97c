"""Shards of the index: full-text tables without texts, each of some documents of one scope.

A search reads the newest first and stops when it has enough. An erasure rewrites one shard without
the document, and fills the pages of the old one with zeros.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import apsw

from treering.model.codec import encode
from treering.storage.sqlite.companion_file import CompanionFile
from treering.storage.sqlite.sql import fetch_all, fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.sql import Row

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

SHARD_DOCUMENTS_MAX: Final = 16_384
"""Documents rewritten when one of them is erased: a fraction of a second."""
HASH_BYTES: Final = 32 * 2**20
"""Words that a table holds in memory before it writes them: a transaction's, unless texts are long.
"""

Document = tuple[int, str, str, str, str, str]
"""position, words, pieces, files, marks, names"""

_KEPT: Final = "content='', contentless_delete=1"
_WORDS: Final = f"fts5(words, pieces, files, marks, {_KEPT}, tokenize=\"ascii tokenchars '_'\")"
_GRAMS: Final = f"fts5(names, {_KEPT}, tokenize=trigram, detail=none)"
_LAYOUTS: Final = {"w": _WORDS, "g": _GRAMS}
_SHADOWS: Final = ("data", "idx", "docsize", "config")


def enter(connection: apsw.Connection, scope: int, documents: list[Document]) -> bool:
    """Enter documents of a scope, in the order of their positions; return whether a shard is full.

    Open the connection again then. A table holds on to the hash table in which it has gathered its
    words, and searches for a prefix walk through all of it, though it is empty.
    """
    at, filled = 0, False
    while at < len(documents):
        shard, room = _newest(connection, scope)
        part = documents[at : at + room]
        connection.executemany(
            f"INSERT INTO w_{shard} (rowid, words, pieces, files, marks) VALUES (?, ?, ?, ?, ?)",
            [document[:5] for document in part],
        )
        connection.executemany(
            f"INSERT INTO g_{shard} (rowid, names) VALUES (?, ?)",
            [(document[0], document[5]) for document in part if document[5]],
        )
        connection.execute(
            "UPDATE shards SET first = min(first, ?), last = max(last, ?),"
            " documents = documents + ? WHERE id = ?",
            (part[0][0], part[-1][0], len(part), shard),
        )
        at += len(part)
        if len(part) == room:
            # It is full and will not change much: one segment is read faster than several.
            _optimize(connection, shard)
            filled = True
    return filled


def room(connection: apsw.Connection, scope: int) -> int:
    """Return how many documents of a scope the shard takes that is filled next."""
    row = _last(connection, scope)
    return SHARD_DOCUMENTS_MAX - (row[1] % SHARD_DOCUMENTS_MAX if row else 0)


def count(connection: apsw.Connection, scope: int) -> int:
    """Return how many documents of a scope there are."""
    statement = "SELECT coalesce(sum(documents), 0) FROM shards WHERE scope = ?"
    return int(fetch_value(connection, statement, (scope,)))


def newest_first(connection: apsw.Connection, scope: int) -> list[int]:
    """Return the shards of a scope."""
    rows = fetch_all(
        connection, "SELECT id FROM shards WHERE scope = ? ORDER BY last DESC, id DESC", (scope,)
    )
    return [row[0] for row in rows]


def oldest_first(connection: apsw.Connection, scope: int) -> list[Row]:
    """Return the shards of a scope, with first and last positions and numbers of documents."""
    return fetch_all(
        connection,
        "SELECT id, first, last, documents FROM shards WHERE scope = ? ORDER BY last, id",
        (scope,),
    )


def holds(connection: apsw.Connection, shard: int, documents: list[Document]) -> bool:
    """Whether a shard holds exactly ``documents``: indexed again, they give the same words."""
    fresh = apsw.Connection("")
    try:
        fresh.execute("CREATE TABLE shards (id INTEGER PRIMARY KEY, scope, first, last, documents)")
        enter(fresh, 0, documents)
        made = newest_first(fresh, 0)
        return all(
            stored == other
            for letter in _LAYOUTS
            for stored, other in zip_longest(
                _words(connection, f"{letter}_{shard}"),
                _words(fresh, f"{letter}_{made[0]}") if made else (),
            )
        )
    finally:
        fresh.close()


def _words(connection: apsw.Connection, table: str) -> Iterator[Row]:
    """Return the places of all words, and the sizes of the documents."""
    connection.execute(
        f"CREATE VIRTUAL TABLE temp.words_of_{table} USING fts5vocab(main, {table}, instance)"
    )
    try:
        yield from connection.execute(f'SELECT term, doc, col, "offset" FROM temp.words_of_{table}')
        yield from connection.execute(f"SELECT id, sz FROM {table}_docsize ORDER BY id")
    finally:
        connection.execute(f"DROP TABLE temp.words_of_{table}")


def erase(
    connection: apsw.Connection, scope: int, positions: Iterable[int], *, in_memory: bool
) -> int:
    """Erase documents of a scope from its shards, bytes included; return how many there were.

    Open the connection again afterwards: it may have cached the old tables.
    """
    count = 0
    for position_list in _chunks(sorted(positions), 2_000):
        touched = fetch_all(
            connection,
            "SELECT id FROM shards WHERE scope = ? AND last >= ? AND first <= ?",
            (scope, position_list[0], position_list[-1]),
        )
        for (shard,) in touched:
            count += _erase(connection, shard, position_list, in_memory=in_memory)
    return count


def _erase(
    connection: apsw.Connection, shard: int, positions: list[int], *, in_memory: bool
) -> int:
    rows = fetch_all(
        connection,
        f"SELECT id FROM w_{shard}_docsize"
        " WHERE id IN (SELECT value FROM json_each(CAST(? AS TEXT)))",
        (encode(positions),),
    )
    if not rows:
        return 0
    for letter in _LAYOUTS:
        connection.executemany(f"DELETE FROM {letter}_{shard} WHERE rowid = ?", rows)
    left = fetch_value(connection, f"SELECT count(*) FROM w_{shard}_docsize")
    if left:
        _optimize(connection, shard)
        if not in_memory:
            _rewrite(connection, shard)
        connection.execute("UPDATE shards SET documents = ? WHERE id = ?", (left, shard))
    else:
        _drop(connection, shard)
    return len(rows)


def _rewrite(connection: apsw.Connection, shard: int) -> None:
    """Copy the rest into new tables, and drop the old ones with everything on their pages."""
    for letter, layout in _LAYOUTS.items():
        old, new = f"{letter}_{shard}", f"{letter}_{shard}_new"
        connection.execute(f"CREATE VIRTUAL TABLE {new} USING {layout}")
        for shadow in _SHADOWS:
            connection.execute(f"DELETE FROM {new}_{shadow}")
            connection.execute(f"INSERT INTO {new}_{shadow} SELECT * FROM {old}_{shadow}")
        connection.execute(f"DROP TABLE {old}")
        connection.execute(f"ALTER TABLE {new} RENAME TO {old}")


def _optimize(connection: apsw.Connection, shard: int) -> None:
    for letter in _LAYOUTS:
        connection.execute(f"INSERT INTO {letter}_{shard} ({letter}_{shard}) VALUES ('optimize')")


def _drop(connection: apsw.Connection, shard: int) -> None:
    for letter in _LAYOUTS:
        connection.execute(f"DROP TABLE IF EXISTS {letter}_{shard}")
    connection.execute("DELETE FROM shards WHERE id = ?", (shard,))


def _newest(connection: apsw.Connection, scope: int) -> tuple[int, int]:
    """Return the shard for the next documents, and how many it has room for."""
    row = _last(connection, scope)
    if row is not None and row[1] < SHARD_DOCUMENTS_MAX:
        return row[0], SHARD_DOCUMENTS_MAX - row[1]
    connection.execute(
        "INSERT INTO shards (scope, first, last, documents) VALUES (?, ?, 0, 0)", (scope, 2**62)
    )
    shard = connection.last_insert_rowid()
    for letter, layout in _LAYOUTS.items():
        connection.execute(f"CREATE VIRTUAL TABLE {letter}_{shard} USING {layout}")
        # Its parts are merged when it is full, or when there are sixteen of them.
        for name, value in (("automerge", 0), ("hashsize", HASH_BYTES)):
            connection.execute(
                f"INSERT INTO {letter}_{shard} ({letter}_{shard}, rank) VALUES (?, ?)",
                (name, value),
            )
    return shard, SHARD_DOCUMENTS_MAX


def _last(connection: apsw.Connection, scope: int) -> Row | None:
    return fetch_one(
        connection,
        "SELECT id, documents FROM shards WHERE scope = ? ORDER BY last DESC, id DESC LIMIT 1",
        (scope,),
    )


def _chunks(positions: list[int], size: int) -> Iterable[list[int]]:
    return (positions[at : at + size] for at in range(0, len(positions), size))


class SearchFile(CompanionFile):
    """The tables of the search index."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, suffix=SUFFIX, layout=LAYOUT, tables=_TABLES)
