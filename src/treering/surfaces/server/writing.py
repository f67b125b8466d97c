"""Handlers that write and erase. Each can be repeated: ids make that harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.otel import OtelSpan
from treering.ledger.erasure import Replacement
from treering.ledger.records import AGENT
from treering.model.events import Header, NewEvent
from treering.model.memories import Fact, LearnResult, NewFact
from treering.model.sessions import Isolation, Mode, SessionOutline
from treering.surfaces.server.problems import BATCH_EVENTS_MAX
from treering.surfaces.server.reading import Arguments, session_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.sessions import Session
    from treering.model.receipts import ForgetReceipt, RedactReceipt
    from treering.surfaces.server.routes import Request

SCOPE_ATTRIBUTE: Final = "treering.scope"
"""The attribute of a resource that names the scope of its spans."""
Facts = Annotated[list[NewFact], msgspec.Meta(min_length=1, max_length=100)]


class AppendArguments(Arguments, frozen=True, kw_only=True):
    """Events to record, all or none; ids of their own make it safe to send them again."""

    events: Annotated[list[NewEvent], msgspec.Meta(min_length=1, max_length=BATCH_EVENTS_MAX)]
    expected_seq: int | None = None
    """The last seq of their session that the caller knows; a later one is a conflict."""

    def scopes(self) -> Iterable[str]:
        """Return the scopes of the events."""
        return (event.scope for event in self.events)


class AppendAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded."""

    headers: list[Header]
    """The headers of all events, in the order in which they were sent."""
    new: list[str]
    """Ids of the events that were not there before."""


class OpenArguments(Arguments, frozen=True, kw_only=True):
    """How to open a session; an existing one does not change."""

    agent: str
    user: str | None = None
    mode: Mode | None = None
    channel: str | None = None
    participants: tuple[str, ...] = ()
    key: str | None = None
    tools: tuple[str, ...] | None = None
    isolation: Isolation | None = None
    title: str | None = None
    spawned_by: str | None = None
    spawned_call: str | None = None


class CloseArguments(Arguments, frozen=True, kw_only=True):
    """Why a session is closed, and by whom; by default by its own agent."""

    reason: str = "closed"
    agent: str | None = None
    expected_seq: int | None = None


class ForkArguments(Arguments, frozen=True, kw_only=True):
    """Where to fork: after the turn of the event ``at``, or after the last turn."""

    session_id: str | None = None
    at: str | None = None
    agent: str | None = None
    title: str | None = None
    whole_turn: bool = True
    ts_ms: int | None = None


class UndoArguments(Arguments, frozen=True, kw_only=True):
    """How many turns to hide."""

    turns: Annotated[int, msgspec.Meta(ge=1)] = 1
    agent: str | None = None


class RedoArguments(Arguments, frozen=True, kw_only=True):
    """Who redoes what was undone."""

    agent: str | None = None


class TitleArguments(Arguments, frozen=True, kw_only=True):
    """A title for a session."""

    title: str
    agent: str | None = None


class LearnArguments(Arguments, frozen=True, kw_only=True):
    """Facts to learn, in order."""

    facts: Facts


class RejectArguments(Arguments, frozen=True, kw_only=True):
    """Why a fact must not be recalled again."""

    reason: str | None = None


class SettleArguments(Arguments, frozen=True, kw_only=True):
    """Whether a fact ended the earlier one that it may have ended; if not, both hold."""

    ended: bool


class RedactArguments(Arguments, frozen=True, kw_only=True):
    """What to erase: one event, several, or a whole session."""

    event_id: str | None = None
    event_ids: list[str] | None = None
    session_id: str | None = None
    replacement: Replacement = "placeholder"


class ForgetArguments(Arguments, frozen=True, kw_only=True):
    """Whom to forget. Nothing is erased unless ``preview`` is false."""

    user: str
    preview: bool = True


class TracesArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Spans as OTLP sends them, in JSON or protobuf; gzip is read, too."""

    resourceSpans: list[dict[str, Any]]  # noqa: N815  (the name in OTLP)


class TracesAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What OTLP calls an ExportTraceServiceResponse: empty if all spans were recorded."""

    partialSuccess: dict[str, Any] | None = None  # noqa: N815  (the name in OTLP)


class SpanArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of a request, whatever its format."""

    spans: list[OtelSpan]

    def scopes(self) -> Iterable[str]:
        """Return the scopes that the senders of the spans name."""
        return (name for span in self.spans if (name := _stated_scope(span)) is not None)


def take_traces(request: Request) -> TracesAnswer:
    """Record GenAI spans of OpenTelemetry as sessions, runs and tool calls."""
    from treering.capture.otel_intake import take_spans  # noqa: PLC0415  (few servers are asked)

    given: SpanArguments = request.arguments
    by_scope: dict[str, list[OtelSpan]] = {}
    for span in given.spans:
        by_scope.setdefault(_stated_scope(span) or _own_scope(request), []).append(span)
    for scope, spans in by_scope.items():
        take_spans(request.ledger, scope, spans)
    return TracesAnswer()


def _stated_scope(span: OtelSpan) -> str | None:
    scope = span.resource.get(SCOPE_ATTRIBUTE)
    return scope if isinstance(scope, str) and scope else None


def _own_scope(request: Request) -> str:
    """Return the scope of a token that is for one alone. Raise InvalidInput if it is not."""
    if len(request.grant.scopes) == 1:
        return request.grant.scopes[0]
    raise InvalidInput(
        "the spans name no scope",
        hint=f"set OTEL_RESOURCE_ATTRIBUTES={SCOPE_ATTRIBUTE}=acme/app, or use a token for one"
        " scope",
    )


def append(request: Request) -> AppendAnswer:
    """Record events, all or none, in one commit."""
    asked: AppendArguments = request.arguments
    headers, new = request.ledger.importing.append(asked.events, expected_seq=asked.expected_seq)
    return AppendAnswer(headers=headers, new=new)


def open_session(request: Request) -> SessionOutline:
    """Record the opening of a session, unless it has a past."""
    options = msgspec.structs.asdict(request.arguments)
    session = request.ledger.session(request.names["session_id"], scope=request.scope, **options)
    session.open()
    return session.outline()


def close_session(request: Request) -> Header:
    """Close a session, and record an episode of what it was about."""
    asked: CloseArguments = request.arguments
    return _acting(request).close(asked.reason, expected_seq=asked.expected_seq)


def fork_session(request: Request) -> SessionOutline:
    """Make a session that shares the past of another, up to the end of a turn."""
    asked: ForkArguments = request.arguments
    fork = _acting(request).fork(**msgspec.structs.asdict(asked))
    return fork.outline()


def undo(request: Request) -> Header:
    """Hide the last turns of a session from history and context."""
    return _acting(request).undo(turns=request.arguments.turns)


def redo(request: Request) -> Header:
    """Show again what was undone last."""
    return _acting(request).redo()


def rename(request: Request) -> Header:
    """Give a session a title."""
    return _acting(request).rename(request.arguments.title)


def learn(request: Request) -> list[LearnResult]:
    """Check facts and remember those that pass."""
    return request.ledger.memory(request.scope).learn_all(request.arguments.facts)


def accept(request: Request) -> Fact:
    """Accept a quarantined, refused or archived fact."""
    return request.ledger.memory(request.scope).accept(request.names["fact_id"])


def reject(request: Request) -> Fact:
    """Never recall a fact again."""
    reason = request.arguments.reason
    return request.ledger.memory(request.scope).reject(request.names["fact_id"], reason=reason)


def settle(request: Request) -> Fact:
    """Decide whether a fact ended an earlier one, and return that one."""
    memory = request.ledger.memory(request.scope)
    return memory.settle(request.names["fact_id"], ended=request.arguments.ended)


def redact(request: Request) -> RedactReceipt:
    """Erase the content of one event, several or one session, physically."""
    asked: RedactArguments = request.arguments
    return request.ledger.redact(request.scope, **msgspec.structs.asdict(asked))


def forget(request: Request) -> ForgetReceipt:
    """Return what erasing a person would erase; with ``preview`` false, erase it."""
    asked: ForgetArguments = request.arguments
    return request.ledger.forget(request.scope, user=asked.user, dry_run=asked.preview)


def _acting(request: Request) -> Session:
    """Return the session of the path, as the agent that the request names, or its own."""
    given: Any = request.arguments
    session = session_of(request)
    outline = session.outline()
    agent = given.agent or outline.agent or AGENT
    return request.ledger.session(
        session.session_id, scope=request.scope, agent=agent, user=outline.user
    )
