"""The file, opened: its connections and its locks.

One connection writes; readers come from a small pool. Nothing but the guard ``open()``s the
database file: closing it again drops SQLite's locks in this process.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import apsw

from treering.errors import Busy, Closed, Corrupt, LedgerMoved, NotFound, OutcomeUnknown, ReadOnly
from treering.locks import PATIENCE_S as LOCK_PATIENCE_S
from treering.locks import Lock
from treering.storage import Durability, Mode, forks
from treering.storage.encoding import UNREADABLE
from treering.storage.notifier import Notifier
from treering.storage.sqlite import schema
from treering.storage.sqlite.faults import damaged, translate
from treering.storage.sqlite.file_guard import FileGuard, Moved
from treering.storage.sqlite.opening import (
    CREATE,
    PrivateCopy,
    connect,
    connect_read_only,
    create_private,
    shares_live_log,
)
from treering.storage.sqlite.rows import fetch_value, is_sound
from treering.storage.sqlite.write_lock import WriteLock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import FrameType

    from treering.model.events import Header

PATIENCE_S: Final = 30.0
"""How long a writer waits for others before it gives up."""
READERS_MAX: Final = 8
RESCUE_PATIENCE_MS: Final = 2_000
LOOK_S: Final = 0.01
"""How often a waiting reader checks whether a connection is free; it is woken as well."""
PAUSE_S: Final = 0.001
"""How often to check whether all lent connections have come back."""
MEMORY: Final = ":memory:"

_abandoned: list[apsw.Connection] = []
"""Connections that a parent process opened; kept, so that nothing closes them."""


class Database:
    """One SQLite file, safe to share between threads and across forks."""

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        mode: Mode = "rw",
        vfs: str = "",
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.path = path
        self.read_only = mode == "ro"
        self._durability = durability
        self._vfs = vfs
        self._patience_s = patience_s
        self._copy: PrivateCopy | None = None
        self._closed = False
        self._writer: apsw.Connection | None = None
        self._suspect = False
        """Whether a sync has failed, so that the log may not be what it seems."""
        self._pid = os.getpid()
        self.companions: list[forks.Forkable] = []
        """Files beside this one. They prepare for a fork first: their users read from here."""
        self.epoch = 0
        """Counts reopenings: what was remembered of an earlier connection no longer holds."""
        lock_path = None if path == MEMORY or self.read_only else Path(path + ".lock")
        self.write_lock = WriteLock(lock_path, patience_s=patience_s)
        self._start()
        forks.register(self)
        try:
            self._settle()
        except apsw.Error as error:
            raise translate(error, path) from error

    @property
    def in_memory(self) -> bool:
        """Whether the file does not exist."""
        return self.path == MEMORY

    @property
    def is_shared(self) -> bool:
        """Whether another process that opens the path reads what this one does."""
        return not (self.in_memory or self._copy or self._vfs)

    def writer(self) -> apsw.Connection:
        """Return the writing connection. The caller holds ``lock``."""
        if self._pid != os.getpid():
            self._abandon()
        if self._writer is None:
            if self._closed:
                raise Closed("the ledger has been closed", hint="open it again")
            if self.read_only:
                raise ReadOnly(
                    f"{self.path} was opened read-only", hint='open it without mode="ro"'
                )
            connection = self._connect()
            if self._suspect:
                self._rescue(connection)
            self._writer = connection
            self.epoch += 1
        return self._writer

    def present_writer(self) -> apsw.Connection:
        """Return the writing connection to the files at the path.

        The caller holds ``lock``, has the write lock and asked for the ``writer`` before.
        Raise LedgerMoved if the file is not there any more.
        """
        guard = self.guard
        if not (guard.is_lasting or self.in_memory):
            guard.renew()
        moved = guard.moved()
        if moved == "ledger":
            raise self._moved()
        if moved == "log":
            self._return_to_log()
        return self._writer or self.writer()

    def confirm(self, moved: Moved, headers: list[Header]) -> None:
        """Raise if the last commit is not in the files at the path: some have ``moved``."""
        match moved:
            case "ledger":
                raise self._moved()
            case "log" if self.guard.is_lasting and self.guard.is_without_log():
                self._return_to_log()
            case "log":
                raise OutcomeUnknown(
                    f"the log of {self.path} was replaced during the commit",
                    event_ids=[header.event_id for header in headers],
                    hint="append again with the same event ids: nothing is recorded twice",
                )

    def reading(self) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection for a short read."""
        return _ReadLease(self)

    def reading_at_hand(self) -> _ReadLease:
        """Lend the writing connection for a short read, such as a writer does before it writes.

        It still has the pages that it wrote; all others read them again after each commit. During
        a write, another one is lent.
        """
        return _ReadLease(self, by_writer=not self.read_only)

    def ledger_id(self) -> str:
        """Return the name that the ledger was given when it was made; its backups share it."""
        with self.reading() as connection:
            return str(fetch_value(connection, "SELECT value FROM ledger WHERE name = 'id'"))

    def restore_patience(self, connection: apsw.Connection) -> None:
        """Wait for other connections as long as usual again."""
        connection.set_busy_timeout(int(self._patience_s * 1_000))

    def hurry(self, patience_s: float) -> None:
        """Wait for other writers at most ``patience_s``, until the caller releases ``lock``."""
        self._set_patience(min(self._patience_s, patience_s))

    def _set_patience(self, patience_s: float) -> None:
        self.write_lock.patience_s = patience_s
        if self._writer is not None:
            self._writer.set_busy_timeout(int(patience_s * 1_000))

    def _tidy(self) -> None:
        """Undo what an interrupted call has left: a transaction, a place in the queue of writers.

        Called whenever ``lock`` is released.
        """
        writer = self._writer
        if writer is not None and writer.in_transaction:
            self.epoch += 1  # What is remembered may have been in it.
            try:
                writer.execute("ROLLBACK")
            except apsw.Error:
                self.reopen()
        write_lock = self.write_lock
        if write_lock.patience_s != self._patience_s:
            self._set_patience(self._patience_s)
        if write_lock.is_entered:
            write_lock.leave()
        if not self._lending:
            self._lend_again()

    def reopen(self) -> None:
        """Close the writing connection after the disk failed."""
        if self.in_memory:
            return
        writer, self._writer, self._suspect = self._writer, None, True
        if writer is not None:
            with contextlib.suppress(apsw.Error):
                writer.close(True)

    def _moved(self) -> LedgerMoved:
        """Return the error for a file that is not at its path. The caller holds ``lock``."""
        self._fold_elsewhere()
        return LedgerMoved(
            f"{self.path} was removed, renamed or replaced while it was open:"
            " nothing of this call is recorded in the file at that path",
            hint="put the file back, or close the ledger and open it again, then repeat the call",
        )

    def _fold_elsewhere(self) -> None:
        """Fold the log into our own file, wherever it is, and cut it; or leave it to a copy."""
        if self.guard.leaves_log():
            return
        if self._writer is not None and not self._writer.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._writer.set_busy_timeout(RESCUE_PATIENCE_MS)
                if not fetch_value(self._writer, "PRAGMA wal_checkpoint(TRUNCATE)"):
                    self.guard.leave_log()
                self.restore_patience(self._writer)

    def _return_to_log(self) -> None:
        """Open the files again, with the log that is there now. The caller holds ``lock``."""
        try:
            if not self._await_readers():
                raise Busy(
                    f"the log of {self.path} was replaced, and reads of the old one continue",
                    hint="let them end, then try again",
                )
            self._fold_removed_log()
            self._close_connections()
        finally:
            self._lend_again()

    def _fold_removed_log(self) -> None:
        """Fold a log that was removed by name into the file. The caller holds ``lock``."""
        writer = self._writer
        if writer is None or not (self.guard.is_lasting and self.guard.is_without_log()):
            return
        # What was acknowledged is in the log that we still have open, and nobody else can have
        # written to the file without writing another.
        is_busy = fetch_value(writer, "PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:
            raise Busy(
                f"the log of {self.path} was removed, and reads of it continue",
                hint="let them end, then try again",
            )

    def rewrite_pages(self) -> None:
        """Write every page again, so that none holds bytes of something that was erased.

        It is skipped if another program uses the file, or the disk is full.
        """
        with self.lock:
            connection = self.writer()
            self.write_lock.enter()
            try:
                with contextlib.suppress(apsw.BusyError, apsw.LockedError, apsw.FullError):
                    connection.execute("VACUUM")
            except apsw.Error as error:
                raise translate(error, self.path) from error
            finally:
                self.write_lock.leave()

    def close(self) -> None:
        """Close every connection."""
        with self.lock.guard, self.lock:
            if self.guard.moved() == "ledger":
                self._fold_elsewhere()
            self._fold_removed_log()
            self._closed = True
            self._copy = None
            self._close_connections()
            self.write_lock.close()

    # Opening.

    def _settle(self) -> None:
        if self.read_only:
            self._settle_read_only()
            return
        if not self.in_memory:
            create_private(self.path)
        with self.lock.guard, self.lock:
            try:
                # Before the write lock, which would leave its file beside a foreign one.
                connection = self.writer()
                version = schema.stored_version(connection, self.path)
                schema.check_version(version, self.path, upgradable=True)
                if schema.is_current(version) and connection.pragma("journal_mode") == "wal":
                    return  # Nothing to write, so no lock to wait for.
                self.write_lock.enter()
                try:
                    if not self.in_memory:
                        connection.pragma("journal_mode", "wal")
                        self._keep_in_place(connection)
                    schema.migrate(connection, self.path)
                finally:
                    self.write_lock.leave()
            except BaseException:
                self.close()
                raise

    def _settle_read_only(self) -> None:
        if not Path(self.path).is_file():
            raise NotFound(f"no ledger at {self.path}", hint="check the path")
        if not shares_live_log(self.path):
            self._copy = PrivateCopy(self.path)
        try:
            with self.reading() as connection:
                version = schema.stored_version(connection, self.path)
                schema.check_version(version, self.path, upgradable=False)
        except BaseException:
            self.close()
            raise

    # Connections.

    def _flags(self) -> int:
        if self.in_memory:
            return CREATE
        return int(apsw.SQLITE_OPEN_READWRITE)

    def _keep_in_place(self, connection: apsw.Connection) -> None:
        """Have the files of a connection stay where they are while it is open."""
        if self.guard.hold():
            # A first read opens the log and its shared memory.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            self.guard.pin()

    def _connect(self) -> apsw.Connection:
        if not self.in_memory:
            self.guard.hold()
        connection = connect(self.path, flags=self._flags(), vfs=self._vfs or None)
        try:
            self._configure(connection)
            if not self.in_memory:
                self._keep_in_place(connection)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        self.restore_patience(connection)
        connection.pragma("secure_delete", True)
        connection.pragma("temp_store", "memory")
        connection.pragma("synchronous", self._durability)
        # Without these a Mac's disk may keep in its own memory what it should sync.
        connection.pragma("fullfsync", True)
        connection.pragma("checkpoint_fullfsync", True)
        connection.pragma("trusted_schema", False)

    def _connect_to_read(self) -> apsw.Connection:
        if self._copy is not None:
            return self._copy.connect()
        if self.read_only:
            self.guard.hold()
            connection = connect_read_only(self.path)
            self.restore_patience(connection)
            self._keep_in_place(connection)
        else:
            connection = self._connect()
            connection.pragma("query_only", True)
        return connection

    def _rescue(self, connection: apsw.Connection) -> None:
        """Fold the log into the file after a sync has failed.

        The kernel takes what it could not write for written. A later sync would not save it, nor
        anything that is written after it in the log; so it is written once more, elsewhere.
        """
        try:
            connection.set_busy_timeout(RESCUE_PATIENCE_MS)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.restore_patience(connection)
        except BaseException:
            connection.close(True)
            raise
        self._suspect = False

    # Lending. What is lent is noted before it is taken, and given back before that is struck out:
    # a thread that stops lending and then finds nothing lent has all connections in the queue.

    def borrow(self, reading: _ReadLease, frame: FrameType) -> apsw.Connection:
        """Return a connection to read from, for ``frame``. A dropped one is given back."""
        if self._pid != os.getpid():
            self._abandon()
        if not self.in_memory and (moved := self.guard.moved()) is not None:
            self._return_to_read(moved)
        if reading.by_writer:
            connection = self._lend_writer(frame)
            if connection is not None:
                return connection
            reading.by_writer = False
        return self._lend(reading) or self._wait_for_reader(reading)

    def _lend_writer(self, frame: FrameType) -> apsw.Connection | None:
        """Return the writing connection; None if it is at work and there are others."""
        if not self.lock.take(LOCK_PATIENCE_S if self.in_memory else 0.0, frame=frame):
            return None
        try:
            connection = self.writer()
            if self.in_memory or not connection.in_transaction:
                return connection
        except BaseException:
            self.lock.release_for(frame)
            raise
        self.lock.release_for(frame)
        return None

    def give_back(self, reading: _ReadLease, frame: FrameType) -> None:
        """Take back what ``frame`` has borrowed."""
        if reading.by_writer:
            self.lock.release_for(frame)
            return
        connection, reading.connection = reading.connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # Interrupted before it ended its reading.
                self._idle.put(connection)
        self._lent.discard(reading)
        self._returned.notify()
        if self._closed:
            with self.lock.guard, self.lock:
                self._close_connections()

    def _lend(self, reading: _ReadLease) -> apsw.Connection | None:
        """Return a connection that is idle, or another one; None if too many are lent."""
        self._lent.add(reading)
        try:
            if self._closed:
                raise Closed("the ledger has been closed", hint="open it again")
            if self._lending:
                try:
                    reading.connection = self._idle.get_nowait()
                except Empty:
                    if len(self._lent) <= READERS_MAX:
                        reading.connection = self._connect_to_read()
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            if reading.connection is None:
                self._lent.discard(reading)
        return reading.connection

    def _wait_for_reader(self, reading: _ReadLease) -> apsw.Connection:
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline:
            self._returned.wait(LOOK_S)
            connection = self._lend(reading)
            if connection is not None:
                return connection
        raise Busy(
            f"{READERS_MAX} reads of {self.path} lasted {self._patience_s:g} s",
            hint="let them end, then try again",
        )

    def _return_to_read(self, moved: Moved) -> None:
        with self.lock.guard, self.lock:
            if moved == "ledger":
                raise self._moved()
            if self._writer is not None and self._writer.in_transaction:
                return  # It sees what it wrote, and looks again before it commits.
            self.write_lock.enter()
            try:
                if self.guard.moved() == "log":
                    self._return_to_log()
            finally:
                self.write_lock.leave()

    def _await_readers(self) -> bool:
        """Stop lending; return whether all connections came back in time."""
        self._lending = False
        deadline = time.monotonic() + self._patience_s
        while self._lent:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_S)
        return True

    def _lend_again(self) -> None:
        self._lending = True
        self._returned.notify()

    def _close_connections(self) -> None:
        """Close every connection that is not lent. The caller holds ``lock``."""
        connections = [] if self._writer is None else [self._writer]
        with contextlib.suppress(Empty):
            while True:
                connections.append(self._idle.get_nowait())
        self._writer = None
        if self._lent:
            for connection in connections:
                connection.close(True)
        else:
            self.guard.release(connections)

    # Forks.

    def before_fork(self) -> None:
        """Wait for reads and writes to end, close the file, and keep every other thread out."""
        for companion in self.companions:
            companion.before_fork()
        self.lock.take(frame=sys._getframe(1))  # noqa: SLF001
        if self.in_memory:
            return
        # A read that takes longer keeps its connection, which the child leaves alone.
        self._await_readers()
        self._fold_removed_log()
        self._close_connections()
        self.write_lock.close()

    def after_fork_in_parent(self) -> None:
        """Continue."""
        self._lend_again()
        self.lock.drop()
        for companion in self.companions:
            companion.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Continue as the only thread."""
        self._pid = os.getpid()
        self._leave_lent()
        self._start()
        for companion in self.companions:
            companion.after_fork_in_child()

    def _abandon(self) -> None:
        """Leave connections of another process alone: closing them would break its locks."""
        with contextlib.suppress(Empty):
            while True:
                _abandoned.append(self._idle.get_nowait())
        if self._writer is not None:
            _abandoned.append(self._writer)
        self._writer = None
        self._leave_lent()
        self._pid = os.getpid()
        self.write_lock.close()
        self._start()

    def _leave_lent(self) -> None:
        lent = (reading.connection for reading in self._lent)
        _abandoned.extend(connection for connection in lent if connection is not None)

    def _start(self) -> None:
        """Make what a fork must not share."""
        self.lock = Lock(self._tidy)
        """Held while the writing connection is used."""
        self.guard = FileGuard(self.path, patience_s=self._patience_s)
        self._idle: SimpleQueue[apsw.Connection] = SimpleQueue()
        self._lent: weakref.WeakSet[_ReadLease] = weakref.WeakSet()
        """Reads that have not ended; one that an interrupted caller drops leaves the set."""
        self._returned = Notifier()
        self._lending = True
        """False while the holder of ``lock`` waits for lent connections to come back."""
        self.epoch += 1


class _ReadLease:
    """Lends a connection as long as a ``with`` lasts, and translates its errors."""

    __slots__ = ("__weakref__", "_database", "by_writer", "connection")

    def __init__(self, database: Database, *, by_writer: bool = False) -> None:
        self._database = database
        self.by_writer = by_writer or database.in_memory
        self.connection: apsw.Connection | None = None

    def __enter__(self) -> apsw.Connection:
        return self._database.borrow(self, sys._getframe(1))  # noqa: SLF001

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        try:
            if error is not None:
                self._explain(error)
        finally:
            self._database.give_back(self, sys._getframe(1))  # noqa: SLF001

    def _explain(self, error: BaseException) -> None:
        path = self._database.path
        if isinstance(error, apsw.Error):
            raise translate(error, path) from error
        if isinstance(error, UnicodeDecodeError):
            raise Corrupt(
                f"{path} is damaged: a text in it is not valid text ({error.reason})",
                hint="keep a copy, then run treering verify and restore from an export",
            ) from error
        if isinstance(error, UNREADABLE):
            # Whose fault it is shows in the file: pages that were swapped or lost, or ours.
            connection = self.connection or self._database.writer()
            if not is_sound(connection):
                raise damaged(path, error) from error
