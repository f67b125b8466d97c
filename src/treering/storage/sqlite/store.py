"""The store: everything the ledger's port asks for, on one SQLite file."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from uuid_utils import UUID

from treering.errors import Busy, ReadOnly, StorageFull
from treering.ledger.chain import SALT_BYTES
from treering.model.receipts import RebuildReceipt
from treering.model.scopes import Scope
from treering.storage import encoding
from treering.storage.corruption import corrupt_on_error
from treering.storage.notifier import Notifier
from treering.storage.sealing import generation_of
from treering.storage.sqlite import forgetting, indexes, runs, snapshots, tool_calls
from treering.storage.sqlite.blanking import hide_ids
from treering.storage.sqlite.commits import GroupCommit, Job
from treering.storage.sqlite.copies import Copier
from treering.storage.sqlite.cuts import open_fork
from treering.storage.sqlite.eraser import Eraser
from treering.storage.sqlite.id_cache import SEALED_MARK, IdCache, sealed_scopes
from treering.storage.sqlite.integrity import first_problem
from treering.storage.sqlite.leases import Leases
from treering.storage.sqlite.memory_keeper import MemoryKeeper
from treering.storage.sqlite.reader import Reader, find_note
from treering.storage.sqlite.search_index import SearchIndex
from treering.storage.sqlite.sessions import SessionReader
from treering.storage.sqlite.sql import fetch_all, fetch_value
from treering.storage.sqlite.tool_records import ToolRecords
from treering.storage.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import (
        Draft,
        Share,
    )
    from treering.model.events import Header
    from treering.model.followers import Mark
    from treering.model.retention import Retention
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.database import Database

POLL_S: Final = 0.05
"""How often a follower looks whether another process has written."""

SNAPSHOT_PATIENCE_S: Final = 0.5
"""How long a read that would keep a snapshot waits for those who write."""

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
_SEALED: Final = """
SELECT substr(c.salt, 1, 5), count(*)
FROM scopes AS s
JOIN events AS e ON e.scope = s.id
JOIN contents AS c ON c.position = e.position
WHERE s.name = ? AND length(c.salt) > ?
GROUP BY 1
"""


class SqliteStore:
    """Keeps events in one SQLite file. Each part answers for what it owns."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self.vault = vault
        self._database = database
        self._notifier = Notifier()
        self._writer = Writer(database, IdCache(database), vault)
        self._commits = GroupCommit(self._writer.carry_out)
        self._reader = Reader(database, vault)
        self._memory = MemoryKeeper(self._reader)
        self.words = SearchIndex(self._reader, self.is_sealed)
        self.tools = ToolRecords(self._writer, self._reader.to_headers)
        self.leases = Leases(database)
        self._eraser = Eraser(self._writer, (self.words.finish, self._memory.finish))
        self._answer_by_parts()
        if not database.read_only:
            self._eraser.finish()

    def _answer_by_parts(self) -> None:
        """Have each part answer what the port asks of it."""
        reader, sessions = self._reader, SessionReader(self._reader)
        self.headers, self.events = reader.headers, reader.events
        self.session_headers, self.session_events = reader.session_headers, reader.session_events
        self.last_headers, self.last_events = reader.last_headers, reader.last_events
        self.events_at, self.committed_events = reader.events_at, reader.committed_events
        self.run_headers, self.run_events = reader.run_headers, reader.run_events
        self.headers_after, self.events_after = reader.headers_after, reader.events_after
        self.end, self.open_runs = reader.end, reader.open_runs
        self.find, self.find_ids, self.rekeyed_ms = reader.find, reader.find_ids, reader.rekeyed_ms
        self.records, self.record_pages = reader.records, reader.record_pages
        self.covers = reader.covers
        self.session_records, self.session_heads = sessions.session_records, sessions.session_heads
        self.sessions_named, self.link_at = sessions.sessions_named, sessions.link_at
        self.cut, self.forks, self.snapshot = sessions.cut, sessions.forks, sessions.snapshot
        memory = self._memory
        self.remembered_after = memory.reader.remembered_after
        self.events_at_positions = memory.reader.events_at_positions
        self.memory_rows, self.keep_memory_rows = memory.memory_rows, memory.keep_memory_rows
        self.documents, self.follow_documents = memory.documents, memory.follow_documents
        self.documents_lag, self.drop_documents = memory.documents_lag, memory.drop_documents
        self.index_state, self.nearest = memory.index_state, memory.nearest
        self.term_key = memory.term_key
        eraser = self._eraser
        self.erase, self.count_expirable = eraser.erase, eraser.count_expirable
        self.finish_erasure, self.erasure_state = eraser.finish, eraser.state
        self.restore = Copier(self._writer).restore

    def legacy_redacted(self) -> list[tuple[Scope, str, str]]:
        """Return scope, id and kind of events that were redacted before the ledger was rekeyed."""
        with self._database.reading() as connection:
            found = fetch_all(connection, _LEGACY_REDACTED)
        return [
            (
                Scope(scope),
                encoding.name_of(key, name) if flags & encoding.NAMED else str(UUID(bytes=key)),
                kind,
            )
            for scope, key, name, flags, kind in found
        ]

    def settle_legacy(self) -> int:
        """Hide the ids of events that expired before the ledger was rekeyed; return how many."""
        positions: list[int] = []

        def work(batch: Batch, _: None) -> None:
            found = fetch_all(batch.connection, _LEGACY_EXPIRED)
            positions.extend(position for (position,) in found)
            hide_ids(batch, positions)
            batch.connection.execute("DELETE FROM legacy_events")
            batch.dirty = True

        with self._database.reading() as connection:
            if not fetch_value(connection, "SELECT 1 FROM legacy_events LIMIT 1"):
                return 0
        self._writer.transact(work, None)
        # Pages that were split before hold copies of old ids in their gaps.
        self._database.write_anew()
        return len(positions)

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""
        job = Job(drafts, expected_seq)
        self._commits.run(job)
        self._notifier.notify()
        return job.headers

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at its own ``seq``."""
        headers: list[Header] = []

        def work(batch: Batch, _: None) -> None:
            headers.append(open_fork(batch, self._writer.ids, draft, parent=parent, seq=seq))

        self._writer.transact(work, None)
        self._notifier.notify()
        return headers[-1]

    def keep_snapshot(self, scope: Scope, session_id: str, *, seq: int, body: bytes) -> None:
        """Keep a snapshot unless the ledger is read-only; a few older ones stay."""
        if self._database.read_only:
            return

        def work(batch: Batch, _: None) -> None:
            ids, connection = self._writer.ids, batch.connection
            place = ids.scope(connection, scope, create=False)
            session = ids.session(connection, *place, session_id)
            if session:
                snapshots.keep(connection, session, seq, body)
                batch.dirty = True

        # A reader loses nothing without it.
        lock = self._database.lock
        with contextlib.suppress(Busy, StorageFull, ReadOnly), lock.guard, lock:
            self._database.hurry(SNAPSHOT_PATIENCE_S)
            self._writer.transact(work, None)

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:  # noqa: ARG002
        """Return True once there may be events after ``seen``, False after the timeout."""
        position, waited = sum(seen[:1]), 0.0
        while self._reader.last_position() <= position:
            if waited >= timeout_s:
                return False
            step = min(POLL_S, timeout_s - waited)
            self._notifier.wait(step)
            waited += step
        return True

    def shares(self, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
        """Return the sessions that have events about ``users``, and how many."""
        with self._database.reading() as connection:
            return forgetting.shares(connection, scope, users)

    def forget_names(self) -> int:
        """Forget the names that nothing refers to any more; return how many."""
        return forgetting.forget_names(self._writer)

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return how many entries each projection beside the events has of a scope."""
        return {"search": self.words.count(scope)} | self._memory.counts(scope)

    def retention(self, scope: Scope) -> Retention:
        """Return the policy kept for the scope; empty if none was set."""
        with self._database.reading() as connection:
            found = fetch_all(
                connection,
                "SELECT kind, days FROM retention"
                " JOIN scopes ON scopes.id = retention.scope WHERE scopes.name = ?",
                (scope,),
            )
        with corrupt_on_error(self._database.path):
            return msgspec.convert(dict(found), dict[str, int | None])

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

    def cursor(self, scope: Scope, follower: str) -> str | None:
        """Return the cursor of a follower; None if it has none."""
        with self._database.reading() as connection:
            return find_note(connection, scope, follower)

    def cursors(self, scope: Scope) -> dict[str, str]:
        """Return the cursors of all followers."""
        with self._database.reading() as connection:
            found = fetch_all(
                connection,
                "SELECT follower, cursor FROM cursors JOIN scopes ON scopes.id = cursors.scope"
                " WHERE scopes.name = ?",
                (scope,),
            )
        return dict(found)

    def set_cursor(self, scope: Scope, follower: str, cursor: str) -> None:
        """Keep durably how far a follower has come."""
        self.set_cursors(scope, {follower: cursor})

    def set_cursors(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Keep durably how far each of several followers has come, in one commit."""

        def work(batch: Batch, _: None) -> None:
            number = self._writer.ids.scope(batch.connection, scope, create=True)[0]
            batch.connection.executemany(
                "INSERT INTO cursors (scope, follower, cursor) VALUES (?, ?, ?)"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                [(number, follower, cursor) for follower, cursor in cursors.items()],
            )
            batch.dirty = True

        self._writer.transact(work, None)

    def check_tables(self, scope: Scope | None = None, session_id: str | None = None) -> str | None:
        """Say what is wrong around the events of the ledger, a scope or a session, if anything."""
        with self._database.reading() as connection:
            # One snapshot for all of it, or a writer at work would look like damage.
            connection.execute("SAVEPOINT looking")
            try:
                return first_problem(connection, self._reader.opener, scope, session_id)
            finally:
                connection.execute("RELEASE looking")

    def seal_scope(self, scope: Scope) -> None:
        """Note, for every writer, that payloads of the scope are sealed from now on."""

        def work(batch: Batch, _: None) -> None:
            batch.connection.execute(
                "INSERT INTO ledger (name, value) VALUES (?, 1) ON CONFLICT (name) DO NOTHING",
                (SEALED_MARK + scope,),
            )
            self._writer.ids.sealed = sealed_scopes(batch.connection)
            self._writer.ids.unsealed.discard(scope)
            batch.dirty = True

        self._writer.transact(work, None)

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are sealed."""
        # Who has a key of the scope knows it, whatever became of the mark.
        return bool(self.vault.records(scope)) or scope in self.sealed_scopes()

    def sealed_scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""
        with self._database.reading() as connection:
            return [Scope(name) for name in sorted(sealed_scopes(connection))]

    def sealed_payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""
        counts: Counter[int] = Counter()
        with self._database.reading() as connection:
            for opening, count in fetch_all(connection, _SEALED, (scope, SALT_BYTES)):
                counts[generation_of(opening)] += count
        return dict(sorted(counts.items()))

    def await_writers(self, scope: Scope) -> None:  # noqa: ARG002  (all writers take turns)
        """Return when all that was being written to the scope is recorded, or given up."""
        self._writer.transact(lambda _, __: None, None)

    def rebuild(self) -> RebuildReceipt:
        """Derive every derived table again from the events."""

        def work(batch: Batch, _: None) -> None:
            indexes.rebuild(batch.connection)
            runs.rebuild(batch.connection)
            tool_calls.empty(batch.connection)
            snapshots.empty(batch.connection)
            batch.dirty = True

        self._writer.transact(work, None)
        # Not before the commit, after which the cache is taken to be current.
        self._writer.ids.forget()
        self.words.remove()
        self._memory.remove()
        while self.tools.follow(None).more:
            pass
        with self._database.reading() as connection:
            events = fetch_value(connection, "SELECT count(*) FROM times_by_session")
            states = fetch_value(connection, "SELECT count(*) FROM runs")
            calls = fetch_value(connection, "SELECT count(*) FROM tool_calls")
        return RebuildReceipt(events=events, runs=states, tool_calls=calls)

    def close(self) -> None:
        """Close every file."""
        self.words.close()
        self._memory.close()
        self._database.close()
        self.leases.close()
