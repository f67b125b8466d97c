"""Handing events to a live sink: its queue, the worker that calls it, and what it is handed.

Recording only puts an event into the queue. A sink that is slow, fails or hangs keeps nobody
waiting but itself, and what it loses is counted.

A sink or a hook may block, raise or never return, and a thread cannot be ended from outside. So
foreign code is called in a Worker. Whoever waits for it continues when its time is over; the worker
is left behind, counted as hung until the call returns, and another one takes its place.

    SinkQueue   one worker takes events from a queue; a watcher sees when it is over its time
    durable     the follower hands one event to a worker, and waits for it (BoundedCaller)
    hooks       a worker for each call, since calls nest and run at the same time
    closing     a worker for each sink that wants to be closed
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
from collections import deque
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from treering.errors import InvalidInput
from treering.lazy import LazyModule, lazy_logger
from treering.locks import Bell, Lock
from treering.model.codec import decode, encode
from treering.model.events import SCHEMA_VERSION, Header
from treering.model.kinds import KINDS, parse_kinds
from treering.model.parts import safe_part
from treering.spine.ports import Delivery, SinkStatus, Undeliverable

if TYPE_CHECKING:
    import asyncio
    import logging
    from collections.abc import Awaitable, Callable, Sequence

    from treering.model import carried
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.events import Event, NewEvent
    from treering.model.parts import SafePart
    from treering.spine import conversion
    from treering.spine.ports import Sink
else:
    logging = LazyModule("logging")
    carried = LazyModule("treering.model.carried")
    conversion = LazyModule("treering.spine.conversion")

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
        """Check whether the sink exceeds its time limit, and continue without it if so."""
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


def wants_private(sink: Sink) -> bool:
    """Whether ``sink`` said that it wants private content."""
    return getattr(sink, "visibility", "safe") == "private"


def acceptance(sink: Sink) -> Callable[[SafeEvent | PrivateEvent], bool]:
    """Return a function that says whether ``sink`` wants an event.

    Raises InvalidKind if it names kinds that no event can have.
    """
    asked: Any = sink
    if callable(asked.accepts):
        # Looked up for each event: a sink may choose another function later.
        return lambda event: bool(asked.accepts(event))
    chosen = parse_kinds(asked.accepts)
    return lambda event: chosen.matches(event.kind, event.envelope_kind)


class SinkCaller:
    """Gives events to one sink, in the thread of a worker."""

    def __init__(self, sink: Sink, timeout_s: float) -> None:
        self._sink: Any = sink  # What it is handed was settled when the event was wrapped for it.
        self._accepts = acceptance(sink)
        self._timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(sink.handle)

    @property
    def allowed_s(self) -> float:
        """Return how long the sink may take before its thread counts as hung."""
        return self._timeout_s + (ASYNC_GRACE_S if self._is_async else 0.0)

    def give(self, worker: Worker, event: SafeEvent | PrivateEvent) -> bool:
        """Hand ``event`` over; return False if the sink does not accept it.

        Raises what the sink raises, and Overtime if it was awaited for too long.
        """
        if not self._accepts(event):
            return False
        self._finish(worker, self._sink.handle(event))
        return True

    def give_batch(
        self, worker: Worker, events: Sequence[SafeEvent | PrivateEvent]
    ) -> tuple[int, Undeliverable | None]:
        """Hand over those of ``events`` that the sink accepts.

        Return how many it took, and what it refused for good. Raises as ``give`` does.
        """
        wanted = [event for event in events if self._accepts(event)]
        if not wanted:
            return 0, None
        handle = getattr(self._sink, "handle_batch", None)
        try:
            self._finish(worker, handle(wanted) if handle else self._sink.handle(wanted[0]))
        except Undeliverable as refused:
            return len(wanted) - len(refused.events), refused
        return len(wanted), None

    def _finish(self, worker: Worker, answer: Any) -> None:
        if answer is not None and inspect.isawaitable(answer):
            self._is_async = True
            worker.finish(answer, self._timeout_s)


class SinkCounts(msgspec.Struct):
    """What became of the events of one sink."""

    delivered: int = 0
    declined: int = 0
    failed: int = 0
    lost: int = 0
    retried: int = 0
    timeouts: int = 0
    last_error: str | None = None

    def add(self, *, is_taken: bool) -> None:
        """Count an event that the sink was handed."""
        self.delivered += is_taken
        self.declined += not is_taken

    def add_batch(self, events: int, *, taken: int, refused: int) -> None:
        """Count events that a sink was handed at once."""
        self.delivered += taken
        self.failed += refused
        self.declined += events - taken - refused

    def note_fault(self, error: BaseException) -> None:
        """Note what went wrong."""
        self.last_error = in_words(error)
        self.timeouts += isinstance(error, Overtime)

    def status(self, sink: Sink, *, scope: str | None, waiting: int, stopped: bool) -> SinkStatus:
        """Return how the sink is doing; one with a scope is durable."""
        return SinkStatus(
            name=sink.name,
            scope=scope,
            durable=scope is not None,
            waiting=waiting,
            stopped=stopped,
            **msgspec.structs.asdict(self),
        )


def is_notable(count: int, more: int) -> bool:
    """Whether a count that has grown by ``more`` is worth a line in the log: at 1, 2, 4, 8, …."""
    return count.bit_length() > (count - more).bit_length()


ASYNC_GRACE_S: Final = 2.0
"""A coroutine is cancelled in time by its own loop; one that blocks that loop gets this more."""
HUNG_CALLS_MAX: Final = 8
"""Foreign code is given up when this many calls hang in it: their threads cannot be ended."""


class Overtime(TimeoutError):
    """Foreign code took longer over a call than it may."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"took longer than {timeout_s:g} s")


def in_words(error: BaseException) -> str:
    """Return an error in words; one that cannot be put into words, by its name."""
    name = conversion.class_name(error)
    try:
        text = str(error)
        return text if isinstance(error, Overtime) else f"{name}: {conversion.plain(text)}"
    except conversion.STOPS:
        raise
    except BaseException:  # noqa: BLE001  (foreign code may raise anything)
        return name


async def in_time(answer: Awaitable[Any], timeout_s: float) -> Any:
    """Return what ``answer`` becomes. Raises Overtime if that takes too long."""
    import asyncio  # noqa: PLC0415  (it takes longer to load than a short command to run)

    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await answer
    except TimeoutError:
        if limit.expired():
            raise Overtime(timeout_s) from None
        raise


class BoundedCall:
    """One call under way: what it gave, or what it raised."""

    __slots__ = ("_callbacks", "error", "is_done", "over", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.over = Bell()
        """Rung when the call is over. One thread waits for it, once."""
        self._callbacks: deque[Callable[[], None]] = deque()

    def make(self, function: Callable[..., Any], *given: Any) -> None:
        """Make the call in this thread."""
        try:
            value = function(*given)
        except BaseException as error:  # noqa: BLE001  (foreign code may raise anything)
            self.conclude(error=error)
        else:
            self.conclude(value)

    def conclude(self, value: Any = None, error: BaseException | None = None) -> None:
        """Note how the call ended; only the first note counts."""
        if not self.is_done:
            self.value, self.error, self.is_done = value, error, True
            self._call_back()
            self.over.ring()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the call is over, at once if it is."""
        self._callbacks.append(callback)
        if self.is_done:
            self._call_back()

    def _call_back(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._callbacks.popleft()()


class Worker(threading.Thread):
    """A thread that makes calls, one at a time, with an event loop of its own if need be."""

    def __init__(self, name: str) -> None:
        """Start the thread. Raises RuntimeError if there are too many, or the interpreter ends."""
        super().__init__(name=name, daemon=True)
        self._calls: SimpleQueue[tuple[BoundedCall, Callable[..., Any], tuple[Any, ...]] | None]
        self._calls = SimpleQueue()
        self._runner: asyncio.Runner | None = None
        self.start()

    def begin(self, function: Callable[..., Any], *given: Any) -> BoundedCall:
        """Have a call made after those before it; return it at once."""
        call = BoundedCall()
        self._calls.put((call, function, given))
        return call

    def end(self) -> None:
        """Have the thread end after the calls that were begun."""
        self._calls.put(None)

    def run(self) -> None:
        """Make calls until ``end`` is called."""
        while (begun := self._calls.get()) is not None:
            call, function, given = begun
            call.make(function, *given)
            del begun, call, function, given  # Nobody else may have use for them.
        if self._runner is not None:
            # What foreign code left running in the loop may end in any way.
            with contextlib.suppress(Exception):
                self._runner.close()

    def finish(self, answer: Any, timeout_s: float) -> Any:
        """Return ``answer`` or, if it is awaitable, what it becomes in this thread's event loop.

        Raises Overtime if that takes too long.
        """
        if not inspect.isawaitable(answer):
            return answer
        import asyncio  # noqa: PLC0415  (it takes longer to load than a short command to run)

        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(in_time(answer, timeout_s))


class BoundedCaller:
    """Calls the same foreign code again and again, and waits for it each time, but not too long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._worker: Worker | None = None
        self._left: list[Worker] = []

    @property
    def hung(self) -> int:
        """Return how many calls hang."""
        self._left = [worker for worker in self._left if worker.is_alive()]
        return len(self._left)

    def is_here(self) -> bool:
        """Whether it is the foreign code itself that asks."""
        return threading.current_thread() in {self._worker, *self._left}

    def call(self, function: Callable[..., Any], *given: Any, timeout_s: float) -> Any:
        """Return what ``function`` returns to a worker and ``given``; raise what it raises.

        Raises Overtime if it takes too long.
        """
        worker = self._worker
        if worker is None:
            self._worker = worker = Worker(self._name)
        call = worker.begin(function, worker, *given)
        if not call.over.wait(timeout_s):
            self._left.append(worker)
            self.close()
            raise Overtime(timeout_s)
        if call.error is not None:
            raise call.error
        return call.value

    def close(self) -> None:
        """Have the thread end when the foreign code returns."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def safe_event(header: Header, session_key: str | None = None) -> SafeEvent:
    """Return what anybody may be shown of ``header``."""
    part = safe_part(header.kind, header.refs)
    if header.visibility == "safe":
        shown = {"part": part, "summary": header.summary, "refs": _own(header.refs)}
    else:
        shown = {"part": _without_texts(part), "summary": None, "refs": None}
    return carried.SafeEvent(**_common(header, session_key), **shown)


def private_event(event: Event, session_key: str | None = None) -> PrivateEvent:
    """Return all of ``event``."""
    return with_payload(event, event.payload, session_key)


def with_payload(header: Header, payload: Any, session_key: str | None = None) -> PrivateEvent:
    """Return all of the event that ``header`` and ``payload`` make."""
    return carried.PrivateEvent(
        **_common(header, session_key),
        part=safe_part(header.kind, header.refs),
        summary=header.summary,
        refs=_own(header.refs),
        payload=payload,
    )


def transient_header(event: NewEvent, payload_bytes: int, now_ms: int) -> Header:
    """Return the header of an event that is carried and not kept: it has no seq."""
    known = KINDS[event.kind]
    return Header(
        0, 0, "", event.scope, event.session_id, event.kind, event.source or known.source,
        event.origin, event.run_id, event.run_seq, event.turn_id, event.agent_id, event.user_id,
        now_ms, now_ms, event.visibility or known.visibility, event.summary, event.refs,
        payload_bytes, redacted=False, expired=False, schema_version=SCHEMA_VERSION,
        content_digest=b"", link=b"",
    )  # fmt: skip


def _common(header: Header, session_key: str | None) -> dict[str, Any]:
    return {
        # Counted from 1: what is carried and not kept has neither.
        "event_id": header.event_id if header.seq else None,
        "seq": header.seq or None,
        "scope": header.scope,
        "session_id": header.session_id,
        "session_key": session_key,
        "run_id": header.run_id,
        "run_seq": header.run_seq,
        "turn_id": header.turn_id,
        "agent_id": header.agent_id,
        "kind": header.kind,
        "source": header.source,
        "origin": header.origin,
        "visibility": header.visibility,
        "ts_ms": header.ts_ms,
        "payload_bytes": header.payload_bytes,
    }


def _own(refs: Any) -> Any:
    """Return a copy: a sink that changes what it was handed changes nothing for others."""
    return None if refs is None else decode(encode(refs))


def _without_texts(part: SafePart) -> SafePart:
    """Return what may be shown of a private event: sizes, and words from a fixed list."""
    fields = {name: getattr(part, name) for name in _fixed_fields(type(part))}
    return type(part)(**fields)


@cache
def _fixed_fields(part: type[SafePart]) -> tuple[str, ...]:
    """Return the fields of ``part`` that cannot hold a free text."""
    fields = msgspec.structs.fields(part)
    return tuple(field.name for field in fields if str not in get_args(field.type))
