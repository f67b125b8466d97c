"""The file, opened: its connections and its locks.

One connection writes; readers come from a small pool. Nothing but the guard ``open()``s the
database file: closing it again drops SQLite's locks in this process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from treering.errors import Busy, Closed, Corrupt, LedgerMoved, NotFound, OutcomeUnknown, ReadOnly
from treering.storage import forks
from treering.storage.damage import UNREADABLE
from treering.storage.sqlite import schema
from treering.storage.sqlite.faults import damaged, translate
from treering.storage.sqlite.file_guard import FileGuard
from treering.storage.sqlite.opening import (
    PrivateCopy,
    connect_read_only,
    create_private,
    shares_live_log,
)
from treering.storage.sqlite.sql import fetch_value, is_sound
from treering.storage.sqlite.turnstile import Turnstile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.storage.modes import Durability, Mode
    from treering.storage.sqlite.file_guard import Moved


PATIENCE_S: Final = 30.0
"""How long a writer waits for others before it gives up."""
READERS_MAX: Final = 8
RESCUE_PATIENCE_MS: Final = 2_000
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
        self.lock = threading.RLock()
        """Held by whoever uses the writing connection."""
        self._pool_lock = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._suspect = False
        """Whether a sync has failed, so that the log may not be what it seems."""
        self._readers: list[apsw.Connection] = []
        self._lent = 0
        self._lending = True
        """False while a fork waits for what is lent to come back."""
        # Entered by its lock: a signal in the condition's own Python code would leave it held.
        self._returned = threading.Condition(self._pool_lock)
        self._pid = os.getpid()
        self._guard = FileGuard(path, patience_s=patience_s)
        self.companions: list[forks.Forkable] = []
        """Files beside this one: told of a fork first, for whoever uses them reads from here."""
        self.epoch = 0
        """Counts reopenings: what was remembered of an earlier connection no longer holds."""
        lock_path = None if path == MEMORY or self.read_only else Path(path + ".lock")
        self.turnstile = Turnstile(lock_path, patience_s=patience_s)
        forks.register(self)
        try:
            self._settle()
        except apsw.Error as error:
            raise translate(error, path) from error

    @property
    def in_memory(self) -> bool:
        """Whether there is no file."""
        return self.path == MEMORY

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

        The caller holds ``lock`` and has passed the turnstile. Raises LedgerMoved if the file is
        not there any more.
        """
        connection = self.writer()
        if self.in_memory:
            return connection
        if not self._guard.is_lasting:
            self._guard.renew()
        match self._guard.moved():
            case "ledger":
                raise self._moved()
            case "log":
                self._return_to_log()
                return self.writer()
        return connection

    def confirm(self, event_ids: list[str]) -> None:
        """Raise if what was just committed is not in the files at the path."""
        match self._guard.moved():
            case "ledger":
                raise self._moved()
            case "log" if self._guard.is_lasting and self._guard.is_without_log():
                self._return_to_log()
            case "log":
                raise OutcomeUnknown(
                    f"the log of {self.path} was replaced during the commit",
                    event_ids=event_ids,
                    hint="append again with the same event ids: nothing will be doubled",
                )

    @contextlib.contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Lend a connection for a short read."""
        connection = self._borrow()
        try:
            yield connection
        except apsw.Error as error:
            raise translate(error, self.path) from error
        except UnicodeDecodeError as error:
            raise Corrupt(
                f"{self.path} is damaged: a text in it is no text ({error.reason})",
                hint="keep a copy, then run treering verify and restore from an export",
            ) from error
        except UNREADABLE as error:
            # Whose fault it is shows in the file: pages that were swapped or lost, or ours.
            if is_sound(connection):
                raise
            raise damaged(self.path, error) from error
        finally:
            self._give_back(connection)

    def ledger_id(self) -> str:
        """Return the name that the ledger was given when it was made; its backups share it."""
        with self.reading() as connection:
            return str(fetch_value(connection, "SELECT value FROM ledger WHERE name = 'id'"))

    def restore_patience(self, connection: apsw.Connection) -> None:
        """Wait for other connections as long as usual again."""
        connection.set_busy_timeout(int(self._patience_s * 1_000))

    @contextlib.contextmanager
    def hurrying(self, patience_s: float) -> Iterator[None]:
        """Let this thread write meanwhile, and wait for other writers no longer than told."""
        with self.lock:
            self._set_patience(min(self._patience_s, patience_s))
            try:
                yield
            finally:
                self._set_patience(self._patience_s)

    def _set_patience(self, patience_s: float) -> None:
        self.turnstile.patience_s = patience_s
        if self._writer is not None:
            self._writer.set_busy_timeout(int(patience_s * 1_000))

    def reopen(self) -> None:
        """Let go of the writing connection after the disk failed under it."""
        with contextlib.suppress(apsw.Error):
            if self._writer is not None and not self.in_memory:
                self._writer.close(True)
        if not self.in_memory:
            self._writer = None
            self._suspect = True

    def _moved(self) -> LedgerMoved:
        """Return the error for a file that is not at its path. The caller holds ``lock``."""
        self._fold_elsewhere()
        return LedgerMoved(
            f"{self.path} was removed, renamed or replaced while it was open:"
            " nothing of this call is recorded in the file at that path",
            hint="put the file back, or close the ledger and open it again, then repeat the call",
        )

    def _fold_elsewhere(self) -> None:
        """Fold the log into our own file, wherever it is, and cut it.

        SQLite would apply a log that is left behind to any other file at the path.
        """
        if self._writer is not None and not self._writer.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._writer.set_busy_timeout(RESCUE_PATIENCE_MS)
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self.restore_patience(self._writer)

    def _return_to_log(self) -> None:
        """Open the files again, with the log that is there now. The caller holds ``lock``."""
        with self._pool_lock:
            self._lending = False
            try:
                if not self._returned.wait_for(lambda: not self._lent, self._patience_s):
                    raise Busy(
                        f"the log of {self.path} was replaced, and reads of the old one go on",
                        hint="let them end, then try again",
                    )
                lasting = self._guard.is_lasting and self._writer is not None
                if lasting and self._guard.is_without_log():
                    # What was acknowledged is in the log that we still have open, and nobody
                    # else can have opened the file without making a new one.
                    self.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._let_go()
            finally:
                self._lending = True
                self._returned.notify_all()

    def write_anew(self) -> None:
        """Write every page anew, so that none has anything left of what was there before.

        It is left undone if somebody else uses the file, or there is no room.
        """
        with self.lock:
            connection = self.writer()
            self.turnstile.enter()
            try:
                with contextlib.suppress(apsw.BusyError, apsw.LockedError, apsw.FullError):
                    connection.execute("VACUUM")
            finally:
                self.turnstile.leave()

    def close(self) -> None:
        """Close every connection."""
        with self.lock, self._pool_lock:
            if self._guard.moved() == "ledger":
                self._fold_elsewhere()
            self._closed = True
            self._copy = None
            self._let_go()
            self.turnstile.close()

    # Opening.

    def _settle(self) -> None:
        if self.read_only:
            self._settle_read_only()
            return
        if not self.in_memory:
            create_private(self.path)
        with self.lock:
            try:
                # Looked at before the turnstile, which would leave its lock beside a foreign file.
                connection = self.writer()
                version = schema.stored_version(connection, self.path)
                schema.check_version(version, self.path, upgradable=True)
                if schema.is_current(version) and connection.pragma("journal_mode") == "wal":
                    return  # Nothing to write, so nobody to wait for.
                self.turnstile.enter()
                try:
                    if not self.in_memory:
                        connection.pragma("journal_mode", "wal")
                        self._keep_in_place(connection)
                    schema.migrate(connection, self.path)
                finally:
                    self.turnstile.leave()
            except BaseException:
                self.close()
                raise

    def _settle_read_only(self) -> None:
        if not Path(self.path).is_file():
            raise NotFound(f"there is no ledger at {self.path}", hint="check the path")
        if not shares_live_log(self.path):
            self._copy = PrivateCopy(self.path)
        connection = self._borrow()
        try:
            version = schema.stored_version(connection, self.path)
            schema.check_version(version, self.path, upgradable=False)
        except BaseException:
            self._lent -= 1
            connection.close()
            self.close()
            raise
        self._give_back(connection)

    # Connections.

    def _flags(self) -> int:
        if self.in_memory:
            return int(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        return int(apsw.SQLITE_OPEN_READWRITE)

    def _keep_in_place(self, connection: apsw.Connection) -> None:
        """Have the files of a connection stay where they are while it is open."""
        if self._guard.hold():
            # A first read opens the log and its shared memory.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            self._guard.pin()

    def _connect(self) -> apsw.Connection:
        if not self.in_memory:
            self._guard.hold()
        connection = apsw.Connection(self.path, flags=self._flags(), vfs=self._vfs or None)
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
        # Without these a Mac's disk may keep what it was told to sync in its own memory.
        connection.pragma("fullfsync", True)
        connection.pragma("checkpoint_fullfsync", True)
        connection.pragma("trusted_schema", False)

    def _connect_to_read(self) -> apsw.Connection:
        if self._copy is not None:
            return self._copy.connect()
        if self.read_only:
            self._guard.hold()
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
        anything that is written behind it in the log; so it is written once more, elsewhere.
        """
        try:
            connection.set_busy_timeout(RESCUE_PATIENCE_MS)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.restore_patience(connection)
        except BaseException:
            connection.close(True)
            raise
        self._suspect = False

    def _borrow(self) -> apsw.Connection:
        if self._pid != os.getpid():
            self._abandon()
        if self.in_memory:
            self.lock.acquire()
            try:
                return self.writer()
            except BaseException:
                self.lock.release()
                raise
        if (moved := self._guard.moved()) is not None:
            self._return_to_read(moved)
        with self._pool_lock:
            if self._closed:
                raise Closed("the ledger has been closed", hint="open it again")
            if not self._returned.wait_for(self._can_lend, self._patience_s):
                raise Busy(
                    f"{READERS_MAX} reads of {self.path} went on for {self._patience_s:g} s",
                    hint="let them end, then try again",
                )
            self._lent += 1
            if self._readers:
                return self._readers.pop()
        try:
            return self._connect_to_read()
        except BaseException as error:
            with self._pool_lock:
                self._lent -= 1
                self._returned.notify_all()
            if isinstance(error, apsw.Error):
                raise translate(error, self.path) from error
            raise

    def _can_lend(self) -> bool:
        return self._lending and (bool(self._readers) or self._lent < READERS_MAX)

    def _return_to_read(self, moved: Moved) -> None:
        with self.lock:
            if moved == "ledger":
                raise self._moved()
            if self._writer is not None and self._writer.in_transaction:
                return  # It sees what it wrote, and looks again before it commits.
            self.turnstile.enter()
            try:
                if self._guard.moved() == "log":
                    self._return_to_log()
            finally:
                self.turnstile.leave()

    def _give_back(self, connection: apsw.Connection) -> None:
        if self.in_memory:
            self.lock.release()
            return
        with self._pool_lock:
            self._lent -= 1
            self._readers.append(connection)
            if self._closed:
                self._let_go()
            self._returned.notify_all()

    def _let_go(self) -> None:
        """Close what nobody has borrowed. The caller holds the pool's lock."""
        connections = [*self._readers, *([] if self._writer is None else [self._writer])]
        self._readers.clear()
        self._writer = None
        if self._lent:
            for connection in connections:
                connection.close(True)
        else:
            self._guard.release(connections)

    # Forks.

    def before_fork(self) -> None:
        """Wait for what is under way, let go of the file, and keep every other thread out."""
        for companion in self.companions:
            companion.before_fork()
        self.lock.acquire()
        self._pool_lock.acquire()
        if self.in_memory:
            return
        self._lending = False
        while self._lent:
            self._returned.wait()
        self._let_go()
        self.turnstile.close()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lending = True
        self._returned.notify_all()
        self._pool_lock.release()
        self.lock.release()
        for companion in self.companions:
            companion.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Go on as the only thread there is."""
        self._pid = os.getpid()
        self._renew_locks()
        for companion in self.companions:
            companion.after_fork_in_child()

    def _abandon(self) -> None:
        """Leave connections of another process alone: closing them would break its locks."""
        _abandoned.extend(self._readers)
        if self._writer is not None:
            _abandoned.append(self._writer)
        self._writer = None
        self._readers = []
        self._guard = FileGuard(self.path, patience_s=self._patience_s)
        self._pid = os.getpid()
        self.turnstile.close()
        self._renew_locks()

    def _renew_locks(self) -> None:
        self.lock = threading.RLock()
        self._pool_lock = threading.Lock()
        self._returned = threading.Condition(self._pool_lock)
        self._lent = 0
        self._lending = True
        self.epoch += 1
