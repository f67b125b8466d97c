"""Group commit: callers that append at the same time share one commit.

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
from typing import TYPE_CHECKING, Final

from treering.errors import Busy, OutcomeUnknown
from treering.locks import LOOK_S, LOOKS_MIN, PATIENCE_S, Bell, Lock
from treering.storage.sqlite.writer import Writer, own_failure, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.records import Draft
    from treering.model.events import Header

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
                return writer.transact(place, (drafts, expected_seq))
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
