"""Names that are forgotten: of sessions, of users, and of whatever else was theirs alone.

A name is set to NULL in place, as content is, and its key is replaced: that of a session by the
key of its new name, any other by random bytes. So a name that is used again starts afresh, and
finds nothing of its past.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from treering.ledger.records import Share, forgotten_name
from treering.model.kinds import ERASURE_KINDS, KINDS, SOURCES
from treering.storage.encoding import EXPIRED, name_key
from treering.storage.sqlite.blanking import NAMES, note_erased
from treering.storage.sqlite.indexes import positions_in
from treering.storage.sqlite.reader import find_scope
from treering.storage.sqlite.rows import fetch_all, fetch_one, fetch_value, name_id, session_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.id_cache import IdCache
    from treering.storage.sqlite.writer import Writer

SAID: Final = ("conversation.user", "inbox.received")
"""Kinds that say what a user said."""
KEY_BYTES: Final = 16

_COUNT: Final = """
INSERT INTO ledger (name, value)
VALUES ('forgettings', 1)
ON CONFLICT (name) DO UPDATE SET value = value + 1
"""
_SHARES: Final = f"""
SELECT
  {session_name("s")},
  sum(e.user IN ({{users}})),
  sum(e.user IN ({{users}}) AND e.kind IN ({{said}})),
  sum(e.user NOT IN ({{users}}) OR (e.user IS NULL AND e.kind IN ({{said}})))
FROM (
  {positions_in("IN (SELECT id FROM sessions WHERE scope = ?1)")}
) AS place
CROSS JOIN events AS e ON e.position = place.position
JOIN sessions AS s ON s.id = e.session
WHERE e.flags < {EXPIRED}
GROUP BY e.session
HAVING sum(e.user IN ({{users}})) > 0
"""
# Expired events keep the names of runs, in sessions without a forgotten user.
_USED: Final = f"""
SELECT kind FROM events WHERE position > :after
UNION SELECT source FROM events WHERE position > :after
UNION SELECT origin FROM events WHERE position > :after
UNION SELECT turn FROM events WHERE position > :after
UNION SELECT agent FROM events WHERE position > :after
UNION SELECT user FROM events WHERE position > :after
UNION SELECT run FROM events WHERE position > :after
  AND (flags < {EXPIRED} OR session NOT IN (SELECT session FROM events WHERE kind = :forgotten))
"""
_UNUSED: Final = f"""
SELECT id, name
FROM names
WHERE name IS NOT NULL AND id NOT IN (SELECT kind FROM ({_USED}) WHERE kind IS NOT NULL)
"""


_FORGETTABLE: Final = f"""
SELECT s.genesis, scopes.key
FROM sessions AS s
JOIN scopes ON scopes.id = s.scope
WHERE s.id = ?1 AND s.name IS NOT NULL
  AND NOT EXISTS (
    SELECT 1
    FROM ({positions_in("= ?1")}) AS place
    CROSS JOIN events AS e ON e.position = place.position
    WHERE e.flags < {EXPIRED} AND e.kind NOT IN ({{vouching}})
  )
"""


def shares(connection: apsw.Connection, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
    """Return the sessions that have events about ``users``, and how many."""
    numbers = _ids(connection, users)
    scope_id = find_scope(connection, scope)[0]
    if not numbers or not scope_id:
        return {}
    statement = _SHARES.format(users=numbers, said=_ids(connection, SAID) or "0")
    return {
        name: Share(events=events, said=said, others=others or 0)
        for name, events, said, others in fetch_all(connection, statement, (scope_id,))
    }


def _ids(connection: apsw.Connection, names: Iterable[str]) -> str:
    return ", ".join(str(number) for name in names if (number := name_id(connection, name)))


def forget_name(batch: Batch, ids: IdCache, session: int) -> int:
    """Forget what a session is called, if nothing is left in it; return 1 if it was named."""
    connection = batch.connection
    vouching = ", ".join(str(ids.name(connection, kind)) for kind in sorted(ERASURE_KINDS))
    row = fetch_one(connection, _FORGETTABLE.format(vouching=vouching), (session,))
    if row is None:
        return 0
    genesis, scope_key = row
    connection.execute(
        "UPDATE sessions SET name = NULL, salt = NULL, key = ? WHERE id = ?",
        (name_key(scope_key, forgotten_name(genesis)), session),
    )
    note_forgetting(batch, ids)
    return 1


def note_forgetting(batch: Batch, ids: IdCache) -> None:
    """Have every process read names again before it writes, and bytes removed."""
    batch.connection.execute(_COUNT)
    note_erased(batch.connection, NAMES)
    batch.dirty = True
    ids.drop_names()


def forget_names(writer: Writer) -> int:
    """Forget all names that nothing refers to any more; return how many.

    They are found beforehand, so that no writer waits while all events are read.
    """
    with writer.database.reading() as connection, connection:
        newest: int = fetch_value(connection, "SELECT max(position) FROM events") or 0
        forgotten = name_id(connection, "ledger.forgotten")
        rows = fetch_all(connection, _UNUSED, {"after": 0, "forgotten": forgotten})
    unused = {number for number, name in rows if name not in KINDS and name not in SOURCES}
    if not unused:
        return 0

    def work(batch: Batch, _: None) -> None:
        used = fetch_all(batch.connection, _USED, {"after": newest, "forgotten": forgotten})
        unused.difference_update(number for (number,) in used)
        batch.connection.executemany(
            "UPDATE names SET name = NULL, key = ? WHERE id = ?",
            [(os.urandom(KEY_BYTES), number) for number in sorted(unused)],
        )
        note_forgetting(batch, writer.ids)

    writer.transact(work, None)
    return len(unused)


def by_genesis(connection: apsw.Connection, scope: int, genesis: bytes) -> int:
    """Return the session that starts with ``genesis``, whatever it is called; 0 if none does."""
    return (
        fetch_value(
            connection,
            "SELECT id FROM sessions WHERE genesis = ? AND scope = ?",
            (genesis, scope),
        )
        or 0
    )


def name_by_genesis(connection: apsw.Connection, scope: int, genesis: bytes) -> str | None:
    """Return what the session is called here that starts with ``genesis``; None if none does."""
    name: str | None = fetch_value(
        connection,
        f"SELECT {session_name('s')} FROM sessions AS s WHERE s.genesis = ? AND s.scope = ?",
        (genesis, scope),
    )
    return name
