"""Where sessions were forked: at an event of the parent, which never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import NotFound
from treering.ledger.records import ForkPoint
from treering.ledger.restoring import without_parent
from treering.storage.encoding import cut_of, name_key
from treering.storage.postgres.rows import session_name

if TYPE_CHECKING:
    from treering.ledger.records import SessionRecord
    from treering.model.scopes import Scope
    from treering.storage.postgres.connections import Connection


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
