"""Sessions: durable timelines inside a scope, read in order and written a turn at a time."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from treering.errors import InvalidInput, NotFound, TreeringError
from treering.ledger.compaction import COMPACTED, KEEP_MESSAGES, as_run, compact
from treering.ledger.contexts import DIALECT_DEFAULT
from treering.ledger.episodes import ASKS_MAX, episode, told, told_and_closed
from treering.ledger.forking import fork_name, forked, last_end, seq_of, turn_end_of
from treering.ledger.guarded_append import (
    append_at_head,
    append_text_later,
    read_position,
    redone,
    undone,
)
from treering.ledger.session_settings import check_title, read_settings
from treering.ledger.turn_bounds import redoable, undoable
from treering.ledger.writable_session import WritableSession
from treering.memory.walls import is_walled
from treering.model.arguments import checks_arguments
from treering.model.codec import canonical
from treering.model.fields import check_count, check_id, check_list, check_text
from treering.model.kinds import BOUNDARIES
from treering.model.parts import RunStarted, SessionClosed
from treering.spine.conversion import plain
from treering.spine.run_events import said
from treering.spine.run_state import check_wait
from treering.spine.runs import Run
from treering.spine.words import describe, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.context.assemble import Context
    from treering.context.summaries import Summariser
    from treering.context.tokens import Counter
    from treering.ledger.contexts import Contributor
    from treering.model.events import Header, NewEvent
    from treering.model.kinds import Boundary
    from treering.model.sessions import SessionSettings


@checks_arguments
class Session(WritableSession):
    """A handle on one timeline. Making one writes nothing."""

    # Writing.

    def turn(
        self,
        *,
        entry_point: str | None = None,
        model: str | None = None,
        prompt: str | None = None,
        wait_seconds: float | None = None,
    ) -> Run:
        """Begin a turn: a context manager that records one run, ended well or not.

        A session has one at a time. Another waits for ``wait_seconds`` and is refused then; the
        session's mode says how long if nobody else does: a main session refuses at once.
        ``prompt`` is what gates are shown of the user's words.
        """
        started = RunStarted(entry_point=entry_point, model=model)
        return self._engine.run(self, started, prompt=prompt, wait_s=wait_seconds)

    def interrupt(self, why: str = "interrupted by the user") -> Header | None:
        """Abort the turn that is under way, in whichever process; the next one sees a boundary.

        Return that boundary, or None if there was nothing to interrupt.
        """
        return self._engine.interrupt(self.scope, self.session_id, shorten(plain(why)))

    def post(self, text: str, *, event_id: str | None = None, **content: Any) -> Header:
        """Put a message into the inbox of a queue session; ``content`` is kept beside the text.

        The same ``event_id`` again puts nothing in.
        """
        self._check_queue()
        canonical({"text": check_text(text, "text"), **content}, "message")
        event = said(self.template, "inbox.received", text, content)
        return self.record(
            event.kind,
            event.summary,
            payload=event.payload,
            refs=event.refs,
            event_id=event_id,
        )

    def take(self, *, wait_seconds: float = 0.0) -> Run | None:
        """Take the next message of a queue session, as a turn that has begun: see ``run.message``.

        Return None if none comes within ``wait_seconds``, or another turn is busy so long. The
        message is done with when the turn ends well; otherwise it comes again.
        """
        self._check_queue()
        check_wait(wait_seconds)
        begin = partial(self._engine.take, self)
        return self._inbox.take(begin, self._append, self.template, wait_seconds=wait_seconds)

    # Marks.

    def boundary(self, reason: Boundary, title: str, content: str | None = None) -> Header:
        """Set a mark: checkpoint, interrupt and overflow are shown to the model, others are not."""
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
        """Set a checkpoint: from here on a model can go on without what went before."""
        return self.boundary("checkpoint", title, content)

    def rename(self, title: str) -> Header:
        """Give the session a title."""
        name = check_title(title)
        return self.record("session.titled", "session titled", payload={"title": name})

    def close(
        self, reason: str | SessionClosed = "closed", *, expected_seq: int | None = None
    ) -> Header:
        """Record that the session is closed, and before it an episode of what was not told yet.

        Both are recorded, or neither. Whatever is recorded later opens it again. Raises RunActive
        if a turn is under way, and Conflict if ``expected_seq`` is given and the session is
        elsewhere, or if others write to it again and again.
        """
        part = (
            reason if isinstance(reason, SessionClosed) else SessionClosed(reason=shorten(reason))
        )
        self.open()
        closing = self.new_event(
            "session.closed", f"session closed: {part.reason}", refs=part.as_refs()
        )
        header, stands = told_and_closed(
            self._lineage,
            lambda: self._episode(self._engine.summariser),
            closing,
            expected_seq=expected_seq,
            append=self._append,
            redact=self._redact,
            check=lambda: self._check_quiet("close"),
        )
        if not stands:
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

        ``at`` is the id of any event of that turn; the last one that has ended, if it is left out.
        Without ``whole_turn`` it is the last event that is shared, as in a log that was copied in
        the midst of a turn; ``ts_ms`` is when that was. Nothing is copied and this session does
        not change; what is erased of the shared past is erased for both. Raises NotFound if the
        event is not of this session's past.
        """
        seq = self._shared_seq(at, whole_turn=whole_turn)
        segment = self._lineage.segment_of(seq)
        if segment is None:
            raise NotFound(
                f"session {self.session_id} has no past to fork from", hint="record a turn first"
            )
        name = fork_name(self.session_id) if session_id is None else session_id
        own = None if title is None else check_title(title)
        settings = msgspec.structs.replace(self.settings, title=own, key=None)
        child = self._sibling(name, self.agent if agent is None else agent, settings)
        event = forked(child, settings, parent=self.session_id, seq=seq, at=at, ts_ms=ts_ms)
        was_pruned = self.outline().state == "pruned"
        self._engine.fork(event, parent=segment.session_id, seq=seq)
        # A sweep looks for forks when it has closed a session, and we for such a close: one of us
        # sees the other, whoever was first.
        if not was_pruned and self.outline().state == "pruned":
            raise NotFound(
                f"session {self.session_id} was pruned meanwhile: its past is gone",
                hint="go on from another session",
            )
        return child

    def undo(self, *, turns: int = 1) -> Header:
        """Hide the last turns from history, context and goals; ``redo`` shows them again.

        A run counts as one, for it is never cut in two: refs say how many turns it took along.
        Nothing is deleted: it is an event. Raises RunActive if a turn is under way.
        """
        return self._turn_back(
            "undo", lambda: undone(self.template, undoable(self._lineage, turns))
        )

    def redo(self) -> Header:
        """Show again what was undone last, if nothing was said since. Raises NotFound."""
        return self._turn_back("redo", lambda: redone(self.template, redoable(self._lineage)))

    # What the model sees.

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
        model: str | None = None,
        count: Counter | None = None,
    ) -> Context:
        """Return what a model is shown next: always legal, always within ``max_tokens``.

        It writes nothing; ``turn.context()`` is the one for a real call. ``turn`` is a run whose
        own events are shown, too. ``tools`` go with the request, in the dialect's shape from
        whichever they are declared in. ``contributors`` add to this call alone. ``model`` is the
        one that is asked: its own reports tell what tokens cost; else those of the model that
        reported last. ``count`` counts tokens in place of the built-in estimate. Every repair and
        cut is in the ``report``.
        """
        if turn is not None and not isinstance(turn, Run):
            raise InvalidInput(f"turn is a {type(turn).__name__}", hint="give a turn under way")
        if count is not None and not callable(count):
            raise InvalidInput(
                f"count is a {type(count).__name__}", hint="give a function of a text"
            )
        return self._contexts.assemble(
            max_tokens=max_tokens,
            dialect=check_text(dialect, "dialect"),
            contributors=check_list(contributors, "contributors"),
            reserve_output_tokens=check_count(reserve_output_tokens, "reserve_output_tokens"),
            system=check_text(system, "system"),
            tools=list(check_list(tools, "tools")),
            prepended=None if turn is None else turn.prepend_context,
            run_id=None if turn is None else turn.run_id,
            model=None if model is None else check_text(model, "model"),
            count=count,
            record=self._note if turn is None else turn.emit,
        )

    def compact(
        self,
        max_tokens: int | None = None,
        *,
        keep: int = KEEP_MESSAGES,
        summariser: Summariser | None = None,
    ) -> Header | None:
        """Have older messages told in a summary from now on; None if there is too little.

        The last ``keep`` messages stay as they are. With ``max_tokens`` it happens only above 0.8
        of it. ``summariser`` writes the summary, or the one that the ledger was opened with; the
        built-in one needs no model. A summary stands behind the one before it. What is undone or
        erased while it writes is in no summary: then there is none, either.
        """
        read, begun = read_position(self._lineage), time.monotonic()
        found = compact(
            self._lineage,
            self._engine.results.policy,
            max_tokens=None if max_tokens is None else check_count(max_tokens, "max_tokens"),
            keep=check_count(keep, "keep"),
            summariser=summariser or self._engine.summariser,
            below_seq=min((run.first_seq for run in self._open_runs()), default=None),
        )
        if found is None:
            return None
        lasted_ms = int((time.monotonic() - begun) * 1_000)
        return append_text_later(
            self._lineage,
            found.events(self.template),
            read,
            append=lambda events, seq: self._append_compaction(events, seq, lasted_ms),
            redact=self._redact,
        )

    def settle(self, max_tokens: int) -> None:
        """Compact the session if it has outgrown ``max_tokens``; what fails is noted."""
        try:
            self.compact(max_tokens)
        except Exception as error:  # noqa: BLE001 - the turn ended well, whatever happens here.
            with contextlib.suppress(TreeringError):
                told = {"code": "not_compacted", **describe(error)}
                self.record("ops.warning", "session not compacted", payload=told)

    def write_episode(
        self, *, summariser: Summariser | None = None, expected_seq: int | None = None
    ) -> Header | None:
        """Record what the session was about since the last episode; None if nothing was said.

        ``summariser`` writes the summary; the built-in one needs no model, and tells it if the
        summariser fails. What is undone or erased while it is written is in no episode: then it is
        written again. Raises Conflict if ``expected_seq`` is given and the session is elsewhere.
        """
        return told(
            self._lineage,
            lambda look: self._episode(
                (summariser or self._engine.summariser) if look < ASKS_MAX else None
            ),
            expected_seq=expected_seq,
            append=self._append,
            redact=self._redact,
        )

    # Its own.

    def _append_compaction(
        self, events: Sequence[NewEvent], seq: int, duration_ms: int
    ) -> list[Header]:
        """Record a compaction as part of the run that is under way here, or as a run of its own.

        What it tells stays apart from the run, since it holds also if the run fails.
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
            event = self._store.find(self.scope, check_id(at))
            seq = turn_end_of(self._lineage, event, running=self._owned_runs)
        else:
            seq = seq_of(self._lineage, self._store.find_ids(self.scope, [check_id(at)]).get(at))
        if seq is None:
            raise NotFound(
                f"no event {at} in the past of session {self.session_id}",
                hint="name an event that session.headers() gives",
            )
        return seq

    def _turn_back(self, verb: str, make: Callable[[], NewEvent]) -> Header:
        return append_at_head(
            self._lineage,
            make,
            append=self._append,
            check=lambda: self._check_quiet(verb),
        )

    def _check_queue(self) -> None:
        if self.settings.mode != "queue":
            raise InvalidInput(
                f"session {self.session_id} has no inbox: it is a {self.settings.mode} session",
                hint='open it with mode="queue"',
            )

    def _sibling(self, session_id: str, agent: str, settings: SessionSettings) -> Session:
        return Session(
            self._engine,
            session_id,
            scope=self.scope,
            agent=agent,
            user=self.user,
            channel=settings.channel,
            mode=settings.mode,
            participants=settings.participants,
            key=settings.key,
            tools=settings.tools,
            isolation=settings.isolation,
            title=settings.title,
            spawned_by=settings.spawned_by,
            spawned_call=settings.spawned_call,
        )
