"""Sessions: durable timelines inside a scope, read in order and written turn by turn."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from msgspec.structs import replace

from treering.context.attachments import with_media
from treering.context.dialects import render
from treering.context.pairing import pair
from treering.errors import Conflict, InvalidInput, NotFound, RunActive, TreeringError
from treering.garbage import collecting_rarely
from treering.ledger.compaction import COMPACTED, KEEP_MESSAGES, as_run, compact
from treering.ledger.contexts import DIALECT_DEFAULT, ContextRequest, Contexts
from treering.ledger.episodes import ASKS_MAX, append_episode, close_with_episode, episode
from treering.ledger.families import fork_name, forked, last_end, seq_of, turn_end_of
from treering.ledger.guarded_append import (
    append_at_head,
    append_text_later,
    read_position,
    redone,
    undone,
)
from treering.ledger.inbox import Inbox
from treering.ledger.lineage import Lineage
from treering.ledger.outlines import Sketch, head_of
from treering.ledger.paging import live_events, parse_kinds, read_pages
from treering.ledger.session_settings import agree, check_title, opening, read_settings
from treering.ledger.tool_calls import lineage_tool_calls
from treering.ledger.turn_bounds import redoable, undoable
from treering.ledger.views import Views
from treering.ledger.windows import read_window
from treering.memory.walls import is_walled
from treering.model.arguments import checks_arguments
from treering.model.codec import canonical
from treering.model.events import Event, EventFields, Header, NewEvent
from treering.model.fields import (
    check_count,
    check_events,
    check_id,
    check_list,
    check_name,
    check_text,
)
from treering.model.kinds import BOUNDARIES, KINDS, Boundary
from treering.model.parts import RunStarted, SessionClosed, SessionHidden
from treering.model.scopes import Scope, parse_scope
from treering.model.sessions import TURN_WAIT_S, mentions
from treering.spine.conversion import plain
from treering.spine.run_events import said
from treering.spine.run_state import RunState, check_wait
from treering.spine.runs import Run
from treering.spine.words import describe, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.context.assemble import Context
    from treering.context.summaries import Summariser
    from treering.ledger.contexts import Contributor, EstimateOptions, Shown
    from treering.ledger.engine import Engine
    from treering.ledger.people import ChannelPerson
    from treering.model.sessions import Isolation, Mode, SessionOutline, SessionSettings
    from treering.model.tools import ToolRecord
    from treering.model.views import Counts, Goal, MemoryRecord, OpenRun, Schedule, TurnView, Usage

_USUAL_REASONS: Final = (None, "closed", "idle", "pruned")
"""Why sessions are closed if nobody says anything else."""


@checks_arguments
class Session:
    """A handle on one timeline. Creating a handle writes nothing."""

    def __init__(
        self,
        engine: Engine,
        session_id: str,
        settings: SessionSettings,
        *,
        scope: str,
        agent: str,
        user: str | None = None,
        mode: Mode | None = None,
        person: ChannelPerson | None = None,
    ) -> None:
        """Take the settings to open the session with; ``mode`` is the one this handle requires."""
        self.scope: Scope = parse_scope(scope)
        self.session_id: str = check_name(session_id, "session_id")
        self.agent: str = check_name(agent, "agent")
        self.user: str | None = check_name(user, "user") if user is not None else None
        self._given = settings
        self._mode = mode
        self._person = person
        self._settings: SessionSettings | None = None
        """The settings it was opened with, once recorded."""
        self._engine = engine
        self._store = store = engine.store
        self._lineage = Lineage(store, self.scope, self.session_id)
        self._views = Views(self._lineage)
        self._contexts = Contexts(self._lineage, lambda: engine.results.policy)
        self._inbox = Inbox(store, self.scope, self.session_id)

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, scope={self.scope!r}, agent={self.agent!r})"

    # What it was opened as.

    @property
    def settings(self) -> SessionSettings:
        """Return the session's settings, as it was opened; those of this handle take precedence."""
        if self._settings is not None:
            return self._settings
        recorded = read_settings(self._store, self.scope, self.session_id)
        return self._given if recorded is None else self._agree(recorded)

    @property
    def key(self) -> str | None:
        """Return the session's name in another system."""
        return self.settings.key

    @property
    def turn_wait_s(self) -> float:
        """Return how long a second turn waits for the first by default."""
        return TURN_WAIT_S[self.settings.mode]

    def permits(self, tool: str) -> bool:
        """Whether ``tool`` may run in the session."""
        return self.settings.permits(tool)

    @property
    def isolation(self) -> Isolation | None:
        """Return what the agent must not access in a group; None in other sessions."""
        return self.settings.walls

    @property
    def memory_refs(self) -> list[str]:
        """Return the ids of the memories recorded in the session."""
        return [memory.id for memory in self.memories() if memory.state == "kept"]

    def is_addressed(
        self, text: str, *, names: Sequence[str] = (), reply_to: str | None = None
    ) -> bool:
        """Whether a message is addressed to the agent; in a group, only by a mention or a reply.

        ``names`` are other names of the agent; ``reply_to`` is the id of the event replied to.
        """
        called = [check_text(name, "name") for name in check_list(names, "names")]
        replied = None if reply_to is None else check_id(reply_to)
        words = check_text(text, "text")
        if self.settings.mode != "group" or mentions(words, (self.agent, *called)):
            return True
        answered = None if replied is None else self._store.reader.find(self.scope, replied)
        return (
            answered is not None
            and answered.kind == "conversation.assistant"
            and answered.agent_id == self.agent
            and answered.session_id in {segment.session_id for segment in self._lineage.segments()}
        )

    # Writing.

    def turn(
        self,
        *,
        entry_point: str | None = None,
        model: str | None = None,
        prompt: str | None = None,
        wait_s: float | None = None,
    ) -> Run:
        """Begin a turn: a context manager that records one run and how it ends.

        A session has one turn at a time. Another one waits for ``wait_s``, then raises RunActive;
        the default depends on the session's mode: a main session does not wait. ``prompt`` is the
        user's message, for gates.
        """
        started = RunStarted(entry_point=entry_point, model=model)
        return Run(RunState(self._engine, self, started, prompt=prompt, wait_s=wait_s))

    @property
    def running(self) -> Run | None:
        """Return the open turn of this process in the session, if any."""
        run_state = self._engine.run_state_in(self.scope, self.session_id)
        run = None if run_state is None else run_state.author
        return run if isinstance(run, Run) else None

    def interrupt(self, why: str = "interrupted by the user") -> Header | None:
        """Abort the open turn, in any process; the next one sees a boundary.

        Return that boundary, or None if there was nothing to interrupt.
        """
        return self._engine.interrupt(self.scope, self.session_id, shorten(plain(why)))

    def post(self, text: str, *, event_id: str | None = None, **content: Any) -> Header:
        """Put a message into the inbox of a queue session; ``content`` is stored with the text.

        Repeating an ``event_id`` adds nothing.
        """
        self._check_queue()
        canonical({"text": check_text(text, "text"), **content}, "message")
        event = said(self.template, "inbox.received", text, content)
        return self.record(
            event.kind, event.summary, payload=event.payload, refs=event.refs, event_id=event_id
        )

    def take(self, *, wait_s: float = 0.0) -> Run | None:
        """Take the next message of a queue session, as a turn that has begun: see ``run.message``.

        Return None if no message arrives within ``wait_s``, or another turn is open that long. The
        message is done when the turn succeeds; otherwise it is delivered again.
        """
        self._check_queue()
        check_wait(wait_s)
        begin = partial(self._engine.take, self)
        return self._inbox.take(begin, self._append, self.template, wait_s=wait_s)

    def record(
        self,
        kind: str,
        summary: str,
        *,
        payload: Any = None,
        refs: Any = None,
        event_id: str | None = None,
        ts_ms: int | None = None,
        **fields: Unpack[EventFields],
    ) -> Header:
        """Append one event of any kind to the session."""
        event = self.new_event(
            kind, summary, payload=payload, refs=refs, event_id=event_id, ts_ms=ts_ms, **fields
        )
        self.open()
        return self._engine.append([self._with_user(event)])[0]

    @property
    def template(self) -> NewEvent:
        """Return the fields that all events of the session share."""
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
        """Record many events of the session, all or none, as ``ledger.append`` does.

        Raises InvalidInput if one belongs to another session.
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
        """Record the opening, unless the session has events.

        Recording anything does this, too. ``ts_ms`` is the time of the opening, for imported
        sessions.
        """
        if self._settings is not None:
            return
        recorded = read_settings(self._store, self.scope, self.session_id)
        self._identify()
        if recorded is None:
            try:
                event = self.new_event(**opening(self.agent, self._given), ts_ms=ts_ms)
                self._engine.append([event], expected_seq=0)
                if self._person is not None and self.user is not None:
                    self.user = self._person.settle(self.user)
            except Conflict:
                # Another handle was faster, and has recorded it.
                recorded = read_settings(self._store, self.scope, self.session_id)
                self._identify()
        self._settings = self._agree(recorded or self._given)

    # Marks.

    def boundary(self, reason: Boundary, title: str, content: str | None = None) -> Header:
        """Record a boundary: the model sees checkpoint, interrupt and overflow, but no others."""
        if reason not in BOUNDARIES:
            raise InvalidInput(
                f"invalid boundary: {reason}", hint=f"use one of {', '.join(BOUNDARIES)}"
            )
        summary = check_title(title)
        payload = {"title": title}
        if content is not None:
            payload["content"] = check_text(content, "content")
        return self.record(f"boundary.{reason}", summary, payload=payload)

    def checkpoint(self, title: str, content: str | None = None) -> Header:
        """Set a checkpoint: from here on a model can continue without earlier messages."""
        return self.boundary("checkpoint", title, content)

    def rename(self, title: str) -> Header:
        """Give the session a title."""
        name = check_title(title)
        return self.record("session.titled", "session titled", payload={"title": name})

    def close(
        self, reason: str | SessionClosed = "closed", *, expected_seq: int | None = None
    ) -> Header:
        """Record that the session is closed, after an episode of what no episode covers yet.

        Both are recorded, or neither. Recording anything later opens it again. Raises RunActive if
        a turn is open, and Conflict if the session is not at ``expected_seq``, if that is given, or
        if others keep writing to it.
        """
        part = (
            reason if isinstance(reason, SessionClosed) else SessionClosed(reason=shorten(reason))
        )
        self.open()
        closing = self.new_event(
            "session.closed",
            f"session closed: {part.reason}",
            refs=part.as_refs(),
            # Words of somebody's own are sealed with the payload where the scope is encrypted.
            payload=None if part.reason in _USUAL_REASONS else {"reason": part.reason},
        )
        header, is_kept = close_with_episode(
            self._lineage,
            lambda: self._episode(self._engine.summariser),
            closing,
            expected_seq=expected_seq,
            append=self._append,
            redact=self._redact,
            check=lambda: self._check_quiet("close"),
        )
        if not is_kept:
            self.write_episode()
        return header

    # Other pasts.

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
        """Return a new session that shares this one's past, up to the end of a turn.

        ``at`` is the id of any event of that turn; by default, of the last one that has ended.
        Without ``whole_turn`` it is the last shared event, as in a log that was copied in the
        middle of a turn; ``ts_ms`` is the time of the fork. Nothing is copied and this session does
        not change; erasing a part of the shared past erases it for both. Raises NotFound if the
        event is not in this session's past.
        """
        seq = self._shared_seq(at, whole_turn=whole_turn)
        segment = self._lineage.segment_of(seq)
        if segment is None:
            raise NotFound(
                f"session {self.session_id} has no past to fork from", hint="record a turn first"
            )
        name = fork_name(self.session_id) if session_id is None else session_id
        own = None if title is None else check_title(title)
        settings = replace(self.settings, title=own, key=None)
        child = Session(
            self._engine,
            name,
            settings,
            scope=self.scope,
            agent=self.agent if agent is None else agent,
            user=self.user,
            mode=settings.mode,
        )
        event = forked(child, settings, parent=self.session_id, seq=seq, at=at, ts_ms=ts_ms)
        was_pruned = self.outline().state == "pruned"
        self._engine.fork(event, parent=segment.session_id, seq=seq)
        # A sweep looks for forks when it has closed a session, and we for such a close: one of us
        # sees the other, whichever was first.
        if not was_pruned and self.outline().state == "pruned":
            raise NotFound(
                f"session {self.session_id} was pruned meanwhile: its past is gone",
                hint="continue from another session",
            )
        return child

    def undo(self, *, turns: int = 1) -> Header:
        """Hide the last turns from history, context and goals; ``redo`` shows them again.

        A run is never split: if it has several turns, it counts as one, and refs state how many
        were hidden. Nothing is deleted: an undo is an event. Raises RunActive if a turn is open.
        """
        return self._turn_back(
            "undo", lambda: undone(self.template, undoable(self._lineage, turns))
        )

    def redo(self) -> Header:
        """Restore what was undone last. Raises NotFound if there is nothing, or a turn followed."""
        return self._turn_back("redo", lambda: redone(self.template, redoable(self._lineage)))

    def hide(self, event_ids: Sequence[str]) -> Header:
        """Hide single events from history, context, goals and ``live_events``.

        Nothing is deleted: hiding is an event. Raise NotFound if one is not in the session.
        """
        listed = [check_id(event_id) for event_id in check_list(event_ids, "event_ids")]
        locations = self._store.reader.find_ids(self.scope, listed)
        seqs = [seq_of(self._lineage, locations.get(event_id)) for event_id in listed]
        if not seqs or None in seqs:
            raise NotFound(
                f"session {self.session_id} does not have all of these events",
                hint="give the ids of events of this session",
            )
        part = SessionHidden(seqs=sorted({seq for seq in seqs if seq is not None}))
        noun = "event" if len(part.seqs) == 1 else "events"
        return self.record("session.hidden", f"{len(part.seqs)} {noun} hidden", refs=part.as_refs())

    # What happened.

    def headers(
        self,
        *,
        kinds: str | Sequence[str] = (),
        turn_id: str | None = None,
        first: int | None = None,
        last: int | None = None,
        after_seq: int = 0,
    ) -> Iterator[Header]:
        """Return headers in order: all, the first or the last.

        ``kinds`` and ``turn_id`` limit it to these kinds, and to one turn. ``after_seq`` starts
        after that seq.
        """
        keep = _filter(kinds, turn_id)
        return read_pages(self._lineage, Header, first, last, keep, after_seq=after_seq)

    def events(
        self,
        *,
        kinds: str | Sequence[str] = (),
        turn_id: str | None = None,
        first: int | None = None,
        last: int | None = None,
        after_seq: int = 0,
    ) -> Iterator[Event]:
        """Return the same as ``headers``, with payloads."""
        keep = _filter(kinds, turn_id)
        return read_pages(self._lineage, Event, first, last, keep, after_seq=after_seq)

    def live_events(
        self, *, kinds: str | Sequence[str] = (), last: int | None = None
    ) -> Iterator[Event]:
        """Return the effective events in order: without hidden, undone and erased ones.

        Events of a run are included once it has succeeded. ``last`` returns that many from the end,
        and reads no more of the session than necessary.
        """
        named = frozenset(parse_kinds(kinds)) or frozenset(KINDS)
        count = None if last is None else check_count(last, "last")
        return live_events(self._lineage, named, count)

    def history(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """Return the conversation as messages for a model: user, assistant, tool.

        It has the messages of all turns that succeeded and were not undone, with calls and results
        paired. Goals, memories, usage and boundaries are left out, and nothing is shortened: see
        ``context``. ``last`` returns that many messages from the end; a call and its result count
        as one.
        """
        wanted = None if last is None else max(check_count(last, "last"), 1)
        with collecting_rarely():
            while True:
                window = read_window(self._lineage, tokens=None, events=wanted, past="whole")
                messages, _ = pair([*window.lead, *window.events], self._engine.results.policy)
                if wanted is None or len(messages) > (last or 0) or not window.cut:
                    break
                wanted *= 2
            count = len(messages) if last is None else min(last, len(messages))
            shown, _ = with_media(messages[len(messages) - count :], "openai-chat", None)
            return render(shown, dialect="openai-chat").messages if count else []

    def turns(self, *, last: int | None = None) -> Iterator[TurnView]:
        """Return the turns in order, with failed and undone ones marked: all, or the ``last``."""
        return self._views.turns(last=None if last is None else check_count(last, "last"))

    def tool_calls(self, *, last: int | None = None) -> Iterator[ToolRecord]:
        """Return one record per tool call, in order, including open ones: all, or the ``last``."""
        return lineage_tool_calls(
            self._lineage, last=None if last is None else check_count(last, "last")
        )

    def summary(self) -> Counts:
        """Return what the session holds in numbers: events by kind, turns, calls, times."""
        return self._views.counts()

    def outline(self) -> SessionOutline:
        """Return an overview of the session: title, state, model, times. Raises NotFound."""
        head = head_of(self._store, self.scope, self.session_id)
        if head is None:
            raise NotFound(
                f"no session {self.session_id} in scope {self.scope}", hint="check both names"
            )
        return Sketch(self._store, self.scope, self._engine.now_ms()).outline(head)

    # What is in force.

    def goals(self) -> list[Goal]:
        """Return the goals that were set and not removed."""
        return self._views.goals()

    def schedules(self) -> list[Schedule]:
        """Return the schedules that were set and not removed."""
        return self._views.schedules()

    def memories(self) -> list[MemoryRecord]:
        """Return its changes to memories: stored, archived, superseded, forgotten."""
        return self._views.memories()

    def usage(self) -> Usage:
        """Return the tokens used, by model, and their cost, including failed runs."""
        return self._views.usage()

    # What models see and saw.

    def context(
        self,
        max_tokens: int | None = None,
        *,
        dialect: str = DIALECT_DEFAULT,
        contributors: Sequence[Contributor] = (),
        reserve_output_tokens: int = 0,
        system: str = "",
        tools: Sequence[Any] = (),
        turn: Run | None = None,
        **estimates: Unpack[EstimateOptions],
    ) -> Context:
        """Return what a model is shown next: always valid, always within ``max_tokens``.

        It writes nothing; use ``turn.context()`` for a real call. ``turn`` is a run whose own
        events are included. ``tools`` are added to the request, converted from any dialect.
        ``contributors`` apply to this call only. Tokens are estimated from the usage reports of
        ``model``, or else of the model that reported last; ``count`` replaces the estimate. Every
        repair and cut is in the ``report``.
        """
        if turn is not None and not isinstance(turn, Run):
            raise InvalidInput(
                f"turn is a {type(turn).__name__}", hint="pass the turn that is open"
            )
        request = ContextRequest(
            max_tokens=max_tokens,
            dialect=check_text(dialect, "dialect"),
            contributors=check_list(contributors, "contributors"),
            reserve_output_tokens=check_count(reserve_output_tokens, "reserve_output_tokens"),
            system=check_text(system, "system"),
            tools=list(check_list(tools, "tools")),
            **estimates,
        )
        return self._contexts.assemble(
            request,
            prepended=None if turn is None else turn.prepend_context,
            run_id=None if turn is None else turn.run_id,
            record=self._note if turn is None else turn.emit,
        )

    def shown(
        self, *, turn: int | None = None, run_id: str | None = None, last: int = 1
    ) -> list[Shown]:
        """Reconstruct what models were shown: in one turn, one run, or the ``last`` times.

        ``turn`` counts from 1. Each context states whether it is exact. Raises NotFound.
        """
        check_count(last, "last")
        run_ids = [check_name(run_id, "run_id")] if run_id is not None else []
        if turn is not None:
            run_ids += self._views.turn(turn).run_ids
            if not run_ids:
                raise NotFound(f"turn {turn} has no run", hint="look at its events")
        return self._contexts.shown(run_ids, last=last)

    def compact(
        self,
        max_tokens: int | None = None,
        *,
        keep: int = KEEP_MESSAGES,
        summariser: Summariser | None = None,
    ) -> Header | None:
        """Replace older messages with a summary from now on; None if there are too few.

        The last ``keep`` messages stay. With ``max_tokens`` it happens only above 80 % of it.
        ``summariser`` writes the summary; the default is the ledger's, else a built-in one that
        needs no model. A summary builds on the previous one. If something is undone or erased
        meanwhile, no summary is recorded.
        """
        read, begun = read_position(self._lineage), time.monotonic()
        open_runs = self._store.reader.open_runs(self.scope, self.session_id)
        compaction = compact(
            self._lineage,
            self._engine.results.policy,
            max_tokens=None if max_tokens is None else check_count(max_tokens, "max_tokens"),
            keep=check_count(keep, "keep"),
            summariser=summariser or self._engine.summariser,
            below_seq=min((run.first_seq for run in open_runs), default=None),
        )
        if compaction is None:
            return None
        lasted_ms = int((time.monotonic() - begun) * 1_000)
        return append_text_later(
            self._lineage,
            compaction.events(self.template),
            read,
            append=lambda events, seq: self._append_compaction(events, seq, lasted_ms),
            redact=self._redact,
        )

    def compact_if_needed(self, max_tokens: int) -> None:
        """Compact the session if it has outgrown ``max_tokens``; a failure is recorded."""
        try:
            self.compact(max_tokens)
        except Exception as error:  # noqa: BLE001 - the turn ended well, whatever happens here.
            with contextlib.suppress(TreeringError):
                payload = {"code": "not_compacted", **describe(error)}
                self.record("ops.warning", "session not compacted", payload=payload)

    def write_episode(
        self, *, summariser: Summariser | None = None, expected_seq: int | None = None
    ) -> Header | None:
        """Record an episode of the session since the last one; None if nothing was said.

        ``summariser`` writes the summary; the built-in one needs no model, and takes over if it
        fails. If something is undone or erased meanwhile, it is written again. Raises Conflict if
        the session is not at ``expected_seq``, if that is given.
        """
        return append_episode(
            self._lineage,
            lambda look: self._episode(
                (summariser or self._engine.summariser) if look < ASKS_MAX else None
            ),
            expected_seq=expected_seq,
            append=self._append,
            redact=self._redact,
        )

    # Its own.

    def _identify(self) -> None:
        """Look up the user again: the handle may have been linked since."""
        if self._person is not None:
            self.user = self._person.user()
            self._given = replace(self._given, participants=(self.user,))

    def _agree(self, recorded: SessionSettings) -> SessionSettings:
        return agree(self._given, recorded, mode=self._mode, session_id=self.session_id)

    def _owned_runs(self) -> list[OpenRun]:
        """Return the runs that have an owner: runs of imported logs may never end."""
        listed = self._store.reader.open_runs(self.scope, self.session_id, owned=True)
        return [run for run in listed if run.owner is not None]

    def _check_quiet(self, verb: str) -> None:
        if self._owned_runs():
            raise RunActive(
                f"cannot {verb} session {self.session_id}: a turn is under way",
                hint="end the turn first, or interrupt it",
            )

    def _check_queue(self) -> None:
        if self.settings.mode != "queue":
            raise InvalidInput(
                f"session {self.session_id} has no inbox: it is a {self.settings.mode} session",
                hint='open it with mode="queue"',
            )

    def _append(self, events: Sequence[NewEvent], expected_seq: int) -> list[Header]:
        """Record ``events`` of the session right after a seq, all or none. Raises Conflict."""
        self.open()
        placed = [self._with_user(event) for event in events]
        return self._engine.append(placed, expected_seq=expected_seq)

    def _with_user(self, event: NewEvent) -> NewEvent:
        """Return ``event`` with the user, who may be known only now."""
        return event if event.user_id == self.user else replace(event, user_id=self.user)

    def _redact(self, event_id: str) -> None:
        self._engine.redact(self.scope, event_id)

    def _note(self, kind: str, payload: Any = None, *, summary: str | None = None) -> Header:
        return self.record(kind, summary or kind.replace(".", " "), payload=payload)

    def _append_compaction(
        self, events: Sequence[NewEvent], seq: int, duration_ms: int
    ) -> list[Header]:
        """Record a compaction as part of the open run, or as a separate run.

        The summary is not part of the run, since it stays valid if the run fails.
        """
        run_state = self._engine.run_state_in(self.scope, self.session_id)
        if run_state is not None:
            return run_state.adopt(events, outside_kind=COMPACTED, expected_seq=seq)
        return self._append(as_run(self.template, events, duration_ms), seq)

    def _episode(self, summariser: Summariser | None = None) -> list[NewEvent]:
        return episode(
            self._lineage,
            self._engine.results.policy,
            self.template,
            user=self.user or self.settings.sole_participant,
            in_group=self.settings.mode == "group",
            walled=is_walled(
                self.settings, lambda one: read_settings(self._store, self.scope, one)
            ),
            summariser=summariser,
        )

    def _shared_seq(self, at: str | None, *, whole_turn: bool) -> int:
        """Return the last seq that a fork shares."""
        if at is None:
            return last_end(self._lineage, running=self._owned_runs)
        if whole_turn:
            event = self._store.reader.find(self.scope, check_id(at))
            seq = turn_end_of(self._lineage, event, running=self._owned_runs)
        else:
            seq = seq_of(
                self._lineage, self._store.reader.find_ids(self.scope, [check_id(at)]).get(at)
            )
        if seq is None:
            raise NotFound(
                f"no event {at} in the past of session {self.session_id}",
                hint="name an event that session.headers() gives",
            )
        return seq

    def _turn_back(self, verb: str, make: Callable[[], NewEvent]) -> Header:
        return append_at_head(
            self._lineage, make, append=self._append, check=lambda: self._check_quiet(verb)
        )


def _filter(kinds: str | Sequence[str], turn_id: str | None) -> Callable[[Header], bool] | None:
    """Return a filter for events; None to accept all."""
    named = frozenset(parse_kinds(kinds))
    turn = None if turn_id is None else check_name(turn_id, "turn_id")
    if not named and turn is None:
        return None
    return lambda header: (not named or header.kind in named) and turn in {None, header.turn_id}
