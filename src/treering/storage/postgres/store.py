"""The store: the ledger's ports on PostgreSQL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec
from uuid_utils import UUID

from treering.ledger.chain import SALT_BYTES
from treering.model.receipts import RebuildReceipt
from treering.model.scopes import Scope
from treering.storage import forks
from treering.storage.corruption import corrupt_on_error
from treering.storage.encoding import ERASED, EXPIRED, NAMED, name_of
from treering.storage.notifier import Notifier
from treering.storage.postgres import (
    forgetting,
    memory_keeper,
    runs,
    search_index,
    snapshots,
    tool_calls,
)
from treering.storage.postgres.announcements import Announcer, Listener
from treering.storage.postgres.copies import Copier
from treering.storage.postgres.eraser import Eraser, hide_ids
from treering.storage.postgres.forgetting import note_erased
from treering.storage.postgres.id_cache import IdCache
from treering.storage.postgres.integrity import first_problem
from treering.storage.postgres.leases import Leases
from treering.storage.postgres.memory_keeper import MemoryKeeper
from treering.storage.postgres.reader import find_note
from treering.storage.postgres.search_index import SearchIndex
from treering.storage.postgres.snapshots import Snapshots
from treering.storage.postgres.tool_records import ToolRecords
from treering.storage.postgres.writer import Writer
from treering.storage.sealing import generation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import (
        Draft,
        Erased,
        Erasure,
        Record,
        Selection,
        SessionErasure,
        SessionRecord,
        Share,
    )
    from treering.model.events import Header
    from treering.model.followers import Mark
    from treering.model.receipts import Physical
    from treering.model.retention import Retention
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.server import Server

POLL_FIRST_S: Final = 0.05
POLL_LAST_S: Final = 0.5
"""How often a follower polls; after each empty poll it waits longer."""

# Asked first at every opening: planning a join with all partitions of events takes milliseconds.
_HAS_LEGACY: Final = "SELECT 1 FROM legacy_events LIMIT 1"
_LEGACY_REDACTED: Final = f"""
SELECT e.scope, e.event_id, e.event_name, e.flags, e.kind
FROM legacy_events AS l
JOIN events AS e USING (scope, session, seq)
WHERE NOT l.expired AND e.flags & {ERASED} <> 0 AND e.flags < {EXPIRED}
"""
_LEGACY_EXPIRED: Final = f"""
SELECT scope, array_agg(session ORDER BY session, seq), array_agg(seq ORDER BY session, seq)
FROM legacy_events AS l
JOIN events AS e USING (scope, session, seq)
WHERE l.expired AND e.flags >= {EXPIRED}
GROUP BY scope
"""
_LEGACY_TABLES: Final = """
SELECT DISTINCT e.tableoid::regclass::text
FROM legacy_events AS l
JOIN events AS e USING (scope, session, seq)
"""
_SEALED: Final = """
SELECT substr(salt, 1, 5), count(*)
FROM events
WHERE scope = %s AND length(salt) > %s
GROUP BY 1
"""


class PostgresStore(MemoryKeeper):
    """Stores events in a schema of a PostgreSQL database."""

    def __init__(self, server: Server, vault: Vault) -> None:
        cache = IdCache(server.lock_key)
        super().__init__(server, cache, vault)
        self.vault = vault
        self._writer = Writer(server, cache, self, vault)
        self._eraser = Eraser(self._writer)
        self._copier = Copier(self._writer)
        self.tools = ToolRecords(server, cache)
        self._snapshots = Snapshots(server, cache)
        self.words = SearchIndex(server, cache, self._to_headers, self._to_events, self.is_sealed)
        self._notifier = Notifier()
        self._announcer = Announcer(server)
        self._listener = Listener(server, self._notifier)
        self.leases = Leases(server)
        server.on_loss = cache.forget
        forks.register(self)

    def legacy_redacted(self) -> list[tuple[Scope, str, str]]:
        """Return scope, id and kind of events redacted before the ledger was rekeyed."""
        if not self._has_legacy():
            return []
        rows = self._server.read(lambda c: c.execute(_LEGACY_REDACTED, binary=True).fetchall())
        return [
            (
                Scope(scope),
                name_of(key, name) if flags & NAMED else str(UUID(bytes=key)),
                kind,
            )
            for scope, key, name, flags, kind in rows
        ]

    def _has_legacy(self) -> bool:
        """Whether this role has to settle events that were erased before the ledger was rekeyed."""
        if self._server.walled:
            return False  # The owner settles them.
        return self._server.read(lambda c: c.execute(_HAS_LEGACY).fetchone()) is not None

    def settle_legacy(self) -> int:
        """Hide the ids of events expired before the ledger was rekeyed; return how many."""
        if not self._has_legacy():
            return 0

        def work(connection: Connection) -> int:
            with connection.transaction():
                found = connection.execute(_LEGACY_EXPIRED, binary=True).fetchall()
                for scope, sessions, seqs in found:
                    hide_ids(connection, self.vault, Scope(scope), sessions, seqs)
                note_erased(connection, [row[0] for row in connection.execute(_LEGACY_TABLES)])
                connection.execute("DELETE FROM legacy_events")
            return sum(len(seqs) for _, _, seqs in found)

        return self._server.write(work)

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

    def snapshot(
        self, scope: Scope, session_id: str, *, until_seq: int
    ) -> tuple[int, bytes] | None:
        """Return the latest snapshot of a session at or before ``until_seq``, and its seq."""
        return self._snapshots.latest(scope, session_id, until_seq)

    def keep_snapshot(self, scope: Scope, session_id: str, *, seq: int, body: bytes) -> None:
        """Store a snapshot, if this store may write; keep a few older ones."""
        self._snapshots.keep(scope, session_id, seq, body)

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:
        """Return True once there may be events after ``seen``, False after the timeout."""
        self._listener.listen()
        deadline, step = time.monotonic() + timeout_s, POLL_FIRST_S
        while not self.anything_after(scope, seen):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._notifier.wait(min(step, left))
            step = min(step * 2, POLL_LAST_S)
        return True

    def erase(
        self,
        selection: Selection,
        *,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[SessionErasure], Draft],
    ) -> Erased:
        """Blank up to ``limit`` selected events and record the draft of ``vouch``, atomically."""
        erased = self._eraser.erase(selection, erasure=erasure, limit=limit, vouch=vouch)
        self._spread()
        return erased

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int, int]:
        """Return how many events would expire by kind, and how many open sessions are left."""
        return self._eraser.count_expirable(selection)

    def shares(self, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
        """Return the sessions that have events about ``users``, and how many."""
        return self._server.read(lambda c: forgetting.shares(c, scope, users), scope)

    def forget_names(self) -> int:
        """Return 0: names that nothing refers to went with the events."""
        return 0

    def projection_counts(self, scope: Scope) -> dict[str, int]:
        """Return how many entries each projection beside the events has of a scope."""
        return {"search": self.words.count(scope)} | self.memory_counts(scope)

    def finish_erasure(self) -> Physical:
        """Remove erased bytes from every file; return whether that is done."""
        return self._eraser.finish()

    def erasure_state(self) -> Physical:
        """Return whether bytes of erased events are still in a file; change nothing."""
        return self._eraser.state()

    def retention(self, scope: Scope) -> Retention:
        """Return the policy of the scope; empty if none was set."""
        found = self._server.read(
            lambda c: c.execute(
                "SELECT kind, days FROM retention WHERE scope = %s", (scope,)
            ).fetchall(),
            scope,
        )
        with corrupt_on_error(self._server.address.shown):
            return msgspec.convert(dict(found), dict[str, int | None])

    def set_retention(self, scope: Scope, policy: Retention) -> None:
        """Set the policy of the scope."""

        def work(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM retention WHERE scope = %s AND kind <> ALL(%s::text[])",
                    (scope, list(policy)),
                )
                cursor.executemany(
                    "INSERT INTO retention (scope, kind, days) VALUES (%s, %s, %s)"
                    " ON CONFLICT (scope, kind) DO UPDATE SET days = excluded.days",
                    [(scope, kind, days) for kind, days in policy.items()],
                )

        self._server.write(work, scope)

    def cursor(self, scope: Scope, follower: str) -> str | None:
        """Return the stored cursor of a follower; None if it has none."""
        return self._server.read(lambda c: find_note(c, scope, follower), scope)

    def cursors(self, scope: Scope) -> dict[str, str]:
        """Return the stored cursor of each follower."""
        statement = "SELECT follower, cursor FROM cursors WHERE scope = %s"
        return self._server.read(lambda c: dict(c.execute(statement, (scope,)).fetchall()), scope)

    def set_cursor(self, scope: Scope, follower: str, cursor: str) -> None:
        """Store the cursor of a follower durably."""
        self.set_cursors(scope, {follower: cursor})

    def set_cursors(self, scope: Scope, cursors: Mapping[str, str]) -> None:
        """Store the cursors of several followers durably, in one commit."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO cursors (scope, follower, cursor)"
                " SELECT %s, * FROM unnest(%s::text[], %s::text[])"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                (scope, list(cursors), list(cursors.values())),
            )

        self._server.write(work, scope)

    def check_tables(self, scope: Scope | None = None, session_id: str | None = None) -> str | None:
        """Return the first problem around the events of the ledger, a scope or a session."""

        def look(connection: Connection) -> str | None:
            session = None
            if scope is not None and session_id is not None:
                session = self._cache.session(connection, scope, session_id)
                if session is None:
                    return None
            return first_problem(connection, self._server.address, self._opener, scope, session)

        return self._server.read(look, scope)

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
            with connection.transaction():
                runs.rebuild(connection)
                tool_calls.empty(connection)
                snapshots.empty(connection)
                search_index.empty(connection)
                memory_keeper.empty(connection)
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
        return self._server.write(work)

    def seal_scope(self, scope: Scope) -> None:
        """Note, for every writer, that payloads of the scope are sealed from now on."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO seals (scope, round) VALUES (%s, 1) ON CONFLICT DO NOTHING", (scope,)
            )

        self._server.write(work, scope)
        self._cache.forget()

    def is_sealed(self, scope: Scope) -> bool:
        """Whether payloads of the scope are sealed."""
        # A key of the scope proves it, even if the mark is gone.
        return bool(self.vault.records(scope) or self._sealed("WHERE scope = %s", (scope,), scope))

    def sealed_scopes(self) -> list[Scope]:
        """Return the scopes whose payloads are sealed, by name."""
        return self._sealed("", (), None)

    def _sealed(self, where: str, values: tuple[object, ...], scope: Scope | None) -> list[Scope]:
        found = self._server.read(
            lambda c: c.execute(
                f"SELECT scope FROM seals {where} ORDER BY scope", values
            ).fetchall(),
            scope,
        )
        return [Scope(row[0]) for row in found]

    def sealed_payloads(self, scope: Scope) -> dict[int, int]:
        """Return how many payloads are sealed under each generation of the scope's key."""
        found = self._server.read(
            lambda c: c.execute(_SEALED, (scope, SALT_BYTES), binary=True).fetchall(), scope
        )
        return dict(sorted((generation_of(opening), count) for opening, count in found))

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
        self._server.after_fork()
        self._notifier.after_fork()
        self._announcer.after_fork()
        self._listener.after_fork()
        self.leases.after_fork()

    def _spread(self) -> None:
        self._notifier.notify()
        self._announcer.announce()
