"""A file beside the ledger: derived from it, and derived again whenever it is unsound.

A writer takes its turn first, then reads the events, so that nobody enters what was
erased meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import msgspec

from treering.errors import Busy, LedgerMoved
from treering.locks import Lock
from treering.model.kinds import ERASURE_KINDS
from treering.storage.encoding import GONE, UNREADABLE
from treering.storage.sqlite.database import MEMORY, PATIENCE_S, Database
from treering.storage.sqlite.faults import translate
from treering.storage.sqlite.file_guard import FileGuard
from treering.storage.sqlite.indexes import INDEXED_POSITION
from treering.storage.sqlite.opening import (
    PrivateCopy,
    connect,
    connect_read_only,
    create_private,
    shares_live_log,
)
from treering.storage.sqlite.rows import Row, fetch_all, fetch_value, is_sound, name_id
from treering.storage.sqlite.write_lock import WriteLock

CACHE_KIB: Final = 16_384
_FACTS: Final = """
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT;
"""

Result = TypeVar("Result")


class Unsound(Exception):
    """The file cannot be read, or does not belong to the ledger."""


class CompanionFile:
    """One connection to the file, used by one thread at a time."""

    def __init__(self, database: Database, *, suffix: str, layout: int, tables: str) -> None:
        """Have the file at the ledger's path and ``suffix``; one of another layout is replaced."""
        self._database = database
        self._layout = layout
        self._tables = tables
        self._in_memory = database.in_memory
        self.path = MEMORY if self._in_memory else database.path + suffix
        self.lock = Lock(self._tidy)
        self._connection: apsw.Connection | None = None
        self._guard = FileGuard(self.path, patience_s=PATIENCE_S)
        self._outdated = False
        """Whether the connection must be opened again before it is used."""
        self._copy: PrivateCopy | None = None
        self._private = False
        """Whether the file is in memory alone because nothing may be written."""
        lock_path = None if self._in_memory else Path(self.path + ".lock")
        self._write_lock = WriteLock(lock_path, patience_s=PATIENCE_S)

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        if self.is_in_memory:
            return self._connection is not None
        return Path(self.path).is_file()

    @property
    def is_in_memory(self) -> bool:
        """Whether it exists in memory only, so that the connection cannot be opened again."""
        return self._in_memory or self._private

    @property
    def is_frozen(self) -> bool:
        """Whether the file may be read and not written."""
        if not self._database.read_only:
            return False
        with self.lock.guard, self.lock:
            self._open()
            return not self._private

    def read(self, work: Callable[[apsw.Connection], Result]) -> Result | None:
        """Do ``work`` on one state of the file; None if it was unsound; it is empty now."""
        with self.lock.guard, self.lock:
            try:
                return self._read(work)
            except (Unsound, apsw.Error) as error:
                self._give_up(error)
        return None

    def read_existing(self, work: Callable[[apsw.Connection], Result]) -> Result | None:
        """Do the same; also return None if the file does not exist."""
        return self.read(work) if self.exists else None

    def write(
        self, work: Callable[[apsw.Connection], Result], *, patience_s: float = PATIENCE_S
    ) -> Result:
        """Do ``work`` in one transaction, alone of all processes; on a fresh file if need be."""
        with self.lock.guard, self.lock:
            try:
                return self._write(work, patience_s)
            except (Unsound, apsw.Error) as error:
                self._give_up(error)
            try:
                return self._write(work, patience_s)
            except Unsound as error:
                raise AssertionError from error
            except apsw.Error as error:
                raise translate(error, self.path) from error

    def fold(self, patience_ms: int) -> bool:
        """Fold the log into the file and cut it; return False if a reader still needs it."""
        with contextlib.suppress(Busy), self.lock.guard, self.lock, self._turn(patience_ms / 1_000):
            connection = self._open()
            if self._in_memory:
                return True
            connection.set_busy_timeout(patience_ms)
            try:
                return not fetch_value(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.set_busy_timeout(int(PATIENCE_S * 1_000))
        return False

    def write_anew(self, patience_s: float) -> None:
        """Write every page again, so that none holds deleted bytes."""
        with self.lock.guard, self.lock, self._turn(patience_s):
            self._open().execute("VACUUM")

    def link_at(self, position: int) -> bytes | None:
        """Return the link of the ledger's event at a position."""
        with self._database.reading() as ledger:
            link: bytes | None = fetch_value(
                ledger, "SELECT link FROM events WHERE position = ?", (position,)
            )
        return link

    def followed(self, mark: Row | None) -> int:
        """Return the position of a mark, which has a link as well; 0 if there is none.

        Raise Unsound if the ledger has another link there: it was put back from a copy.
        """
        position, link = mark or (0, None)
        if mark is not None and self.link_at(position) != link:
            raise Unsound
        return int(position)

    def reopen_later(self) -> None:
        """Open the file again at its next use; one in memory cannot be."""
        self._outdated = not self.is_in_memory

    def remove(self) -> None:
        """Delete the file."""
        with self.lock.guard, self.lock, self._turn(PATIENCE_S):
            self._close()
            if not self._in_memory:
                for suffix in ("", "-wal", "-shm"):
                    Path(self.path + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        with self.lock.guard, self.lock:
            self._close()
            self._write_lock.close()
            self._copy = None

    def _read(self, work: Callable[[apsw.Connection], Result]) -> Result:
        connection = self._open()
        connection.execute("SAVEPOINT looking")
        try:
            return work(connection)
        except UNREADABLE as error:
            if is_sound(connection):
                raise
            raise Unsound from error
        finally:
            connection.execute("RELEASE looking")

    def _write(self, work: Callable[[apsw.Connection], Result], patience_s: float) -> Result:
        with self._turn(patience_s):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, UNREADABLE) and not is_sound(connection):
                    raise Unsound from error
                raise
            return result

    @contextlib.contextmanager
    def _turn(self, patience_s: float) -> Iterator[None]:
        if self._database.read_only:
            yield
            return
        self._write_lock.patience_s = patience_s
        self._write_lock.enter()
        try:
            yield
        finally:
            self._write_lock.leave()

    def _tidy(self) -> None:
        """Undo what an interrupted call has left. Called whenever ``lock`` is released."""
        connection = self._connection
        if connection is not None and connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except apsw.Error:
                self._close()
        if self._write_lock.is_entered:
            self._write_lock.leave()

    def _give_up(self, error: Exception) -> None:
        """Remove an unsound file. Raise any error that has another cause."""
        if isinstance(error, apsw.Error) and not (_is_damage(error) or self._is_unsound(error)):
            raise translate(error, self.path) from error
        if self._database.read_only:
            # It stays as it is; we continue with one of our own.
            self._close()
            self._private = True
        else:
            self.remove()

    def _is_unsound(self, error: apsw.Error) -> bool:
        """Whether a statement failed that cannot, but for pages that are not where they belong."""
        may_be = isinstance(error, apsw.SQLError | apsw.ConstraintError)
        return may_be and self._connection is not None and not is_sound(self._connection)

    # Opening.

    def _open(self) -> apsw.Connection:
        if self._connection is not None and (self._outdated or self._guard.moved()):
            self._close()
        if self._connection is None:
            if self._database.read_only:
                self._connection = self._open_read_only()
            else:
                self._connection = self._open_own()
        return self._connection

    def _open_own(self) -> apsw.Connection:
        if self._in_memory:
            connection = connect(self.path)
            self._settle(connection)
            return connection
        create_private(self.path)
        opened: list[apsw.Connection] = []
        try:
            self._guard.hold()
            opened.append(connect(self.path))
            self._settle(opened[0])
            # A new file has its log only now.
            self._guard.hold()
            self._guard.pin()
        except BaseException as error:
            self._guard.release(opened)
            if isinstance(error, LedgerMoved):
                raise Unsound from error
            raise
        return opened[0]

    def _settle(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(int(PATIENCE_S * 1_000))
        # Freed pages are overwritten with zeros.
        connection.pragma("secure_delete", True)
        connection.pragma("temp_store", "memory")
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("synchronous", "normal")
        if not self.is_in_memory:
            connection.pragma("journal_mode", "wal")
        if fetch_value(connection, "SELECT count(*) FROM sqlite_schema") == 0:
            self._lay_out(connection)
        self._check(connection)

    def _lay_out(self, connection: apsw.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Looked at again under the lock: another process may have been faster.
            if fetch_value(connection, "SELECT count(*) FROM sqlite_schema") == 0:
                connection.execute(_FACTS + self._tables)
                connection.executemany(
                    "INSERT INTO facts (name, value) VALUES (?, ?)",
                    [
                        ("layout", self._layout),
                        ("ledger", self._database.ledger_id()),
                        ("erased_through", 0),
                    ],
                )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _check(self, connection: apsw.Connection) -> None:
        facts: dict[str, Any] = dict(fetch_all(connection, "SELECT name, value FROM facts"))
        belongs = (self._layout, self._database.ledger_id())
        if (facts.get("layout"), facts.get("ledger")) != belongs:
            raise Unsound

    def _open_read_only(self) -> apsw.Connection:
        """Return the file as it is, or an empty one of our own if there is none."""
        if self._private or not Path(self.path).is_file():
            self._private = True
            connection = connect("")
            self._settle(connection)
            return connection
        if shares_live_log(self.path):
            self._guard.hold()
            connection = connect_read_only(self.path)
            connection.set_busy_timeout(int(PATIENCE_S * 1_000))
        else:
            self._copy = PrivateCopy(self.path)
            connection = self._copy.connect()
        self._connection = connection
        self._check(connection)
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._guard.release([] if connection is None else [connection])
        self._outdated = False

    # Forks. The ledger's database calls these, before it releases its own file.

    def before_fork(self) -> None:
        """Wait for reads and writes to end, close the file, and keep every other thread out."""
        self.lock.take(frame=sys._getframe(2))  # noqa: SLF001  (the function that prepares the fork)
        if not self.is_in_memory:
            self._close()
            self._write_lock.close()

    def after_fork_in_parent(self) -> None:
        """Continue."""
        self.lock.drop()

    def after_fork_in_child(self) -> None:
        """Continue as the only thread."""
        self.lock = Lock(self._tidy)


def _is_damage(error: apsw.Error) -> bool:
    """Whether the file cannot be read, lacks what every such file has, or holds what none does."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.ConstraintError):
        return True
    return isinstance(error, apsw.SQLError) and (
        "no such" in str(error) or "vtable constructor failed" in str(error)
    )


_LAST: Final = 2**62
_VOUCHERS: Final = """
SELECT e.scope, e.session, c.payload
FROM events AS e
JOIN contents AS c ON c.position = e.position
WHERE e.position > ? AND e.position <= ? AND e.kind IN ({kinds})
ORDER BY e.position
"""
_ERASED: Final = f"""
SELECT e.position, e.kind
FROM seqs_by_session AS t
CROSS JOIN events AS e ON e.position = t.position
WHERE t.session = ?1 AND t.seq BETWEEN ?2 AND ?3 AND e.flags & {GONE}
UNION ALL
SELECT e.position, e.kind
FROM events AS e
WHERE e.position > {INDEXED_POSITION}
  AND e.session = ?1 AND e.seq BETWEEN ?2 AND ?3 AND e.flags & {GONE}
"""


def erasure_events(ledger: apsw.Connection, after: int, until: int) -> list[Any]:
    """Return scope, session and payload of events that vouch for erasures, in a stretch."""
    kinds = [name_id(ledger, kind) for kind in sorted(ERASURE_KINDS)]
    numbers = ", ".join(str(kind) for kind in kinds if kind)
    return fetch_all(ledger, _VOUCHERS.format(kinds=numbers), (after, until)) if numbers else []


def unseen_erasures(
    companion: apsw.Connection, database: Database
) -> tuple[int, dict[int, dict[int, int]]]:
    """Return the newest position, and the events erased since a companion last asked.

    Call inside the transaction that removes them: it moves the companion's mark. The kinds of
    erased events come by scope and position. Raise Unsound if the ledger is shorter than it was, or
    if its length was never recorded.
    """
    after = fetch_value(companion, "SELECT value FROM facts WHERE name = 'erased_through'")
    gone: dict[int, dict[int, int]] = {}
    with database.reading() as ledger, ledger:
        newest: int = fetch_value(ledger, "SELECT max(position) FROM events") or 0
        if type(after) is not int or newest < after:
            raise Unsound
        for scope, session, payload in erasure_events(ledger, after, newest):
            for first, last in _ranges(payload):
                kinds = fetch_all(ledger, _ERASED, (session, first, last))
                gone.setdefault(scope, {}).update(kinds)
    if newest > after:
        companion.execute("UPDATE facts SET value = ? WHERE name = 'erased_through'", (newest,))
    return newest, gone


def _ranges(payload: bytes | None) -> list[tuple[int, int]]:
    """Return the seqs that a voucher names; all of its session, if it names none."""
    try:
        return msgspec.json.decode(payload or b"", type=_ErasedRanges).ranges
    except msgspec.MsgspecError:
        return [(0, _LAST)]


class _ErasedRanges(msgspec.Struct):
    ranges: list[tuple[int, int]]
