"""Neighbours on a server: the vectors nearest to another, if the extension vector is installed.

Each shelf of a scope has an index of its own, created as the ledger's owner for any role that asks:
see migrations/0008_neighbours.sql. Building it takes long, so each question builds a part; nothing
is answered from an unfinished index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from treering.memory.vectors import SCALE_BYTES
from treering.storage.memory_documents import BUILD_S, HNSW_DOCUMENTS
from treering.storage.postgres import memory_documents
from treering.storage.postgres.faults import is_passing
from treering.storage.postgres.rows import fetch, planned

if TYPE_CHECKING:
    from treering.memory.records import IndexName
    from treering.model.scopes import Scope
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Connection

EXTENSION: Final = "vector"
DIMENSIONS_MAX: Final = 4_000
"""The most dimensions that the index supports."""

_INSTALLED: Final = """
SELECT installed_version IS NOT NULL,
  (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = current_user)
FROM pg_available_extensions
WHERE name = %s
"""
_NEAREST: Final = """
WITH asked AS MATERIALIZED (
  SELECT nearest_documents(%s::text, %s::text, %s::text, %s::bytea, %s::bigint, %s::bigint) AS found
)
SELECT (found).numbers, (found).cosines FROM asked
"""


def nearest(
    connection: Connection,
    cache: IdCache,
    where: tuple[Scope, IndexName],
    vector: bytes,
    embedder: str,
    limit: int,
) -> list[tuple[int, float]] | None:
    """Return numbers of documents and cosines, the nearest first; None without an index."""
    if not 0 < len(vector) - SCALE_BYTES <= DIMENSIONS_MAX:
        return None
    if memory_documents.index_state(connection, *where).count < HNSW_DOCUMENTS:
        return None
    if not _is_there(connection):
        return None
    asked = (*where, embedder, vector, limit)
    try:
        neighbours = _ask(connection, asked, 0)
        if neighbours is None:
            with connection.transaction():
                # Do not wait for others at the shelf: a full read is quicker.
                if memory_documents.try_lock(connection, cache, where[0]):
                    neighbours = _ask(connection, asked, max(int(BUILD_S * 1_000), 1))
    except psycopg.Error as error:
        if is_passing(error):
            raise
        # The owner may not create tables any more, or the disk is full: the shelf still answers.
        return None
    return neighbours


def _is_there(connection: Connection) -> bool:
    """Whether the extension is in the database; create it if this role may."""
    rows = fetch(connection, _INSTALLED, (EXTENSION,))
    if not rows or rows[0][0]:
        return bool(rows)
    if not rows[0][1]:
        return False
    try:
        # Not into the ledger's own schema: others in the database may use it.
        connection.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION} SCHEMA public")
    except psycopg.Error:
        return False
    return True


def _ask(
    connection: Connection, asked: tuple[str, IndexName, str, bytes, int], build_ms: int
) -> list[tuple[int, float]] | None:
    [(numbers, cosines)] = planned(connection, _NEAREST, (*asked, build_ms))
    return None if numbers is None else list(zip(numbers, cosines, strict=True))
