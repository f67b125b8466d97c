"""The store: the ledger's ports on PostgreSQL."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from treering.ledger.chain import SALT_BYTES
from treering.ledger.records import Draft, Projection, ProvedChain, Record, SessionRecord
from treering.model.receipts import RebuildReceipt
from treering.model.scopes import Scope
from treering.storage import forks
from treering.storage.encoding import EXPIRED, Row
from treering.storage.notifier import Notifier
from treering.storage.postgres import (
    memory,
    record_keys,
    runs,
    search_index,
    snapshots,
    tool_records,
)
from treering.storage.postgres.announcements import Announcer, Listener
from treering.storage.postgres.copies import Copier
from treering.storage.postgres.eraser import Eraser
from treering.storage.postgres.id_cache import IdCache
from treering.storage.postgres.integrity import first_problem
from treering.storage.postgres.leases import Leases
from treering.storage.postgres.memory import MemoryKeeper
from treering.storage.postgres.reader import Reader
from treering.storage.postgres.rows import fetch
from treering.storage.postgres.search_index import SearchIndex
from treering.storage.postgres.sessions import SessionReader
from treering.storage.postgres.snapshots import Snapshots
from treering.storage.postgres.tool_records import ToolSource
from treering.storage.postgres.writer import Writer
from treering.storage.sealing import generation_of
from treering.storage.tool_records import ToolRecords
from treering.storage.tool_table import DERIVED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from treering.ledger.ports import Vault
    from treering.model.events import Header
    from treering.model.queries import Mark
    from treering.storage.postgres.server import Connection, Server

_SEALED: Final = """
SELECT substr(salt, 1, 5), count(*)
FROM events
WHERE scope = %s AND length(salt) > %s
GROUP BY 1
"""

POLL_FIRST_S: Final = 0.05
POLL_LAST_S: Final = 0.5
"""How often a follower polls; after each empty poll it waits longer."""


class PostgresStore:
    """Stores events in a schema of a PostgreSQL database. Each part answers for what it owns."""

    def __init__(self, server: Server, vault: Vault) -> None:
        cache = IdCache(server.lock_key)
        self.vault = vault
        self._server = server
        self._cache = cache
        self.reader = Reader(server, cache, vault)
        self.sessions = SessionReader(self.reader)
        self.snapshots = Snapshots(server, cache)
        self.record_keys = record_keys.RecordKeys(self.reader)
        self.cursors = Cursors(server)
        self.seals = Seals(server, cache, vault)
        self.memory = MemoryKeeper(self.reader)
        self.words = SearchIndex(self.reader, self.seals.is_sealed)
        self.tools = ToolRecords(ToolSource(server, cache))
        self._writer = Writer(server, cache, self.reader, vault)
        self._copier = Copier(self._writer)
        self.erasure = Eraser(self._writer, self._spread)
        self._notifier = Notifier()
        self._announcer = Announcer(server)
        self._listener = Listener(server, self._notifier)
        self.leases = Leases(server)
        self.projections = (
            self._projection("runs", (runs.STORED,), runs.rebuild),
            self._projection("tool_calls", DERIVED, tool_records.empty, self.tools.lag),
            self._projection("snapshots", ("SELECT * FROM snapshots",), snapshots.empty),
            self._projection("record_keys", ("SELECT * FROM record_keys",), record_keys.rebuild),
            Projection(
                "search", self.words.rows, partial(self._change, search_index.empty), self.words.lag
            ),
            self._projection("memory", memory.DERIVED, memory.empty, self.memory.lag),
        )
        server.on_loss = cache.forget
        forks.register(self)

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""
        headers = self._writer.append(drafts, expected_seq=expected_seq)
        self._spread()
        return headers

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at its own ``seq``."""
        header = self._writer.fork(draft, parent=parent, seq=seq)
        self._spread()
        return header

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:
        """Return True once there may be events after ``seen``, False after the timeout."""
        self._listener.listen()
        deadline, step = time.monotonic() + timeout_s, POLL_FIRST_S
        while not self.reader.anything_after(scope, seen):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._notifier.wait(min(step, left))
            step = min(step * 2, POLL_LAST_S)
        return True

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return how many entries each projection beside the events has of a scope."""
        return {"search": self.words.count(scope)} | self.memory.counts(scope)

    def check_tables(
        self,
        scope: Scope | None = None,
        session_id: str | None = None,
        *,
        is_stopped: Callable[[], bool] = bool,  # noqa: ARG002  (a query on the server runs on)
    ) -> str | None:
        """Return the first problem around the events of the ledger, a scope or a session."""

        def look(connection: Connection) -> str | None:
            session = None
            if scope is not None and session_id is not None:
                session = self._cache.session(connection, scope, session_id)
                if session is None:
                    return None
            return first_problem(
                connection, self._server.address, self.reader.opener, scope, session
            )

        return self._server.read(look, scope)

    def prove_chains(
        self,
        scope: Scope | None,  # noqa: ARG002
        progress: Callable[[int], None],  # noqa: ARG002
    ) -> dict[bytes, ProvedChain]:
        """Return nothing: each session is proved by itself."""
        return {}

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Store ``records`` verbatim and in order, all or none; return how many were new."""
        added = self._copier.restore(sessions, records)
        self._spread()
        return added

    def rebuild(self) -> RebuildReceipt:
        """Derive every derived table again from the events."""

        def work(connection: Connection) -> RebuildReceipt:
            for (scope,) in connection.execute("SELECT scope FROM scopes").fetchall():
                while self.tools.follow(scope).more:
                    pass
            row = connection.execute(
                f"SELECT (SELECT count(*) FROM events WHERE flags < {EXPIRED}),"
                " (SELECT count(*) FROM runs), (SELECT count(*) FROM tool_calls)"
            ).fetchone()
            events, states, calls = row or (0, 0, 0)
            return RebuildReceipt(events=events, runs=states, tool_calls=calls)

        self._cache.forget()
        for projection in self.projections:
            projection.drop()
        return self._server.write(work)

    def _projection(
        self,
        name: str,
        statements: Sequence[str],
        empty: Callable[[Connection], None],
        lag: Callable[[Scope], int] = lambda _: 0,
    ) -> Projection:
        """Return a projection whose rows ``statements`` read."""

        def look(connection: Connection) -> list[Row]:
            with connection.transaction():
                connection.execute("SET LOCAL enable_seqscan = on")
                parts = [fetch(connection, statement, ()) for statement in statements]
            return sorted((row for part in parts for row in part), key=repr)

        return Projection(name, lambda: self._server.read(look), partial(self._change, empty), lag)

    def _change(self, change: Callable[[Connection], None]) -> None:
        def work(connection: Connection) -> None:
            with connection.transaction():
                change(connection)

        self._server.write(work)

    def close(self) -> None:
        """Close all connections."""
        self._listener.close()
        self._announcer.close()
        self._server.close()
        self.leases.close()

    def before_fork(self) -> None:
        """Do nothing: other threads continue in the parent."""

    def after_fork_in_parent(self) -> None:
        """Do nothing: the connections stay here."""

    def after_fork_in_child(self) -> None:
        """Start again with new connections and threads."""
        self._cache.leave_runs()
        self._server.after_fork()
        self._notifier.after_fork()
        self._announcer.after_fork()
        self._listener.after_fork()
        self.leases.after_fork()

    def _spread(self) -> None:
        self._notifier.notify()
        self._announcer.announce()


class Seals:
    """Knows the encrypted scopes of a ledger."""

    def __init__(self, server: Server, cache: IdCache, vault: Vault) -> None:
        self._server = server
        self._cache = cache
        self._vault = vault

    def seal(self, scope: Scope) -> None:
        """Note, for every writer, that payloads of the scope are sealed from now on."""

        def work(connection: Connection) -> None:
            # A round below 1 does not count as a mark: it was set from outside.
            connection.execute(
                "INSERT INTO seals (scope, round) VALUES (%s, 1)"
                " ON CONFLICT (scope) DO UPDATE SET round = 1 WHERE seals.round < 1",
                (scope,),
            )

        self._server.write(work, scope)
        self._cache.forget()

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are sealed."""
        # A key of the scope proves it, even if the mark is gone.
        return bool(self._vault.records(scope) or self._sealed("WHERE scope = %s", (scope,), scope))

    def scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""
        return self._sealed("", (), None)

    def _sealed(self, where: str, values: tuple[object, ...], scope: Scope | None) -> list[Scope]:
        statement = f"SELECT scope FROM seals {where} ORDER BY scope"
        rows = self._server.fetch(statement, values, scope)
        return [Scope(row[0]) for row in rows]

    def payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""
        rows = self._server.fetch(_SEALED, (scope, SALT_BYTES), scope)
        return dict(sorted((generation_of(opening), count) for opening, count in rows))

    def await_writers(self, scope: Scope) -> None:
        """Return when all writes to the scope in progress are committed or rolled back.

        A writer that has sealed under an older key and not begun to write has to seal again.
        """

        def work(connection: Connection) -> None:
            connection.execute("UPDATE seals SET round = round + 1 WHERE scope = %s", (scope,))
            lock = self._cache.lock_of(scope, "")
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))

        self._server.write(work, scope)
        self._cache.forget()


class Cursors:
    """Keeps the cursors of followers."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def find(self, scope: Scope, follower: str) -> str | None:
        """Return the stored cursor of a follower; None if it has none."""
        return self.find_all(scope, [follower]).get(follower)

    def find_all(self, scope: Scope, followers: Sequence[str]) -> dict[str, str]:
        """Return the stored cursors of those of ``followers`` that have one."""
        statement = "SELECT follower, cursor FROM cursors WHERE scope = %s AND follower = ANY(%s)"
        return dict(self._server.fetch(statement, (scope, list(followers)), scope))

    def all(self, scope: Scope) -> dict[str, str]:
        """Return the stored cursor of each follower."""
        statement = "SELECT follower, cursor FROM cursors WHERE scope = %s"
        return dict(self._server.fetch(statement, (scope,), scope))

    def set(self, scope: Scope, follower: str, cursor: str) -> None:
        """Store the cursor of a follower durably."""
        self.set_all(scope, {follower: cursor})

    def set_all(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Store the cursors of several followers durably, in one commit."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO cursors (scope, follower, cursor)"
                " SELECT %s, * FROM unnest(%s::text[], %s::text[])"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                (scope, list(cursors), list(cursors.values())),
            )

        self._server.write(work, scope)
