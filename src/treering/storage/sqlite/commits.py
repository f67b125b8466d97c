"""Group commit: callers that append at the same time share one commit.

A caller who is alone commits inline. While one commits, the others queue; the first of them then
commits for all who are waiting, and so on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from treering.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.records import Draft
    from treering.model.events import Header

GROUP_EVENTS_MAX: Final = 10_000
"""One commit takes no more than this many events of several callers."""


class Job:
    """One caller's append, and what became of it."""

    __slots__ = ("drafts", "error", "expected_seq", "headers", "leads", "turn")

    def __init__(self, drafts: Sequence[Draft], expected_seq: int | None) -> None:
        self.drafts = drafts
        self.expected_seq = expected_seq
        self.headers: list[Header] = []
        self.error: BaseException | None = None
        self.turn: threading.Lock | None = None
        self.leads = False


class GroupCommit:
    """Gathers jobs and hands them to ``carry_out`` together, in the order they came."""

    def __init__(self, carry_out: Callable[[list[Job]], None]) -> None:
        self._carry_out = carry_out
        self._queue: deque[Job] = deque()
        self._busy = False
        self._company = 1
        """How many callers shared the last commit."""
        self._start()

    def run(self, job: Job) -> None:
        """Carry out ``job``, alone or with others; raise its error if it has one."""
        if self._pid != os.getpid():
            self._start()
        with self._lock:
            if self._busy:
                job.turn = threading.Lock()
                job.turn.acquire()
                self._queue.append(job)
            else:
                self._busy = True
                job.leads = True
        if job.turn is not None:
            try:
                job.turn.acquire()
            except BaseException:
                self._withdraw(job)
                raise
        if job.leads:
            self._lead(job)
        if job.error is not None:
            raise job.error

    def _withdraw(self, job: Job) -> None:
        """Leave the queue without holding up those behind: the caller was interrupted."""
        with self._lock:
            if job in self._queue:
                self._queue.remove(job)
        if job.leads:
            self._hand_over([])

    def _start(self) -> None:
        # Also after a fork: the threads that were queueing are not there any more.
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._queue.clear()
        self._busy = False

    def _lead(self, first: Job) -> None:
        jobs = [first]
        try:
            if self._company > 1:
                self._await_company()
            with self._lock:
                count = len(first.drafts)
                while self._queue and count + len(self._queue[0].drafts) <= GROUP_EVENTS_MAX:
                    jobs.append(self._queue.popleft())
                    count += len(jobs[-1].drafts)
            self._company = len(jobs)
            self._carry_out(jobs)
        except BaseException as error:  # noqa: BLE001  (raised again by the caller it belongs to)
            for job in jobs[1:]:
                job.error = job.error or StorageError(
                    "the thread that was committing was stopped",
                    hint="append again with the same event ids: nothing will be doubled",
                )
            first.error = error
        finally:
            self._hand_over(jobs[1:])

    def _await_company(self) -> None:
        """Let those who were just served come back, as long as they do."""
        waiting = -1
        while waiting < len(self._queue) < self._company - 1:
            waiting = len(self._queue)
            time.sleep(0)

    def _hand_over(self, done: list[Job]) -> None:
        with self._lock:
            following = self._queue.popleft() if self._queue else None
            if following is None:
                self._busy = False
            else:
                following.leads = True
        if following is not None and following.turn is not None:
            following.turn.release()
        for job in done:
            if job.turn is not None:
                job.turn.release()
