"""The store: everything the ledger's port asks for, on one SQLite file."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from treering.ledger.records import SessionRecord
from treering.model.receipts import RebuildReceipt
from treering.storage.encoding import name_key
from treering.storage.sqlite import runs, timeline
from treering.storage.sqlite.commits import GroupCommit, Job
from treering.storage.sqlite.copies import Copier
from treering.storage.sqlite.eraser import Eraser
from treering.storage.sqlite.faults import naming_damage
from treering.storage.sqlite.known import Known
from treering.storage.sqlite.reader import Reader
from treering.storage.sqlite.soundness import first_flaw
from treering.storage.sqlite.sql import fetch_all, fetch_value
from treering.storage.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from treering.ledger.records import Cover, Draft, Erased, Erasure, Mark, Record, Selection
    from treering.model.events import Header
    from treering.model.receipts import Physical
    from treering.model.retention import Retention
    from treering.model.scopes import Scope
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.database import Database

SESSIONS_PAGE: Final = 1_000
POLL_S: Final = 0.05
"""How often a follower looks whether another process has written."""

_SESSIONS: Final = """
SELECT s.id, scopes.name, scopes.key, s.name, s.salt, s.genesis, heads.seq, heads.link
FROM sessions AS s
JOIN scopes ON scopes.id = s.scope
LEFT JOIN heads ON heads.session = s.id
"""


class SqliteStore(Reader):
    """Keeps events in one SQLite file."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._writer = Writer(database, Known(database))
        self._commits = GroupCommit(self._writer.carry_out)
        self._eraser = Eraser(self._writer)
        self._copier = Copier(self._writer)
        self._news = _News()
        if not database.read_only:
            self._eraser.finish()

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""
        job = Job(drafts, expected_seq)
        self._commits.run(job)
        self._news.spread()
        return job.headers

    def wait(self, scope: Scope, seen: Mark, timeout_s: float) -> bool:  # noqa: ARG002
        """Return True once something may be found behind ``seen``, False after the timeout."""
        position, waited = sum(seen[:1]), 0.0
        while self.last_position() <= position:
            if waited >= timeout_s:
                return False
            step = min(POLL_S, timeout_s - waited)
            self._news.wait(step)
            waited += step
        return True

    def erase(
        self,
        selection: Selection,
        *,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[Cover], Draft],
    ) -> Erased:
        """Blank up to ``limit`` selected events and record what ``vouch`` says, atomically."""
        return self._eraser.erase(selection, erasure=erasure, limit=limit, vouch=vouch)

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int]:
        """Return how many events would expire by kind, and how many open sessions are left."""
        return self._eraser.count_expirable(selection)

    def finish_erasure(self) -> Physical:
        """Drive erased bytes out of every file; say whether that is done."""
        return self._eraser.finish()

    def retention(self, scope: Scope) -> Retention:
        """Return the policy kept for the scope; empty if none was set."""
        with self._database.reading() as connection:
            found = fetch_all(
                connection,
                "SELECT kind, days FROM retention"
                " JOIN scopes ON scopes.id = retention.scope WHERE scopes.name = ?",
                (scope,),
            )
        with naming_damage(self._database.path):
            return msgspec.convert(dict(found), dict[str, int | None])

    def set_retention(self, scope: Scope, policy: Retention) -> None:
        """Keep ``policy`` for the scope."""

        def work(batch: Batch, _: None) -> None:
            number = self._writer.known.scope(batch.connection, scope, create=True)[0]
            batch.connection.execute("DELETE FROM retention WHERE scope = ?", (number,))
            batch.connection.executemany(
                "INSERT INTO retention (scope, kind, days) VALUES (?, ?, ?)",
                [(number, kind, days) for kind, days in policy.items()],
            )
            batch.dirty = True

        self._writer.transact(work, None)

    def session_records(
        self, scope: Scope | None = None, session_id: str | None = None
    ) -> Iterator[SessionRecord]:
        """Return where each session's chain starts and ends."""
        if scope is not None and session_id is not None:
            yield from self._one_session(scope, session_id)
            return
        after = 0
        while True:
            with self._database.reading() as connection:
                found = fetch_all(
                    connection,
                    f"{_SESSIONS} WHERE s.id > :after"
                    " AND (:scope IS NULL OR scopes.name = :scope)"
                    " AND (:session IS NULL OR s.name = :session)"
                    " ORDER BY s.id LIMIT :limit",
                    {
                        "after": after,
                        "scope": scope,
                        "session": session_id,
                        "limit": SESSIONS_PAGE,
                    },
                )
            with naming_damage(self._database.path):
                records = [_session_record(*row) for row in found]
            yield from records
            if len(found) < SESSIONS_PAGE:
                return
            after = found[-1][0]

    def _one_session(self, scope: Scope, session_id: str) -> list[SessionRecord]:
        with self._database.reading() as connection:
            key = fetch_value(connection, "SELECT key FROM scopes WHERE name = ?", (scope,))
            if key is None:
                return []
            found = fetch_all(
                connection,
                f"{_SESSIONS} WHERE scopes.name = ? AND s.key = ?",
                (scope, name_key(key, session_id)),
            )
        with naming_damage(self._database.path):
            return [_session_record(*row) for row in found]

    def link_at(self, scope: Scope | None, genesis: bytes, seq: int) -> bytes | None:
        """Return the link at ``seq`` of the session that starts with ``genesis``."""
        with self._database.reading() as connection:
            link: bytes | None = fetch_value(
                connection,
                "SELECT e.link FROM sessions AS s JOIN events AS e ON e.session = s.id"
                " JOIN scopes ON scopes.id = s.scope"
                " WHERE s.genesis = ? AND e.seq = ? AND scopes.name = coalesce(?, scopes.name)",
                (genesis, seq, scope),
            )
        return link

    def stray(self) -> str | None:
        """Say what lies in the tables that no session accounts for, if anything."""
        with self._database.reading() as connection:
            # One snapshot for all of it, or a writer at work would look like damage.
            connection.execute("SAVEPOINT looking")
            try:
                return first_flaw(connection)
            finally:
                connection.execute("RELEASE looking")

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Take in ``records`` verbatim and in order, all or none; return how many were new."""
        return self._copier.restore(sessions, records)

    def rebuild(self) -> RebuildReceipt:
        """Make every derived table anew from the events."""

        def work(batch: Batch, _: None) -> None:
            timeline.rebuild(batch.connection)
            runs.rebuild(batch.connection)
            self._writer.known.forget()
            batch.dirty = True

        self._writer.transact(work, None)
        with self._database.reading() as connection:
            events = fetch_value(connection, "SELECT count(*) FROM times_by_session")
            states = fetch_value(connection, "SELECT count(*) FROM runs")
        return RebuildReceipt(events=events, runs=states)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


class _News:
    """Wakes the followers of this process when it has appended."""

    def __init__(self) -> None:
        self._start()

    def spread(self) -> None:
        """Wake all who wait."""
        if self._waiting and self._pid == os.getpid():
            with self._condition:
                self._condition.notify_all()

    def wait(self, timeout_s: float) -> None:
        """Return when somebody spreads news, or after the timeout."""
        if self._pid != os.getpid():
            self._start()
        with self._condition:
            self._waiting += 1
            try:
                self._condition.wait(timeout_s)
            finally:
                self._waiting -= 1

    def _start(self) -> None:
        # Also after a fork: a thread that is not there any more may have held the lock.
        self._pid = os.getpid()
        self._condition = threading.Condition()
        self._waiting = 0


def _session_record(
    _: int,
    scope: str,
    scope_key: bytes,
    session_id: str,
    salt: bytes,
    genesis: bytes,
    head_seq: int | None,
    head_link: bytes | None,
) -> SessionRecord:
    return msgspec.convert(
        {
            "scope": scope,
            "scope_key": scope_key,
            "session_id": session_id,
            "salt": salt,
            "genesis": genesis,
            "head_seq": -1 if head_seq is None else head_seq,
            "head_link": head_link or b"",
        },
        SessionRecord,
    )
