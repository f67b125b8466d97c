"""What sinks and gates are: what they are handed, and what they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.messages import ModelMessage
    from treering.model.parts import RunStarted

OnError = Literal["skip", "retry", "fail"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """How a sink is served."""

    on_error: OnError = "skip"
    """skip: take the next event; retry: try again, then take the next; fail: stop serving it."""
    timeout_s: float = 30.0
    """How long it may take over one event."""
    queue_events_max: int = 10_000
    """How many events may wait for it; what comes then is lost to it, and counted."""
    attempts_max: int = 4
    """How often an event is tried with retry."""
    durable: bool = False
    """It follows the ledger from a cursor that is kept there: it misses nothing, deltas apart."""
    batch_events_max: int = 1
    """How many events a durable sink with ``handle_batch`` is handed at once."""


class Undeliverable(Exception):
    """Raised by a durable sink for events that will never be taken; it has taken the others.

    Each is recorded as an alert in its session, and the sink is handed the next events.
    """

    def __init__(self, events: Sequence[SafeEvent | PrivateEvent], reason: str) -> None:
        super().__init__(reason)
        self.events = tuple(events)
        self.reason = reason


class SafeSink(Protocol):
    """Hears of events without their private content.

    It may have a ``delivery: Delivery``.
    """

    @property
    def name(self) -> str:
        """Return its name: unique among the sinks of a spine, and kept with its cursor."""

    @property
    def accepts(self) -> Callable[[SafeEvent], bool] | Collection[str]:
        """Return which events it wants: a function of an event, or names of kinds.

        Names may be those of envelopes, and ``lifecycle.*`` names several.
        """

    def handle(self, event: SafeEvent, /) -> Awaitable[None] | None:
        """Take note of ``event``; one at a time, in order."""


class PrivateSink(Protocol):
    """Hears of events with their private content, because it says that it wants that."""

    @property
    def name(self) -> str:
        """Return its name: unique among the sinks of a spine, and kept with its cursor."""

    @property
    def visibility(self) -> Literal["private"]:
        """Return the word by which it asks for private content."""

    @property
    def accepts(self) -> Callable[[PrivateEvent], bool] | Collection[str]:
        """Return which events it wants: a function of an event, or names of kinds.

        Names may be those of envelopes, and ``lifecycle.*`` names several.
        """

    def handle(self, event: PrivateEvent, /) -> Awaitable[None] | None:
        """Take note of ``event``; one at a time, in order."""


Sink = SafeSink | PrivateSink


class SinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a sink is doing."""

    name: str
    scope: str | None
    """Of a durable sink, which is served scope by scope."""
    durable: bool
    delivered: int
    """Events that it took."""
    declined: int
    """Events that it did not accept."""
    failed: int
    """Events that it was handed in vain: given up after errors or time-outs."""
    lost: int
    """Events that it was never handed: its queue was full, or it had been stopped."""
    retried: int
    timeouts: int
    waiting: int
    stopped: bool
    """It gets no more: an error was final, or it hung too often."""
    last_error: str | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of a gate about a tool call or a message."""

    content: Any = None
    """What to use instead of what was given; None leaves it as it is."""
    blocked: bool = False
    reason: str | None = None


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate adds to a run before it starts."""

    system_prompt: str | None = None
    prepend_context: str | None = None


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gate is asked: the run that it is asked about."""

    scope: str
    session_id: str
    session_key: str | None
    agent_id: str
    run_id: str


@runtime_checkable
class Gate(Protocol):
    """A sink that has a say before things happen.

    If it raises, what it was asked to allow is held back, and what it could change stays as it is.
    """

    def before_run(self, occasion: Occasion, prompt: str | None, /) -> Preparation:
        """Say what to add to a run that is about to start."""

    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any, /) -> Verdict:  # noqa: A002
        """Say whether a tool may run, and with what input."""

    def before_sending(self, occasion: Occasion, text: str, to: str | None, /) -> Verdict:
        """Say whether a message may be sent, and as what."""

    def persist(
        self,
        occasion: Occasion,
        tool: str,
        call_id: str,
        output: Any,
        /,
        *,
        is_error: bool,
        is_synthetic: bool,
    ) -> Any:
        """Return a tool's output as it is to be kept. Called exactly once for each result."""


class SafePast(Protocol):
    """What a safe sink may ask about the past of an event: facts and counts, never a text.

    A sink with a method ``attach_past`` is given one when it is added to a spine.
    """

    def run_started(self, scope: str, session_id: str, run_id: str) -> RunStarted:
        """Return what a run was begun with, if that is known."""

    def channel(self, scope: str, session_id: str) -> str | None:
        """Return the channel that a session was opened on."""

    def opened_ms(self, scope: str, session_id: str) -> int | None:
        """Return when a session was opened."""

    def message_count(self, scope: str, session_id: str, until_seq: int) -> int:
        """Return the number of messages and tool results up to a seq."""

    def run_spans(self, scope: str, session_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return a run as OpenTelemetry spans; with texts, if the sink is private."""

    def turn_spans(self, scope: str, session_id: str, before_seq: int) -> list[dict[str, Any]]:
        """Return the turn outside of runs that ended before a seq, as OpenTelemetry spans."""


class PrivatePast(SafePast, Protocol):
    """What a private sink may ask: texts as well."""

    def messages(
        self, scope: str, session_id: str, run_id: str | None, until_seq: int | None
    ) -> list[ModelMessage]:
        """Return the last messages of a session up to a seq, those of ``run_id`` among them."""
