"""Erasure: select events, vouch for them, blank them, and remove their bytes from log and indexes.

Content is set to NULL in place, and rows never move: under ``secure_delete`` SQLite writes zeros
over what was there, but a row that moved would leave a copy of itself. Entries of an index do move,
whenever a page is split. So an index that held a hash of what is gone is built again. Afterwards
the write-ahead log is folded into the file and cut to nothing.

A forgotten name is set to NULL, too, and its key is replaced: that of a session by the key of its
new name, any other by random bytes. So a name that is used again starts afresh.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

import apsw
import msgspec

from treering.errors import Busy
from treering.ledger.records import Erased, Erasure, SessionErasure, Share, forgotten_name
from treering.model.codec import encode
from treering.model.kinds import ERASURE_KINDS, IMPORTED, KINDS, SOURCES
from treering.model.scopes import Retention, Scope
from treering.storage import encoding
from treering.storage.encoding import EXPIRED, corrupt_on_error, name_key
from treering.storage.erasure_records import cover_of
from treering.storage.runs import RUN_OPEN
from treering.storage.sqlite import indexes, record_keys, snapshots, tool_records
from treering.storage.sqlite.companion_file import erasure_events
from treering.storage.sqlite.faults import damaged, translate
from treering.storage.sqlite.indexes import positions_in
from treering.storage.sqlite.reader import LAST, find_scope
from treering.storage.sqlite.rows import (
    PENDING,
    fetch_all,
    fetch_one,
    fetch_value,
    name_id,
    session_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from treering.ledger.records import Draft, Selection
    from treering.model.receipts import Physical
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.id_cache import IdCache
    from treering.storage.sqlite.writer import Writer

    Finish = Callable[[], tuple[Physical, int | None]]
    """Drives what was erased out of a file; says whether it is done, and up to which position."""

CHECKPOINT_PATIENCE_MS: Final = 2_000

_LEFT: Final[dict[Erasure, str]] = {
    "null": f"e.flags & {encoding.ERASED} = 0",
    "placeholder": f"e.flags & {encoding.ERASED} = 0",
    "expired": f"e.flags < {encoding.EXPIRED}",
}
"""What an erasure still finds: what is redacted may expire, and not the other way round."""

_SELECTED: Final = "SELECT e.session, e.seq, e.position, e.link, e.kind"
_BY_ID: Final = f"""
{_SELECTED}
FROM ids_by_scope AS t
JOIN events AS e ON e.position = t.position
WHERE t.scope = :scope AND t.event_id = :id AND {{left}} AND e.kind NOT IN ({{spared}})
"""
_IN_SESSION: Final = f"""
{_SELECTED}
FROM seqs_by_session AS t
CROSS JOIN events AS e ON e.position = t.position
WHERE t.session = :session AND t.seq <= coalesce(:until, t.seq)
  AND {{about}} AND {{left}} AND e.kind NOT IN ({{spared}})
ORDER BY t.seq
LIMIT :limit
"""
_BEFORE: Final = f"""
{_SELECTED}
FROM times_by_kind AS t
JOIN events AS e ON e.position = t.position
WHERE t.scope = :scope AND t.kind = :kind AND t.ts_ms < :cutoff
  AND NOT EXISTS (
    SELECT 1 FROM runs WHERE runs.session = e.session AND runs.state = {RUN_OPEN}
  )
  AND e.session NOT IN (
    SELECT i.session
    FROM times_by_kind AS k
    JOIN events AS i ON i.position = k.position
    WHERE k.scope = :scope AND k.kind = :imported
  )
ORDER BY t.ts_ms, t.position
LIMIT :limit
"""

_PROJECTIONS: Final = """
WITH
  erased AS (SELECT value AS position FROM json_each(CAST(:positions AS TEXT))),
  touched AS (
    SELECT DISTINCT e.scope, e.session
    FROM erased CROSS JOIN events AS e ON e.position = erased.position
  )
SELECT
  (SELECT count(c.salt) FROM erased CROSS JOIN contents AS c ON c.position = erased.position),
  (
    SELECT count(*)
    FROM touched CROSS JOIN tool_calls AS t
      ON t.scope = touched.scope AND t.session = touched.session
  ),
  (
    SELECT count(*)
    FROM touched CROSS JOIN snapshots AS n
      ON n.scope = touched.scope AND n.session = touched.session
  )
"""

_LEGACY_EXPIRED: Final = f"""
SELECT l.position
FROM legacy_events AS l
JOIN events AS e ON e.position = l.position
WHERE l.expired AND e.flags >= {encoding.EXPIRED}
"""
_LEGACY_REDACTED: Final = f"""
SELECT scopes.name, e.event_id, e.event_name, e.flags, kinds.name
FROM legacy_events AS l
JOIN events AS e ON e.position = l.position
JOIN scopes ON scopes.id = e.scope
JOIN names AS kinds ON kinds.id = e.kind
WHERE NOT l.expired AND e.flags & {encoding.ERASED} AND e.flags < {encoding.EXPIRED}
"""

_Found = tuple[int, int, int, bytes, int]
"""session, seq, position, link, kind"""


class Eraser:
    """Blanks events and proves the bytes gone."""

    def __init__(self, writer: Writer, companions: Sequence[Finish]) -> None:
        """Erase with ``writer``; what was erased is driven out of ``companions`` first."""
        self._writer = writer
        self._database = writer.database
        self._companions = companions

    def erase(
        self,
        selection: Selection,
        *,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[SessionErasure], Draft],
    ) -> Erased:
        """Blank up to ``limit`` selected events and record what ``vouch`` says, atomically."""
        result = Erased(by_kind={}, sessions=[], blobs_erased=0, blobs_shared=0, more=False)

        def work(batch: Batch, _: None) -> None:
            nonlocal result
            rows = self._select(batch, selection, erasure, limit)
            named = self._named(batch, selection)
            if not rows and not named:
                return
            sessions = self._cover(batch, rows, vouch) if rows else []
            if named and not rows:
                # Nothing is left in it but its name, and an event has to vouch for that, too.
                sessions = [selection.session_id or ""]
                batch.place([vouch(cover_of(sessions[0], []))])
                batch.flush()
            positions = [row[2] for row in rows]
            before = _projections(batch.connection, positions)
            erased, shared = blank(batch, positions, erasure)
            after = _projections(batch.connection, positions)
            result = Erased(
                by_kind=self._count(batch.connection, rows),
                sessions=sessions,
                blobs_erased=erased,
                blobs_shared=shared,
                more=len(rows) >= limit,
                projections={name: before[name] - after[name] for name in before},
                named=forget_name(batch, self._writer.ids, named) if named else 0,
            )

        self._writer.transact(work, None)
        return result

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int, int]:
        """Return how many events would expire by kind, and what is left: open, and imported."""
        by_kind: Counter[str] = Counter()
        kept_open: set[int] = set()
        kept_imported: set[int] = set()
        with self._writer.database.reading() as connection, connection:
            scope = find_scope(connection, selection.scope)[0]
            imported = indexes.sessions_with(connection, scope, name_id(connection, IMPORTED))
            for name, cutoff in (selection.cutoffs or {}).items():
                kind = name_id(connection, name)
                for session, count, is_open in indexes.older(connection, scope, kind, cutoff):
                    if is_open:
                        kept_open.add(session)
                    elif session in imported and name in selection.kept_if_imported:
                        kept_imported.add(session)
                    else:
                        by_kind[name] += count
        return dict(by_kind), len(kept_open), len(kept_imported - kept_open)

    def state(self) -> Physical:
        """Say whether bytes of what was erased are still in the log or the file."""
        with self._writer.database.reading() as connection:
            return "pending" if _pending(connection) else "done"

    def shares(self, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
        """Return the sessions that have events about ``users``, and how many."""
        with self._database.reading() as connection:
            numbers, scope_id = _ids(connection, users), find_scope(connection, scope)[0]
            if not numbers or not scope_id:
                return {}
            statement = _SHARES.format(users=numbers, said=_ids(connection, SAID) or "0")
            return {
                name: Share(events=events, said=said, others=others or 0)
                for name, events, said, others in fetch_all(connection, statement, (scope_id,))
            }

    def forget_names(self) -> int:
        """Forget the names that nothing refers to any more; return how many."""
        return forget_names(self._writer)

    def retention(self, scope: Scope) -> Retention:
        """Return the policy kept for the scope; empty if none was set."""
        with self._database.reading() as connection:
            rows = fetch_all(
                connection,
                "SELECT kind, days FROM retention"
                " JOIN scopes ON scopes.id = retention.scope WHERE scopes.name = ?",
                (scope,),
            )
        with corrupt_on_error(self._database.path):
            return msgspec.convert(dict(rows), dict[str, int | None])

    def set_retention(self, scope: Scope, policy: Retention) -> None:
        """Keep ``policy`` for the scope."""

        def work(batch: Batch, _: None) -> None:
            number = self._writer.ids.scope(batch.connection, scope, create=True)[0]
            batch.connection.execute("DELETE FROM retention WHERE scope = ?", (number,))
            batch.connection.executemany(
                "INSERT INTO retention (scope, kind, days) VALUES (?, ?, ?)",
                [(number, kind, days) for kind, days in policy.items()],
            )
            batch.dirty = True

        self._writer.transact(work, None)

    def legacy_redacted(self) -> list[tuple[Scope, str, str]]:
        """Return scope, id and kind of events that were redacted before the ledger was rekeyed."""
        with self._database.reading() as connection:
            rows = fetch_all(connection, _LEGACY_REDACTED)
        return [(Scope(scope), encoding.id_of(*columns), kind) for scope, *columns, kind in rows]

    def settle_legacy(self) -> int:
        """Hide the ids of events that expired before the ledger was rekeyed; return how many."""
        positions: list[int] = []

        def work(batch: Batch, _: None) -> None:
            rows = fetch_all(batch.connection, _LEGACY_EXPIRED)
            positions.extend(position for (position,) in rows)
            hide_ids(batch, positions)
            batch.connection.execute("DELETE FROM legacy_events")
            batch.dirty = True

        with self._database.reading() as connection:
            if not fetch_value(connection, "SELECT 1 FROM legacy_events LIMIT 1"):
                return 0
        self._writer.transact(work, None)
        # Pages that were split before hold copies of old ids in their gaps.
        self._database.rewrite_pages()
        return len(positions)

    def finish(self) -> Physical:
        """Fold the write-ahead log into the file and cut it, unless an older reader needs it.

        The files beside it come first: their users read from the ledger.
        """
        database = self._writer.database
        with database.reading() as connection:
            if not _pending(connection):
                return "done"
        finished = [finish() for finish in self._companions]
        if any(physical == "pending" for physical, _ in finished):
            return "pending"
        through = min((last for _, last in finished if last is not None), default=None)
        with database.lock.guard, database.lock:
            try:
                return self._drive_out(database, through)
            except (apsw.BusyError, apsw.FullError, apsw.ConstraintError, Busy):
                return "pending"
            except apsw.Error as error:
                if isinstance(error, apsw.IOError):
                    database.reopen()
                raise translate(error, database.path) from error

    def _drive_out(self, database: Database, through: int | None) -> Physical:
        connection = database.writer()
        if not _pending(connection):
            return "done"
        database.write_lock.enter()
        try:
            connection = database.present_writer()
            connection.set_busy_timeout(CHECKPOINT_PATIENCE_MS)
            _build_indexes(connection)
            if not database.in_memory and fetch_value(
                connection, "PRAGMA wal_checkpoint(TRUNCATE)"
            ):
                return "pending"
            if through is not None and erasure_events(connection, through, LAST):
                return "pending"  # The process that erased that finishes it.
            # Its sync makes the cut durable, so that no power cut brings the log back.
            connection.execute("UPDATE ledger SET value = 0 WHERE name = 'erasure_pending'")
            return "done"
        finally:
            database.restore_patience(connection)
            database.write_lock.leave()

    def _named(self, batch: Batch, selection: Selection) -> int:
        """Return the session whose name must be forgotten, if it still has one; else 0."""
        if not selection.with_name or selection.session_id is None:
            return 0
        ids, connection = self._writer.ids, batch.connection
        scope = ids.scope(connection, selection.scope, create=False)
        session = ids.session(connection, *scope, selection.session_id)
        named = fetch_value(connection, "SELECT name FROM sessions WHERE id = ?", (session,))
        return 0 if named is None else session

    def _select(
        self, batch: Batch, selection: Selection, erasure: Erasure, limit: int
    ) -> list[_Found]:
        connection = batch.connection
        ids = self._writer.ids
        scope, scope_key = ids.scope(connection, selection.scope, create=False)
        spared = ERASURE_KINDS | selection.spare
        keep = ", ".join(str(ids.name(connection, kind)) for kind in sorted(spared))
        if not scope:
            return []
        batch.index()
        left = _LEFT[erasure]
        if selection.event_ids:
            statement = _BY_ID.format(left=left, spared=keep)
            keys = [encoding.id_key(scope_key, event_id)[0] for event_id in selection.event_ids]
            return sorted(
                row
                for key in dict.fromkeys(keys)
                for row in fetch_all(connection, statement, {"scope": scope, "id": key})
            )
        if selection.session_id is not None:
            session = ids.session(connection, scope, scope_key, selection.session_id)
            about = "TRUE"
            if selection.users is not None:
                about = f"e.user IN ({_ids(connection, sorted(selection.users))})"
            return fetch_all(
                connection,
                _IN_SESSION.format(about=about, left=left, spared=keep),
                {"session": session, "until": selection.until_seq, "limit": limit},
            )
        rows: list[_Found] = []
        imported = name_id(connection, IMPORTED)
        for name, cutoff in (selection.cutoffs or {}).items():
            if name not in ERASURE_KINDS and len(rows) < limit:
                rows += fetch_all(
                    connection,
                    _BEFORE,
                    {
                        "scope": scope,
                        "kind": ids.name(connection, name),
                        "cutoff": cutoff,
                        "imported": imported if name in selection.kept_if_imported else 0,
                        "limit": limit - len(rows),
                    },
                )
        return sorted(rows)

    def _cover(
        self, batch: Batch, found: list[_Found], vouch: Callable[[SessionErasure], Draft]
    ) -> list[str]:
        names: list[str] = []
        for session, group in groupby(found, key=lambda row: row[0]):
            members = list(group)
            name = fetch_value(
                batch.connection,
                f"SELECT {session_name('s')} FROM sessions AS s WHERE s.id = ?",
                (session,),
            )
            cover = cover_of(name, [(row[1], row[3]) for row in members])
            batch.place([vouch(cover)])
            names.append(name)
        batch.flush()
        return names

    def _count(self, connection: apsw.Connection, found: list[_Found]) -> dict[str, int]:
        counts = Counter(row[4] for row in found)
        return {
            fetch_value(connection, "SELECT name FROM names WHERE id = ?", (kind,)): count
            for kind, count in counts.items()
        }


def _pending(connection: apsw.Connection) -> int:
    """Return what erasures have left to do in the file, as bits."""
    value = fetch_value(connection, PENDING) or 0
    if not isinstance(value, int):
        raise damaged(connection.filename, TypeError(f"{type(value).__name__} for a number"))
    return value


def _build_indexes(connection: apsw.Connection) -> None:
    """Build indexes again whose pages may hold keys of erased events between their entries.

    Raise ConstraintError if another program doubled a row.
    """
    with connection:
        pending = _pending(connection)
        names = [name for bit, some in INDEXES.items() if pending & bit for name in some]
        for name in names:
            connection.execute(f"REINDEX {name}")
        if pending & IDS:
            indexes.rebuild_ids(connection)
        if names or pending & IDS:
            connection.execute("UPDATE ledger SET value = ? WHERE name = 'erasure_pending'", (LOG,))


def _projections(connection: apsw.Connection, positions: list[int]) -> dict[str, int]:
    """Return how many entries there are that come from events, or from their sessions."""
    row = fetch_one(connection, _PROJECTIONS, {"positions": encode(positions)}) or ()
    return dict(zip(("contents", "tool_calls", "snapshots"), row, strict=True))


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
INDEXES: Final = {4: ("sessions_by_key", "names_by_key"), 8: ("blobs_by_key",)}
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
            connection, "SELECT id FROM sessions WHERE genesis = ? AND scope = ?", (genesis, scope)
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
