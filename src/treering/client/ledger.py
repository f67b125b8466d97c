"""A ledger on a server and the memory of its scopes, with the calls of a local one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from treering.client.connection import RemoteFollower, Resource, refuse_others
from treering.client.engine import RemoteEngine
from treering.client.sessions import RemoteSession
from treering.errors import DuplicateEvent, NotPermitted, ReadOnly, Unsupported
from treering.ledger.admin import LedgerAdmin
from treering.ledger.families import Family
from treering.ledger.ledger import Ledger
from treering.ledger.records import EventLocation
from treering.ledger.runs import RunOutline, RunView
from treering.ledger.scopes import ScopeOutline, check_all_scopes
from treering.ledger.session_settings import stated
from treering.memory.memory import Memory
from treering.memory.recall_result import RecallResult
from treering.model.arguments import checks_arguments, checks_arguments_of
from treering.model.events import Event, Header
from treering.model.fields import check_events, check_id, check_list, check_name
from treering.model.memories import DoubtfulChange, Episode, Fact, FactChange, LearnResult, NewFact
from treering.model.queries import VIEW_ITEMS_DEFAULT, Page
from treering.model.receipts import ForgetReceipt, RedactReceipt, Verification
from treering.model.scopes import parse_scope
from treering.model.searches import SearchResult
from treering.model.sessions import SessionOutline
from treering.model.tools import ToolRecord, ToolStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from treering.client.connection import ServerConnection
    from treering.ledger.erasure import Replacement
    from treering.ledger.following import Follower
    from treering.ledger.sessions import Session
    from treering.model.events import NewEvent
    from treering.model.scopes import Scope
    from treering.model.sessions import Mode, SessionOptions


@checks_arguments
@refuse_others()
@checks_arguments_of(LedgerAdmin)
class RemoteAdmin(LedgerAdmin):
    """What can be asked about a ledger as a whole: its proof."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def verify(
        self, scope: str | None = None, *, session_id: str | None = None, **others: Any
    ) -> Verification:
        """Prove one session, one scope or, with no argument, the whole ledger."""
        others.pop("progress", None)
        if any(others.values()):
            raise Unsupported(
                f"{', '.join(others)} cannot be used over HTTP", hint="verify where the ledger is"
            )
        names = () if scope is None else ("scopes", parse_scope(scope))
        resource = Resource(self._connection, *names)
        return resource.get(Verification, "verify", session_id=session_id)


@checks_arguments
@refuse_others(also=("importing",))
@checks_arguments_of(Ledger, but=("append", "append_new"))
class RemoteLedger(Ledger):
    """A ledger on a server. Safe to share between threads. Made by ``treering.open``."""

    def __init__(self, connection: ServerConnection, clock: Callable[[], int]) -> None:
        self._connection = connection
        self._remote = RemoteEngine(connection, clock)

    @property
    def admin(self) -> LedgerAdmin:
        """Return what proves a scope."""
        return RemoteAdmin(self._connection)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    # Writing.

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record all of ``events`` durably and in order, or none of them.

        If the connection breaks, they are sent again until the server answers: their ids keep
        them from being recorded twice.
        """
        listed = check_events(events)
        return self._remote.append(listed, expected_seq=expected_seq) if listed else []

    def append_new(self, event: NewEvent) -> Header:
        """Record one event whose id must be new. Raise DuplicateEvent if it exists."""
        new = self._remote.append_missing(check_events([event]))
        if not new:
            raise DuplicateEvent(
                f"event_id already exists: {event.event_id}",
                hint="give another id, or leave it out to have one made",
            )
        return new[0]

    def session(
        self,
        session_id: str,
        *,
        scope: str,
        agent: str,
        user: str | None = None,
        mode: Mode | None = None,
        **settings: Unpack[SessionOptions],
    ) -> Session:
        """Return a handle on a session; it is recorded with its first event."""
        given = stated(mode=mode, **settings)
        return RemoteSession(
            self._remote, session_id, given, scope=scope, agent=agent, user=user, mode=mode
        )

    def memory(self, scope: str) -> Memory:
        """Return the memory of a scope: its facts and episodes."""
        return RemoteMemory(self._connection, parse_scope(scope))

    # Reading.

    def scopes(self, **options: Any) -> Page[ScopeOutline]:
        """Return a page of the scopes that the token covers."""
        return Resource(self._connection).get(Page[ScopeOutline], "scopes", **options)

    def sessions(
        self,
        scope: str | Sequence[str] | None = None,
        *,
        all_scopes: bool = False,
        **filters: Any,
    ) -> Page[SessionOutline]:
        """Return the sessions of one or several scopes at a glance, the last written to first."""
        resource, named = self._where(scope, all_scopes=all_scopes)
        listed = _listed(filters, "state")
        return resource.get(Page[SessionOutline], "sessions", **named, **listed)

    def family(self, scope: str, session_id: str) -> Family:
        """Return all sessions that were forked from one another, as a tree."""
        return self._of(scope).get(Family, "sessions", _session(session_id), "family")

    def headers(self, scope: str, **filters: Any) -> Page[Header]:
        """Return a page of the headers of a scope by time."""
        return self._of(scope).get(Page[Header], "headers", **filters)

    def events(self, scope: str, **filters: Any) -> Page[Event]:
        """Return the same as ``headers``, with payloads."""
        return self._of(scope).get(Page[Event], "events", **filters)

    def replay(
        self, scope: str, session_id: str, *, first: int | None = None, after: str | None = None
    ) -> Page[Header]:
        """Return headers of a session in the order in which they were recorded, by seq."""
        names = ["sessions", _session(session_id), "replay"]
        return self._of(scope).get(Page[Header], *names, limit=first, after=after)

    def replay_events(
        self, scope: str, session_id: str, *, first: int | None = None, after: str | None = None
    ) -> Page[Event]:
        """Return the same as ``replay``, with payloads."""
        names = ["sessions", _session(session_id), "replay"]
        return self._of(scope).get(Page[Event], *names, limit=first, after=after, payloads=True)

    def event(self, scope: str, event_id: str) -> Event:
        """Return one event with its payload."""
        return self._of(scope).get(Event, "events", check_id(event_id))

    def find_ids(self, scope: str, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return session, seq and time of the events with these ids; unknown ids are left out."""
        ids = [check_id(event_id) for event_id in check_list(event_ids, "event_ids")]
        locations: dict[str, EventLocation] = {}
        for begin in range(0, len(ids), 1_000):
            body = {"event_ids": ids[begin : begin + 1_000]}
            locations |= self._of(scope).post(
                dict[str, EventLocation], "find-ids", body=body, is_repeatable=True
            )
        return locations

    def tool_calls(self, scope: str, **filters: Any) -> Page[ToolRecord]:
        """Return one record for each tool call of a scope."""
        filters.pop("progress", None)
        return self._of(scope).get(Page[ToolRecord], "tool-calls", **_listed(filters, "status"))

    def tool_statistics(self, scope: str, **filters: Any) -> list[ToolStatistics]:
        """Return statistics of each tool of a scope: outcomes and durations."""
        filters.pop("progress", None)
        return self._of(scope).get(list[ToolStatistics], "tool-statistics", **filters)

    def search(
        self,
        query: str,
        *,
        scope: str | Sequence[str] | None = None,
        all_scopes: bool = False,
        zone: tzinfo | None = None,
        **options: Any,
    ) -> SearchResult:
        """Find events; the best first, grouped by session."""
        options.pop("progress", None)  # The server indexes.
        resource, named = self._where(scope, all_scopes=all_scopes)
        shown = None if zone is None else str(zone)
        return resource.get(SearchResult, "search", **named, query=query, zone=shown, **options)

    def matches_elsewhere(self, *_: Any, **__: Any) -> int:
        """Return 0: a token says nothing about other scopes."""
        return 0

    def runs(self, scope: str, **filters: Any) -> Page[RunOutline]:
        """Return a page of the runs of a scope at a glance, the newest first."""
        return self._of(scope).get(Page[RunOutline], "runs", **filters)

    def run(self, scope: str, run_id: str, *, session_id: str | None = None) -> RunOutline:
        """Return one run at a glance."""
        return self.run_view(scope, run_id, session_id=session_id, events_max=1).run

    def run_view(
        self,
        scope: str,
        run_id: str,
        *,
        session_id: str | None = None,
        events_max: int = VIEW_ITEMS_DEFAULT,
        progress: Callable[[int], None] | None = None,  # noqa: ARG002  (the server catches up)
    ) -> RunView:
        """Return one run from start to end, without private content."""
        names = ["runs", check_name(run_id, "run_id")]
        return self._of(scope).get(RunView, *names, session_id=session_id, events_max=events_max)

    def follow(self, scope: str, **options: Any) -> Follower[Header]:
        """Return an iterator over the headers that are there and those that come, in order."""
        return RemoteFollower(self._connection, parse_scope(scope), Header, **options)

    def follow_events(self, scope: str, **options: Any) -> Follower[Event]:
        """Return the same as ``follow``, with payloads."""
        return RemoteFollower(self._connection, parse_scope(scope), Event, **options)

    def end_cursor(self, scope: str) -> str:
        """Return a cursor after all events of a scope, to follow only later ones."""
        return self._of(scope).get(dict[str, str], "end")["cursor"]

    # Erasing.

    def redact(
        self,
        scope: str,
        *,
        event_id: str | None = None,
        session_id: str | None = None,
        event_ids: Sequence[str] | None = None,
        replacement: Replacement = "placeholder",
    ) -> RedactReceipt:
        """Erase the content of one event, several or one session, physically."""
        body = {
            "event_id": event_id,
            "session_id": session_id,
            "event_ids": None if event_ids is None else list(event_ids),
            "replacement": replacement,
        }
        # Erasing twice erases once.
        return self._of(scope).post(RedactReceipt, "redact", body=body, is_repeatable=True)

    def forget(
        self,
        scope: str,
        *,
        user: str,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,  # noqa: ARG002  (the server erases)
    ) -> ForgetReceipt:
        """Erase one person from a scope, physically: events about them, and their names."""
        body = {"user": check_name(user, "user"), "preview": dry_run}
        return self._of(scope).post(ForgetReceipt, "forget", body=body, is_repeatable=dry_run)

    def _of(self, scope: str) -> Resource:
        return Resource(self._connection, "scopes", parse_scope(scope))

    def _where(
        self, scope: str | Sequence[str] | None, *, all_scopes: bool
    ) -> tuple[Resource, dict[str, Any]]:
        """Return what answers for one scope, several or all that the token covers; and which."""
        if all_scopes:
            check_all_scopes(scope)
            return Resource(self._connection), {}
        if isinstance(scope, str | None):
            return self._of(scope or ""), {}
        scopes = [parse_scope(name) for name in check_list(scope, "scope")]
        return Resource(self._connection), {"scopes": scopes}


def _session(session_id: str) -> str:
    return check_name(session_id, "session_id")


def _listed(filters: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the filters with one of them as a list, which may be given alone."""
    value = filters.get(name)
    return filters | {name: [value]} if isinstance(value, str) else filters


@checks_arguments
@refuse_others("learn", also=("users",))
@checks_arguments_of(Memory)
class RemoteMemory(Memory):
    """What is remembered in one scope, asked over HTTP."""

    def __init__(self, connection: ServerConnection, scope: Scope) -> None:
        self.scope = scope
        self._resource = Resource(connection, "scopes", scope)

    def learn_all(
        self, facts: Sequence[NewFact], *, progress: Callable[[int], None] | None = None
    ) -> list[LearnResult]:
        """Learn several facts in order."""
        listed = list(check_list(facts, "facts"))
        learnt = (
            self._resource.post(list[LearnResult], "facts", body={"facts": listed})
            if listed
            else []
        )
        if progress is not None:
            progress(len(listed))
        return learnt

    def accept(self, fact_id: str) -> Fact:
        """Accept a quarantined, refused or archived fact."""
        return self._resource.post(Fact, *_fact(fact_id), "accept", body={})

    def reject(self, fact_id: str, *, reason: str | None = None) -> Fact:
        """Never recall a fact again."""
        return self._resource.post(Fact, *_fact(fact_id), "reject", body={"reason": reason})

    def doubts(self, *, user: str | None = None) -> list[DoubtfulChange]:
        """Return the facts that may have ended an earlier one."""
        return self._resource.get(list[DoubtfulChange], "doubts", user=user)

    def settle(self, fact_id: str, *, ended: bool) -> Fact:
        """Decide whether a fact ended the earlier one that it may have ended; return that one."""
        return self._resource.post(Fact, *_fact(fact_id), "settle", body={"ended": ended})

    def recall(self, query: str | None, **options: Any) -> RecallResult:
        """Return what answers ``query``; its use is recorded if the token may write."""
        record = options.pop("record", True)
        if record or "weights" in options:
            try:
                return self._resource.post(RecallResult, "recall", body={"query": query, **options})
            except (NotPermitted, ReadOnly):
                options.pop("weights", None)  # A read-only ledger can still be asked.
        return self._resource.get(RecallResult, "recall", query=query, **options)

    def fact(self, fact_id: str) -> Fact:
        """Return one fact in any state."""
        return self._resource.get(Fact, *_fact(fact_id))

    def history(self, fact_id: str) -> list[FactChange]:
        """Return every change to a fact, in order."""
        return self._resource.get(list[FactChange], *_fact(fact_id), "history")

    def facts(self, **filters: Any) -> Page[Fact]:
        """Return one page of the scope's facts, newest first."""
        if isinstance(filters.get("state"), str):
            filters["state"] = [filters["state"]]
        return self._resource.get(Page[Fact], "facts", **filters)

    def episodes(self, **filters: Any) -> Page[Episode]:
        """Return one page of the scope's episodes, newest first."""
        return self._resource.get(Page[Episode], "episodes", **filters)


def _fact(fact_id: str) -> tuple[str, str]:
    return "facts", check_name(fact_id, "fact_id")
