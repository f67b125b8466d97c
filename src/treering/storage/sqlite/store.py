"""The store: everything the ledger's port asks for, on one SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.model.receipts import RebuildReceipt
from treering.storage.notifier import Notifier
from treering.storage.sqlite import indexes, runs, snapshots, tool_calls
from treering.storage.sqlite.commits import GroupCommit, Job
from treering.storage.sqlite.copies import Copier
from treering.storage.sqlite.cursors import Cursors
from treering.storage.sqlite.cuts import open_fork
from treering.storage.sqlite.eraser import Eraser
from treering.storage.sqlite.id_cache import IdCache
from treering.storage.sqlite.integrity import first_problem
from treering.storage.sqlite.leases import Leases
from treering.storage.sqlite.memory_keeper import MemoryKeeper
from treering.storage.sqlite.reader import Reader
from treering.storage.sqlite.seals import Seals
from treering.storage.sqlite.search_index import SearchIndex
from treering.storage.sqlite.sessions import SessionReader
from treering.storage.sqlite.snapshots import Snapshots
from treering.storage.sqlite.sql import fetch_value
from treering.storage.sqlite.tool_records import ToolRecords
from treering.storage.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import (
        Draft,
    )
    from treering.model.events import Header
    from treering.model.followers import Mark
    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.database import Database

POLL_S: Final = 0.05
"""How often a follower looks whether another process has written."""


class SqliteStore:
    """Keeps events in one SQLite file. Each part answers for what it owns."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self.vault = vault
        self._database = database
        self._notifier = Notifier()
        self._writer = Writer(database, IdCache(database), vault)
        self._commits = GroupCommit(self._writer.carry_out)
        self.reader = Reader(database, vault)
        self.sessions = SessionReader(self.reader)
        self.snapshots = Snapshots(self._writer)
        self.cursors = Cursors(self._writer)
        self.seals = Seals(self._writer, vault)
        self.memory = MemoryKeeper(self.reader)
        self.words = SearchIndex(self.reader, self.seals.is_sealed)
        self.tools = ToolRecords(self._writer, self.reader.to_headers)
        self.restore = Copier(self._writer).restore
        self.leases = Leases(database)
        self.erasure = Eraser(self._writer, (self.words.finish, self.memory.finish))
        if not database.read_only:
            self.erasure.finish()

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

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:  # noqa: ARG002
        """Return True once there may be events after ``seen``, False after the timeout."""
        position, waited = sum(seen[:1]), 0.0
        while self.reader.last_position() <= position:
            if waited >= timeout_s:
                return False
            step = min(POLL_S, timeout_s - waited)
            self._notifier.wait(step)
            waited += step
        return True

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return how many entries each projection beside the events has of a scope."""
        return {"search": self.words.count(scope)} | self.memory.counts(scope)

    def check_tables(self, scope: Scope | None = None, session_id: str | None = None) -> str | None:
        """Say what is wrong around the events of the ledger, a scope or a session, if anything."""
        with self._database.reading() as connection:
            # One snapshot for all of it, or a writer at work would look like damage.
            connection.execute("SAVEPOINT looking")
            try:
                return first_problem(connection, self.reader.opener, scope, session_id)
            finally:
                connection.execute("RELEASE looking")

    def rebuild(self) -> RebuildReceipt:
        """Derive every derived table again from the events."""

        def work(batch: Batch, _: None) -> None:
            indexes.rebuild(batch.connection)
            runs.rebuild(batch.connection)
            tool_calls.empty(batch.connection)
            snapshots.empty(batch.connection)
            batch.dirty = True

        self._writer.transact(work, None)
        # Not before the commit, after which the cache is taken to be current; nor while another
        # thread writes, which would number its events from the emptied cache.
        lock = self._database.lock
        with lock.guard, lock:
            self._writer.ids.forget()
        self.words.remove()
        self.memory.remove()
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
        self.memory.close()
        self._database.close()
        self.leases.close()
