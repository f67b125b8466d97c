"""The table of all routes. Routing, rights, the OpenAPI document and a test come from it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from treering.context.assemble import Context
from treering.ledger.families import Family
from treering.ledger.records import EventLocation
from treering.ledger.runs import RunOutline, RunView
from treering.ledger.scopes import ScopeOutline
from treering.memory.recall_result import RecallResult
from treering.model.episodes import Episode
from treering.model.events import Event, Header
from treering.model.memories import Fact, FactChange, LearnResult
from treering.model.queries import Page
from treering.model.receipts import ForgetReceipt, RedactReceipt, Verification
from treering.model.searches import SearchResult
from treering.model.sessions import SessionOutline
from treering.model.tool_records import ToolRecord, ToolStatistics
from treering.model.views import Goal, TurnView
from treering.surfaces.server import live, reading, writing
from treering.surfaces.server.application import LoginArguments
from treering.surfaces.server.routes import Request, Route
from treering.surfaces.shared.statistics import Statistics

_SCOPE: Final = "/scopes/{scope}"
_SESSION: Final = "/scopes/{scope}/sessions/{session_id}"
_FACT: Final = "/scopes/{scope}/facts/{fact_id}"

_get = partial(Route, method="GET", right="read")
_post = partial(Route, method="POST", right="write")
_erase = partial(Route, method="POST", right="erase")


def login(_: Request) -> dict[str, Any]:
    """Exchange a token for a cookie, for pages of the server."""
    raise NotImplementedError  # The application answers: only it sets cookies.


def openapi(_: Request) -> dict[str, Any]:
    """Return this description of the routes."""
    raise NotImplementedError  # The application answers: only it knows the table.


def stream(_: Request) -> str:
    """Return events as they are recorded, as server-sent events: the id of each is a cursor."""
    raise NotImplementedError  # The application answers: a stream is not a single answer.


ROUTES: Final = (
    Route(method="GET", path="/health", right=None, answer=reading.health, result=reading.Health),
    Route(
        method="GET", path="/openapi.json", right=None, answer=openapi,
        result=dict[str, Any], serving="openapi",
    ),
    Route(
        method="POST", path="/login", right=None, answer=login, result=dict[str, Any],
        arguments=LoginArguments, serving="login",
    ),
    _get(path="/whoami", answer=reading.whoami, result=reading.WhoAmI),
    _get(
        path="/scopes", answer=reading.scopes, result=Page[ScopeOutline],
        arguments=reading.PageArguments,
    ),
    _get(
        path="/sessions", answer=reading.all_sessions, result=Page[SessionOutline],
        arguments=reading.AllSessionsArguments, scopes=lambda asked: asked.scopes,
    ),
    _get(
        path="/search", answer=reading.search_all, result=SearchResult,
        arguments=reading.SearchAllArguments, scopes=lambda asked: asked.scopes,
    ),
    _get(path="/verify", answer=reading.verify_all, result=Verification),
    _get(
        path="/stream", answer=stream, result=str, arguments=live.StreamAllArguments,
        scopes=lambda asked: asked.scopes, serving="stream",
    ),
    # One scope.
    _get(
        path=f"{_SCOPE}/sessions", answer=reading.sessions, result=Page[SessionOutline],
        arguments=reading.SessionsArguments,
    ),
    _get(
        path=f"{_SCOPE}/headers", answer=reading.headers, result=Page[Header],
        arguments=reading.EventsArguments,
    ),
    _get(
        path=f"{_SCOPE}/events", answer=reading.events, result=Page[Event],
        arguments=reading.EventsArguments,
    ),
    _get(path=f"{_SCOPE}/events/{{event_id}}", answer=reading.event, result=Event),
    Route(
        method="POST", path=f"{_SCOPE}/find-ids", right="read", answer=reading.find_ids,
        result=dict[str, EventLocation], arguments=reading.IdsArguments,
    ),
    _get(
        path=f"{_SCOPE}/stream", answer=stream, result=str, arguments=live.StreamArguments,
        serving="stream",
    ),
    _get(path=f"{_SCOPE}/end", answer=reading.end_cursor, result=reading.Cursor),
    _get(
        path=f"{_SCOPE}/runs", answer=reading.runs, result=Page[RunOutline],
        arguments=reading.RunsArguments,
    ),
    _get(
        path=f"{_SCOPE}/runs/{{run_id}}", answer=reading.run, result=RunView,
        arguments=reading.RunArguments,
    ),
    _get(
        path=f"{_SCOPE}/tool-calls", answer=reading.tool_calls, result=Page[ToolRecord],
        arguments=reading.CallsArguments,
    ),
    _get(
        path=f"{_SCOPE}/tool-statistics", answer=reading.tool_statistics,
        result=list[ToolStatistics], arguments=reading.CallStatisticsArguments,
    ),
    _get(
        path=f"{_SCOPE}/statistics", answer=reading.statistics, result=Statistics,
        arguments=reading.StatisticsArguments,
    ),
    _get(
        path=f"{_SCOPE}/search", answer=reading.search, result=SearchResult,
        arguments=reading.SearchArguments,
    ),
    _get(
        path=f"{_SCOPE}/file-history", answer=reading.file_history, result=reading.Touches,
        arguments=reading.FileArguments,
    ),
    _get(
        path=f"{_SCOPE}/verify", answer=reading.verify, result=Verification,
        arguments=reading.VerifyArguments,
    ),
    _get(
        path=f"{_SCOPE}/receipts", answer=reading.receipts, result=Page[Header],
        arguments=reading.PageArguments,
    ),
    # One session.
    _get(path=_SESSION, answer=reading.session, result=reading.SessionViews),
    _get(path=f"{_SESSION}/family", answer=reading.family, result=Family),
    _get(
        path=f"{_SESSION}/replay", answer=reading.replay, result=Page[Event],
        arguments=reading.ReplayArguments,
    ),
    _get(
        path=f"{_SESSION}/timeline", answer=reading.timeline, result=list[Event],
        arguments=reading.TimelineArguments,
    ),
    _get(
        path=f"{_SESSION}/turns", answer=reading.turns, result=list[TurnView],
        arguments=reading.LastArguments,
    ),
    _get(
        path=f"{_SESSION}/tool-calls", answer=reading.session_calls, result=list[ToolRecord],
        arguments=reading.LastArguments,
    ),
    _get(
        path=f"{_SESSION}/messages", answer=reading.messages, result=list[dict[str, Any]],
        arguments=reading.LastArguments,
    ),
    _get(path=f"{_SESSION}/goals", answer=reading.goals, result=list[Goal]),
    _get(
        path=f"{_SESSION}/context", answer=reading.context, result=Context,
        arguments=reading.ContextArguments,
    ),
    # The memory.
    _get(
        path=f"{_SCOPE}/facts", answer=reading.facts, result=Page[Fact],
        arguments=reading.FactsArguments,
    ),
    _get(path=_FACT, answer=reading.fact, result=Fact),
    _get(path=f"{_FACT}/history", answer=reading.fact_history, result=list[FactChange]),
    _get(
        path=f"{_SCOPE}/episodes", answer=reading.episodes, result=Page[Episode],
        arguments=reading.EpisodesArguments,
    ),
    _get(
        path=f"{_SCOPE}/recall", answer=reading.recall, result=RecallResult,
        arguments=reading.RecallArguments,
    ),
    _post(
        path=f"{_SCOPE}/recall", answer=reading.recall_for_use, result=RecallResult,
        arguments=reading.RecallForUseArguments,
    ),
    # Writing.
    _post(
        path="/events", answer=writing.append, result=writing.AppendAnswer,
        arguments=writing.AppendArguments, scopes=writing.AppendArguments.scopes,
    ),
    _post(
        path="/otlp/v1/traces", answer=writing.take_traces, result=writing.TracesAnswer,
        arguments=writing.TracesArguments, scopes=writing.SpanArguments.scopes, serving="otlp",
    ),
    _post(
        path=f"{_SESSION}/open", answer=writing.open_session, result=SessionOutline,
        arguments=writing.OpenArguments,
    ),
    _post(
        path=f"{_SESSION}/close", answer=writing.close_session, result=Header,
        arguments=writing.CloseArguments,
    ),
    _post(
        path=f"{_SESSION}/fork", answer=writing.fork_session, result=SessionOutline,
        arguments=writing.ForkArguments,
    ),
    _post(
        path=f"{_SESSION}/undo", answer=writing.undo, result=Header,
        arguments=writing.UndoArguments,
    ),
    _post(
        path=f"{_SESSION}/redo", answer=writing.redo, result=Header,
        arguments=writing.RedoArguments,
    ),
    _post(
        path=f"{_SESSION}/title", answer=writing.rename, result=Header,
        arguments=writing.TitleArguments,
    ),
    _post(
        path=f"{_SCOPE}/facts", answer=writing.learn, result=list[LearnResult],
        arguments=writing.LearnArguments,
    ),
    _post(path=f"{_FACT}/accept", answer=writing.accept, result=Fact),
    _post(
        path=f"{_FACT}/reject", answer=writing.reject, result=Fact,
        arguments=writing.RejectArguments,
    ),
    # Erasing.
    _erase(
        path=f"{_SCOPE}/redact", answer=writing.redact, result=RedactReceipt,
        arguments=writing.RedactArguments,
    ),
    _erase(
        path=f"{_SCOPE}/forget", answer=writing.forget, result=ForgetReceipt,
        arguments=writing.ForgetArguments,
    ),
)  # fmt: skip
"""Every route of the server, after ``/v1``."""
