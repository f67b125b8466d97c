"""The inbox of a queue session: messages kept as they come, taken one at a time, in order.

A message is done when a run that took it ended well. One whose run failed or died comes again, at
its place, until it has been tried often enough; then it is set aside and reported.
"""

from __future__ import annotations

import contextlib
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import Conflict, RunActive
from treering.locks import Lock
from treering.model.events import Header, NewEvent
from treering.model.kinds import RUN_ENDS
from treering.model.parts import InboxTaken, Noted, safe_part
from treering.model.views import Message
from treering.spine.run_events import KERNEL, make_event, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope
    from treering.spine.runs import Run

    Next = Callable[[NewEvent], tuple[Message | None, list[NewEvent]]]
    """Returns the next message, and what to record when it is taken, made from a template."""
    Append = Callable[[Sequence[NewEvent], int], object]
    """Records events right after a seq, or raises Conflict."""

PAGE: Final = 500
ATTEMPTS_MAX: Final = 3
SET_ASIDE: Final = "message_set_aside"
PAUSE_S: Final = 0.02
PAUSE_S_MAX: Final = 0.5


class _InboxItem(msgspec.Struct):
    """What is known of a message that is not done with."""

    event_id: str
    seq: int
    attempts: int = 0
    run_id: str | None = None
    """The run that took it last."""


class Inbox:
    """The messages that wait in a session; each look reads only what is new."""

    def __init__(self, store: EventStore, scope: Scope, session_id: str) -> None:
        self._store = store
        self._scope = scope
        self._session_id = session_id
        self._waiting: dict[str, _InboxItem] = {}
        self._by_run: dict[str, str] = {}
        self._read_to: int | None = None
        self._lock = Lock()

    def take(
        self,
        begin: Callable[[Next], Run | None],
        append: Append,
        template: NewEvent,
        *,
        wait_s: float,
    ) -> Run | None:
        """Have a run begun with the next message; None if none comes, or another is busy so long.

        ``append`` records messages that are set aside while nothing is taken, made from
        ``template``.
        """
        deadline, pause_s = time.monotonic() + wait_s, PAUSE_S
        while True:
            run = self._take(begin, append, template)
            left_s = deadline - time.monotonic()
            if run is not None or left_s <= 0:
                return run
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def next(self, template: NewEvent) -> tuple[Message | None, list[NewEvent]]:
        """Return the next message, if one waits, and what to record when it is taken.

        Those that were tried too often are set aside: that is recorded with it.
        """
        with self._lock.guard, self._lock:
            message, item, aside = self._next()
            reports = [_set_aside(template, tried) for tried in aside]
            if message is None or item is None:
                return None, reports
            return message, [
                *reports, _taken(template, message, item), _asked(template, message),
            ]  # fmt: skip

    def has_message(self) -> bool:
        """Return whether a message waits to be taken."""
        with self._lock.guard, self._lock:
            return self._next()[0] is not None

    def _take(
        self, begin: Callable[[Next], Run | None], append: Append, template: NewEvent
    ) -> Run | None:
        """Have a run begun, if a message waits and nothing else runs."""
        aside: list[NewEvent] = []

        def next_message(run_template: NewEvent) -> tuple[Message | None, list[NewEvent]]:
            message, events = self.next(run_template)
            aside[:] = events
            return message, events

        try:
            run = begin(next_message)
        except RunActive:
            return None
        if run is None and aside:
            self._report(append, template)
        return run

    def _report(self, append: Append, template: NewEvent) -> None:
        """Record what is set aside while nothing is taken, unless another process just did."""
        last = self._store.reader.last_by_seq(
            Header, self._scope, self._session_id, before_seq=None, limit=1
        )
        message, aside = self.next(template)
        if message is None and aside:
            with contextlib.suppress(Conflict):
                append(aside, last[0].seq if last else 0)

    def _next(self) -> tuple[Message | None, _InboxItem | None, list[_InboxItem]]:
        """Return the next message, what is known of it, and those tried too often before it."""
        self._read_on()
        aside: list[_InboxItem] = []
        for waiting in list(self._waiting.values()):
            event = self._store.reader.find(self._scope, waiting.event_id)
            if event is None or event.redacted:
                # What was erased cannot be dealt with.
                del self._waiting[waiting.event_id]
                continue
            if waiting.attempts >= ATTEMPTS_MAX:
                aside.append(waiting)
                continue
            payload = event.payload if isinstance(event.payload, dict) else {}
            content = {name: value for name, value in payload.items() if name != "text"}
            message = Message(
                event_id=event.event_id,
                text=str(payload.get("text", "")),
                content=content,
                attempt=waiting.attempts + 1,
                ts_ms=event.ts_ms,
            )
            return message, waiting, aside
        return None, None, aside

    # Reading.

    def _read_on(self) -> None:
        if self._read_to is None:
            self._read_to = self._settled()
        while page := self._store.reader.by_seq(
            Header, self._scope, self._session_id, after_seq=self._read_to, limit=PAGE
        ):
            for header in page:
                self._note(header)
            self._read_to = page[-1].seq

    def _settled(self) -> int:
        """Return the seq up to which all messages are done with, as the last taking says."""
        for header in _backwards(self._store, self._scope, self._session_id):
            part = safe_part(header.kind, header.refs)
            if isinstance(part, InboxTaken) and part.settled_seq is not None:
                return part.settled_seq
        return 0

    def _note(self, header: Header) -> None:
        part = safe_part(header.kind, header.refs)
        if header.kind == "inbox.received":
            self._waiting[header.event_id] = _InboxItem(header.event_id, header.seq)
        elif isinstance(part, InboxTaken):
            self._note_taken(header, part)
        elif header.kind in RUN_ENDS and header.run_id in self._by_run:
            message = self._by_run.pop(header.run_id)
            if header.kind == "run.ended":
                self._waiting.pop(message, None)
        elif isinstance(part, Noted) and part.code == SET_ASIDE:
            refs = header.refs if isinstance(header.refs, dict) else {}
            self._waiting.pop(str(refs.get("message")), None)

    def _note_taken(self, header: Header, part: InboxTaken) -> None:
        if part.message:
            waiting = self._waiting.get(part.message)
        else:  # Redacted: its id still says which message it is about.
            waiting = next(
                (
                    message
                    for message in self._waiting.values()
                    if header.event_id.startswith(_taken_prefix(message.event_id))
                ),
                None,
            )
        if waiting is None:
            return
        waiting.attempts, waiting.run_id = part.attempt or waiting.attempts + 1, header.run_id
        if header.run_id is not None:
            self._by_run[header.run_id] = waiting.event_id


def _taken_prefix(message: str) -> str:
    """Return how the ids begin of events that say that a message was taken."""
    return f"taken-{sha256(message.encode()).hexdigest()[:32]}-"


def _asked(template: NewEvent, message: Message) -> NewEvent:
    return said(
        template, "conversation.user", message.text, message.content, message=message.event_id
    )


def _taken(template: NewEvent, message: Message, waiting: _InboxItem) -> NewEvent:
    part = InboxTaken(
        message=message.event_id, attempt=message.attempt, settled_seq=waiting.seq - 1
    )
    return make_event(
        template,
        "inbox.taken",
        f"message taken, attempt {message.attempt}",
        refs=part.as_refs(),
        origin=KERNEL,
        # It says the same as refs, and outlives a redaction: the message stays taken.
        event_id=f"{_taken_prefix(message.event_id)}{message.attempt}",
    )


def _set_aside(template: NewEvent, waiting: _InboxItem) -> NewEvent:
    return make_event(
        template,
        "ops.error",
        f"a message was set aside after {waiting.attempts} attempts",
        refs={"code": SET_ASIDE, "message": waiting.event_id},
        origin=KERNEL,
    )


def _backwards(store: EventStore, scope: Scope, session_id: str) -> Iterator[Header]:
    before: int | None = None
    while page := store.reader.last_by_seq(
        Header, scope, session_id, before_seq=before, limit=PAGE
    ):
        yield from reversed(page)
        before = page[0].seq
