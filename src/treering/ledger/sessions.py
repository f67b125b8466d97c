"""Sessions: durable timelines inside a scope, read in order and written a turn at a time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from treering.errors import Conflict, InvalidInput, RunActive
from treering.ledger.inbox import Inbox
from treering.ledger.stretches import stretch
from treering.ledger.tool_calls import session_tool_calls
from treering.model.codec import decode, encode
from treering.model.events import NewEvent
from treering.model.fields import check_name
from treering.model.parts import SessionOpened
from treering.model.scopes import parse_scope
from treering.model.sessions import ERASED_CHARTER, MODES, PATIENCE_S, Charter
from treering.spine.entries import Author, said
from treering.spine.spine import Spine, check_wait
from treering.spine.words import plain, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.journal import LedgerJournal
    from treering.ledger.ports import EventStore
    from treering.model.events import Event, Header
    from treering.model.runs import Message
    from treering.model.sessions import Mode
    from treering.model.tool_records import ToolRecord
    from treering.spine.entries import Entry
    from treering.spine.kernel import Kernel
    from treering.spine.runs import Run

INBOX_PAUSE_S: Final = 0.02
INBOX_PAUSE_S_MAX: Final = 0.5


class Session:
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
    ) -> None:
        self._kernel = kernel
        self._spine = Spine(kernel)
        self._journal = journal
        self._store = store
        self.scope = parse_scope(scope)
        self.session_id = check_name(session_id, "session_id")
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
        self.open()
        event = NewEvent(
            scope=self.scope,
            session_id=self.session_id,
            kind=kind,
            agent_id=self.agent,
            summary=summary,
            payload=payload,
            refs=refs,
            event_id=event_id,
            ts_ms=ts_ms,
            run_id=run_id,
            run_seq=run_seq,
            turn_id=turn_id,
            user_id=self.user,
            source=source,
            origin=origin,
            visibility=visibility,
        )
        return self._kernel.append([event])[0]

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

    # Reading.

    def headers(self, *, first: int | None = None, last: int | None = None) -> Iterator[Header]:
        """Return what is safe to show, in order: all of it, the first or the last so many."""
        return stretch(self._headers_after, self._headers_before, first, last)

    def events(self, *, first: int | None = None, last: int | None = None) -> Iterator[Event]:
        """Return the same as ``headers``, with payloads."""
        return stretch(self._events_after, self._events_before, first, last)

    def tool_calls(self) -> Iterator[ToolRecord]:
        """Return one record for each tool call of the session, in order."""
        return session_tool_calls(self._store, self.scope, self.session_id)

    def _headers_after(self, seq: int, limit: int) -> list[Header]:
        return self._store.session_headers(self.scope, self.session_id, after_seq=seq, limit=limit)

    def _headers_before(self, seq: int | None, limit: int) -> list[Header]:
        return self._store.last_headers(self.scope, self.session_id, before_seq=seq, limit=limit)

    def _events_after(self, seq: int, limit: int) -> list[Event]:
        return self._store.session_events(self.scope, self.session_id, after_seq=seq, limit=limit)

    def _events_before(self, seq: int | None, limit: int) -> list[Event]:
        return self._store.last_events(self.scope, self.session_id, before_seq=seq, limit=limit)

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
        author = Author(
            scope=self.scope, session_id=self.session_id, agent_id=self.agent, user_id=self.user,
            run_id="", turn_id=None,
        )  # fmt: skip
        if message is None and aside:
            with contextlib.suppress(Conflict):
                events = [author.event(entry, None) for entry in aside]
                self._kernel.append(events, expected_seq=head)


def _tool_names(tools: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tools, str):
        raise InvalidInput("tools is one text", hint=f"give a list: tools=[{tools!r}]")
    return tuple(check_name(tool, "tool name") for tool in tools)


def _opening_refs(charter: Charter) -> dict[str, Any]:
    return SessionOpened(channel=charter.channel, mode=charter.mode).as_refs()
