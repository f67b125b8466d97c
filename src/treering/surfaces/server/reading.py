"""Handlers that read: headers by default, payloads on request, nothing outside the scope."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from treering.clock import now_ms
from treering.context.dialects import Dialect
from treering.derive.periods import Period
from treering.errors import InvalidInput, NotPermitted
from treering.memory.recall_result import WEIGHTS, RecallResult, Weights
from treering.model.kinds import ERASURE_KINDS
from treering.model.memories import EPISODES_DEFAULT, RECALL_DEFAULT, Category, FactState
from treering.model.queries import (
    PAGE_ITEMS_DEFAULT,
    PAGE_ITEMS_MAX,
    VIEW_ITEMS_DEFAULT,
    Page,
    items_of,
    pack,
)
from treering.model.searches import HITS_DEFAULT, HITS_MAX, SearchResult
from treering.model.sessions import SessionOutline, SessionState
from treering.model.tools import Order, ToolRecord, ToolStatistics
from treering.model.views import Counts, Goal, TurnView, Usage
from treering.surfaces.shared.file_touches import Touch, find_touches
from treering.surfaces.shared.statistics import DAYS, DAYS_MAX, Statistics
from treering.surfaces.shared.statistics import statistics as count_activity
from treering.version import __version__

if TYPE_CHECKING:
    from treering.context.assemble import Context
    from treering.ledger.families import Family
    from treering.ledger.records import EventLocation
    from treering.ledger.runs import RunOutline, RunView
    from treering.ledger.scopes import ScopeOutline
    from treering.ledger.sessions import Session
    from treering.model.events import Event, Header
    from treering.model.memories import DoubtfulChange, Episode, Fact, FactChange
    from treering.model.receipts import Verification
    from treering.surfaces.server.routes import Request

READER: Final = "http"
"""The agent of a session handle that only reads; it is recorded nowhere."""
IDS_MAX: Final = 1_000
_DAY_MS: Final = 86_400_000

Count = Annotated[int, msgspec.Meta(ge=1, le=PAGE_ITEMS_MAX)]
Hits = Annotated[int, msgspec.Meta(ge=1, le=HITS_MAX)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request may say; an unknown field is an error."""


class PageArguments(Arguments, frozen=True, kw_only=True):
    """Which page: its size, and where the page before ended."""

    limit: Count = PAGE_ITEMS_DEFAULT
    after: str | None = None


class SessionsArguments(PageArguments, frozen=True, kw_only=True):
    """Filters of a list of sessions."""

    since_ms: int | None = None
    until_ms: int | None = None
    state: list[SessionState] = []
    subagents: bool = False
    agent: str | None = None
    prefix: str | None = None
    text: str | None = None


class AllSessionsArguments(SessionsArguments, frozen=True, kw_only=True):
    """The same over several scopes; all that the token covers if none is named."""

    scopes: list[str] = []


class EventsArguments(Arguments, frozen=True, kw_only=True):
    """Filters of a list of events: the ``first`` of them or the ``last``."""

    session_id: str | None = None
    kinds: list[str] = []
    turn_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    first: Count | None = None
    last: Count | None = None
    after: str | None = None


class ReplayArguments(PageArguments, frozen=True, kw_only=True):
    """Which page of a session; ``payloads`` adds private content."""

    payloads: bool = False


class TimelineArguments(Arguments, frozen=True, kw_only=True):
    """Which part of a session, with the past that a fork shares."""

    kinds: list[str] = []
    turn_id: str | None = None
    limit: Count = PAGE_ITEMS_DEFAULT
    after_seq: int = 0
    payloads: bool = False


class LastArguments(Arguments, frozen=True, kw_only=True):
    """How many, counted from the end."""

    last: Count = PAGE_ITEMS_DEFAULT


class RunsArguments(PageArguments, frozen=True, kw_only=True):
    """Filters of a list of runs."""

    session_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    failing: bool = False


class RunArguments(Arguments, frozen=True, kw_only=True):
    """How much of a run to show."""

    session_id: str | None = None
    events_max: Count = VIEW_ITEMS_DEFAULT


class CallsArguments(Arguments, frozen=True, kw_only=True):
    """Filters of a list of tool calls."""

    status: list[str] = []
    reason: str | None = None
    order: Order = "time"
    first: Count | None = None
    last: Count | None = None
    after: str | None = None
    session_id: str | None = None
    call_id: str | None = None
    tool: str | None = None
    run_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class CallStatisticsArguments(Arguments, frozen=True, kw_only=True):
    """Which tool calls to count."""

    session_id: str | None = None
    tool: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class StatisticsArguments(Arguments, frozen=True, kw_only=True):
    """The period to count: the last ``days``, or from ``since_ms`` to ``until_ms``."""

    session_id: str | None = None
    days: Annotated[int, msgspec.Meta(ge=1, le=DAYS_MAX)] = DAYS
    since_ms: int | None = None
    until_ms: int | None = None


class SearchArguments(Arguments, frozen=True, kw_only=True):
    """What to search for, as ``ledger.search`` takes it."""

    query: str
    mode: Literal["words", "hybrid", "semantic"] = "words"
    limit: Hits = HITS_DEFAULT
    include_failed: bool = False
    zone: str = "UTC"
    """The time zone of dates in the query."""


class SearchAllArguments(SearchArguments, frozen=True, kw_only=True):
    """The same over several scopes; all that the token covers if none is named."""

    scopes: list[str] = []


class FileArguments(Arguments, frozen=True, kw_only=True):
    """A file: as it was written, or its last parts."""

    path: str
    limit: Count = 20


class ContextArguments(Arguments, frozen=True, kw_only=True):
    """What the context is for."""

    max_tokens: int | None = None
    dialect: Dialect = "openai-chat"
    reserve_output_tokens: int = 0
    system: str = ""
    model: str | None = None


class FactsArguments(PageArguments, frozen=True, kw_only=True):
    """Filters of a list of facts."""

    user: str | None = None
    state: tuple[FactState, ...] = ("current",)
    category: Category | None = None
    as_of_ms: int | None = None
    valid_at_ms: int | None = None


class DoubtsArguments(Arguments, frozen=True, kw_only=True):
    """Whose facts to review."""

    user: str | None = None


class EpisodesArguments(PageArguments, frozen=True, kw_only=True):
    """Filters of a list of episodes."""

    user: str | None = None


class RecallArguments(Arguments, frozen=True, kw_only=True):
    """What to recall, and for whom."""

    query: str | None = None
    user: str | None = None
    session_id: str | None = None
    limit: int = RECALL_DEFAULT
    episodes: int = EPISODES_DEFAULT
    as_of_ms: int | None = None
    include_archived: bool = False


class RecallForUseArguments(RecallArguments, frozen=True, kw_only=True):
    """The same, and how to weigh what decides the order."""

    weights: Weights = WEIGHTS


class VerifyArguments(Arguments, frozen=True, kw_only=True):
    """One session, or the whole scope."""

    session_id: str | None = None


class IdsArguments(Arguments, frozen=True, kw_only=True):
    """Ids of events."""

    event_ids: Annotated[list[str], msgspec.Meta(max_length=IDS_MAX)]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server answers, and what it is."""

    ok: bool
    version: str


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """What the token of the request permits."""

    id: str
    name: str
    rights: tuple[str, ...]
    scopes: tuple[str, ...]
    expires_ms: int | None


class SessionViews(msgspec.Struct, frozen=True, kw_only=True):
    """An overview of one session, with its numbers and its cost."""

    outline: SessionOutline
    counts: Counts
    usage: Usage


class Touches(msgspec.Struct, frozen=True, kw_only=True):
    """Tool calls that named a file, the newest first."""

    items: list[Touch]
    has_more: bool


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Where a follower of the scope begins to see only later events."""

    cursor: str


def health(_: Request) -> Health:
    """Return whether the server answers."""
    return Health(ok=True, version=__version__)


def whoami(request: Request) -> WhoAmI:
    """Return what the token permits."""
    grant = request.grant
    return WhoAmI(
        id=grant.id,
        name=grant.name,
        rights=grant.rights,
        scopes=grant.scopes,
        expires_ms=grant.expires_ms,
    )


def scopes(request: Request) -> Page[ScopeOutline]:
    """Return a page of the scopes that the token covers."""
    limit = request.arguments.limit
    every = items_of(
        lambda after: request.ledger.scopes(limit=PAGE_ITEMS_MAX, after=after),
        after=request.arguments.after,
    )
    covered = (outline for outline in every if request.grant.covers(outline.scope))
    items = list(islice(covered, limit + 1))
    # Not a cursor of the ledger: it would name a scope that the token does not cover.
    cursor = pack((items[limit - 1].scope,)) if len(items) > limit else None
    return Page(items=items[:limit], has_more=cursor is not None, next_cursor=cursor)


def sessions(request: Request) -> Page[SessionOutline]:
    """Return a page of the sessions of a scope, the last written to first."""
    return request.ledger.sessions(request.scope, **_given(request))


def all_sessions(request: Request) -> Page[SessionOutline]:
    """Return a page of the sessions of all scopes that the token covers, or of those named."""
    given = _given(request)
    return request.ledger.sessions(**_several(request, given.pop("scopes")), **given)


def session(request: Request) -> SessionViews:
    """Return an overview of one session, its numbers, and its tokens and cost."""
    handle = session_of(request)
    return SessionViews(outline=handle.outline(), counts=handle.summary(), usage=handle.usage())


def family(request: Request) -> Family:
    """Return all sessions that were forked from one another, as a tree."""
    return request.ledger.family(request.scope, request.names["session_id"])


def headers(request: Request) -> Page[Header]:
    """Return a page of the headers of a scope by time, without payloads."""
    return request.ledger.headers(request.scope, **_given(request))


def events(request: Request) -> Page[Event]:
    """Return a page of the events of a scope by time, with payloads."""
    return request.ledger.events(request.scope, **_given(request))


def event(request: Request) -> Event:
    """Return one event with its payload."""
    return request.ledger.event(request.scope, request.names["event_id"])


def find_ids(request: Request) -> dict[str, EventLocation]:
    """Return session, seq and time of the events with these ids; unknown ids are left out."""
    return request.ledger.find_ids(request.scope, request.arguments.event_ids)


def replay(request: Request) -> Page[Header] | Page[Event]:
    """Return a page of the events of one session, in the order in which they were recorded."""
    arguments = request.arguments
    read = request.ledger.replay_events if arguments.payloads else request.ledger.replay
    session_id = request.names["session_id"]
    return read(request.scope, session_id, first=arguments.limit, after=arguments.after)


def timeline(request: Request) -> list[Header] | list[Event]:
    """Return events of one session by seq, the past that a fork shares included.

    Fewer than ``limit`` are the end; else ask again with ``after_seq``, the last seq.
    """
    asked = request.arguments
    handle = session_of(request)
    read = handle.events if asked.payloads else handle.headers
    filters = {"kinds": asked.kinds, "turn_id": asked.turn_id, "after_seq": asked.after_seq}
    return list(islice(read(**filters), asked.limit))


def turns(request: Request) -> list[TurnView]:
    """Return the last turns of a session, failed and undone ones marked."""
    return list(session_of(request).turns(last=request.arguments.last))


def session_calls(request: Request) -> list[ToolRecord]:
    """Return the last tool calls of a session and of the past that it shares."""
    return list(session_of(request).tool_calls(last=request.arguments.last))


def messages(request: Request) -> list[dict[str, Any]]:
    """Return the end of the conversation of a session as messages that a model takes."""
    return session_of(request).history(last=request.arguments.last)


def goals(request: Request) -> list[Goal]:
    """Return the goals of a session that were set and not removed."""
    return session_of(request).goals()


def context(request: Request) -> Context:
    """Return what a model would be shown next; nothing is recorded."""
    return session_of(request).context(**_given(request))


def runs(request: Request) -> Page[RunOutline]:
    """Return a page of the runs of a scope, the newest first."""
    return request.ledger.runs(request.scope, **_given(request))


def run(request: Request) -> RunView:
    """Return one run from start to end, without private content."""
    return request.ledger.run_view(request.scope, request.names["run_id"], **_given(request))


def tool_calls(request: Request) -> Page[ToolRecord]:
    """Return a page of the tool calls of a scope."""
    given = _given(request)
    given["status"] = given["status"] or None
    return request.ledger.tool_calls(request.scope, **given)


def tool_statistics(request: Request) -> list[ToolStatistics]:
    """Return statistics of each tool of a scope: outcomes and durations."""
    return request.ledger.tool_statistics(request.scope, **_given(request))


def statistics(request: Request) -> Statistics:
    """Return activity, tokens and cost of a scope in a period, compared with the one before."""
    asked = request.arguments
    until_ms = now_ms() if asked.until_ms is None else asked.until_ms
    since_ms = asked.since_ms
    if since_ms is None:
        since_ms = max(until_ms - asked.days * _DAY_MS + 1, 1)
    if since_ms > until_ms:
        raise InvalidInput("the period is empty", hint="swap since_ms and until_ms")
    period = Period(since_ms=since_ms, until_ms=until_ms)
    return count_activity(request.ledger, request.scope, asked.session_id, period)


def search(request: Request) -> SearchResult:
    """Return the events of a scope that a query finds, the best first."""
    return _search(request, scope=request.scope)


def search_all(request: Request) -> SearchResult:
    """Return what a query finds in all scopes that the token covers, or in those named."""
    return _search(request, **_several(request, request.arguments.scopes))


def file_history(request: Request) -> Touches:
    """Return the tool calls that named a file, the newest first, and what the user had asked."""
    path = request.arguments.path.strip()
    if not path.strip("/."):
        raise InvalidInput("not a path", hint="name a file or a folder, as src/a.py")
    items, more = find_touches(request.ledger, request.scope, [path], request.arguments.limit)
    return Touches(items=items, has_more=more)


def facts(request: Request) -> Page[Fact]:
    """Return a page of the facts of a scope, the newest first."""
    return request.ledger.memory(request.scope).facts(**_given(request))


def fact(request: Request) -> Fact:
    """Return one fact in any state."""
    return request.ledger.memory(request.scope).fact(request.names["fact_id"])


def fact_history(request: Request) -> list[FactChange]:
    """Return every change to a fact, in order."""
    return request.ledger.memory(request.scope).history(request.names["fact_id"])


def doubts(request: Request) -> list[DoubtfulChange]:
    """Return the facts that may have ended an earlier one, each with it and why."""
    return request.ledger.memory(request.scope).doubts(user=request.arguments.user)


def episodes(request: Request) -> Page[Episode]:
    """Return a page of the episodes of a scope, the newest first."""
    return request.ledger.memory(request.scope).episodes(**_given(request))


def recall(request: Request) -> RecallResult:
    """Return the facts and episodes that answer a query, the best first; nothing is recorded."""
    given = _given(request)
    return request.ledger.memory(request.scope).recall(given.pop("query"), record=False, **given)


def recall_for_use(request: Request) -> RecallResult:
    """Return the same as a recall that is read; record that the memories were used."""
    given = _given(request)
    return request.ledger.memory(request.scope).recall(given.pop("query"), **given)


def verify(request: Request) -> Verification:
    """Return whether the chain of a scope, or of one session, holds."""
    return request.ledger.admin.verify(request.scope, session_id=request.arguments.session_id)


def verify_all(request: Request) -> Verification:
    """Return whether the chain of the whole ledger holds; for a token that covers all scopes."""
    if request.grant.scopes:
        raise NotPermitted(
            "the token does not cover the whole ledger", hint="verify one scope after another"
        )
    return request.ledger.admin.verify()


def receipts(request: Request) -> Page[Header]:
    """Return a page of the erasures of a scope: what was redacted, expired and forgotten."""
    return request.ledger.headers(
        request.scope,
        kinds=sorted(ERASURE_KINDS),
        last=request.arguments.limit,
        after=request.arguments.after,
    )


def end_cursor(request: Request) -> Cursor:
    """Return a cursor after all events of a scope, to follow only later ones."""
    return Cursor(cursor=request.ledger.end_cursor(request.scope))


def session_of(request: Request, agent: str | None = None) -> Session:
    """Return a handle on the session of the path."""
    return request.ledger.session(
        request.names["session_id"], scope=request.scope, agent=agent or READER
    )


def _search(request: Request, **where: Any) -> SearchResult:
    asked = request.arguments
    try:
        zone = ZoneInfo(asked.zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidInput(
            f"no time zone {asked.zone}", hint="write one as Europe/Berlin"
        ) from error
    return request.ledger.search(
        asked.query,
        **where,
        mode=asked.mode,
        limit=asked.limit,
        include_failed=asked.include_failed,
        zone=zone,
    )


def _several(request: Request, named: list[str]) -> dict[str, Any]:
    """Return which scopes to ask: those named, else those of the token, else all."""
    scope = named or list(request.grant.scopes)
    return {"scope": scope} if scope else {"all_scopes": True}


def _given(request: Request) -> dict[str, Any]:
    """Return the arguments of a call by their names, which are those of the Python API."""
    return msgspec.structs.asdict(request.arguments)
