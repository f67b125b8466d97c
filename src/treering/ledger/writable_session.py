"""Handles: sessions as they are held, with what each was opened as and what is added to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.errors import Conflict, InvalidInput, RunActive
from treering.ledger.inbox import Inbox
from treering.ledger.readable_session import ReadableSession
from treering.ledger.session_settings import agree, opening, stated
from treering.model.events import NewEvent
from treering.model.fields import check_events, check_id, check_list, check_name, check_text
from treering.model.scopes import parse_scope
from treering.model.sessions import PATIENCE_S, mentions
from treering.spine.run_entries import Author
from treering.spine.spine import Spine
from treering.spine.words import new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.journal import LedgerJournal
    from treering.ledger.people import ChannelPerson
    from treering.ledger.ports import EventStore
    from treering.model.events import Header
    from treering.model.runs import OpenRun
    from treering.model.sessions import Isolation, Mode, SessionSettings
    from treering.spine.engine import Engine
    from treering.spine.run_entries import RunEntry


class WritableSession(ReadableSession):
    """A session that events can be added to. Making one writes nothing."""

    def __init__(
        self,
        engine: Engine,
        journal: LedgerJournal,
        store: EventStore,
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
        super().__init__(engine, store, parse_scope(scope), check_name(session_id, "session_id"))
        self._spine = Spine(engine)
        self._journal = journal
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
        self._inbox = Inbox(store, self.scope, self.session_id)

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, scope={self.scope!r}, agent={self.agent!r})"

    # What it was opened as.

    @property
    def settings(self) -> SessionSettings:
        """Return what the session is, as it was opened; what this handle was given goes before."""
        if self._settings is not None:
            return self._settings
        recorded = self._journal.settings(self.scope, self.session_id)
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
        if event.user_id != self.user:
            event = msgspec.structs.replace(event, user_id=self.user)
        return self._engine.append([event])[0]

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
        recorded = self._journal.settings(self.scope, self.session_id)
        self._identify()
        if recorded is None:
            try:
                event = opening(self, self._given, ts_ms=ts_ms)
                self._engine.append([event], expected_seq=0)
                if self._person is not None and self.user is not None:
                    self.user = self._person.settle(self.user)
            except Conflict:
                # Another handle was faster, and has recorded it.
                recorded = self._journal.settings(self.scope, self.session_id)
                self._identify()
        self._settings = self._agree(recorded or self._given)

    def _identify(self) -> None:
        """See again who this is with: others may have met them since the handle was made."""
        if self._person is not None:
            self.user = self._person.user()
            self._given = msgspec.structs.replace(self._given, participants=(self.user,))

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

    def _append(
        self, entries: Sequence[RunEntry], *, expected_seq: int | None = None
    ) -> list[Header]:
        """Record ``entries`` outside of any run, all or none."""
        self.open()
        author = self._author()
        events = [author.event(entry, None) for entry in entries]
        return self._engine.append(events, expected_seq=expected_seq)

    def _append_behind(self, entries: Sequence[RunEntry], seq: int) -> list[Header]:
        return self._append(entries, expected_seq=seq)

    def _append_run(self, entries: Sequence[RunEntry], *, expected_seq: int) -> list[Header]:
        """Record ``entries`` as a whole run, from its start to its end, all or none."""
        self.open()
        author = self._author(new_id())
        events = [author.event(entry, at) for at, entry in enumerate(entries, start=1)]
        return self._engine.append(events, expected_seq=expected_seq)

    def _author(self, run_id: str = "") -> Author:
        return Author(
            scope=self.scope, session_id=self.session_id, agent_id=self.agent, user_id=self.user,
            run_id=run_id, turn_id=None,
        )  # fmt: skip

    def _redact(self, event_id: str) -> None:
        self._journal.redact(self.scope, event_id)

    def _note(self, kind: str, payload: Any = None, *, summary: str | None = None) -> Header:
        return self.record(kind, summary or kind.replace(".", " "), payload=payload)

    def _agree(self, recorded: SessionSettings) -> SessionSettings:
        return agree(self._given, recorded, mode=self._mode, session_id=self.session_id)
