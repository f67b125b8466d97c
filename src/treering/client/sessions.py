"""Sessions on a server: turns and events are recorded as in a local ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from treering.client.connection import Resource, asked, refuse_others
from treering.context.assemble import Context
from treering.errors import InvalidInput
from treering.ledger.paging import parse_kinds
from treering.ledger.session_settings import check_title, stated
from treering.ledger.sessions import Session
from treering.model.arguments import checks_arguments, checks_arguments_of
from treering.model.events import Event, Header
from treering.model.fields import check_count, check_name
from treering.model.queries import PAGE_ITEMS_MAX
from treering.model.scopes import parse_scope
from treering.model.sessions import Mode, SessionOutline, SessionSettings
from treering.model.tools import ToolRecord
from treering.model.views import Counts, Goal, TurnView, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.client.engine import RemoteEngine
    from treering.ledger.engine import Engine
    from treering.model.parts import SessionClosed

_INHERITED = (
    "append", "boundary", "checkpoint", "is_addressed", "isolation", "key", "new_event", "permits",
    "record", "rename", "template", "turn", "turn_wait_s",
)  # fmt: skip
"""What a session does with the engine and its own settings."""


class SessionAnswer(msgspec.Struct, frozen=True):
    """What a server says about one session."""

    outline: SessionOutline
    counts: Counts
    usage: Usage


@checks_arguments
@refuse_others(*_INHERITED)
@checks_arguments_of(Session)
class RemoteSession(Session):
    """A handle on one timeline on a server. Making one sends nothing."""

    def __init__(
        self,
        engine: RemoteEngine,
        session_id: str,
        settings: SessionSettings,
        *,
        scope: str,
        agent: str,
        user: str | None = None,
        mode: Mode | None = None,
    ) -> None:
        self.scope = parse_scope(scope)
        self.session_id = check_name(session_id, "session_id")
        self.agent = check_name(agent, "agent")
        self.user = check_name(user, "user") if user is not None else None
        self._given = settings
        self._mode = mode
        self._settings = None
        self._engine = cast("Engine", engine)
        self._resource = Resource(
            engine.connection, "scopes", self.scope, "sessions", self.session_id
        )

    @property
    def settings(self) -> SessionSettings:
        """Return what this handle was given."""
        return self._given

    def open(self, *, ts_ms: int | None = None) -> None:
        """Record the opening, unless the session has a past."""
        if self._settings is not None:
            return
        if ts_ms is not None:
            raise InvalidInput("ts_ms cannot be given over HTTP", hint="leave it out")
        options = {
            name: value
            for name, value in msgspec.structs.asdict(self._given).items()
            if name != "mode"
        }
        body = {"agent": self.agent, "user": self.user, "mode": self._mode, **options}
        self._resource.post(SessionOutline, "open", body=body, is_repeatable=True)
        self._settings = self._given

    def close(
        self, reason: str | SessionClosed = "closed", *, expected_seq: int | None = None
    ) -> Header:
        """Close the session, and record an episode of what it was about."""
        self.open()
        text = reason if isinstance(reason, str) else reason.reason
        body = {"reason": text, "agent": self.agent, "expected_seq": expected_seq}
        return self._resource.post(Header, "close", body=body)

    def fork(
        self,
        session_id: str | None = None,
        *,
        at: str | None = None,
        agent: str | None = None,
        title: str | None = None,
        whole_turn: bool = True,
        ts_ms: int | None = None,
    ) -> Session:
        """Return a new session that shares this one's past, up to the end of a turn."""
        own = None if title is None else check_title(title)
        body = {
            "session_id": session_id,
            "at": at,
            "agent": agent or self.agent,
            "title": own,
            "whole_turn": whole_turn,
            "ts_ms": ts_ms,
        }
        made = self._resource.post(SessionOutline, "fork", body=body)
        return RemoteSession(
            cast("RemoteEngine", self._engine),
            made.session_id,
            stated(title=own),
            scope=self.scope,
            agent=agent or self.agent,
            user=self.user,
        )

    def undo(self, *, turns: int = 1) -> Header:
        """Hide the last turns from history, context and goals."""
        return self._resource.post(Header, "undo", body={"turns": turns, "agent": self.agent})

    def redo(self) -> Header:
        """Show again what was undone last."""
        return self._resource.post(Header, "redo", body={"agent": self.agent})

    # Reading.

    goals = asked(Session.goals, list[Goal], "goals")
    context = asked(Session.context, Context, "context")

    def headers(self, **filters: Any) -> Iterator[Header]:
        """Return headers in order: all, the first or the last."""
        return self._timeline(Header, **filters)

    def events(self, **filters: Any) -> Iterator[Event]:
        """Return the same as ``headers``, with payloads."""
        return self._timeline(Event, **filters)

    def history(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """Return the end of the conversation as messages that a model takes."""
        return self._resource.get(list[dict[str, Any]], "messages", last=_last(last))

    def turns(self, *, last: int | None = None) -> Iterator[TurnView]:
        """Return its last turns in order."""
        return iter(self._resource.get(list[TurnView], "turns", last=_last(last)))

    def tool_calls(self, *, last: int | None = None) -> Iterator[ToolRecord]:
        """Return its last tool calls in order."""
        return iter(self._resource.get(list[ToolRecord], "tool-calls", last=_last(last)))

    def summary(self) -> Counts:
        """Return how many events of each sort it holds."""
        return self._glance().counts

    def outline(self) -> SessionOutline:
        """Return an outline of the session."""
        return self._glance().outline

    def usage(self) -> Usage:
        """Return the tokens that it used, by model, and their cost."""
        return self._glance().usage

    def compact_if_needed(self, max_tokens: int) -> None:
        """Do nothing: a run assembles no context over HTTP."""

    def _glance(self) -> SessionAnswer:
        return self._resource.get(SessionAnswer)

    def _timeline(
        self,
        kind: Any,
        *,
        kinds: str | Sequence[str] = (),
        turn_id: str | None = None,
        first: int | None = None,
        last: int | None = None,
        after_seq: int = 0,
    ) -> Iterator[Any]:
        if turn_id is not None:
            check_name(turn_id, "turn_id")
        query = {"kinds": parse_kinds(kinds), "turn_id": turn_id, "payloads": kind is Event}
        if first is not None and last is not None:
            raise InvalidInput("ask for the first or the last events, not both", hint="drop one")
        if last is not None:
            count = check_count(last, "last")
            every = list(self._pages(kind, None, after_seq, query))
            return iter(every[len(every) - min(count, len(every)) :])
        return self._pages(kind, None if first is None else check_count(first, "first"),
                           after_seq, query)  # fmt: skip

    def _pages(
        self, kind: Any, left: int | None, after_seq: int, query: dict[str, Any]
    ) -> Iterator[Any]:
        while left is None or left > 0:
            limit = PAGE_ITEMS_MAX if left is None else min(left, PAGE_ITEMS_MAX)
            items = self._resource.get(
                list[kind], "timeline", limit=limit, after_seq=after_seq, **query
            )
            yield from items
            if len(items) < limit:
                return
            after_seq = items[-1].seq
            left = None if left is None else left - len(items)


def _last(count: int | None) -> int:
    return PAGE_ITEMS_MAX if count is None else min(check_count(count, "last"), PAGE_ITEMS_MAX)
