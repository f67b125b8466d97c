"""A ledger on a server and the memory of its scopes, with the calls of a local one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from treering.client.connection import RemoteFollower, Resource, asked, refuse_others
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
from treering.model.events import Event, Header, NewEvent
from treering.model.fields import check_events, check_id, check_list, check_name
from treering.model.memories import DoubtfulChange, Episode, Fact, FactChange, LearnResult, NewFact
from treering.model.queries import Page
from treering.model.receipts import ForgetReceipt, RedactReceipt, Verification
from treering.model.scopes import Scope, parse_scope
from treering.model.searches import SearchResult
from treering.model.sessions import Mode, SessionOptions, SessionOutline
from treering.model.tools import ToolRecord, ToolStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from treering.client.connection import ServerConnection
    from treering.ledger.erasure import Replacement
    from treering.ledger.following import Follower
    from treering.ledger.sessions import Session


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
        self._resource = Resource(connection)
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

    scopes = asked(Ledger.scopes, Page[ScopeOutline], "scopes")
    family = asked(Ledger.family, Family, "scopes/{scope}/sessions/{session_id}/family")
    headers = asked(Ledger.headers, Page[Header], "scopes/{scope}/headers")
    events = asked(Ledger.events, Page[Event], "scopes/{scope}/events")
    event = asked(Ledger.event, Event, "scopes/{scope}/events/{event_id}")
    tool_calls = asked(Ledger.tool_calls, Page[ToolRecord], "scopes/{scope}/tool-calls")
    tool_statistics = asked(
        Ledger.tool_statistics, list[ToolStatistics], "scopes/{scope}/tool-statistics"
    )
    runs = asked(Ledger.runs, Page[RunOutline], "scopes/{scope}/runs")
    run_view = asked(Ledger.run_view, RunView, "scopes/{scope}/runs/{run_id}")

    def sessions(
        self, scope: str | Sequence[str] | None = None, *, all_scopes: bool = False, **filters: Any
    ) -> Page[SessionOutline]:
        """Return the sessions of one or several scopes at a glance, the last written to first."""
        resource, named = self._where(scope, all_scopes=all_scopes)
        return resource.get(Page[SessionOutline], "sessions", **named, **filters)

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

    def run(self, scope: str, run_id: str, *, session_id: str | None = None) -> RunOutline:
        """Return one run at a glance."""
        return self.run_view(scope, run_id, session_id=session_id, events_max=1).run

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
            return self._resource, {}
        if isinstance(scope, str | None):
            return self._of(scope or ""), {}
        scopes = [parse_scope(name) for name in check_list(scope, "scope")]
        return self._resource, {"scopes": scopes}


def _session(session_id: str) -> str:
    return check_name(session_id, "session_id")


@checks_arguments
@refuse_others("learn", also=("users",))
@checks_arguments_of(Memory)
class RemoteMemory(Memory):
    """What is remembered in one scope, asked over HTTP."""

    def __init__(self, connection: ServerConnection, scope: Scope) -> None:
        self.scope = scope
        self._resource = Resource(connection, "scopes", scope)

    accept = asked(Memory.accept, Fact, "facts/{fact_id}/accept", by="POST")
    reject = asked(Memory.reject, Fact, "facts/{fact_id}/reject", by="POST")
    settle = asked(Memory.settle, Fact, "facts/{fact_id}/settle", by="POST")
    doubts = asked(Memory.doubts, list[DoubtfulChange], "doubts")
    fact = asked(Memory.fact, Fact, "facts/{fact_id}")
    history = asked(Memory.history, list[FactChange], "facts/{fact_id}/history")
    facts = asked(Memory.facts, Page[Fact], "facts")
    episodes = asked(Memory.episodes, Page[Episode], "episodes")

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

    def recall(self, query: str | None, **options: Any) -> RecallResult:
        """Return what answers ``query``; its use is recorded if the token may write."""
        record = options.pop("record", True)
        if record or "weights" in options:
            try:
                return self._resource.post(RecallResult, "recall", body={"query": query, **options})
            except (NotPermitted, ReadOnly):
                options.pop("weights", None)  # A read-only ledger can still be asked.
        return self._resource.get(RecallResult, "recall", query=query, **options)
