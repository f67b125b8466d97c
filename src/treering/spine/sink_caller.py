"""Handing an event to a sink, and counting what becomes of it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from treering.model.kinds import parse_kinds
from treering.spine.bounded_calls import ASYNC_GRACE_S, Overtime, in_words
from treering.spine.ports import SinkStatus, Undeliverable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.spine.bounded_calls import Worker
    from treering.spine.ports import Sink


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
        handle = getattr(self._sink, "handle_batch", None) or self._handle_one
        try:
            self._finish(worker, handle(wanted))
        except Undeliverable as refused:
            return len(wanted) - len(refused.events), refused
        return len(wanted), None

    def _handle_one(self, events: Sequence[SafeEvent | PrivateEvent]) -> Any:
        return self._sink.handle(events[0])

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
