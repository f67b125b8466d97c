"""Sessions: durable timelines inside a scope, read in order and written a turn at a time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import Conflict, InvalidInput, NotFound, RunActive, TreeringError
from treering.ledger.compaction import KEEP_MESSAGES, compact
from treering.ledger.contexts import DIALECT_DEFAULT
from treering.ledger.episodes import episode
from treering.ledger.inbox import Inbox
from treering.ledger.pasts import Past
from treering.ledger.turnings import redoable, turn_end, undoable
from treering.model.codec import decode, encode
from treering.model.events import NewEvent
from treering.model.fields import check_id, check_name
from treering.model.kinds import BOUNDARIES, ERASURE_KINDS, RUN_ENDS
from treering.model.parts import (
    SessionClosed,
    SessionForked,
    SessionOpened,
    SessionRedone,
    SessionUndone,
)
from treering.model.scopes import parse_scope
from treering.model.sessions import ERASED_CHARTER, MODES, PATIENCE_S, Charter, mentions
from treering.spine.entries import Author, Entry, said
from treering.spine.spine import Spine, check_wait
from treering.spine.words import describe, new_id, plain, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.context.assemble import Context
    from treering.context.tokens import Counter
    from treering.ledger.compaction import Summariser
    from treering.ledger.contexts import Contributor
    from treering.ledger.journal import LedgerJournal
    from treering.ledger.ports import EventStore
    from treering.model.events import Header
    from treering.model.kinds import Boundary
    from treering.model.runs import Message, OpenRun
    from treering.model.sessions import Isolation, Mode
    from treering.spine.kernel import Kernel
    from treering.spine.runs import Run

LOOKS_MAX: Final = 20
"""How often a fork or an undo looks at a session that others write to."""
PAGE: Final = 500
INBOX_PAUSE_S: Final = 0.02
INBOX_PAUSE_S_MAX: Final = 0.5
_REWRITING: Final = ERASURE_KINDS | {"session.undone", "session.redone"}
"""What makes a summary wrong that was written without it."""


class Session(Past):
    """A handle on one timeline. Making one writes nothing."""

    def __init__(
        self,
        kernel: Kernel,
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
    ) -> None:
        super().__init__(kernel, store, parse_scope(scope), check_name(session_id, "session_id"))
        self._spine = Spine(kernel)
        self._journal = journal
        self.agent = check_name(agent, "agent")
        self.user = check_name(user, "user") if user is not None else None
        if mode is not None and mode not in MODES:
            raise InvalidInput(f"invalid mode: {mode}", hint=f"use {' or '.join(MODES)}")
        self._given = Charter(
            mode=mode or "main",
            channel=channel,
            participants=tuple(participants),
            key=key,
            tools=None if tools is None else _tool_names(tools),
            isolation=isolation,
            title=None if title is None else _title(title),
        )
        self._mode = mode
        self._charter: Charter | None = None
        self._inbox = Inbox(store, self.scope, self.session_id)

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, scope={self.scope!r}, agent={self.agent!r})"

    # What it was opened as.

    @property
    def charter(self) -> Charter:
        """Return what the session is, as it was opened; what this handle was given goes before."""
        if self._charter is not None:
            return self._charter
        recorded = self._journal.charter(self.scope, self.session_id)
        return self._given if recorded is None else self._agree(recorded)

    @property
    def key(self) -> str | None:
        """Return the name that another system knows it by."""
        return self.charter.key

    @property
    def patience_s(self) -> float:
        """Return how long a second turn waits for the first when nobody says otherwise."""
        return PATIENCE_S[self.charter.mode]

    def permits(self, tool: str) -> bool:
        """Whether ``tool`` may run in the session."""
        return self.charter.permits(tool)

    @property
    def isolation(self) -> Isolation | None:
        """Return what the agent keeps away from in a group; None in other sessions."""
        return self.charter.walls

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
        if self.charter.mode != "group" or mentions(text, (self.agent, *names)):
            return True
        answered = None if reply_to is None else self._store.find(self.scope, reply_to)
        return (
            answered is not None
            and answered.kind == "conversation.assistant"
            and answered.session_id in {stem.session_id for stem in self._lineage.stems()}
        )

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
        return self._spine.run(
            self,
            entry_point=entry_point,
            model=model,
            prompt=prompt,
            wait_seconds=wait_seconds,
        )

    def interrupt(self, why: str = "interrupted by the user") -> Header | None:
        """Abort the turn that is under way, in whichever process; the next one sees a boundary.

        Return that boundary, or None if there was nothing to interrupt.
        """
        return self._kernel.interrupt(self.scope, self.session_id, shorten(plain(why)))

    def post(self, text: str, *, event_id: str | None = None, **content: Any) -> Header:
        """Put a message into the inbox of a queue session; ``content`` is kept beside the text.

        The same ``event_id`` again puts nothing in.
        """
        self._check_queue()
        entry = said("inbox.received", text, content)
        return self.record(
            entry.kind,
            entry.summary,
            payload=entry.payload,
            refs=entry.refs,
            event_id=event_id,
        )

    def take(self, *, wait_seconds: float = 0.0) -> Run | None:
        """Take the next message of a queue session, as a turn that has begun: see ``run.message``.

        Return None if none comes within ``wait_seconds``, or another turn is busy so long. The
        message is done with when the turn ends well; otherwise it comes again.
        """
        self._check_queue()
        check_wait(wait_seconds)
        deadline, pause_s = time.monotonic() + wait_seconds, INBOX_PAUSE_S
        while True:
            run = self._take()
            left_s = deadline - time.monotonic()
            if run is not None or left_s <= 0:
                return run
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, INBOX_PAUSE_S_MAX)

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
        return self._kernel.append([event])[0]

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
        for event in events:
            if event.session_id != self.session_id or parse_scope(event.scope) != self.scope:
                raise InvalidInput(
                    f"an event of session {event.session_id} was given to {self.session_id}",
                    hint="use ledger.append for events of several sessions",
                )
        if not events:
            return []
        self.open()
        return self._kernel.append(events, expected_seq=expected_seq)

    def open(self) -> None:
        """Record the opening, unless the session has a past. Whatever is recorded does it."""
        if self._charter is not None:
            return
        recorded = self._journal.charter(self.scope, self.session_id)
        if recorded is None:
            event = NewEvent(
                scope=self.scope,
                session_id=self.session_id,
                kind="session.opened",
                agent_id=self.agent,
                user_id=self.user,
                summary=f"session opened by {self.agent}",
                payload=decode(encode(self._given)),
                refs=_opening_refs(self._given),
            )
            try:
                self._kernel.append([event], expected_seq=0)
            except Conflict:
                # Another handle was faster, and has recorded it.
                recorded = self._journal.charter(self.scope, self.session_id)
        self._charter = self._agree(recorded or self._given)

    # Marks.

    def boundary(self, reason: Boundary, title: str, content: str | None = None) -> Header:
        """Set a mark: checkpoint, interrupt and overflow are shown to the model, others are not."""
        if reason not in BOUNDARIES:
            raise InvalidInput(
                f"invalid boundary: {reason}", hint=f"use one of {', '.join(BOUNDARIES)}"
            )
        payload = {"title": title} | ({} if content is None else {"content": content})
        return self.record(f"boundary.{reason}", shorten(title), payload=payload)

    def checkpoint(self, title: str, content: str | None = None) -> Header:
        """Set a checkpoint: from here on a model can go on without what went before."""
        return self.boundary("checkpoint", title, content)

    def rename(self, title: str) -> Header:
        """Give the session a title."""
        name = _title(title)
        return self.record("session.titled", "session titled", payload={"title": name})

    def close(self, reason: str = "closed", *, expected_seq: int | None = None) -> Header:
        """Record that the session is closed. Whatever is recorded later opens it again.

        Raises RunActive if a turn is under way, and Conflict if ``expected_seq`` is given and the
        session is elsewhere.
        """
        self._check_quiet("close")
        part = SessionClosed(reason=shorten(reason))
        entry = Entry(
            kind="session.closed",
            summary=f"session closed: {part.reason}",
            refs=part.as_refs(),
            origin=None,
        )
        return self._append([entry], expected_seq=expected_seq)[0]

    # Other pasts.

    def fork(
        self,
        session_id: str | None = None,
        *,
        at: str | None = None,
        agent: str | None = None,
        title: str | None = None,
    ) -> Session:
        """Return a new session that shares this one's past, up to the end of a turn.

        ``at`` is the id of any event of that turn; the last one that has ended, if it is left out.
        Nothing is copied and this session does not change; what is erased of the shared past is
        erased for both. Raises NotFound if the event is not of this session's past.
        """
        seq = self._fork_seq(at)
        stem = self._lineage.stem_of(seq)
        if stem is None:
            raise NotFound(
                f"session {self.session_id} has no past to fork from", hint="record a turn first"
            )
        name = session_id or f"{self.session_id}-fork-{new_id()[-8:]}"
        charter = msgspec.structs.replace(self.charter, title=title and _title(title), key=None)
        child = self._sibling(name, agent or self.agent, charter)
        part = SessionForked(
            parent=self.session_id,
            at_seq=seq,
            at_event=at,
            channel=charter.channel,
            mode=charter.mode,
        )
        event = NewEvent(
            scope=self.scope,
            session_id=child.session_id,
            kind="session.forked",
            agent_id=child.agent,
            user_id=self.user,
            summary=shorten(f"forked from {self.session_id} at {seq}"),
            payload=decode(encode(charter)),
            refs=part.as_refs(),
        )
        self._kernel.fork(event, parent=stem.session_id, seq=seq)
        return child

    def undo(self, *, turns: int = 1) -> Header:
        """Hide the last turns from history, context and goals; ``redo`` shows them again.

        Nothing is deleted: it is an event. Raises RunActive if a turn is under way.
        """

        def entry() -> Entry:
            part = SessionUndone(from_seq=undoable(self._lineage, turns), turns=turns)
            return _turning("session.undone", turns, "undone", part)

        return self._turn_back("undo", entry)

    def redo(self) -> Header:
        """Show again what was undone last, if nothing was said since. Raises NotFound."""

        def entry() -> Entry:
            undone = redoable(self._lineage)
            part = SessionRedone(undone_seq=undone.seq, turns=undone.turns)
            return _turning("session.redone", undone.turns, "redone", part)

        return self._turn_back("redo", entry)

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
        count: Counter | None = None,
    ) -> Context:
        """Return what a model is shown next: always legal, always within ``max_tokens``.

        It writes nothing; ``turn.context()`` is the one for a real call. ``turn`` is a run whose
        own events are shown, too. ``tools`` are the descriptions that go with the request: they
        cost, and are not part of it. ``contributors`` add to this call alone. ``count`` counts
        tokens in place of the built-in estimate. Every repair and cut is in the ``report``.
        """
        return self._contexts.assemble(
            max_tokens=max_tokens,
            dialect=dialect,
            contributors=contributors,
            reserve_output_tokens=reserve_output_tokens,
            system=system,
            tools=list(tools),
            prepended=None if turn is None else turn.prepend_context,
            run_id=None if turn is None else turn.run_id,
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
        of it. ``summariser`` writes the summary; the built-in one needs no model. What is undone
        or erased while it writes is in no summary: then there is none, either.
        """
        head = self._lineage.head_seq()
        found = compact(
            self._lineage,
            self._kernel.results.policy,
            max_tokens=max_tokens,
            keep=keep,
            summariser=summariser,
            below_seq=min((run.first_seq for run in self._open_runs()), default=None),
        )
        return None if found is None else self._append_untouched(found.entries(), head)

    def settle(self, max_tokens: int) -> None:
        """Compact the session if it has outgrown ``max_tokens``; what fails is noted."""
        try:
            self.compact(max_tokens)
        except Exception as error:  # noqa: BLE001 - the turn ended well, whatever happens here.
            with contextlib.suppress(TreeringError):
                told = {"code": "not_compacted", **describe(error)}
                self.record("ops.warning", "session not compacted", payload=told)

    def write_episode(self) -> Header | None:
        """Record what the session was about since the last episode; None if nothing was said."""
        entry = episode(self._lineage, self._kernel.results.policy, user=self.user)
        return None if entry is None else self._append([entry])[0]

    # Its own.

    def _fork_seq(self, at: str | None) -> int:
        """Return the last seq that a fork shares."""
        if at is None:
            return self._last_end()
        event = self._store.find(self.scope, check_id(at))
        stem = None if event is None else self._lineage.stem_of(event.seq)
        if event is None or stem is None or stem.session_id != event.session_id:
            raise NotFound(
                f"no event {at} in the past of session {self.session_id}",
                hint="name an event that session.headers() gives",
            )
        under_way = {run.run_id for run in self._owned_runs()}
        return turn_end(self._lineage, event, under_way=under_way)

    def _last_end(self) -> int:
        """Return the last seq that is of no turn under way."""
        seq = 0
        for _ in range(LOOKS_MAX):
            last = next(iter(self._lineage.headers_before(None, 1)), None)
            seq = 0 if last is None else last.seq
            # Runs without an owner may never end; what they said does not count in a fork either.
            runs = self._owned_runs()
            before = min((run.first_seq - 1 for run in runs), default=seq)
            if before < seq or last is None or last.run_id is None or last.kind in RUN_ENDS:
                return min(before, seq)
            # It was in the midst of a run that has ended since: look again.
        return seq

    def _append_untouched(self, entries: Sequence[Entry], head: int) -> Header | None:
        """Record a compaction, unless what it tells was undone or erased behind ``head``."""
        for _ in range(LOOKS_MAX):
            while page := self._lineage.headers_after(head, PAGE):
                if any(header.kind in _REWRITING for header in page):
                    return None
                head = page[-1].seq
            with contextlib.suppress(Conflict):
                return self._append(entries, expected_seq=head)[1]
        return None

    def _turn_back(self, verb: str, make: Callable[[], Entry]) -> Header:
        """Record what is made of the session as it stands; if others write meanwhile, again."""
        for look in range(LOOKS_MAX):
            head = self._lineage.head_seq()
            self._check_quiet(verb)
            try:
                return self._append([make()], expected_seq=head)[0]
            except Conflict:
                if look == LOOKS_MAX - 1:
                    raise
        raise AssertionError

    def _sibling(self, session_id: str, agent: str, charter: Charter) -> Session:
        return Session(
            self._kernel,
            self._journal,
            self._store,
            session_id,
            scope=self.scope,
            agent=agent,
            user=self.user,
            channel=charter.channel,
            mode=charter.mode,
            participants=charter.participants,
            key=charter.key,
            tools=charter.tools,
            isolation=charter.isolation,
            title=charter.title,
        )

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

    def _append(self, entries: Sequence[Entry], *, expected_seq: int | None = None) -> list[Header]:
        """Record ``entries`` outside of any run, all or none."""
        self.open()
        author = Author(
            scope=self.scope, session_id=self.session_id, agent_id=self.agent, user_id=self.user,
            run_id="", turn_id=None,
        )  # fmt: skip
        events = [author.event(entry, None) for entry in entries]
        return self._kernel.append(events, expected_seq=expected_seq)

    def _note(self, kind: str, payload: Any = None, *, summary: str | None = None) -> Header:
        return self.record(kind, summary or kind.replace(".", " "), payload=payload)

    def _agree(self, recorded: Charter) -> Charter:
        """Return what was recorded of the session, with what this handle was given over it."""
        given = self._given
        if recorded is ERASED_CHARTER and self._mode is not None:
            return given  # Nobody else knows what it was.
        if self._mode not in {None, recorded.mode}:
            raise InvalidInput(
                f"session {self.session_id} was opened as {recorded.mode}, not {self._mode}",
                hint="leave mode out, or use another session",
            )
        return Charter(
            mode=self._mode or recorded.mode,
            channel=given.channel or recorded.channel,
            participants=given.participants or recorded.participants,
            key=given.key or recorded.key,
            tools=recorded.tools if given.tools is None else given.tools,
            isolation=given.isolation or recorded.isolation,
            title=given.title or recorded.title,
        )

    def _check_queue(self) -> None:
        if self.charter.mode != "queue":
            raise InvalidInput(
                f"session {self.session_id} has no inbox: it is a {self.charter.mode} session",
                hint='open it with mode="queue"',
            )

    def _take(self) -> Run | None:
        """Take the next message, if one waits and nothing else runs."""
        aside: list[Entry] = []

        def next_message() -> tuple[Message | None, list[Entry]]:
            message, entries = self._inbox.next()
            aside[:] = entries
            return message, entries

        try:
            run = self._kernel.take(self, next_message)
        except RunActive:
            return None
        if run is None and aside:
            self._report()
        return run

    def _report(self) -> None:
        """Record what is set aside while nothing is taken, unless somebody else just did."""
        head = self._journal.head_seq(self.scope, self.session_id)
        message, aside = self._inbox.next()
        if message is None and aside:
            with contextlib.suppress(Conflict):
                self._append(aside, expected_seq=head)


def _turning(kind: str, turns: int, verb: str, part: SessionUndone | SessionRedone) -> Entry:
    noun = "turn" if turns == 1 else "turns"
    return Entry(kind=kind, summary=f"{turns} {noun} {verb}", refs=part.as_refs(), origin=None)


def _title(title: str) -> str:
    if not isinstance(title, str) or not title.strip():
        raise InvalidInput("a title is a text", hint="give a few words")
    return shorten(title)


def _tool_names(tools: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tools, str):
        raise InvalidInput("tools is one text", hint=f"give a list: tools=[{tools!r}]")
    return tuple(check_name(tool, "tool name") for tool in tools)


def _opening_refs(charter: Charter) -> dict[str, Any]:
    return SessionOpened(channel=charter.channel, mode=charter.mode).as_refs()
