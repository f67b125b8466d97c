"""Sessions: their list, heads, forks, and the events in them that count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import NotFound
from treering.ledger.records import ForkPoint, SessionHead, SessionRecord
from treering.ledger.restoring import without_parent
from treering.storage.encoding import (
    corrupt_on_error,
    cut_of,
    name_key,
    session_head,
    session_record,
)
from treering.storage.postgres.reader import LAST, Reader
from treering.storage.postgres.rows import fetch, session_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.scopes import Scope
    from treering.storage.postgres.server import Connection

CUT: Final = f"{session_name('parents')}, parents.genesis, forks.seq, forks.link"
"""The arguments of ``encoding.cut_of``."""
WITH_CUT: Final = """
LEFT JOIN forks ON forks.scope = s.scope AND forks.session = s.id
LEFT JOIN sessions AS parents ON parents.scope = forks.scope AND parents.id = forks.parent
"""
"""Joins ``CUT`` to the sessions ``s``."""
CUT_OF: Final = f"SELECT {CUT} FROM sessions AS s {WITH_CUT} WHERE s.scope = %s AND s.id = %s"
# Ordered, although there is only one row: a plan made while the table was empty may
# otherwise use any index of the scope.
_PARENT: Final = """
SELECT s.id, s.genesis, e.link
FROM sessions AS s
CROSS JOIN LATERAL (
  SELECT e.link
  FROM events AS e
  WHERE e.scope = s.scope AND e.session = s.id AND e.seq BETWEEN %(seq)s AND %(seq)s
  ORDER BY e.seq
  LIMIT 1
) AS e
WHERE s.scope = %(scope)s
"""
PARENT_BY_NAME: Final = f"{_PARENT} AND s.key = %(key)s"
PARENT_BY_GENESIS: Final = f"{_PARENT} AND s.genesis = %(genesis)s"


class Parent(msgspec.Struct, frozen=True):
    """The parent of a fork, and the fork point."""

    session: int
    cut: ForkPoint


def find_cut(connection: Connection, scope: Scope, session: int) -> ForkPoint | None:
    """Return where a session was forked; None if it was not."""
    row = connection.execute(CUT_OF, (scope, session), binary=True).fetchone()
    return cut_of(*row or ())


def find_parent(
    connection: Connection, scope: Scope, scope_key: bytes, name: str, seq: int
) -> Parent:
    """Return the session to fork at ``seq``. Raise NotFound if it has no such seq."""
    key = name_key(scope_key, name)
    row = _find(connection, PARENT_BY_NAME, {"scope": scope, "key": key, "seq": seq})
    if row is None:
        raise no_such_seq(scope, name, seq)
    session, genesis, link = row
    return Parent(session, ForkPoint(parent=name, genesis=genesis, seq=seq, link=link))


def no_such_seq(scope: str, name: str, seq: int) -> NotFound:
    """Return the error for a session without that seq."""
    return NotFound(
        f"session {name} of {scope} has no event of its own at seq {seq}",
        hint="fork where the session has one; what it shares belongs to its own parent",
    )


def copied_parent(
    connection: Connection, scope: Scope, session: SessionRecord, cut: ForkPoint
) -> Parent:
    """Return the parent of a copied fork. Raise InvalidInput if it does not exist."""
    values = {"scope": scope, "genesis": cut.genesis, "seq": cut.seq}
    row = _find(connection, PARENT_BY_GENESIS, values)
    if row is None or row[2] != cut.link:
        raise without_parent(session, cut)
    return Parent(row[0], cut)


def _find(
    connection: Connection, statement: str, place: dict[str, Any]
) -> tuple[int, bytes, bytes] | None:
    row = connection.execute(statement, place, binary=True).fetchone()
    return None if row is None else (row[0], row[1], row[2])


SESSIONS_PAGE: Final = 1_000

_SESSIONS: Final = f"""
SELECT
  s.id, s.scope, scopes.key, {session_name("s")}, s.salt, s.genesis, h.seq, h.link, {CUT}
FROM sessions AS s
JOIN scopes ON scopes.scope = s.scope
LEFT JOIN heads AS h ON h.scope = s.scope AND h.session = s.id
{WITH_CUT}
"""
# Only the sessions of the page are read in detail.
HEADS: Final = f"""
SELECT {session_name("s")}, latest.position, latest.seq, latest.recorded_ms, {CUT}
FROM (
  SELECT h.scope, h.session, h.seq, e.position, e.recorded_ms
  FROM heads AS h
  CROSS JOIN LATERAL (
    SELECT e.position, e.recorded_ms
    FROM events AS e
    WHERE e.scope = h.scope AND e.session = h.session AND e.seq BETWEEN h.seq AND h.seq
    ORDER BY e.seq
    LIMIT 1
  ) AS e
  WHERE h.scope = %(scope)s AND e.position < %(before)s
  ORDER BY e.position DESC
  LIMIT %(limit)s
) AS latest
JOIN sessions AS s ON s.scope = latest.scope AND s.id = latest.session
{WITH_CUT}
ORDER BY latest.position DESC
"""
NAMED: Final = """
SELECT name
FROM sessions
WHERE scope = %(scope)s
  AND left(name, length(%(prefix)s)) = %(prefix)s
  AND right(name, length(%(suffix)s)) = %(suffix)s
ORDER BY id
"""
FORKS: Final = "SELECT session FROM forks WHERE scope = %s AND parent = %s ORDER BY session"


class SessionReader:
    """Reads sessions."""

    def __init__(self, reader: Reader) -> None:
        self._server = reader.server
        self._cache = reader.cache

    def records(
        self, scope: Scope | None = None, session_id: str | None = None
    ) -> Iterator[SessionRecord]:
        """Return where each session's chain begins and ends."""
        if scope is not None and session_id is not None:
            yield from self._one_session(scope, session_id)
            return
        after: tuple[str, int] = ("", 0)
        while True:
            where = "s.scope = %s AND s.id > %s" if scope else "(s.scope, s.id) > (%s, %s)"
            values = (scope, after[1], SESSIONS_PAGE) if scope else (*after, SESSIONS_PAGE)
            rows = self._server.fetch(
                f"{_SESSIONS} WHERE {where} ORDER BY s.scope, s.id LIMIT %s", values, scope
            )
            with corrupt_on_error(self._server.address.shown):
                yield from (session_record(*row[1:]) for row in rows)
            if len(rows) < SESSIONS_PAGE:
                return
            after = (rows[-1][1], rows[-1][0])

    def _one_session(self, scope: Scope, session_id: str) -> list[SessionRecord]:
        key = self._server.read(lambda c: self._cache.scope_key(c, scope), scope)
        if key is None:
            return []
        rows = self._server.fetch(
            f"{_SESSIONS} WHERE s.scope = %s AND s.key = %s",
            (scope, name_key(key, session_id)),
            scope,
        )
        with corrupt_on_error(self._server.address.shown):
            return [session_record(*row[1:]) for row in rows]

    def link_at(self, scope: Scope | None, genesis: bytes, seq: int) -> bytes | None:
        """Return the link at ``seq`` of the session that starts with ``genesis``."""
        rows = self._server.fetch(
            "SELECT e.link FROM sessions AS s CROSS JOIN LATERAL ("
            " SELECT e.link FROM events AS e WHERE e.scope = s.scope AND e.session = s.id"
            " AND e.seq BETWEEN %s AND %s ORDER BY e.seq LIMIT 1) AS e"
            " WHERE s.genesis = %s AND s.scope = coalesce(%s, s.scope)",
            (seq, seq, genesis, scope),
            scope,
        )
        return rows[0][0] if rows else None

    def heads(self, scope: Scope, *, before_position: int | None, limit: int) -> list[SessionHead]:
        """Return the sessions of a scope, the most recently written first."""
        before = LAST if before_position is None else before_position
        values = {"scope": scope, "before": before, "limit": limit}
        rows = self._server.fetch(HEADS, values, scope)
        with corrupt_on_error(self._server.address.shown):
            return [session_head(*row) for row in rows]

    def cut(self, scope: Scope, session_id: str) -> ForkPoint | None:
        """Return where a session was forked; None if it was not, or does not exist."""
        with corrupt_on_error(self._server.address.shown):
            return self._server.read(lambda c: self._cache.cut(c, scope, session_id), scope)

    def forks(self, scope: Scope, session_id: str) -> list[str]:
        """Return the forks of a session's own events, the oldest first."""

        def look(connection: Connection) -> list[str]:
            session = self._cache.session(connection, scope, session_id)
            rows = fetch(connection, FORKS, (scope, session))
            names = self._cache.session_names(connection, scope, [row[0] for row in rows])
            return [names[fork] for (fork,) in rows]

        with corrupt_on_error(self._server.address.shown):
            return self._server.read(look, scope)

    def named(self, scope: Scope, *, prefix: str, suffix: str) -> list[str]:
        """Return the sessions of a scope by the beginning and end of their names."""
        asked = {"scope": scope, "prefix": prefix, "suffix": suffix}
        with corrupt_on_error(self._server.address.shown):
            rows = self._server.fetch(NAMED, asked, scope)
        return [name for (name,) in rows]
