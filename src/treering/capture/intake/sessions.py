"""The sessions that logs tell of: what they go on from, and when they are opened."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from treering.capture.intake.event_ids import EventIds, ledger_name
from treering.capture.intake.lineages import Lineages
from treering.capture.intake.scope_resolver import ScopeResolver
from treering.errors import Conflict, DuplicateEvent, NotFound
from treering.formats.parsed import ParsedEvent, is_of_words, unmarked
from treering.ledger.records import EventLocation
from treering.model.parts import SessionImported
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from treering.capture.intake.ledger_view import LedgerView
    from treering.capture.intake.scope_resolver import LogNotes
    from treering.formats.parsed import SessionHeader
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session

_Key = tuple[Scope, str]
"""Scope and session, as its log names it."""


class _Known(msgspec.Struct):
    """What is known of a session while its log is read."""

    has_past: bool
    forked_seq: int | None = None
    """Up to here its past is its parent's."""
    forked_from: str | None = None
    """The session that it says it goes on from."""
    ancestors: tuple[str, ...] | None = None
    """All those whose events it may repeat at its beginning."""
    replaying: bool = True
    """It may still repeat them."""
    shared: tuple[str, EventLocation] | None = None
    """The last event that it shares with another session."""
    last: ParsedEvent | None = None
    """What it says there."""


class Sessions:
    """Opens sessions as they are told of, in the scope of their project or in the one given."""

    def __init__(
        self,
        ledger: Ledger,
        notes: LogNotes,
        pasts: LedgerView,
        *,
        scope: Scope | None,
        form: str,
    ) -> None:
        self._ledger = ledger
        self._ledger_view = pasts
        self.ids = EventIds(form, ledger.id_key)
        self._lineages = Lineages(pasts, self.ids)
        self._form = form
        self._known: dict[_Key, _Known] = {}
        self._names: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._open: set[_Key] = set()
        self.homes = ScopeResolver(notes, scope=scope, form=form)
        self.seen: set[_Key] = set()
        self.opened: set[_Key] = set()
        self.subagents: set[_Key] = set()
        self.events: Counter[str] = Counter()

    # Which they are.

    def see(self, session: str, opening: SessionHeader | None) -> Scope:
        """Return the scope of a session that is told of, and count it once."""
        scope = self.homes.find(session, opening)
        if opening is not None and opening.name is not None and not self.homes.is_one:
            self._names.setdefault(session, ledger_name(opening.name, self._form))
        self._find(scope, session)
        self.seen.add((scope, session))
        if opening is not None and opening.parent is not None:
            self.subagents.add((scope, session))
        return scope

    def see_restored(self, scope: Scope, session: str) -> None:
        """Count a session that an export is about to bring back, once."""
        self.seen.add((scope, session))
        if not self._ledger_view.progress(scope, session).head:
            self.opened.add((scope, session))

    def name(self, session: str) -> str:
        """Return the session's id, as it is if a ledger can hold it."""
        name = self._names.get(session)
        if name is None:
            name = self._names[session] = self.ids.session(session)
        return name

    def agent(self, opening: SessionHeader | None) -> str:
        """Return whose events they are."""
        return self._form if opening is None else self.actor(opening.agent)

    def actor(self, agent: str) -> str:
        """Return an agent's name, as it is if a ledger can hold it."""
        name = self._agents.get(agent)
        if name is None:
            name = self._agents[agent] = ledger_name(agent, self._form, ":")
        return name

    # What they go on from.

    def roots(self, scope: Scope, session: str, opening: SessionHeader | None) -> tuple[str, ...]:
        """Return the sessions whose events this one may repeat."""
        if not self._find(scope, session).replaying:
            return ()
        return self.ancestors(scope, session, opening)

    def ancestors(
        self, scope: Scope, session: str, opening: SessionHeader | None
    ) -> tuple[str, ...]:
        """Return the sessions that this one goes on from, the nearest first."""
        known = self._find(scope, session)
        parent = _forked_from(opening)
        if known.ancestors is None or known.forked_from != parent:
            known.forked_from, known.ancestors = (
                parent,
                self._lineages.ancestors(scope, session, parent),
            )
        return known.ancestors

    def head_seq(self, scope: Scope, session: str) -> int:
        """Return the last seq of a session; 0 if it has no past."""
        return self._ledger_view.progress(scope, self.name(session)).head

    def inherits(self, scope: Scope, session: str, place: EventLocation) -> bool:
        """Whether an event of another session is part of this one's past."""
        known = self._find(scope, session)
        if known.has_past:
            return known.forked_seq is not None and place.seq <= known.forked_seq
        before = None if known.shared is None else known.shared[1]
        return known.replaying and not self._lineages.skips_words(scope, before, place)

    def lacks(self, scope: Scope, session: str, place: EventLocation) -> bool:
        """Whether an event stands in another session, past which this one has gone on."""
        known = self._find(scope, session)
        if not known.has_past and (scope, session) not in self._open:
            return False
        return not self._lineages.holds(scope, session, place)

    def end_replay(self, scope: Scope, session: str) -> None:
        """Note that what comes from now on are the session's own words."""
        self._find(scope, session).replaying = False

    def share(
        self, scope: Scope, told: ParsedEvent, event_id: str, place: EventLocation | None
    ) -> None:
        """Note that a session repeats an event that stands in another."""
        if place is None or place.session_id == self.name(told.session):
            return
        known = self._find(scope, told.session)
        before = known.shared
        same = before is not None and before[1].session_id == place.session_id
        if before is None or not same or before[1].seq < place.seq:
            known.shared, known.last = (event_id, place), told

    @property
    def only_repeats(self) -> bool:
        """Whether a session has told nothing of its own yet: where it leaves another is open."""
        return bool(self._repeating())

    def awaited(self) -> list[tuple[Scope, ParsedEvent]]:
        """Return the sessions that only repeat their forks, which came before; by their last event.

        What a fork repeats was all there when it was made, so they are whole.
        """
        return [
            (scope, told)
            for scope, told in self._repeating()
            if self._lineages.is_awaited(scope, told.session)
        ]

    def _repeating(self) -> list[tuple[Scope, ParsedEvent]]:
        return [
            (key[0], known.last)
            for key, known in self._known.items()
            if known.last is not None and not known.has_past and key not in self._open
        ]

    # Opening them.

    def is_open(self, scope: Scope, session: str) -> bool:
        """Whether a session has been seen to, so that events can be added to it."""
        return (scope, session) in self._open

    def open(
        self,
        scope: Scope,
        session: str,
        opening: SessionHeader | None,
        *,
        ts_ms: int,
        after: str | None,
        file: str,
    ) -> None:
        """Open a session, or go on with it; one that repeats another's past is a fork of that."""
        self._open.add((scope, session))
        is_new = not self._find(scope, session).has_past
        shared = self._leaves(scope, session, opening, after) if is_new else None
        marks = self._lineages.marks(scope, session, _forked_from(opening))
        if is_new:
            self.homes.note(scope, session)
        if self._ledger_view.dry_run:
            if is_new:
                self.opened.add((scope, session))
                place = None if shared is None else shared[1]
                self._ledger_view.foresee_opening(scope, self.name(session), place, marks)
            return
        handle = self._ledger.session(self.name(session), scope=scope, agent=self.agent(opening))
        if is_new and not (shared and self._fork(scope, session, opening, shared, ts_ms)):
            handle = self._handle(scope, session, opening)
            handle.open(ts_ms=ts_ms)
        told = {"file": os.path.realpath(file)}  # Unlike pathlib, it takes links in a circle.
        if opening is not None:
            told |= {} if opening.cwd is None else {"cwd": opening.cwd}
            told |= {str(name): value for name, value in opening.about.items()}
        for mark in marks:
            event = handle.new_event(
                "session.imported",
                f"session taken from a log of {self._form}",
                payload=told,
                refs=SessionImported(format=self._form).as_refs(),
                event_id=mark,
                ts_ms=ts_ms,
                origin=self._form,
            )
            with contextlib.suppress(DuplicateEvent):  # Another fork was faster.
                if self._ledger.append_missing([event]) and is_new:
                    self.opened.add((scope, session))
                return

    def _leaves(
        self, scope: Scope, session: str, opening: SessionHeader | None, after: str | None
    ) -> tuple[str, EventLocation] | None:
        """Return the last event that a new session shares with another."""
        if opening is not None and opening.parent is not None:
            return None
        shared = self._find(scope, session).shared
        place = None if after is None else self._ledger_view.find_ids(scope, [after]).get(after)
        if after is None or place is None or place.session_id == self.name(session):
            return shared
        return (after, place) if shared is None or shared[1].seq < place.seq else shared

    def _fork(
        self,
        scope: Scope,
        session: str,
        opening: SessionHeader | None,
        shared: tuple[str, EventLocation],
        ts_ms: int,
    ) -> bool:
        event_id, place = shared
        parent = self._handle(scope, place.session_id, None)
        try:
            parent.fork(
                self.name(session), at=event_id, agent=self.agent(opening), whole_turn=False,
                ts_ms=ts_ms,
            )  # fmt: skip
        except (NotFound, Conflict):
            return False  # That past is gone, or somebody was faster.
        return True

    def _handle(self, scope: Scope, session: str, opening: SessionHeader | None) -> Session:
        if opening is None:
            return self._ledger.session(self.name(session), scope=scope, agent=self._form)
        return self._ledger.session(
            self.name(session),
            scope=scope,
            agent=self.agent(opening),
            key=opening.key,
            title=opening.title if opening.title and opening.title.strip() else None,
            spawned_by=None if opening.parent is None else self.name(opening.parent),
            spawned_call=opening.call_id,
        )

    def _find(self, scope: Scope, session: str) -> _Known:
        known = self._known.get((scope, session))
        if known is None:
            if self._ledger_view.has_legacy_ids and is_of_words(session):
                before = self._ledger_view.progress(
                    scope, ledger_name(unmarked(session), self._form)
                )
                if before.imported_from == self._form:
                    self.ids.keep_legacy_name(session)
            line = self._ledger_view.progress(scope, self.name(session))
            if line.imported_from not in {None, self._form}:
                # Another agent has a session of the same id: they are not one.
                own = f"{self._form}:{self.name(session)}"
                self._names[session] = ledger_name(own, self._form)
                line = self._ledger_view.progress(scope, self.name(session))
            known = _Known(has_past=line.head > 0, forked_seq=line.forked_seq)
            self._known[scope, session] = known
        return known


def _forked_from(opening: SessionHeader | None) -> str | None:
    if opening is None or opening.forked_from == opening.session:
        return None
    return opening.forked_from
