"""Writing: one transaction at a time, all or nothing; callers that append together share a commit.

A caller that finds nobody else at work commits by itself. Otherwise it puts its job into the queue.
The one that gets the lock leads: it commits every job in the queue, its own among them. The others
sleep until their job is done, or it is their turn to lead. A leader that is interrupted leaves no
caller waiting: the lock reports what became of it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import apsw

from treering.errors import Busy, OutcomeUnknown, TreeringError
from treering.locks import LOOK_S, LOOKS_MIN, PATIENCE_S, Bell, Lock
from treering.storage.encoding import UNREADABLE
from treering.storage.sqlite.batch import Batch
from treering.storage.sqlite.faults import damaged, translate, translate_commit
from treering.storage.sqlite.rows import is_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft
    from treering.model.events import Header
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.id_cache import IdCache

_TOUCH: Final = """
INSERT INTO ledger (name, value)
VALUES ('touched', 1)
ON CONFLICT (name) DO UPDATE SET value = value + 1
"""


Given = ParamSpec("Given")
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

    def transact(
        self,
        work: Callable[Concatenate[Batch, Given], Result],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Result:
        """Do ``work`` inside one write transaction; return what it returns.

        The transaction is undone if ``work`` raises, or tore its batch.
        """
        lock = self.database.lock
        with lock.guard, lock:
            try:
                batch = self._begin()
                try:
                    result = work(batch, *given, **named)
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


GROUP_EVENTS_MAX: Final = 10_000
"""One commit takes no more than this many events of several callers."""
ASLEEP_S: Final = 0.5
"""How long a caller sleeps before it looks by itself whether it can lead."""


class Job:
    """One caller's append, and what became of it."""

    __slots__ = ("bell", "drafts", "error", "expected_seq", "headers", "is_carried_out", "is_done")

    def __init__(self, drafts: Sequence[Draft], expected_seq: int | None) -> None:
        self.drafts = drafts
        self.expected_seq = expected_seq
        self.headers: list[Header] = []
        self.error: BaseException | None = None
        self.is_carried_out = False
        """Whether it has its headers or its error."""
        self.is_done = False
        """Whether it is finished, or given up."""
        self.bell = Bell()
        """Rung to wake its caller."""


class GroupCommit:
    """Gathers jobs and hands them to the writer together, in the order they came."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._company = 1
        """How many callers shared the last commit."""
        self._start()

    def append(self, drafts: Sequence[Draft], expected_seq: int | None) -> list[Header]:
        """Record ``drafts``, alone or with those of other callers.

        Raise Busy from a signal handler that interrupted an append of the same thread.
        """
        if self._pid != os.getpid():
            self._start()
        writer = self._writer
        if (
            self._company == 1
            and not self._queue
            and not self._group
            and writer.database.lock.holder is None
        ):
            # Nobody is at work, so nobody would share this commit. Another thread that comes to the
            # same conclusion at the same moment waits for the writer, and commits by itself, too.
            try:
                return writer.transact(Batch.place, drafts, expected_seq)
            except OutcomeUnknown as failure:
                raise own_failure(failure, drafts) from failure.__cause__
        job = Job(drafts, expected_seq)
        self._run(job)
        return job.headers

    def _run(self, job: Job) -> None:
        if self._leading.is_held_here():
            raise Busy(
                "this thread was interrupted while it was recording, and cannot record more now",
                hint="let the signal handler note it, and record it when the handler has returned",
            )
        try:
            self._queue.append(job)
            self._lead(0.0)
            if not job.is_done:
                self._await(job)
        except BaseException:
            self._withdraw(job)
            raise
        if job.error is not None:
            raise job.error

    def _start(self) -> None:
        # Also after a fork: the threads that were queueing are not there any more.
        self._pid = os.getpid()
        self._queue: deque[Job] = deque()
        self._group: list[Job] = []
        """The jobs of the commit that is under way."""
        self._leading = Lock(self._disband)

    def _await(self, job: Job) -> None:
        """Return when ``job`` is done, by another caller or by this one."""
        deadline = time.monotonic() + PATIENCE_S
        # Another caller was leading after the job had come into the queue. It has taken the job
        # along, or sees it when it has finished: in both cases it rings.
        while True:
            is_woken = job.bell.wait(ASLEEP_S)
            if job.is_done:
                return
            if time.monotonic() > deadline:
                raise self._overdue(job)
            self._lead(0.0 if is_woken else LOOK_S * (LOOKS_MIN + 1))

    def _lead(self, patience_s: float) -> None:
        """Commit every job in the queue, unless another caller is doing so."""
        leading = self._leading
        guard = leading.guard
        with guard, guard:
            try:
                if not leading.take(patience_s):
                    return
            except Busy:
                return  # It is still committing, and slow.
            self._commit()
        # After the lock is free, or it would be woken in vain. One that is not woken wakes up soon.
        if self._queue:
            with contextlib.suppress(IndexError):
                self._queue[0].bell.ring()

    def _commit(self) -> None:
        if self._company > 1:
            self._await_company()
        group, queue, events = self._group, self._queue, 0
        while queue:
            job = queue[0]
            events += len(job.drafts)
            if group and events > GROUP_EVENTS_MAX:
                break
            # In the group before it leaves the queue: it is never in neither.
            group.append(job)
            try:  # noqa: SIM105  (suppress is slower, and this is part of every append)
                queue.remove(job)
            except ValueError:
                pass
            if job.is_done:
                group.pop()  # Its caller has given up.
        self._company = len(group)
        if group:
            self._writer.carry_out(group)
        for job in group:
            job.is_carried_out = True

    def _disband(self) -> None:
        """Wake all callers; a leader that was interrupted has not set their outcome."""
        for job in self._group:
            if not job.is_carried_out and job.error is None:
                job.error = _stopped(job)
            job.is_done = True
            job.bell.ring()
        self._group = []

    def _await_company(self) -> None:
        """Wait while callers of the last commit still come back with their next job."""
        waiting = -1
        while waiting < len(self._queue) < self._company:
            waiting = len(self._queue)
            time.sleep(0)

    def _withdraw(self, job: Job) -> None:
        """Leave the queue, if ``job`` is still in it: its caller was interrupted."""
        with contextlib.suppress(ValueError):
            self._queue.remove(job)
        job.is_done = True

    def _overdue(self, job: Job) -> Exception:
        if job in self._group:
            return _stopped(job)
        return Busy(
            f"another thread of this process has been recording for {PATIENCE_S:g} s",
            hint="look for a thread that is stuck in the ledger, then try again",
        )


def _stopped(job: Job) -> OutcomeUnknown:
    return OutcomeUnknown(
        "the thread that was committing was stopped: the events may or may not be kept",
        event_ids=[draft.event_id for draft in job.drafts],
        hint="append again with the same event ids: nothing is recorded twice",
    )
