"""Sessions: which there are, where they begin and end, where they were forked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.errors import Conflict, NotFound
from treering.ledger.records import Draft, ForkPoint, SessionHead, SessionRecord
from treering.storage.encoding import (
    corrupt_on_error,
    cut_of,
    name_key,
    session_head,
    session_record,
)
from treering.storage.repeats import taken
from treering.storage.sqlite.indexes import INDEXED_POSITION, position_at
from treering.storage.sqlite.reader import LAST, Reader, find_scope, find_session
from treering.storage.sqlite.rows import fetch_all, fetch_one, fetch_value, session_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from treering.model.events import Header
    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.id_cache import IdCache

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


SESSIONS_PAGE: Final = 1_000

_SESSIONS: Final = f"""
SELECT
  s.id, scopes.name, scopes.key, {session_name("s")}, s.salt, s.genesis, heads.seq, heads.link,
  {CUT}
FROM sessions AS s
JOIN scopes ON scopes.id = s.scope
LEFT JOIN heads ON heads.session = s.id
{WITH_CUT}
"""
_LINK_AT: Final = f"""
SELECT e.link
FROM sessions AS s
JOIN scopes ON scopes.id = s.scope
JOIN events AS e ON e.position = {position_at("s.id", "?2")}
WHERE s.genesis = ?1 AND scopes.name = coalesce(?3, scopes.name)
"""
# The last events are found within indexes; only those that are returned are read.
HEADS: Final = f"""
SELECT {session_name("s")}, e.position, e.seq, e.recorded_ms, {CUT}
FROM (
  SELECT t.position AS position
  FROM sessions AS s
  CROSS JOIN heads AS h ON h.session = s.id
  CROSS JOIN seqs_by_session AS t ON t.session = s.id AND t.seq = h.seq
  WHERE s.scope = ?1 AND t.position < ?2
  UNION ALL
  SELECT max(e.position)
  FROM events AS e
  WHERE e.position > {INDEXED_POSITION} AND e.scope = ?1
  GROUP BY e.session
  HAVING max(e.position) < ?2
  ORDER BY position DESC
  LIMIT ?3
) AS latest
CROSS JOIN events AS e ON e.position = latest.position
JOIN sessions AS s ON s.id = e.session
{WITH_CUT}
ORDER BY e.position DESC
"""

NAMED: Final = """
SELECT name
FROM sessions
WHERE scope = :scope
  AND substr(name, 1, length(:prefix)) = :prefix
  AND (:suffix = '' OR substr(name, -length(:suffix)) = :suffix)
ORDER BY id
"""


class SessionReader:
    """Answers reads of sessions."""

    def __init__(self, reader: Reader) -> None:
        self._database = reader.database
        self._names = reader.sessions

    def records(
        self, scope: Scope | None = None, session_id: str | None = None
    ) -> Iterator[SessionRecord]:
        """Return where each session's chain starts and ends."""
        if scope is not None and session_id is not None:
            yield from self._one_session(scope, session_id)
            return
        after = 0
        while True:
            with self._database.reading() as connection:
                rows = fetch_all(
                    connection,
                    f"{_SESSIONS} WHERE s.id > :after"
                    " AND (:scope IS NULL OR scopes.name = :scope) ORDER BY s.id LIMIT :limit",
                    {"after": after, "scope": scope, "limit": SESSIONS_PAGE},
                )
            with corrupt_on_error(self._database.path):
                records = [session_record(*row[1:]) for row in rows]
            yield from records
            if len(rows) < SESSIONS_PAGE:
                return
            after = rows[-1][0]

    def _one_session(self, scope: Scope, session_id: str) -> list[SessionRecord]:
        with self._database.reading() as connection:
            key = fetch_value(connection, "SELECT key FROM scopes WHERE name = ?", (scope,))
            if key is None:
                return []
            rows = fetch_all(
                connection,
                f"{_SESSIONS} WHERE scopes.name = ? AND s.key = ?",
                (scope, name_key(key, session_id)),
            )
        with corrupt_on_error(self._database.path):
            return [session_record(*row[1:]) for row in rows]

    def link_at(self, scope: Scope | None, genesis: bytes, seq: int) -> bytes | None:
        """Return the link at ``seq`` of the session that starts with ``genesis``."""
        with self._database.reading() as connection:
            link: bytes | None = fetch_value(connection, _LINK_AT, (genesis, seq, scope))
        return link

    def heads(self, scope: Scope, *, before_position: int | None, limit: int) -> list[SessionHead]:
        """Return the sessions of a scope, the one that was last written to first."""
        before = LAST if before_position is None else before_position
        with self._database.reading() as connection:
            rows = fetch_all(connection, HEADS, (find_scope(connection, scope)[0], before, limit))
        with corrupt_on_error(self._database.path):
            return [session_head(*row) for row in rows]

    def cut(self, scope: Scope, session_id: str) -> ForkPoint | None:
        """Return where a session was forked; None if it was not, or is not there."""
        with self._database.reading() as connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            statement = f"SELECT {CUT} FROM sessions AS s {WITH_CUT} WHERE s.id = ?"
            row = fetch_one(connection, statement, (session,)) or ()
        with corrupt_on_error(self._database.path):
            return cut_of(*row)

    def forks(self, scope: Scope, session_id: str) -> list[str]:
        """Return the sessions that were forked from a session's own events, the oldest first."""
        with self._database.reading() as connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            statement = "SELECT session FROM forks WHERE parent = ? ORDER BY session"
            forks = fetch_all(connection, statement, (session,))
        return [self._names[fork][1] for (fork,) in forks]

    def named(self, scope: Scope, *, prefix: str, suffix: str) -> list[str]:
        """Return the sessions of a scope whose names begin and end like this."""
        with self._database.reading() as connection:
            bindings = {
                "scope": find_scope(connection, scope)[0], "prefix": prefix, "suffix": suffix
            }  # fmt: skip
            return [name for (name,) in fetch_all(connection, NAMED, bindings)]
