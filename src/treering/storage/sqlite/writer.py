"""The writing connection: one transaction at a time, all or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from treering.errors import Busy, OutcomeUnknown, TreeringError
from treering.storage.corruption import UNREADABLE
from treering.storage.sqlite.batch import Batch
from treering.storage.sqlite.faults import damaged, translate, translate_commit
from treering.storage.sqlite.sql import is_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft
    from treering.model.events import Header
    from treering.storage.sqlite.commits import Job
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.id_cache import IdCache

_TOUCH: Final = """
INSERT INTO ledger (name, value)
VALUES ('touched', 1)
ON CONFLICT (name) DO UPDATE SET value = value + 1
"""


Arguments = TypeVar("Arguments")
Result = TypeVar("Result")


class Writer:
    """Carries out writes on the one writing connection."""

    def __init__(self, database: Database, ids: IdCache, vault: Vault) -> None:
        self.database = database
        self.ids = ids
        self._vault = vault
        self._cursor: apsw.Cursor | None = None
        self._cursor_epoch = -1
        self._assured = -1
        """The epoch in which the log was last synced."""

    def carry_out(self, jobs: list[Job]) -> None:
        """Record every job that can be, in one transaction; a job that cannot gets its error."""
        try:
            # A job that was torn half-way is left out, and the others begin again without it.
            while not self.transact(_place_all, jobs):
                pass
        except TreeringError as failure:
            for job in jobs:
                job.error = job.error or own_failure(failure, job.drafts)
        for job in jobs:
            if isinstance(job.error, UNREADABLE):
                job.error = self._cause_of(job.error)

    def transact(self, work: Callable[[Batch, Arguments], Result], arguments: Arguments) -> Result:
        """Do ``work`` inside one write transaction; return what it returns.

        The transaction is undone if ``work`` raises, or tore its batch.
        """
        lock = self.database.lock
        with lock.guard, lock:
            try:
                batch = self._begin()
                try:
                    result = work(batch, arguments)
                    if batch.torn:
                        self._undo(batch.connection, None)
                    else:
                        self._commit(batch)
                    return result  # noqa: TRY300
                except BaseException as error:
                    self._undo(batch.connection, error)
                    raise
                finally:
                    self.database.write_lock.leave()
            except apsw.Error as error:
                raise translate(error, self.database.path) from error
            except UNREADABLE as error:
                if (cause := self._cause_of(error)) is error:
                    raise
                raise cause from error

    def _cause_of(self, error: Exception) -> Exception:
        """Return what an unforeseen error comes from: the file, if that is damaged."""
        lock = self.database.lock
        with lock.guard, lock:
            if is_sound(self.database.writer()):
                return error
        return damaged(self.database.path, error)

    def _begin(self) -> Batch:
        database = self.database
        if database.writer().in_transaction or database.write_lock.is_entered:
            raise Busy(
                "this thread was interrupted while it was recording, and cannot record more now",
                hint="let the signal handler note it, and record it when the handler has returned",
            )
        connection = None
        try:
            database.write_lock.enter()
            connection = database.present_writer()
            cursor = self._cursor
            if cursor is None or self._cursor_epoch != database.epoch:
                # Kept: a new one for every statement is half of a small statement's cost.
                cursor = self._cursor = connection.cursor()
                self._cursor_epoch = database.epoch
            # IMMEDIATE takes the write lock before we look at the last seq, so two writers can
            # never number their events from the same starting point.
            cursor.execute("BEGIN IMMEDIATE")
            self.ids.refresh(connection)
        except BaseException as error:
            if connection is not None:
                self._undo(connection, error)
            database.write_lock.leave()
            raise
        return Batch(self.ids, self._vault, connection, cursor)

    def _commit(self, batch: Batch) -> None:
        batch.flush()
        connection = batch.connection
        if batch.repeats and not batch.dirty and self._assured != self.database.epoch:
            # A writer that was killed before its sync leaves events that can be read once the
            # file is opened again, and a power cut would still take them. Any commit syncs them.
            connection.execute(_TOUCH)
            batch.dirty = True
        if not batch.dirty:
            # What was looked up may include names that were added on the way and are gone now.
            self._undo(connection, None)
            return
        try:
            batch.cursor.execute("COMMIT")
        except apsw.Error as error:
            ids = [header.event_id for header in batch.added]
            raise translate_commit(error, self.database.path, ids) from error
        self._assured = self.database.epoch
        # apsw counts our own commits too, so the number read now is the one that the next
        # transaction finds unless another connection has written in between.
        self.ids.version = connection.data_version()
        if (moved := self.database.guard.moved()) is not None:
            self.database.confirm(moved, batch.added)

    def _undo(self, connection: apsw.Connection, error: BaseException | None) -> None:
        self.ids.forget()
        cause = None if error is None else error.__cause__
        if isinstance(error, apsw.IOError) or isinstance(cause, apsw.IOError):
            self.database.reopen()
        elif connection.in_transaction:
            connection.execute("ROLLBACK")


def place(batch: Batch, call: tuple[Sequence[Draft], int | None]) -> list[Header]:
    """Place what one caller appends: drafts, and the seq that it expects."""
    return batch.place(*call)


def _place_all(batch: Batch, jobs: list[Job]) -> bool:
    """Place every job that can be; return False if one tore the batch."""
    for job in jobs:
        if job.error is None:
            try:
                job.headers = batch.place(job.drafts, job.expected_seq)
            except TreeringError as error:
                job.error = error
                if batch.torn:
                    return False
            except apsw.Error:
                raise
            except Exception as error:  # noqa: BLE001  (one caller's failure touches no other)
                job.error = error
                batch.torn = True
                return False
    return True


def own_failure(failure: TreeringError, drafts: Sequence[Draft]) -> TreeringError:
    """Return the failure of a commit as one of its callers may see it: others' ids stay out."""
    if not isinstance(failure, OutcomeUnknown):
        return failure
    ids = [draft.event_id for draft in drafts]
    own = OutcomeUnknown(str(failure), event_ids=ids, hint=failure.hint)
    own.__cause__ = failure.__cause__
    return own
