"""Choosing events to erase, vouching for them, and removing their bytes from log and indexes.

Indexes that held hashes of it are built again. Afterwards the write-ahead log is folded into the
file and cut to nothing.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

import apsw
import msgspec

from treering.errors import Busy
from treering.ledger.records import Erased, Erasure, SessionErasure
from treering.model.codec import encode
from treering.model.kinds import ERASURE_KINDS, IMPORTED
from treering.model.scopes import Scope
from treering.storage import encoding
from treering.storage.corruption import corrupt_on_error
from treering.storage.erasure_records import cover_of
from treering.storage.runs import RUN_OPEN
from treering.storage.sqlite import forgetting, indexes
from treering.storage.sqlite.blanking import IDS, INDEXES, LOG, blank, hide_ids
from treering.storage.sqlite.erasure_events import erasure_events
from treering.storage.sqlite.faults import damaged, translate
from treering.storage.sqlite.reader import LAST
from treering.storage.sqlite.rows import (
    PENDING,
    fetch_all,
    fetch_one,
    fetch_value,
    key_of_names,
    session_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.records import Draft, Selection, Share
    from treering.model.receipts import Physical
    from treering.model.scopes import Retention
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.database import Database
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
                named=forgetting.forget_name(batch, self._writer.ids, named) if named else 0,
            )

        self._writer.transact(work, None)
        return result

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int, int]:
        """Return how many events would expire by kind, and what is left: open, and imported."""
        by_kind: Counter[str] = Counter()
        kept_open: set[int] = set()
        kept_imported: set[int] = set()
        with self._writer.database.reading() as connection, connection:
            scope = _scope(connection, selection.scope)
            imported = indexes.sessions_with(connection, scope, _kind(connection, IMPORTED))
            for name, cutoff in (selection.cutoffs or {}).items():
                kind = _kind(connection, name)
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
            return forgetting.shares(connection, scope, users)

    def forget_names(self) -> int:
        """Forget the names that nothing refers to any more; return how many."""
        return forgetting.forget_names(self._writer)

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
                users = (str(_kind(connection, user)) for user in sorted(selection.users))
                about = f"e.user IN ({', '.join(users)})"
            return fetch_all(
                connection,
                _IN_SESSION.format(about=about, left=left, spared=keep),
                {"session": session, "until": selection.until_seq, "limit": limit},
            )
        rows: list[_Found] = []
        imported = _kind(connection, IMPORTED)
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


def _scope(connection: apsw.Connection, name: str) -> int:
    return fetch_value(connection, "SELECT id FROM scopes WHERE name = ?", (name,)) or 0


def _kind(connection: apsw.Connection, name: str) -> int:
    key = key_of_names(connection)
    return (
        fetch_value(
            connection, "SELECT id FROM names WHERE key = ?", (encoding.name_key(key, name),)
        )
        or 0
    )
