"""What the spine needs from outside: a journal that keeps events, sinks that hear of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

    from treering.context.assemble import Context
    from treering.context.tokens import Counter
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.events import Event, Header, NewEvent
    from treering.model.messages import ModelMessage
    from treering.model.parts import RunStarted
    from treering.model.runs import OpenRun
    from treering.model.scopes import Scope
    from treering.spine.runs import Run

OnError = Literal["skip", "retry", "fail"]
Item_co = TypeVar("Item_co", bound="Header", covariant=True)


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """How a sink is served."""

    on_error: OnError = "skip"
    """skip: go on with the next event; retry: try again, then go on; fail: stop serving it."""
    timeout_s: float = 30.0
    """How long it may take over one event."""
    queue_events_max: int = 10_000
    """How many events may wait for it; what comes then is lost to it, and counted."""
    attempts_max: int = 4
    """How often an event is tried with retry."""
    durable: bool = False
    """It follows the ledger from a cursor that is kept there: it misses nothing, deltas apart."""


class SafeSink(Protocol):
    """Hears of events without their private content.

    It may have a ``delivery: Delivery``.
    """

    @property
    def name(self) -> str:
        """Return its name: unique among the sinks of a spine, and kept with its cursor."""

    @property
    def accepts(self) -> Callable[[SafeEvent], bool] | Collection[str]:
        """Return what it wants to hear of: a function of an event, or names of kinds.

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
        """Return what it wants to hear of: a function of an event, or names of kinds.

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
        """Return what a run was begun with, as far as that is known."""

    def channel(self, scope: str, session_id: str) -> str | None:
        """Return the channel that a session was opened on."""

    def opened_ms(self, scope: str, session_id: str) -> int | None:
        """Return when a session was opened."""

    def message_count(self, scope: str, session_id: str, until_seq: int) -> int:
        """Return how often somebody said something or a tool gave a result, up to a seq."""


class PrivatePast(SafePast, Protocol):
    """What a private sink may ask: texts as well."""

    def messages(
        self, scope: str, session_id: str, run_id: str | None, until_seq: int | None
    ) -> list[ModelMessage]:
        """Return the last messages of a session up to a seq, those of ``run_id`` among them."""


class Timeline(Protocol):
    """The session that a run is part of."""

    @property
    def scope(self) -> Scope:
        """Return the wall around it."""

    @property
    def session_id(self) -> str:
        """Return its id."""

    @property
    def agent(self) -> str:
        """Return who acts in it when a run does not say otherwise."""

    @property
    def user(self) -> str | None:
        """Return the person that it is about."""

    @property
    def key(self) -> str | None:
        """Return the name that another system knows it by."""

    @property
    def patience_s(self) -> float:
        """Return how long a second run waits for the first when nobody says otherwise."""

    def open(self) -> None:
        """Record the opening, unless it has a past."""

    def permits(self, tool: str) -> bool:
        """Whether ``tool`` may run in it."""

    def context(
        self,
        max_tokens: int | None = None,
        *,
        dialect: str = "openai-chat",
        contributors: Sequence[Any] = (),
        reserve_output_tokens: int = 0,
        system: str = "",
        tools: Sequence[Any] = (),
        turn: Run | None = None,
        model: str | None = None,
        count: Counter | None = None,
    ) -> Context:
        """Return what ``model`` is shown next, with what ``turn`` has recorded so far."""

    def settle(self, max_tokens: int) -> None:
        """Compact it if it has outgrown ``max_tokens``, now that a run has ended well."""


class Journal(Protocol):
    """Keeps what the spine carries, and knows what runs are under way."""

    def fork(self, event: NewEvent, *, parent: str, seq: int) -> Header:
        """Record ``event`` as the first of a session that has the past of ``parent`` to ``seq``."""

    def append(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None = None,
        tell: Callable[[Header, bytes | None], None] | None = None,
        numbers: Sequence[int | None] | None = None,
        counted: bool = False,
    ) -> list[Header]:
        """Record all of ``events`` or none; ``tell`` of each that is new, with its payload.

        ``numbers`` are those in runs of events that do not say theirs; if ``counted``, all others
        are given theirs.
        """

    def now_ms(self) -> int:
        """Return the time."""

    def head_seq(self, scope: Scope, session_id: str) -> int:
        """Return the last seq of a session; 0 if it has no past."""

    def session_key(self, scope: str, session_id: str) -> str | None:
        """Return the name that another system knows a session by, as it was opened."""

    def safe_past(self) -> SafePast:
        """Return what safe sinks may ask about the past of an event."""

    def private_past(self) -> PrivatePast:
        """Return what private sinks may ask about the past of an event."""

    def open_runs(self, scope: Scope | None = None, session_id: str | None = None) -> list[OpenRun]:
        """Return the runs that have begun and not ended."""

    def run_headers(self, scope: Scope, session_id: str, run_id: str) -> Iterable[Header]:
        """Return the headers of one run, in order."""

    def is_known(self, scope: Scope, event_id: str) -> bool:
        """Whether there is, or was, an event with this id."""

    def owner(self) -> str:
        """Return the name under which this process carries out its runs."""

    def is_gone(self, owner: str, seen_ms: int) -> bool:
        """Whether the process behind ``owner`` is certainly not carrying on."""

    def is_in_copy(self, owner: str) -> bool:
        """Whether ``owner`` holds its runs in another ledger, of which this is a copy."""

    def hold(self, name: str) -> bool:
        """Whether this process has ``name`` to itself, now that it asks for it."""

    def release(self, name: str) -> None:
        """Let others have ``name``."""

    def cursor(self, scope: Scope, follower: str) -> str | None:
        """Return how far ``follower`` has come."""

    def set_cursor(self, scope: Scope, follower: str, cursor: str) -> None:
        """Note how far ``follower`` has come."""

    def follow(
        self, scope: Scope, *, after: str | None, idle_seconds: float, stop: threading.Event
    ) -> EventFeed[Header]:
        """Return the headers behind ``after`` and those that come, until none does for a while."""

    def follow_events(
        self, scope: Scope, *, after: str | None, idle_seconds: float, stop: threading.Event
    ) -> EventFeed[Event]:
        """Return the same, with payloads."""


class EventFeed(Protocol[Item_co]):
    """Events as they come, with the place to go on from."""

    @property
    def cursor(self) -> str:
        """Return where to go on, once the last event delivered has been dealt with."""

    def __iter__(self) -> Iterator[Item_co]: ...
