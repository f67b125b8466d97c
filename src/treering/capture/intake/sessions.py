"""The sessions of a log: their names, what they continue, and the events that open them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from treering.capture.intake.event_ids import EventIds, ledger_name
from treering.capture.intake.ledger_buffer import WaitingEvent
from treering.capture.projects import ScopeResolver
from treering.errors import Conflict, NotFound
from treering.formats.parsed import ParsedEvent, is_content_key, without_mark
from treering.ledger.records import EventLocation
from treering.ledger.session_settings import opening, stated
from treering.model.events import FirstEvent, NewEvent
from treering.model.parts import SessionImported
from treering.model.scopes import Scope
from treering.spine.conversion import plain

if TYPE_CHECKING:
    from treering.capture.intake.ledger_buffer import LedgerBuffer
    from treering.formats.parsed import SessionHeader

ROOTS_MAX: Final = 50
"""Forks of forks that are followed back to find an event by the ids of its parents."""

_Key = tuple[Scope, str]
"""Scope and session, as its log names it."""


class _SessionState(msgspec.Struct):
    """What is known of a session while its log is read."""

    has_past: bool
    forked_seq: int | None = None
    """Up to here its past is its parent's."""
    forked_from: str | None = None
    """The session that it continues, as its log says."""
    ancestors: tuple[str, ...] | None = None
    """All sessions whose events it may repeat at its beginning."""
    replaying: bool = True
    """Whether it may still repeat them."""
    shared: tuple[str, EventLocation] | None = None
    """The last event that it shares with another session."""
    last: ParsedEvent | None = None
    """The same, as its own log has it."""


class Sessions:
    """The sessions of one file."""

    def __init__(
        self,
        buffer: LedgerBuffer,
        *,
        scope: Scope | None,
        format_name: str,
        former: str | None = None,
    ) -> None:
        self._buffer = buffer
        self._format = format_name
        self._former = former
        """The format that the file was read in before, by a reader whose events are replaced."""
        self.opened_by: str | None = None
        """The format of the reader that opened a session which this one has taken over."""
        self.ids = EventIds(format_name, buffer.ledger.importing.id_key)
        self.scopes = ScopeResolver(
            buffer.notes, scope=scope, format_name=format_name, former=former
        )
        self._states: dict[_Key, _SessionState] = {}
        self._names: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._open: set[_Key] = set()
        self._stems: dict[_Key, dict[str, float]] = {}
        """Of each session, up to which seq it has the events of which sessions."""
        self._words: dict[_Key, list[int]] = {}
        """Of each session, the seqs of its messages."""
        self.seen: set[_Key] = set()
        self.opened: set[_Key] = set()
        self.subagents: set[_Key] = set()
        self.events: Counter[str] = Counter()

    # Names and scopes.

    def see(self, session: str, header: SessionHeader | None) -> Scope:
        """Return the scope of a session, and count the session once."""
        scope = self.scopes.find(session, header)
        if header is not None and header.name is not None and not self.scopes.is_one:
            self._names.setdefault(session, ledger_name(header.name, self._format))
        self._state(scope, session)
        self.seen.add((scope, session))
        if header is not None and header.parent is not None:
            self.subagents.add((scope, session))
        return scope

    def see_restored(self, scope: Scope, session: str) -> None:
        """Count a session that an export is about to restore, once."""
        self.seen.add((scope, session))
        if not self._buffer.progress(scope, session).head:
            self.opened.add((scope, session))

    def name(self, session: str) -> str:
        """Return the id of a session in the ledger: its own, if a ledger can hold that."""
        name = self._names.get(session)
        if name is None:
            name = self._names[session] = self.ids.session(session)
        return name

    def agent(self, header: SessionHeader | None) -> str:
        """Return the agent of a session."""
        return self._format if header is None else self.actor(header.agent)

    def actor(self, agent: str) -> str:
        """Return the name of an agent in the ledger: its own, if a ledger can hold that."""
        name = self._agents.get(agent)
        if name is None:
            name = self._agents[agent] = ledger_name(agent, self._format, ":")
        return name

    def _state(self, scope: Scope, session: str) -> _SessionState:
        state = self._states.get((scope, session))
        if state is None:
            if self._buffer.has_legacy_ids and is_content_key(session):
                legacy = ledger_name(without_mark(session), self._format)
                if self._buffer.progress(scope, legacy).imported_from == self._format:
                    self.ids.keep_legacy_name(session)
            progress = self._buffer.progress(scope, self.name(session))
            is_own = progress.imported_from in {None, self._format, self._former}
            if not is_own and self._was_taken_over(scope, session):
                self.opened_by = progress.imported_from
            elif not is_own:
                # Another agent has a session of the same id: these are two sessions.
                own = f"{self._format}:{self.name(session)}"
                self._names[session] = ledger_name(own, self._format)
                progress = self._buffer.progress(scope, self.name(session))
            state = _SessionState(has_past=progress.head > 0, forked_seq=progress.forked_seq)
            self._states[scope, session] = state
        return state

    def _was_taken_over(self, scope: Scope, session: str) -> bool:
        """Whether another reader opened a session which this one has read again since."""
        mark = self.ids.named(session, "imported")
        location = self._buffer.find_ids(scope, [mark]).get(mark)
        return location is not None and location.session_id == self.name(session)

    # What a session continues.

    def roots(self, scope: Scope, session: str, header: SessionHeader | None) -> tuple[str, ...]:
        """Return the sessions whose events this one may still repeat."""
        if not self._state(scope, session).replaying:
            return ()
        return self.ancestors(scope, session, header)

    def ancestors(
        self, scope: Scope, session: str, header: SessionHeader | None
    ) -> tuple[str, ...]:
        """Return the sessions that this one continues, the nearest first."""
        state = self._state(scope, session)
        parent = _forked_from(header)
        if state.ancestors is None or state.forked_from != parent:
            state.forked_from = parent
            state.ancestors = self._find_ancestors(scope, session, parent)
        return state.ancestors

    def _find_ancestors(self, scope: Scope, session: str, parent: str | None) -> tuple[str, ...]:
        ahead = [parent, self._parent_of(scope, session)]
        ancestors: dict[str, None] = {}
        while ahead and len(ancestors) < ROOTS_MAX:
            ancestor = ahead.pop(0)
            if ancestor is not None and ancestor != session and ancestor not in ancestors:
                ancestors[ancestor] = None
                ahead.append(self._parent_of(scope, ancestor))
        return tuple(ancestors)

    def _parent_of(self, scope: Scope, session: str) -> str | None:
        """Return what a session continues; the fork that was imported before it, if it is new."""
        if self._is_there(scope, session):
            return self._buffer.progress(scope, self.ids.session(session)).parent
        location = self._early_fork(scope, session)
        return None if location is None else location.session_id

    def _is_there(self, scope: Scope, session: str) -> bool:
        return self._buffer.progress(scope, self.ids.session(session)).head > 0

    def _early_fork(self, scope: Scope, session: str) -> EventLocation | None:
        """Return where the fork of a session is marked that was imported before the session."""
        event_id = self._early_fork_id(session)
        return self._buffer.find_ids(scope, [event_id]).get(event_id)

    def _early_fork_id(self, session: str) -> str:
        return self.ids.named(session, "fork")

    def head_seq(self, scope: Scope, session: str) -> int:
        """Return the last seq of a session; 0 if it has no past."""
        return self._buffer.progress(scope, self.name(session)).head

    # Events that a session shares with others.

    def inherits(self, scope: Scope, session: str, place: EventLocation) -> bool:
        """Whether an event of another session is part of this one's past."""
        state = self._state(scope, session)
        if state.has_past:
            return state.forked_seq is not None and place.seq <= state.forked_seq
        before = None if state.shared is None else state.shared[1]
        return state.replaying and not self._skips_words(scope, before, place)

    def _skips_words(
        self, scope: Scope, before: EventLocation | None, place: EventLocation
    ) -> bool:
        """Whether the parent has a message between two of its events.

        A fork that repeats both would repeat that as well: the second one is its own.
        """
        if before is None or place.seq <= before.seq + 1:
            return False
        words = self._words.get((scope, place.session_id))
        if words is None:
            words = self._buffer.words(scope, place.session_id)
            self._words[scope, place.session_id] = words
        return bisect_right(words, before.seq) < bisect_right(words, place.seq - 1)

    def lacks(self, scope: Scope, session: str, place: EventLocation) -> bool:
        """Whether an event is neither in an open session nor in its past."""
        state = self._state(scope, session)
        if not state.has_past and (scope, session) not in self._open:
            return False
        stems = self._stems.get((scope, session))
        if stems is None:
            stems = self._stems[scope, session] = self._find_stems(scope, session)
        return place.seq > stems.get(place.session_id, 0)

    def _find_stems(self, scope: Scope, session: str) -> dict[str, float]:
        stem: str | None = self.ids.session(session)
        until = float("inf")
        stems: dict[str, float] = {}
        while stem is not None and stem not in stems and len(stems) < ROOTS_MAX:
            stems[stem] = until
            stem, forked_seq = self._buffer.origin(scope, stem)
            until = min(until, forked_seq or 0)
        return stems

    def end_replay(self, scope: Scope, session: str) -> None:
        """Note that from now on the session has events of its own."""
        self._state(scope, session).replaying = False

    def share(
        self, scope: Scope, event: ParsedEvent, event_id: str, place: EventLocation | None
    ) -> None:
        """Note that a session repeats an event of another."""
        if place is None or place.session_id == self.name(event.session):
            return
        state = self._state(scope, event.session)
        before = state.shared
        same = before is not None and before[1].session_id == place.session_id
        if before is None or not same or before[1].seq < place.seq:
            state.shared, state.last = (event_id, place), event

    @property
    def only_repeats(self) -> bool:
        """Whether a session has no event of its own yet: where it leaves another is open."""
        return bool(self._repeating())

    def awaited(self) -> list[tuple[Scope, ParsedEvent]]:
        """Return the last events of sessions that only repeat forks of theirs.

        Such a session is whole: all that its fork repeats was there when the fork was made.
        """
        return [
            (scope, event)
            for scope, event in self._repeating()
            if self._early_fork(scope, event.session) is not None
        ]

    def _repeating(self) -> list[tuple[Scope, ParsedEvent]]:
        return [
            (key[0], state.last)
            for key, state in self._states.items()
            if state.last is not None and not state.has_past and key not in self._open
        ]

    # Opening.

    def is_open(self, scope: Scope, session: str) -> bool:
        """Whether events can be added to a session."""
        return (scope, session) in self._open

    def open(
        self,
        scope: Scope,
        session: str,
        header: SessionHeader | None,
        *,
        ts_ms: int,
        after: str | None,
        file: str,
    ) -> list[WaitingEvent]:
        """Return the events that open a session; one that repeats another's past is forked at once.

        They come before its other events, in the same commit. ``file`` is the real path of its log.
        """
        self._open.add((scope, session))
        is_new = not self._state(scope, session).has_past
        shared = self._leaves(scope, session, header, after) if is_new else None
        marks = self._marks(scope, session, header)
        if is_new:
            self.scopes.note(scope, session)
        if self._buffer.dry_run:
            if is_new:
                self.opened.add((scope, session))
                location = None if shared is None else shared[1]
                self._buffer.foresee_opening(scope, self.name(session), location, marks)
            return []
        events: list[NewEvent] = []
        if is_new and not (shared and self._fork(scope, session, header, shared, ts_ms)):
            events.append(self._opened(scope, session, header, ts_ms))
        if marks:
            events.append(self._imported(scope, session, header, marks[0], ts_ms, file))
        return [
            WaitingEvent(event, session, opens=is_new and event.kind == "session.imported")
            for event in events
        ]

    def close(self, scope: Scope, session: str) -> None:
        """Take back that a session was opened: its events could not be recorded."""
        self._open.discard((scope, session))
        state = self._state(scope, session)
        progress = self._buffer.progress(scope, self.name(session))
        state.has_past, state.forked_seq = progress.head > 0, progress.forked_seq

    def opening_ids(self, scope: Scope, session: str, header: SessionHeader | None) -> list[str]:
        """Return the ids that ``open`` asks for; none if the session is open."""
        return [] if (scope, session) in self._open else self.mark_ids(session, header)

    def mark_ids(self, session: str, header: SessionHeader | None) -> list[str]:
        """Return the ids that show whether a session was imported before, the best first."""
        forked_from = _forked_from(header)
        own = self.ids.named(session, "imported")
        return [own] if forked_from is None else [self._early_fork_id(forked_from), own]

    def _marks(self, scope: Scope, session: str, header: SessionHeader | None) -> list[str]:
        """Return the ids that may mark a session as imported, the best first; none if it is.

        If the session that it was forked from is not imported yet, that one finds it by this.
        """
        forked_from = _forked_from(header)
        marks = self.mark_ids(session, header)
        locations = self._buffer.find_ids(scope, marks)
        if forked_from is not None and self._is_there(scope, forked_from):
            marks = marks[1:]
        name = self.ids.session(session)
        # Another import may have opened it and come no further, or be about to.
        is_marked = any(location.session_id == name for location in locations.values())
        return [] if is_marked else [mark for mark in marks if mark not in locations]

    def _leaves(
        self, scope: Scope, session: str, header: SessionHeader | None, after: str | None
    ) -> tuple[str, EventLocation] | None:
        """Return the last event that a new session shares with another."""
        if header is not None and header.parent is not None:
            return None
        shared = self._state(scope, session).shared
        location = None if after is None else self._buffer.find_ids(scope, [after]).get(after)
        if after is None or location is None or location.session_id == self.name(session):
            return shared
        return (after, location) if shared is None or shared[1].seq < location.seq else shared

    def _fork(
        self,
        scope: Scope,
        session: str,
        header: SessionHeader | None,
        shared: tuple[str, EventLocation],
        ts_ms: int,
    ) -> bool:
        event_id, location = shared
        self._buffer.commit()
        parent = self._buffer.ledger.session(location.session_id, scope=scope, agent=self._format)
        try:
            parent.fork(
                self.name(session), at=event_id, agent=self.agent(header), whole_turn=False,
                ts_ms=ts_ms,
            )  # fmt: skip
        except (NotFound, Conflict):
            return False  # That past is gone, or another import was faster.
        return True

    def _opened(
        self, scope: Scope, session: str, header: SessionHeader | None, ts_ms: int
    ) -> FirstEvent:
        title = None if header is None else header.title
        parent = None if header is None else header.parent
        settings = stated(
            mode=None,
            channel=None,
            participants=(),
            key=None if header is None else header.key,
            tools=None,
            isolation=None,
            title=title if title and title.strip() else None,
            spawned_by=None if parent is None else self.name(parent),
            spawned_call=None if header is None else header.call_id,
        )
        agent = self.agent(header)
        return FirstEvent(
            scope=scope,
            session_id=self.name(session),
            agent_id=agent,
            ts_ms=ts_ms,
            **opening(agent, settings),
        )

    def _imported(
        self,
        scope: Scope,
        session: str,
        header: SessionHeader | None,
        mark: str,
        ts_ms: int,
        file: str,
    ) -> NewEvent:
        payload = {"file": plain(file)}
        if header is not None:
            payload |= {} if header.cwd is None else {"cwd": header.cwd}
            payload |= {str(name): value for name, value in header.about.items()}
        return NewEvent(
            scope=scope,
            session_id=self.name(session),
            kind="session.imported",
            agent_id=self.agent(header),
            summary=f"session taken from a log of {self._format}",
            payload=payload,
            refs=SessionImported(format=self._format).as_refs(),
            event_id=mark,
            ts_ms=ts_ms,
            origin=self._format,
        )


def _forked_from(header: SessionHeader | None) -> str | None:
    if header is None or header.forked_from == header.session:
        return None
    return header.forked_from
