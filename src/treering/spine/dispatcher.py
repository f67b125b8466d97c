"""The spine: runs and sinks of a ledger. The dispatcher hands events to the sinks, in order."""

from __future__ import annotations

import inspect
import os
import threading
import time
from typing import TYPE_CHECKING, Final, Unpack, cast

from treering.errors import Closed, InvalidInput, InvalidKind
from treering.lazy import LazyModule, lazy_logger
from treering.locks import Lock, LockSet
from treering.model.arguments import checks_arguments
from treering.model.codec import canonical
from treering.model.fields import check_name
from treering.model.kinds import KINDS, parse_kinds
from treering.model.parts import RunStarted
from treering.model.scopes import parse_scope
from treering.spine.durable import DurableQueue, check_durable
from treering.spine.sink_queue import (
    SinkQueue,
    Worker,
    delivery_of,
    in_words,
    transient_header,
    wants_private,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from treering.ledger.engine import Engine
    from treering.ledger.sessions import Session
    from treering.model.events import Header, NewEvent
    from treering.model.parts import RunDetails
    from treering.model.scopes import Scope
    from treering.spine import run_state, runs
    from treering.spine.ports import Sink, SinkStatus
    from treering.spine.runs import Run
    from treering.spine.sink_queue import BoundedCall
else:
    run_state = LazyModule("treering.spine.run_state")
    runs = LazyModule("treering.spine.runs")

_log = lazy_logger("treering.spine")

STRIPES: Final = 256
SINK_CLOSE_S: Final = 5.0
"""How long all sinks together may take over their ``close()``; the ledger is closed then."""
LOOK_S_MIN, LOOK_S_MAX = 0.02, 1.0
"""How often sinks are looked at for being over their time."""


class Dispatcher:
    """Serves all sinks of a ledger. Notices forks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.queues: tuple[SinkQueue, ...] = ()
        """Those of live sinks; durable ones read the ledger themselves."""
        self._durable: tuple[Sink, ...] = ()
        self._followed: dict[tuple[str, Scope], DurableQueue] = {}
        self._closed = threading.Event()
        self._closed_sinks: list[Sink] = []
        """Sinks that were asked to close: each once, also if closing is interrupted."""
        self._renew()

    def _renew(self) -> None:
        """Make what a fork must not share."""
        self._pid = os.getpid()
        self._lock = Lock()
        self._turns: dict[str, Lock] = {}
        self._order = [Lock() for _ in range(STRIPES)] if self.queues else []
        """Held by session while events are recorded and put into queues, so that both agree."""

    # Handing over.

    def carry_transient(self, event: NewEvent) -> None:
        """Put an event that is not kept into the queues."""
        payload = canonical(event.payload, "payload")
        if not self.queues:
            return
        order = self.order_of([event])
        with order, order:
            order.take()
            header = transient_header(event, len(payload), self._engine.now_ms())
            self.offer(header, payload)

    def announce(self, headers: Iterable[Header]) -> None:
        """Put events that others recorded into the queues, without payloads."""
        for header in headers if self.queues else ():
            self.offer(header, None)

    def offer(self, header: Header, payload: bytes | None) -> None:
        """Put an event into the queues."""
        for queue in self.queues:
            queue.offer(header, payload)

    def order_of(self, events: Sequence[NewEvent]) -> LockSet:
        """Return the locks under which events of these sessions are recorded and queued.

        So the queues have them in the order of the ledger.
        """
        self._notice_fork()
        if len(events) == 1:
            return LockSet((self._order[hash(events[0].session_id) % STRIPES],))
        stripes = {hash(event.session_id) % STRIPES for event in events}
        return LockSet([self._order[stripe] for stripe in sorted(stripes)])

    # Sinks.

    def check(self, sinks: Sequence[Sink]) -> None:
        """Raise InvalidInput if one of ``sinks`` is none, or has another's name."""
        if not isinstance(sinks, list | tuple):
            raise InvalidInput("sinks must be a list", hint="write spine(sinks=[sink])")
        names = [*(queue.sink.name for queue in self.queues), *(s.name for s in self._durable)]
        for sink in sinks:
            check_sink(sink)
            if sink.name in names:
                raise InvalidInput(
                    f"the spine already has a sink {sink.name}", hint="give each sink its own name"
                )
            names.append(sink.name)

    def add(self, sink: Sink) -> None:
        """Serve a checked ``sink`` from now on; a durable one gets what it lacks, too."""
        self._notice_fork()
        with self._lock.guard, self._lock:
            if self._closed.is_set():
                raise Closed("the ledger has been closed", hint="open it again")
            if (attach := getattr(sink, "attach_past", None)) is not None:
                attach(self._engine.history(private=wants_private(sink)))
            if (start := getattr(sink, "open", None)) is not None:
                start()
            if delivery_of(sink).durable:
                self._durable = (*self._durable, sink)
                for scope in {name for _, name in self._followed}:
                    self.follow(scope)
                return
            self._order = self._order or [Lock() for _ in range(STRIPES)]
            self.queues = (*self.queues, SinkQueue(sink, self._engine.session_key))
            if len(self.queues) == 1:
                self._watch_over()

    def follow(self, scope: Scope, *, from_now: bool = False) -> None:
        """Bring durable sinks up to date with a scope, and keep them so."""
        self._notice_fork()
        for sink in self._durable:
            if from_now:
                self._engine.skip_past(scope, sink.name)
            with self._lock.guard, self._lock:
                if (sink.name, scope) not in self._followed and not self._closed.is_set():
                    self._followed[sink.name, scope] = DurableQueue(
                        sink, scope, self._engine, turn=self._turns.setdefault(sink.name, Lock())
                    )

    def status(self) -> list[SinkStatus]:
        """Return how each sink is doing."""
        self._notice_fork()
        return [queue.status() for queue in self._served()]

    def flush(self, timeout_s: float) -> bool:
        """Wait until the sinks have all recorded events; return False if that took too long."""
        self._notice_fork()
        deadline = time.monotonic() + timeout_s
        done = [queue.flush(max(deadline - time.monotonic(), 0.0)) for queue in self._served()]
        return all(done)

    def close(self, timeout_s: float) -> None:
        """Let the sinks have what waits, and stop."""
        if self._pid != os.getpid():
            return  # What is there was the parent's, and is served there.
        deadline = time.monotonic() + timeout_s
        self.flush(timeout_s)
        self._closed.set()
        for durable in self._followed.values():
            durable.stop()
        for queue in self._served():
            queue.close(max(deadline - time.monotonic(), 0.1))
        closing = [
            _SinkClosing(queue.sink, queue.note)
            for queue in self.queues
            if self._closes(queue.sink)
        ]
        for sink in self._durable:
            if self._closes(sink):
                queues = [queue for queue in self._followed.values() if queue.sink is sink]
                closing.append(_SinkClosing(sink, *(queue.note for queue in queues)))
        deadline = time.monotonic() + SINK_CLOSE_S
        for call in closing:
            call.wait(deadline - time.monotonic())

    def _closes(self, sink: Sink) -> bool:
        """Return whether ``sink`` was not asked to close before, and note that it is now."""
        if any(closed is sink for closed in self._closed_sinks):
            return False
        self._closed_sinks.append(sink)
        return True

    def _served(self) -> list[SinkQueue | DurableQueue]:
        return [*self.queues, *list(self._followed.values())]

    def _watch_over(self) -> None:
        threading.Thread(target=self._watch, name="treering-spine", daemon=True).start()

    def _watch(self) -> None:
        """Check that no sink exceeds its time limit."""
        while not self._closed.wait(self._pause_s()):
            for queue in self.queues:
                queue.look()

    def _pause_s(self) -> float:
        shortest = min(queue.delivery.timeout_s for queue in self.queues)
        return min(max(shortest / 4, LOOK_S_MIN), LOOK_S_MAX)

    def _notice_fork(self) -> None:
        """Continue in a forked child: the parent delivers the events that it recorded."""
        if self._pid == os.getpid():
            return
        self._renew()
        self._followed = {}
        self.queues = tuple(SinkQueue(old.sink, self._engine.session_key) for old in self.queues)
        if self.queues:
            self._watch_over()


def check_sink(sink: Sink) -> None:
    """Raise InvalidInput if ``sink`` cannot be served."""
    accepts = getattr(sink, "accepts", None)
    names_kinds = isinstance(accepts, str | list | tuple | set | frozenset)
    for part, is_there in (
        ("accepts", callable(accepts) or names_kinds),
        ("handle", callable(getattr(sink, "handle", None))),
    ):
        if not is_there:
            raise InvalidInput(
                f"a {type(sink).__name__} is not a sink: it has no {part}",
                hint="give it a name, accepts(event) and handle(event)",
            )
    check_name(getattr(sink, "name", ""), "sink name")
    visibility = getattr(sink, "visibility", "safe")
    if visibility not in {"safe", "private"}:
        raise InvalidInput(
            f"sink {sink.name} has the visibility {visibility!r}", hint="use safe or private"
        )
    check_durable(sink)
    if names_kinds:
        _check_kinds(sink)


def _check_kinds(sink: Sink) -> None:
    """Raise InvalidKind if ``sink`` names only kinds that it could never get."""
    chosen = parse_kinds(cast("Collection[str]", sink.accepts))
    if delivery_of(sink).durable and not any(KINDS[kind].durable for kind in chosen.kinds):
        raise InvalidKind(
            f"sink {sink.name} is durable and accepts only {', '.join(chosen.kinds)},"
            " which the ledger does not keep",
            hint="make it a live sink, or accept other kinds",
        )


class _SinkClosing:
    """Closes a sink that wants it, in a thread that may be left behind."""

    def __init__(self, sink: Sink, *notes: Callable[[str], None]) -> None:
        self._sink = sink
        self._notes = notes
        self._worker: Worker | None = None
        self._call: BoundedCall | None = None
        if _may_close(sink):
            try:
                self._worker = Worker(f"treering-close-{sink.name}")
            except RuntimeError as error:  # There are too many, or the interpreter ends.
                self._report(f"cannot be closed: {error}")
            else:
                self._call = self._worker.begin(_close, self._worker, sink)
                self._call.when_done(self._note_failure)
                self._worker.end()

    def wait(self, timeout_s: float) -> None:
        """Return when the sink has closed. One that takes longer is left behind, and reported."""
        if self._call is None or self._worker is threading.current_thread():
            return
        if not self._call.over.wait(timeout_s):
            self._report(f"close() took longer than {SINK_CLOSE_S:g} s, and was left behind")

    def _note_failure(self) -> None:
        if self._call is not None and self._call.error is not None:
            self._report(f"cannot be closed: {in_words(self._call.error)}")

    def _report(self, text: str) -> None:
        for note in self._notes:
            note(text)
        _log.warning("sink %s: %s", self._sink.name, text)


def _may_close(sink: Sink) -> bool:
    """Whether ``sink`` may have a ``close()``, as far as one can say without running its code."""
    is_there = inspect.getattr_static(sink, "close", None) is not None
    return is_there or hasattr(type(sink), "__getattr__")


def _close(worker: Worker, sink: Sink) -> None:
    close = getattr(sink, "close", None)
    if close is not None:
        worker.finish(close(), SINK_CLOSE_S)


FLUSH_S: Final = 5.0


@checks_arguments
class Spine:
    """Delivers recorded events, in order, to the sinks. A ledger has one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(
        self,
        session: Session,
        *,
        agent: str | None = None,
        prompt: str | None = None,
        turn_id: str | None = None,
        wait_s: float | None = None,
        **started: Unpack[RunDetails],
    ) -> Run:
        """Return a run of ``session``: a context manager, or to be started and ended.

        A session has one at a time. Another waits for ``wait_s``, which goes by the session's
        mode if it is not given, and is refused then. ``prompt`` is what gates are shown of the
        user's words.
        """
        if not hasattr(session, "session_id"):
            raise InvalidInput(
                f"a run is part of a session, not of {session!r}", hint="give ledger.session(…)"
            )
        return runs.Run(
            run_state.RunState(
                self._engine, session, RunStarted(**started),
                agent=agent, turn_id=turn_id, prompt=prompt, wait_s=wait_s,
            )
        )  # fmt: skip

    def follow(self, scope: str, *, from_now: bool = False) -> None:
        """Bring durable sinks up to date with a scope, and keep them so; a run does it itself.

        ``from_now`` leaves out what a sink that never followed the scope has missed.
        """
        self._engine.dispatcher.follow(parse_scope(scope), from_now=from_now)

    def status(self) -> list[SinkStatus]:
        """Return the state of each sink: events that it took, that failed, that were lost."""
        return self._engine.dispatcher.status()

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until the sinks have all recorded events; return False if that took too long."""
        return self._engine.dispatcher.flush(timeout_s)
