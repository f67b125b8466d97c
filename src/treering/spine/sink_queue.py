"""The queue of a live sink, and the worker that hands its events over.

Recording only puts an event into the queue. A sink that is slow, fails or hangs keeps nobody
waiting but itself, and what it loses is counted.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput
from treering.lazy import LazyModule, lazy_logger
from treering.locks import Lock
from treering.model.codec import decode
from treering.spine.bounded_calls import HUNG_CALLS_MAX, Overtime, Worker
from treering.spine.ports import Delivery
from treering.spine.sink_caller import SinkCaller, SinkCounts, is_notable, wants_private
from treering.spine.sink_events import safe_event, with_payload

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.events import Header
    from treering.spine.ports import Sink, SinkStatus
else:
    logging = LazyModule("logging")

GATHER_S: Final = 0.002
"""In a stream of events, how long more are let come before the next are handed over: to be woken
for each costs the recording thread more than the sink does."""
REST_S: Final = 5.0
"""How long a worker rests at most before it looks by itself."""
RETRY_PAUSE_S_MAX: Final = 5.0

_log = lazy_logger("treering.spine")

QueuedEvent = tuple["Header", bytes | None]


def delivery_of(sink: Sink) -> Delivery:
    """Return how ``sink`` wants to be served. Raises InvalidInput if that makes no sense."""
    delivery = getattr(sink, "delivery", Delivery())
    if not isinstance(delivery, Delivery):
        raise InvalidInput(
            f"the delivery of sink {sink.name} is not a Delivery",
            hint="write Delivery(timeout_s=10)",
        )
    if delivery.on_error not in {"skip", "retry", "fail"}:
        raise InvalidInput(
            f"sink {sink.name} has an unknown on_error: {delivery.on_error}",
            hint="use skip, retry or fail",
        )
    for limit in ("timeout_s", "queue_events_max", "attempts_max"):
        if not getattr(delivery, limit) > 0:
            raise InvalidInput(
                f"the {limit} of sink {sink.name} must be above 0", hint="leave it out"
            )
    return delivery


class SinkQueue:
    """Serves one live sink, in order, at the sink's own pace."""

    def __init__(self, sink: Sink, session_key: Callable[[str, str], str | None]) -> None:
        self.sink = sink
        self.delivery = delivery_of(sink)
        self._private = wants_private(sink)
        self._session_key = session_key
        self._caller = SinkCaller(sink, self.delivery.timeout_s)
        # Reentrant, for a signal or a finalizer that records events in the middle of this.
        self._lock = Lock()
        self._arrival = threading.Condition(self._lock)  # type: ignore[arg-type]
        self._rest = threading.Condition(self._lock)  # type: ignore[arg-type]
        self._waiting: deque[QueuedEvent] = deque()
        self._room = self.delivery.queue_events_max - 1
        """So many may wait while one is handed over."""
        self._under_way: QueuedEvent | None = None
        """The events that are being delivered, or will be tried again."""
        self._since: float | None = None
        """When that began."""
        self._worker: Worker | None = None
        """The thread that hands over now; one that hangs is replaced."""
        self._is_resting = False
        """Whether the worker has to be woken."""
        self._attempts = self._hung = 0
        self._closing = self._stopped = False
        self._takes_events = True
        """Whether it is neither closing nor stopped."""
        self._counts = SinkCounts()
        self._unsaid: deque[tuple[int, str]] = deque()
        """Messages to log, without the lock: a log handler may record events, and wait."""

    def offer(self, header: Header, payload: bytes | None) -> None:
        """Put an event into the queue, or count it as lost. Never waits for the sink."""
        queued = (header, payload if self._private else None)
        # Mostly a worker is there, and room: then no lock is needed, for every append comes here.
        # Who holds the lock looks at the queue after changing what is asked here, and this looks
        # again after putting the event in: one of the two sees the other.
        if self._takes_events and self._worker is not None and len(self._waiting) < self._room:
            self._waiting.append(queued)
            if self._is_resting or not self._takes_events or self._worker is None:
                self._wake()
            return
        with self._lock.guard, self._lock:
            held = len(self._waiting) + (self._under_way is not None)
            if not self._takes_events or held >= self.delivery.queue_events_max:
                self._lose(1)
                return
            self._waiting.append(queued)
            self._wake()

    def _wake(self) -> None:
        """Have what waits handed over, or counted as lost if it came too late."""
        with self._lock.guard, self._lock:
            if not self._takes_events:
                self._drop()
            elif self._is_resting:
                self._is_resting = False
                self._arrival.notify()
            elif self._worker is None:
                self._employ()

    def look(self) -> None:
        """See whether the sink is over its time, and continue without it if so."""
        with self._lock.guard, self._lock:
            if self._worker is None:
                if self._waiting and not self._stopped:
                    self._employ()
            elif self._since is None:
                self._arrival.notify()
            elif time.monotonic() - self._since >= self._caller.allowed_s:
                self._leave()
        self._say()

    def flush(self, timeout_s: float) -> bool:
        """Wait until nothing waits any more; return False if that took too long.

        The sink itself, if it asks, is not kept waiting for itself.
        """
        if threading.current_thread() is self._worker:
            return False
        with self._lock.guard, self._lock:
            return self._rest.wait_for(self._is_idle, min(timeout_s, threading.TIMEOUT_MAX))

    def close(self, timeout_s: float) -> None:
        """Let the sink have what waits, for a while, and stop."""
        self.flush(timeout_s)
        with self._lock.guard, self._lock:
            self._closing, self._takes_events = True, False
            self._drop()
            self._arrival.notify_all()
            self._rest.notify_all()
        self._say()

    def status(self) -> SinkStatus:
        """Return how the sink is doing."""
        with self._lock.guard, self._lock:
            waiting = len(self._waiting) + (self._under_way is not None)
            return self._counts.status(
                self.sink, scope=None, waiting=waiting, stopped=self._stopped
            )

    def note(self, text: str) -> None:
        """Have ``text`` be what the status says went wrong last."""
        self._counts.last_error = text

    # What the worker does.

    def _work(self, worker: Worker) -> None:
        """Hand over until there is nobody to hand to."""
        queued = self._next(worker)
        while queued is not None:
            answer = self._hand_over(worker, queued)
            queued = self._next(worker, answer)
            if self._unsaid:
                self._say()

    def _next(
        self,
        worker: Worker,
        answer: bool | BaseException | None = None,  # noqa: FBT001
    ) -> QueuedEvent | None:
        """Return what to hand over after ``answer``, when there is something; None to end."""
        was_busy = True
        lock = self._lock
        with lock.guard, lock:
            if answer is not None:
                self._settle(worker, answer)
            while worker is self._worker and not self._stopped:
                if self._under_way is None and self._waiting:
                    self._under_way = self._waiting.popleft()
                if self._under_way is not None:
                    self._since = time.monotonic()
                    return self._under_way
                if self._closing:
                    return None
                if was_busy:
                    was_busy = False
                    self._arrival.wait(GATHER_S)
                    continue
                self._is_resting = True
                if not self._waiting:
                    # Looked at now and then: who was to wake it may have been interrupted.
                    self._arrival.wait(REST_S)
                self._is_resting = False
        return None

    def _hand_over(self, worker: Worker, queued: QueuedEvent) -> bool | BaseException:
        """Hand one event over; return whether the sink took it, or what went wrong."""
        try:
            return self._caller.give(worker, self._wrap(*queued))
        except BaseException as error:  # noqa: BLE001  (a sink may raise anything)
            return error

    def _wrap(self, header: Header, payload: bytes | None) -> SafeEvent | PrivateEvent:
        """Return the event as the sink may see it."""
        key = self._session_key(header.scope, header.session_id)
        if not self._private:
            return safe_event(header, key)
        return with_payload(header, None if payload is None else decode(payload), key)

    # The caller holds the lock.

    def _settle(self, worker: Worker, answer: bool | BaseException) -> None:  # noqa: FBT001
        """Count what became of an event, and wait before it is tried again."""
        if worker is not self._worker:
            self._hung -= 1  # It was over its time, and others continued.
            return
        self._since = None
        if isinstance(answer, BaseException):
            pause_s = self._fault(answer)
            self._arrival.wait_for(lambda: self._closing, pause_s)
        else:
            self._counts.add(is_taken=answer)
            self._done()

    def _employ(self) -> None:
        """Have a thread hand over."""
        try:
            worker = Worker(f"treering-sink-{self.sink.name}")
        except RuntimeError as error:  # There are too many, or the interpreter ends.
            self._counts.last_error = str(error)
        else:
            self._worker = worker
            worker.begin(self._work, worker)
            worker.end()

    def _leave(self) -> None:
        """Leave a hanging worker behind, and continue with another."""
        self._hung += 1
        self._since = self._worker = None
        self._fault(Overtime(self.delivery.timeout_s), final=self._hung >= HUNG_CALLS_MAX)
        if self._hung >= HUNG_CALLS_MAX:
            self._stop()
        elif not self._stopped:
            self._employ()

    def _done(self) -> None:
        self._attempts = 0
        self._under_way = None
        if not self._waiting:
            self._rest.notify_all()

    def _fault(self, error: BaseException, *, final: bool = False) -> float:
        """Deal with an error by the sink's policy; return how long to wait before continuing."""
        self._counts.note_fault(error)
        self._attempts += 1
        again = self.delivery.on_error == "retry" and self._attempts < self.delivery.attempts_max
        if again and not final and not self._closing:
            self._counts.retried += 1
            return float(min(0.05 * 2**self._attempts, RETRY_PAUSE_S_MAX))
        self._counts.failed += 1
        if is_notable(self._counts.failed, 1):
            self._report(
                logging.WARNING, f"{self._counts.last_error} ({self._counts.failed} failed)"
            )
        if self.delivery.on_error == "fail":
            self._stop()
        self._done()
        return 0.0

    def _stop(self) -> None:
        self._stopped, self._takes_events = True, False
        self._report(logging.ERROR, f"stopped after: {self._counts.last_error}")
        self._drop()
        self._rest.notify_all()

    def _drop(self) -> None:
        """Count what waits as lost."""
        lost = 0
        with contextlib.suppress(IndexError):
            while True:
                self._waiting.popleft()
                lost += 1
        if lost:
            self._lose(lost)

    def _lose(self, count: int) -> None:
        self._counts.lost += count
        if is_notable(self._counts.lost, count):
            reason = "stopped" if self._stopped else "closed" if self._closing else "queue full"
            self._report(logging.WARNING, f"{self._counts.lost} events lost to it ({reason})")

    def _report(self, level: int, text: str) -> None:
        self._unsaid.append((level, f"sink {self.sink.name}: {text}"))

    def _is_idle(self) -> bool:
        return self._stopped or (not self._waiting and self._under_way is None)

    # Nobody holds the lock.

    def _say(self) -> None:
        """Log what there is to report. Whatever comes of that does not concern the events."""
        with contextlib.suppress(Exception):
            while self._unsaid:
                _log.log(*self._unsaid.popleft())
