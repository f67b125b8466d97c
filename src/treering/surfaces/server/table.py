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
from treering.model.events import Event, Header
from treering.model.memories import DoubtfulChange, Episode, Fact, FactChange, LearnResult
from treering.model.queries import Page
from treering.model.receipts import ForgetReceipt, RedactReceipt, Verification
from treering.model.searches import SearchResult
from treering.model.sessions import SessionOutline
from treering.model.tools import ToolRecord, ToolStatistics
from treering.model.views import Goal, TurnView
from treering.surfaces.server import live, reading, writing
from treering.surfaces.server.application import LoginArguments
from treering.surfaces.server.routes import Request, Route
from treering.surfaces.shared.statistics import Statistics

_SCOPE: Final = "/scopes/{scope}"
_SESSION: Final = "/scopes/{scope}/sessions/{session_id}"
_FACT: Final = "/scopes/{scope}/facts/{fact_id}"

_get = partial(Route, "GET", "read")
_post = partial(Route, "POST", "write")
_erase = partial(Route, "POST", "erase")


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
    Route("GET", None, "/health", reading.health, reading.Health),
    Route("GET", None, "/openapi.json", openapi, dict[str, Any], serving="openapi"),
    Route("POST", None, "/login", login, dict[str, Any], LoginArguments, serving="login"),
    _get("/whoami", reading.whoami, reading.WhoAmI),
    _get("/scopes", reading.scopes, Page[ScopeOutline], reading.PageArguments),
    _get(
        "/sessions",
        reading.all_sessions,
        Page[SessionOutline],
        reading.AllSessionsArguments,
        scopes=lambda asked: asked.scopes,
    ),
    _get(
        "/search",
        reading.search_all,
        SearchResult,
        reading.SearchAllArguments,
        scopes=lambda asked: asked.scopes,
    ),
    _get("/verify", reading.verify_all, Verification),
    _get(
        "/stream",
        stream,
        str,
        live.StreamAllArguments,
        scopes=lambda asked: asked.scopes,
        serving="stream",
    ),
    # One scope.
    _get(f"{_SCOPE}/sessions", reading.sessions, Page[SessionOutline], reading.SessionsArguments),
    _get(f"{_SCOPE}/headers", reading.headers, Page[Header], reading.EventsArguments),
    _get(f"{_SCOPE}/events", reading.events, Page[Event], reading.EventsArguments),
    _get(f"{_SCOPE}/events/{{event_id}}", reading.event, Event),
    Route(
        "POST",
        "read",
        f"{_SCOPE}/find-ids",
        reading.find_ids,
        dict[str, EventLocation],
        reading.IdsArguments,
    ),
    _get(f"{_SCOPE}/stream", stream, str, live.StreamArguments, serving="stream"),
    _get(f"{_SCOPE}/end", reading.end_cursor, reading.Cursor),
    _get(f"{_SCOPE}/runs", reading.runs, Page[RunOutline], reading.RunsArguments),
    _get(f"{_SCOPE}/runs/{{run_id}}", reading.run, RunView, reading.RunArguments),
    _get(f"{_SCOPE}/tool-calls", reading.tool_calls, Page[ToolRecord], reading.CallsArguments),
    _get(
        f"{_SCOPE}/tool-statistics",
        reading.tool_statistics,
        list[ToolStatistics],
        reading.CallStatisticsArguments,
    ),
    _get(f"{_SCOPE}/statistics", reading.statistics, Statistics, reading.StatisticsArguments),
    _get(f"{_SCOPE}/search", reading.search, SearchResult, reading.SearchArguments),
    _get(f"{_SCOPE}/file-history", reading.file_history, reading.Touches, reading.FileArguments),
    _get(f"{_SCOPE}/verify", reading.verify, Verification, reading.VerifyArguments),
    _get(f"{_SCOPE}/receipts", reading.receipts, Page[Header], reading.PageArguments),
    # One session.
    _get(_SESSION, reading.session, reading.SessionViews),
    _get(f"{_SESSION}/family", reading.family, Family),
    _get(f"{_SESSION}/replay", reading.replay, Page[Event], reading.ReplayArguments),
    _get(f"{_SESSION}/timeline", reading.timeline, list[Event], reading.TimelineArguments),
    _get(f"{_SESSION}/turns", reading.turns, list[TurnView], reading.LastArguments),
    _get(f"{_SESSION}/tool-calls", reading.session_calls, list[ToolRecord], reading.LastArguments),
    _get(f"{_SESSION}/messages", reading.messages, list[dict[str, Any]], reading.LastArguments),
    _get(f"{_SESSION}/goals", reading.goals, list[Goal]),
    _get(f"{_SESSION}/context", reading.context, Context, reading.ContextArguments),
    # The memory.
    _get(f"{_SCOPE}/facts", reading.facts, Page[Fact], reading.FactsArguments),
    _get(_FACT, reading.fact, Fact),
    _get(f"{_FACT}/history", reading.fact_history, list[FactChange]),
    _get(f"{_SCOPE}/doubts", reading.doubts, list[DoubtfulChange], reading.DoubtsArguments),
    _get(f"{_SCOPE}/episodes", reading.episodes, Page[Episode], reading.EpisodesArguments),
    _get(f"{_SCOPE}/recall", reading.recall, RecallResult, reading.RecallArguments),
    _post(f"{_SCOPE}/recall", reading.recall_for_use, RecallResult, reading.RecallForUseArguments),
    # Writing.
    _post(
        "/events",
        writing.append,
        writing.AppendAnswer,
        writing.AppendArguments,
        scopes=writing.AppendArguments.scopes,
    ),
    _post(
        "/otlp/v1/traces",
        writing.take_traces,
        writing.TracesAnswer,
        writing.TracesArguments,
        scopes=writing.SpanArguments.scopes,
        serving="otlp",
    ),
    _post(f"{_SESSION}/open", writing.open_session, SessionOutline, writing.OpenArguments),
    _post(f"{_SESSION}/close", writing.close_session, Header, writing.CloseArguments),
    _post(f"{_SESSION}/fork", writing.fork_session, SessionOutline, writing.ForkArguments),
    _post(f"{_SESSION}/undo", writing.undo, Header, writing.UndoArguments),
    _post(f"{_SESSION}/redo", writing.redo, Header, writing.RedoArguments),
    _post(f"{_SESSION}/title", writing.rename, Header, writing.TitleArguments),
    _post(f"{_SCOPE}/facts", writing.learn, list[LearnResult], writing.LearnArguments),
    _post(f"{_FACT}/accept", writing.accept, Fact),
    _post(f"{_FACT}/reject", writing.reject, Fact, writing.RejectArguments),
    _post(f"{_FACT}/settle", writing.settle, Fact, writing.SettleArguments),
    # Erasing.
    _erase(f"{_SCOPE}/redact", writing.redact, RedactReceipt, writing.RedactArguments),
    _erase(f"{_SCOPE}/forget", writing.forget, ForgetReceipt, writing.ForgetArguments),
)
"""Every route of the server, after ``/v1``."""
