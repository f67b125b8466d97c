"""Handles: sessions as they are held, with what each was opened as and what is added to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from treering.errors import Conflict, InvalidInput, RunActive
from treering.ledger.inbox import Inbox
from treering.ledger.readable_session import ReadableSession
from treering.ledger.session_settings import agree, opening, read_settings, stated
from treering.model.events import NewEvent
from treering.model.fields import check_events, check_id, check_list, check_name, check_text
from treering.model.scopes import parse_scope
from treering.model.sessions import PATIENCE_S, mentions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.engine import Engine
    from treering.ledger.people import ChannelPerson
    from treering.model.events import Header
    from treering.model.runs import OpenRun
    from treering.model.sessions import Isolation, Mode, SessionSettings


class WritableSession(ReadableSession):
    """A session that events can be added to. Making one writes nothing."""

    def __init__(
        self,
        engine: Engine,
        session_id: str,
        *,
        scope: str,
        agent: str,
        user: str | None,
        channel: str | None,
        mode: Mode | None,
        participants: Sequence[str],
        key: str | None,
        tools: Sequence[str] | None,
        isolation: Isolation | None = None,
        title: str | None = None,
        spawned_by: str | None = None,
        spawned_call: str | None = None,
        person: ChannelPerson | None = None,
    ) -> None:
        super().__init__(engine, parse_scope(scope), check_name(session_id, "session_id"))
        self.agent = check_name(agent, "agent")
        self.user = check_name(user, "user") if user is not None else None
        self._given = stated(
            mode=mode,
            channel=channel,
            participants=participants,
            key=key,
            tools=tools,
            isolation=isolation,
            title=title,
            spawned_by=spawned_by,
            spawned_call=spawned_call,
        )
        self._mode = mode
        self._person = person
        self._settings: SessionSettings | None = None
        self._inbox = Inbox(engine.store, self.scope, self.session_id)

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, scope={self.scope!r}, agent={self.agent!r})"

    # What it was opened as.

    @property
    def settings(self) -> SessionSettings:
        """Return what the session is, as it was opened; what this handle was given goes before."""
        if self._settings is not None:
            return self._settings
        recorded = read_settings(self._store, self.scope, self.session_id)
        return self._given if recorded is None else self._agree(recorded)

    @property
    def key(self) -> str | None:
        """Return the name that another system knows it by."""
        return self.settings.key

    @property
    def patience_s(self) -> float:
        """Return how long a second turn waits for the first when nobody says otherwise."""
        return PATIENCE_S[self.settings.mode]

    def permits(self, tool: str) -> bool:
        """Whether ``tool`` may run in the session."""
        return self.settings.permits(tool)

    @property
    def isolation(self) -> Isolation | None:
        """Return what the agent keeps away from in a group; None in other sessions."""
        return self.settings.walls

    @property
    def memory_refs(self) -> list[str]:
        """Return the ids of the memories that were kept in the session."""
        return [memory.id for memory in self.memories() if memory.state == "kept"]

    def is_addressed(
        self, text: str, *, names: Sequence[str] = (), reply_to: str | None = None
    ) -> bool:
        """Whether the agent is meant: always, but in a group only by a mention or a reply.

        ``names`` are others that the agent goes by; ``reply_to`` is the id of the event that is
        replied to.
        """
        called = [check_text(name, "name") for name in check_list(names, "names")]
        replied = None if reply_to is None else check_id(reply_to)
        said = check_text(text, "text")
        if self.settings.mode != "group" or mentions(said, (self.agent, *called)):
            return True
        answered = None if replied is None else self._store.find(self.scope, replied)
        return (
            answered is not None
            and answered.kind == "conversation.assistant"
            and answered.agent_id == self.agent
            and answered.session_id in {segment.session_id for segment in self._lineage.segments()}
        )

    # Adding to it.

    def record(
        self,
        kind: str,
        summary: str,
        *,
        payload: Any = None,
        refs: Any = None,
        event_id: str | None = None,
        ts_ms: int | None = None,
        run_id: str | None = None,
        run_seq: int | None = None,
        turn_id: str | None = None,
        source: str | None = None,
        origin: str | None = None,
        visibility: str | None = None,
    ) -> Header:
        """Append one event of any kind to the session."""
        event = self.new_event(
            kind,
            summary,
            payload=payload,
            refs=refs,
            event_id=event_id,
            ts_ms=ts_ms,
            run_id=run_id,
            run_seq=run_seq,
            turn_id=turn_id,
            source=source,
            origin=origin,
            visibility=visibility,
        )
        self.open()
        return self._engine.append([self._with_user(event)])[0]

    @property
    def template(self) -> NewEvent:
        """Return what all events of the session have in common."""
        return self.new_event("", "")

    def new_event(self, kind: str, summary: str, **fields: Any) -> NewEvent:
        """Return an event of the session, by its agent and about its user, for ``append``."""
        return NewEvent(
            scope=self.scope,
            session_id=self.session_id,
            kind=kind,
            agent_id=self.agent,
            summary=summary,
            user_id=self.user,
            **fields,
        )

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record many events of the session at once, all or none, as ``ledger.append`` does.

        Raises InvalidInput if one of them is of another session.
        """
        listed = check_events(events)
        for event in listed:
            if event.session_id != self.session_id or parse_scope(event.scope) != self.scope:
                raise InvalidInput(
                    f"an event of session {event.session_id} was given to {self.session_id}",
                    hint="use ledger.append for events of several sessions",
                )
        if not listed:
            return []
        self.open()
        return self._engine.append(listed, expected_seq=expected_seq)

    def open(self, *, ts_ms: int | None = None) -> None:
        """Record the opening, unless the session has a past. Whatever is recorded does it.

        ``ts_ms`` is when it was, of a session that is taken from a log.
        """
        if self._settings is not None:
            return
        recorded = read_settings(self._store, self.scope, self.session_id)
        self._identify()
        if recorded is None:
            try:
                event = opening(self, self._given, ts_ms=ts_ms)
                self._engine.append([event], expected_seq=0)
                if self._person is not None and self.user is not None:
                    self.user = self._person.settle(self.user)
            except Conflict:
                # Another handle was faster, and has recorded it.
                recorded = read_settings(self._store, self.scope, self.session_id)
                self._identify()
        self._settings = self._agree(recorded or self._given)

    def _identify(self) -> None:
        """See again who this is with: others may have met them since the handle was made."""
        if self._person is not None:
            self.user = self._person.user()
            self._given = replace(self._given, participants=(self.user,))

    def _open_runs(self) -> list[OpenRun]:
        return self._store.open_runs(self.scope, self.session_id)

    def _owned_runs(self) -> list[OpenRun]:
        """Return the runs that somebody carries out: one of an imported log may never end."""
        return [run for run in self._open_runs() if run.owner is not None]

    def _check_quiet(self, verb: str) -> None:
        if self._owned_runs():
            raise RunActive(
                f"cannot {verb} session {self.session_id}: a turn is under way",
                hint="end the turn first, or interrupt it",
            )

    def _append(self, events: Sequence[NewEvent], expected_seq: int) -> list[Header]:
        """Record ``events`` of the session right after a seq, all or none. Raises Conflict."""
        self.open()
        placed = [self._with_user(event) for event in events]
        return self._engine.append(placed, expected_seq=expected_seq)

    def _with_user(self, event: NewEvent) -> NewEvent:
        """Return ``event`` about the user: who that is may be known only now."""
        return event if event.user_id == self.user else replace(event, user_id=self.user)

    def _redact(self, event_id: str) -> None:
        self._engine.redact(self.scope, event_id)

    def _note(self, kind: str, payload: Any = None, *, summary: str | None = None) -> Header:
        return self.record(kind, summary or kind.replace(".", " "), payload=payload)

    def _agree(self, recorded: SessionSettings) -> SessionSettings:
        return agree(self._given, recorded, mode=self._mode, session_id=self.session_id)
