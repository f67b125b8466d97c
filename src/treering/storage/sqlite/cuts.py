"""Where sessions were forked: a fork is opened at an event of its parent, which does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.errors import Conflict, NotFound
from treering.ledger.records import ForkPoint
from treering.storage.repeats import taken
from treering.storage.sqlite.indexes import position_at
from treering.storage.sqlite.rows import fetch_all, fetch_one, session_name

if TYPE_CHECKING:
    import apsw

    from treering.ledger.records import Draft
    from treering.model.events import Header
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.id_cache import IdCache
    from treering.storage.sqlite.rows import Row

CUT: Final = f"{session_name('parents')}, parents.genesis, forks.seq, forks.link"
"""What ``encoding.cut_of`` takes."""
WITH_CUT: Final = """
LEFT JOIN forks ON forks.session = s.id
LEFT JOIN sessions AS parents ON parents.id = forks.parent
"""
"""Brings ``CUT`` to the sessions ``s``."""
_AT: Final = f"""
SELECT s.genesis, e.link
FROM events AS e
JOIN sessions AS s ON s.id = e.session
WHERE e.position = {position_at("?1", "?2")}
"""


def open_fork(batch: Batch, ids: IdCache, draft: Draft, *, parent: str, seq: int) -> Header:
    """Open the session of ``draft`` where ``parent`` is at ``seq``, and place ``draft`` in it."""
    connection = batch.connection
    scope = ids.scope(connection, draft.scope, create=False)
    cut = find_cut(connection, ids.session(connection, *scope, parent), parent, seq)
    if cut is None:
        raise NotFound(
            f"session {parent} of {draft.scope} has no event of its own at seq {seq}",
            hint="fork where the session has one; what it shares belongs to its own parent",
        )
    there = ids.session(connection, *scope, draft.session_id)
    if there:
        raise Conflict(
            f"session {draft.session_id} of {draft.scope} is here already",
            current_seq=batch.head(there)[0],
            hint="give the fork another session id",
        )
    ids.open_session(connection, scope, draft.scope, draft.session_id, cut=cut)
    header = batch.place([draft])[0]
    if header not in batch.added:
        # An id whose event was erased says nothing against the draft, but is not free.
        raise taken(draft)
    return header


def find_cut(connection: apsw.Connection, session: int, name: str, seq: int) -> ForkPoint | None:
    """Return where a fork of ``session`` at ``seq`` leaves it; None if it has no such event."""
    row = fetch_one(connection, _AT, (session, seq))
    if row is None:
        return None
    return ForkPoint(parent=name, genesis=row[0], seq=seq, link=row[1])


def cut_row(connection: apsw.Connection, session: int) -> Row:
    """Return the ``CUT`` of a session; nothing if it was not forked."""
    statement = f"SELECT {CUT} FROM sessions AS s {WITH_CUT} WHERE s.id = ?"
    return fetch_one(connection, statement, (session,)) or ()


def forks_of(connection: apsw.Connection, session: int) -> list[int]:
    """Return the sessions that were forked from ``session``, the oldest first."""
    rows = fetch_all(
        connection, "SELECT session FROM forks WHERE parent = ? ORDER BY session", (session,)
    )
    return [row[0] for row in rows]
