"""Erasure that leaves no bytes: content is set to NULL in place, and rows never move.

Under ``secure_delete`` SQLite writes zeros over what was there; a row that moved would leave a
copy of itself. Entries of an index do move, whenever a page is split. So an index is built again
if one of its keys is a hash of something that is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.storage import encoding
from treering.storage.sqlite import indexes, record_keys, snapshots, tool_records
from treering.storage.sqlite.rows import fetch_one, fetch_value

if TYPE_CHECKING:
    import apsw

    from treering.ledger.records import Erasure
    from treering.storage.sqlite.batch import Batch

_REDACT: Final = f"""
UPDATE events
SET summary = NULL, refs = NULL, payload_bytes = 0, flags = (flags & ~{encoding.SPILLED}) | ?
WHERE position = ?
"""
# The run stays, so that the states of runs can be derived again from the events.
_EXPIRE: Final = f"""
UPDATE events
SET summary = NULL, refs = NULL, payload_bytes = 0, flags = (flags & ~{encoding.SPILLED}) | ?,
    event_name = NULL, source = 0, origin = NULL, run_seq = NULL, turn = NULL, agent = 0,
    user = NULL, ts_ms = 0, recorded_ms = 0, content_digest = x''
WHERE position = ?
"""
_BLANK_CONTENT: Final = """
UPDATE contents
SET salt = NULL, payload = NULL, blob = NULL
WHERE position = ?
"""


LOG: Final = 1
"""The log may hold bytes of what was erased."""
IDS: Final = 2
"""The index by id may, too: it holds hashes of ids."""
INDEXES: Final = {
    4: ("sessions_by_key", "names_by_key"),
    8: ("blobs_by_key",),
}
"""So may these indexes: hashes of names, and of large payloads."""
NAMES, BLOBS = INDEXES


def note_erased(connection: apsw.Connection, indexes: int = 0) -> None:
    """Note where bytes of what was erased may be left: in the log, and in ``indexes``."""
    connection.execute(
        "UPDATE ledger SET value = value | ? WHERE name = 'erasure_pending'", (LOG | indexes,)
    )


def blank(batch: Batch, positions: list[int], erasure: Erasure) -> tuple[int, int]:
    """Erase the content of events; return how many blobs went, and how many others still hold."""
    connection = batch.connection
    blobs = _blobs_of(connection, positions)
    calls = tool_records.touched(connection, positions)
    record_keys.drop(connection, positions)
    if erasure == "expired":
        indexes.remove_times(connection, positions)
    statement = _EXPIRE if erasure == "expired" else _REDACT
    flags = encoding.erasure_flags(erasure)
    connection.executemany(statement, [(flags, position) for position in positions])
    if erasure == "expired":
        hide_ids(batch, positions)
    connection.executemany(_BLANK_CONTENT, [(position,) for position in positions])
    tool_records.fold_again(connection, calls)
    snapshots.drop(connection, positions)
    note_erased(connection, BLOBS if blobs else 0)
    batch.dirty = True
    return _erase_blobs(connection, blobs)


def hide_ids(batch: Batch, positions: list[int]) -> None:
    """Replace the ids of expired events, so that nobody can confirm a guess."""
    connection = batch.connection
    hidden = 0
    for position in positions:
        row = fetch_one(
            connection,
            "SELECT e.event_id, e.flags, s.name, s.id"
            " FROM events AS e JOIN scopes AS s ON s.id = e.scope WHERE e.position = ?",
            (position,),
        )
        if row is not None and encoding.is_guessable(*row[:2]):
            event_id, _, name, scope = row
            hidden_key = batch.hidden_key(name, event_id)
            connection.execute(
                "UPDATE events SET event_id = ?, flags = flags | ? WHERE position = ?",
                (hidden_key, encoding.NAMED, position),
            )
            indexes.change_id(connection, position, scope, event_id, hidden_key)
            hidden += 1
    if hidden:
        batch.drop_tail_ids()
    note_erased(connection, IDS if hidden else 0)


def _blobs_of(connection: apsw.Connection, positions: list[int]) -> set[int]:
    blobs = (
        fetch_value(connection, "SELECT blob FROM contents WHERE position = ?", (position,))
        for position in positions
    )
    return {blob for blob in blobs if blob is not None}


def _erase_blobs(connection: apsw.Connection, blobs: set[int]) -> tuple[int, int]:
    erased = shared = 0
    for blob in sorted(blobs):
        if fetch_value(connection, "SELECT 1 FROM contents WHERE blob = ? LIMIT 1", (blob,)):
            shared += 1
        else:
            connection.execute("UPDATE blobs SET key = NULL, body = NULL WHERE id = ?", (blob,))
            erased += 1
    return erased, shared
