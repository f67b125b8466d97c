"""The sessions that logs tell of: what they go on from, and when they are opened."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from treering.capture.intake.homes import Homes
from treering.errors import Conflict, InvalidInput, NotFound
from treering.ledger.records import Place
from treering.model.fields import check_name
from treering.model.parts import SessionImported

if TYPE_CHECKING:
    from treering.formats.telling import Opening
    from treering.ledger.bookmarks import Bookmarks
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope

ROOTS_MAX: Final = 50
"""How many times a session may have been forked before, to be told by its parents' ids."""

_Key = tuple[str, str]
"""Scope and session, as its log names it."""


class _Known(msgspec.Struct):
    """What is known of a session while its log is read."""

    has_past: bool
    forked_seq: int | None = None
    """Up to here its past is its parent's."""
    ancestors: tuple[str, ...] = ()
    """The sessions that it goes on from, and whose events it may repeat at its beginning."""
    replaying: bool = True
    """It may still repeat them."""
    shared: tuple[str, Place] | None = None
    """The last event that it shares with another session."""


class Sessions:
    """Opens sessions as they are told of, in the scope of their project or in the one given."""

    def __init__(
        self,
        ledger: Ledger,
        notes: Bookmarks,
        *,
        scope: Scope | None,
        form: str,
        dry_run: bool,
        foreseen: set[_Key],
    ) -> None:
        self._ledger = ledger
        self._form = form
        self._dry_run = dry_run
        self._known: dict[_Key, _Known] = {}
        self._names: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._open: set[_Key] = set()
        self._foreseen = foreseen
        self.homes = Homes(notes, scope=scope, form=form)
        self.seen: set[_Key] = set()
        self.opened: set[_Key] = set()
        self.subagents: set[_Key] = set()
        self.events: Counter[str] = Counter()

    # Which they are.

    def see(self, session: str, opening: Opening | None) -> Scope:
        """Return the scope of a session that is told of, and count it once."""
        scope = self.homes.find(session, opening)
        self.seen.add((scope, session))
        if opening is not None and opening.parent is not None:
            self.subagents.add((scope, session))
        return scope

    def name(self, session: str) -> str:
        """Return the session's id, as it is if a ledger can hold it."""
        name = self._names.get(session)
        if name is None:
            name = self._names[session] = _named(session, f"{self._form}-")
        return name

    def agent(self, opening: Opening | None) -> str:
        """Return whose events they are."""
        if opening is None:
            return self._form
        agent = self._agents.get(opening.agent)
        if agent is None:
            agent = self._agents[opening.agent] = _named(opening.agent, f"{self._form}:")
        return agent

    # What they go on from.

    def roots(self, scope: Scope, session: str, opening: Opening | None) -> tuple[str, ...]:
        """Return the sessions whose events this one may repeat."""
        if not self._find(scope, session).replaying:
            return ()
        return self.ancestors(scope, session, opening)

    def ancestors(self, scope: Scope, session: str, opening: Opening | None) -> tuple[str, ...]:
        """Return the sessions that this one goes on from, the nearest first."""
        known = self._find(scope, session)
        parent = None if opening is None else opening.forked_from
        if parent is None or parent == session:
            return ()
        if not known.ancestors:
            known.ancestors = self._lineage(scope, parent)
        return known.ancestors

    def head_seq(self, scope: Scope, session: str) -> int:
        """Return the last seq of a session; 0 if it has no past."""
        last = next(iter(self._handle(scope, session, None).headers(last=1)), None)
        return 0 if last is None else last.seq

    def _lineage(self, scope: Scope, first: str) -> tuple[str, ...]:
        found = [first]
        while len(found) < ROOTS_MAX:
            handle = self._handle(scope, found[-1], None)
            parent = handle.outline().parent if _has_past(handle) else None
            if parent is None or parent in found:
                break
            found.append(parent)
        return tuple(found)

    def inherits(self, scope: Scope, session: str, place: Place) -> bool:
        """Whether an event of another session is part of this one's past."""
        known = self._find(scope, session)
        if known.has_past:
            return known.forked_seq is not None and place.seq <= known.forked_seq
        return known.replaying

    def end_replay(self, scope: Scope, session: str) -> None:
        """Note that what comes from now on are the session's own words."""
        self._find(scope, session).replaying = False

    def share(self, scope: Scope, session: str, event_id: str, place: Place | None) -> None:
        """Note that a session repeats an event that stands in another."""
        if place is None or place.session_id == self.name(session):
            return
        known = self._find(scope, session)
        before = known.shared
        same = before is not None and before[1].session_id == place.session_id
        if before is None or not same or before[1].seq < place.seq:
            known.shared = (event_id, place)

    @property
    def only_repeats(self) -> bool:
        """Whether a session has told nothing of its own yet: where it leaves another is open."""
        return any(
            known.shared is not None and not known.has_past and key not in self._open
            for key, known in self._known.items()
        )

    # Opening them.

    def is_open(self, scope: Scope, session: str) -> bool:
        """Whether a session has been seen to, so that events can be added to it."""
        return (scope, session) in self._open

    def open(
        self,
        scope: Scope,
        session: str,
        opening: Opening | None,
        *,
        ts_ms: int,
        after: str | None,
        imported_id: str,
        file: str,
    ) -> None:
        """Open a session, or go on with it; one that repeats another's past is a fork of that."""
        self._open.add((scope, session))
        handle = self._ledger.session(self.name(session), scope=scope, agent=self.agent(opening))
        if not self._find(scope, session).has_past:
            self.opened.add((scope, session))
            if self._dry_run:
                return
            self.homes.note(scope, session)
            if not self._fork(scope, session, opening, after, ts_ms):
                handle = self._handle(scope, session, opening)
                handle.open(ts_ms=ts_ms)
        # Whoever opened it may have come no further, or be about to.
        elif self._dry_run or imported_id in self._ledger.known(scope, [imported_id]):
            return
        told = {"file": str(Path(file).resolve())}
        if opening is not None:
            told |= {} if opening.cwd is None else {"cwd": opening.cwd}
            told |= {str(name): value for name, value in opening.about.items()}
        handle.record(
            "session.imported",
            f"session taken from a log of {self._form}",
            payload=told,
            refs=SessionImported(format=self._form).as_refs(),
            event_id=imported_id,
            ts_ms=ts_ms,
            origin=self._form,
        )

    def _fork(
        self,
        scope: Scope,
        session: str,
        opening: Opening | None,
        after: str | None,
        ts_ms: int,
    ) -> bool:
        if opening is not None and opening.parent is not None:
            return False
        shared = self._find(scope, session).shared
        if after is not None:
            place = self._ledger.known(scope, [after]).get(after)
            foreign = place is not None and place.session_id != self.name(session)
            if place is not None and foreign and (shared is None or shared[1].seq < place.seq):
                shared = (after, place)
        if shared is None:
            return False
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

    def _handle(self, scope: Scope, session: str, opening: Opening | None) -> Session:
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
            handle = self._handle(scope, session, None)
            has_past = _has_past(handle)
            seq = handle.outline().forked_seq if has_past else None
            known = self._known[scope, session] = _Known(has_past=has_past, forked_seq=seq)
        return known

    # Counting them.

    def foresee(self, scope: Scope, event_id: str) -> bool:
        """Whether an event is the first of its id that a dry run meets."""
        if (scope, event_id) in self._foreseen:
            return False
        self._foreseen.add((scope, event_id))
        return True

    def count(self, scope: str) -> None:
        """Count an event that was recorded."""
        self.events[scope] += 1


def _has_past(handle: Session) -> bool:
    return next(iter(handle.headers(last=1)), None) is not None


def _named(text: str, prefix: str) -> str:
    try:
        return check_name(text, "name")
    except InvalidInput:
        return prefix + sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
