"""The store: everything the ledger's port asks for, on one SQLite file."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from treering.errors import Corrupt
from treering.lazy import LazyModule
from treering.ledger.chain import SALT_BYTES
from treering.ledger.records import Projection
from treering.model.codec import encode
from treering.model.scopes import Scope
from treering.storage.notifier import Notifier
from treering.storage.sealing import generation_of
from treering.storage.sqlite import indexes, runs
from treering.storage.sqlite.id_cache import SEALED_MARK, IdCache, sealed_scopes
from treering.storage.sqlite.leases import Leases
from treering.storage.sqlite.reader import Reader, find_note, find_scope
from treering.storage.sqlite.rows import PENDING, fetch_all, fetch_value
from treering.storage.sqlite.sessions import SessionReader, open_fork
from treering.storage.sqlite.writer import GroupCommit, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import apsw

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft, ProvedChain, Record, SessionRecord
    from treering.model import receipts
    from treering.model.events import Header
    from treering.model.queries import Mark
    from treering.storage import tool_records as shared_tools
    from treering.storage import tool_table
    from treering.storage.sqlite import (
        chain_scan,
        copies,
        eraser,
        integrity,
        memory,
        record_keys,
        search_index,
        snapshots,
        tool_records,
    )
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.rows import Row
else:
    receipts = LazyModule("treering.model.receipts")
    chain_scan = LazyModule("treering.storage.sqlite.chain_scan")
    copies = LazyModule("treering.storage.sqlite.copies")
    eraser = LazyModule("treering.storage.sqlite.eraser")
    integrity = LazyModule("treering.storage.sqlite.integrity")
    memory = LazyModule("treering.storage.sqlite.memory")
    record_keys = LazyModule("treering.storage.sqlite.record_keys")
    search_index = LazyModule("treering.storage.sqlite.search_index")
    snapshots = LazyModule("treering.storage.sqlite.snapshots")
    tool_records = LazyModule("treering.storage.sqlite.tool_records")
    shared_tools = LazyModule("treering.storage.tool_records")
    tool_table = LazyModule("treering.storage.tool_table")

_SEALED: Final = """
SELECT substr(c.salt, 1, 5), count(*)
FROM scopes AS s
JOIN events AS e ON e.scope = s.id
JOIN contents AS c ON c.position = e.position
WHERE s.name = ? AND length(c.salt) > ?
GROUP BY 1
"""
_HEADS_SUM: Final = """
SELECT sum(h.seq)
FROM sessions AS s
JOIN heads AS h ON h.session = s.id
WHERE s.scope = ?
"""
STEPS_UNASKED: Final = 10_000_000
"""Steps of SQLite, some tenths of a second, after which a check asks whether it is to stop.

Each question waits for the thread that runs Python.
"""
SCANNED_MAX: Final = 10
"""Events that a scan of one scope passes, of all scopes, for each of its own."""

Part = TypeVar("Part")


class _LazyPart(Generic[Part]):
    """A part of the store that is made when it is first asked for.

    The method that it decorates returns how to make it, and imports what that needs: an import
    under the lock and a fork would wait for each other. The part is made under the lock, once.
    """

    def __init__(self, prepare: Callable[[SqliteStore], Callable[[], Part]]) -> None:
        self._prepare = prepare
        self.__doc__ = prepare.__doc__

    def __get__(self, store: SqliteStore, kind: type[SqliteStore]) -> Part:
        name, parts = self._prepare.__name__, store.__dict__
        make = self._prepare(store)
        lock = store._database.lock  # noqa: SLF001  (its own part)
        with lock.guard, lock:
            # An attribute of its own: the next use costs nothing more.
            if name not in parts:
                parts[name] = make()
        part: Part = parts[name]
        return part


class SqliteStore:
    """Keeps events in one SQLite file. Each part answers for what it owns."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self.vault = vault
        self._database = database
        self._notifier = Notifier()
        ids = IdCache(database)
        self._writer = Writer(database, ids, vault)
        self._commits = GroupCommit(self._writer)
        self.reader = Reader(database, vault, ids)
        self.sessions = SessionReader(self.reader)
        self.seals = Seals(self._writer, vault)
        self.leases = Leases(database)
        if not database.read_only and self._is_erasure_pending():
            self.erasure.finish()

    @_LazyPart
    def snapshots(self) -> Callable[[], snapshots.Snapshots]:
        """Return how to make the part that keeps snapshots of views."""
        return partial(snapshots.Snapshots, self._writer)

    @_LazyPart
    def cursors(self) -> Callable[[], Cursors]:
        """Return how to make the part that keeps cursors."""
        return partial(Cursors, self._writer)

    @_LazyPart
    def memory(self) -> Callable[[], memory.MemoryKeeper]:
        """Return how to make the part that stores what the memory derives."""
        return partial(memory.MemoryKeeper, self.reader)

    @_LazyPart
    def words(self) -> Callable[[], search_index.SearchIndex]:
        """Return how to make the word index."""
        return partial(search_index.SearchIndex, self.reader, self.seals.is_sealed)

    @_LazyPart
    def tools(self) -> Callable[[], shared_tools.ToolRecords]:
        """Return how to make the tool records."""
        source = tool_records.ToolSource(self._writer, self.reader.to_headers)
        return partial(shared_tools.ToolRecords, source)

    @_LazyPart
    def record_keys(self) -> Callable[[], record_keys.RecordKeys]:
        """Return how to make the part that finds records by their keys."""
        return partial(record_keys.RecordKeys, self.reader)

    @_LazyPart
    def erasure(self) -> Callable[[], eraser.Eraser]:
        """Return how to make the part that erases."""
        return partial(eraser.Eraser, self._writer, (self.words.finish, self.memory.finish))

    def _is_erasure_pending(self) -> bool:
        """Whether an earlier erasure has still to be driven out of the files."""
        with self._database.reading() as connection:
            return bool(fetch_value(connection, PENDING))

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""
        headers = self._commits.append(drafts, expected_seq)
        self._notifier.notify()
        return headers

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at its own ``seq``."""

        def work(batch: Batch, _: None) -> Header:
            return open_fork(batch, self._writer.ids, draft, parent=parent, seq=seq)

        header = self._writer.transact(work, None)
        self._notifier.notify()
        return header

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Record ``records`` verbatim and in order, all or none; return how many were new."""
        return copies.Copier(self._writer).restore(sessions, records)

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:  # noqa: ARG002
        """Return True once there may be events after ``seen``, False after the timeout."""
        position = sum(seen[:1])
        return self._notifier.wait_until(lambda: self.reader.last_position() > position, timeout_s)

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return how many entries each projection beside the events has of a scope."""
        return {"search": self.words.count(scope)} | self.memory.counts(scope)

    def check_tables(
        self,
        scope: Scope | None = None,
        session_id: str | None = None,
        *,
        is_stopped: Callable[[], bool] = bool,
    ) -> str | None:
        """Return the first problem in the tables of the ledger, a scope or a session, or None."""
        first_problem = integrity.first_problem
        with self._database.reading() as connection:
            # One snapshot for all of it, or a writer at work would look like damage.
            connection.execute("SAVEPOINT looking")
            try:
                connection.set_progress_handler(is_stopped, STEPS_UNASKED)
                return first_problem(connection, self.reader.opener, scope, session_id)
            finally:
                connection.set_progress_handler(None)
                connection.execute("RELEASE looking")

    def prove_chains(
        self, scope: Scope | None, progress: Callable[[int], None]
    ) -> dict[bytes, ProvedChain]:
        """Return by genesis chains of a scope, or of all, that surely hold as far as they say."""
        whole, path = self._scanned(scope), Path(self._database.path)
        job = chain_scan.ScanJob(str(path.absolute()), str(self.vault.folder().absolute()))
        helpers = chain_scan.helper_count(whole.until) if self._database.is_shared else 0
        try:
            scans = chain_scan.scan_all(self.reader, whole, progress, job=job, helpers=helpers)
        except Corrupt:
            return {}  # Which session it is shows when each is read by itself.
        with self._database.reading() as connection:
            return chain_scan.join(connection, scans)

    def _scanned(self, scope: Scope | None) -> chain_scan.Positions:
        """Return what to scan for a scope; nothing if its events are few among many others."""
        with self._database.reading() as connection:
            newest = fetch_value(connection, "SELECT coalesce(max(position), 0) FROM events")
            if scope is None:
                return chain_scan.Positions(0, newest)
            number = find_scope(connection, scope)[0]
            own = fetch_value(connection, _HEADS_SUM, (number,)) or 0
        return chain_scan.Positions(0, newest if own * SCANNED_MAX >= newest else 0, number)

    def rebuild(self) -> receipts.RebuildReceipt:
        """Derive every derived table again from the events."""
        self._change(indexes.rebuild)
        for projection in self.projections:
            projection.drop()
        # Not before the commit, after which the cache is taken to be current; nor while another
        # thread writes, which would number its events from the emptied cache.
        lock = self._database.lock
        with lock.guard, lock:
            self._writer.ids.forget()
        with self._database.reading() as connection:
            scopes = fetch_all(connection, "SELECT name FROM scopes")
        for (scope,) in scopes:
            while self.tools.follow(scope).more:
                pass
        with self._database.reading() as connection:
            events = fetch_value(connection, "SELECT count(*) FROM times_by_session")
            states = fetch_value(connection, "SELECT count(*) FROM runs")
            calls = fetch_value(connection, "SELECT count(*) FROM tool_calls")
        return receipts.RebuildReceipt(events=events, runs=states, tool_calls=calls)

    @property
    def projections(self) -> tuple[Projection, ...]:
        """Return all that is derived from the events."""
        return (
            self._projection("runs", ("SELECT * FROM runs",), runs.rebuild),
            self._projection("tool_calls", tool_table.DERIVED, tool_records.empty, self.tools.lag),
            self._projection("snapshots", ("SELECT * FROM snapshots",), snapshots.empty),
            self._projection("record_keys", ("SELECT * FROM record_keys",), record_keys.rebuild),
            Projection("search", self.words.rows, self.words.remove, self.words.lag),
            Projection("memory", self.memory.rows, self.memory.remove, self.memory.lag),
        )

    def _projection(
        self,
        name: str,
        statements: Sequence[str],
        empty: Callable[[apsw.Connection], None],
        lag: Callable[[Scope], int] = lambda _: 0,
    ) -> Projection:
        """Return a projection in the ledger itself, whose rows ``statements`` read."""

        def rows() -> list[Row]:
            with self._database.reading() as connection, connection:
                parts = [fetch_all(connection, statement) for statement in statements]
            return sorted((row for part in parts for row in part), key=repr)

        return Projection(name, rows, lambda: self._change(empty), lag)

    def _change(self, change: Callable[[apsw.Connection], None]) -> None:
        def work(batch: Batch, _: None) -> None:
            change(batch.connection)
            batch.dirty = True

        self._writer.transact(work, None)

    def close(self) -> None:
        """Close every file."""
        for companion in ("words", "memory"):
            if companion in vars(self):  # Others were never opened.
                vars(self)[companion].close()
        self._database.close()
        self.leases.close()


class Seals:
    """Knows the encrypted scopes of a ledger."""

    def __init__(self, writer: Writer, vault: Vault) -> None:
        self._writer = writer
        self._database = writer.database
        self._vault = vault

    def seal(self, scope: Scope) -> None:
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
        return bool(self._vault.records(scope)) or scope in self.scopes()

    def scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""
        with self._database.reading() as connection:
            return [Scope(name) for name in sorted(sealed_scopes(connection))]

    def payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""
        counts: Counter[int] = Counter()
        with self._database.reading() as connection:
            for opening, count in fetch_all(connection, _SEALED, (scope, SALT_BYTES)):
                counts[generation_of(opening)] += count
        return dict(sorted(counts.items()))

    def await_writers(self, scope: Scope) -> None:  # noqa: ARG002  (all writers take turns)
        """Return when all that was being written to the scope is recorded, or given up."""
        self._writer.transact(lambda _, __: None, None)


class Cursors:
    """Keeps the cursors of followers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._database = writer.database

    def find(self, scope: Scope, follower: str) -> str | None:
        """Return the cursor of a follower; None if it has none."""
        with self._database.reading() as connection:
            return find_note(connection, scope, follower)

    def find_all(self, scope: Scope, followers: Sequence[str]) -> dict[str, str]:
        """Return the cursors of those of ``followers`` that have one."""
        with self._database.reading() as connection:
            rows = fetch_all(
                connection,
                "SELECT follower, cursor FROM cursors JOIN scopes ON scopes.id = cursors.scope"
                " WHERE scopes.name = ? AND follower IN (SELECT value FROM json_each(?))",
                (scope, encode(list(followers))),
            )
        return dict(rows)

    def all(self, scope: Scope) -> dict[str, str]:
        """Return the cursors of all followers."""
        with self._database.reading() as connection:
            rows = fetch_all(
                connection,
                "SELECT follower, cursor FROM cursors JOIN scopes ON scopes.id = cursors.scope"
                " WHERE scopes.name = ?",
                (scope,),
            )
        return dict(rows)

    def set(self, scope: Scope, follower: str, cursor: str) -> None:
        """Store the cursor of a follower durably."""
        self.set_all(scope, {follower: cursor})

    def set_all(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Store the cursors of several followers durably, in one commit."""

        def work(batch: Batch, _: None) -> None:
            number = self._writer.ids.scope(batch.connection, scope, create=True)[0]
            batch.connection.executemany(
                "INSERT INTO cursors (scope, follower, cursor) VALUES (?, ?, ?)"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                [(number, follower, cursor) for follower, cursor in cursors.items()],
            )
            batch.dirty = True

        self._writer.transact(work, None)
