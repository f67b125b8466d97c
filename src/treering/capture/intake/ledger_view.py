"""What a ledger knows by now of sessions and events; in a dry run, what it would know."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.intake.wordings import holds, lines_of
from treering.errors import KeyMissing
from treering.ledger.records import EventLocation
from treering.model.queries import make_seq_cursor
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event, NewEvent
    from treering.model.scopes import Scope

_WORDS: Final = "conversation."
_READER: Final = "treering"
"""Whoever looks at a session, and adds nothing to it."""
_GAP_MAX: Final = 8
"""Events between two that are wanted, which are read with them."""
_READ_MAX: Final = 200
"""Events that are read at once."""


class SessionProgress(msgspec.Struct):
    """How far a session has come, and what it came from."""

    head: int = 0
    """Its last seq; 0 if it has no past."""
    parent: str | None = None
    forked_seq: int | None = None
    """Up to here its past is its parent's."""
    imported_from: str | None = None
    """The format of the log that it was taken from."""


class LedgerView:
    """Asks a ledger, and in a dry run remembers besides what would have been recorded."""

    def __init__(self, ledger: Ledger, *, dry_run: bool) -> None:
        self._ledger = ledger
        self.dry_run = dry_run
        self._lines: dict[tuple[Scope, str], SessionProgress] = {}
        self._places: dict[tuple[Scope, str], EventLocation] = {}
        self._words: dict[tuple[Scope, str], list[int]] = {}
        self._said: dict[tuple[Scope, str], int] = {}
        """A hash of what each of them would say."""

    def find_ids(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return where the events with these ids stand, as far as there are such."""
        found = self._ledger.known(scope, event_ids)
        if self._places:
            places = ((one, self._places.get((scope, one))) for one in event_ids)
            found |= {one: place for one, place in places if place is not None}
        return found

    def differing(
        self, scope: Scope, told: Sequence[tuple[str, EventLocation, Any]]
    ) -> list[bool | None]:
        """Return whether payloads have words that the known event of their id has not.

        None if nobody can tell: of what was erased, or is sealed under a key that is not here.
        """
        differs: list[bool | None] = [None] * len(told)
        by_session: dict[str, dict[int, list[int]]] = {}
        for at, (event_id, place, payload) in enumerate(told):
            said = self._said.get((scope, event_id))
            if said is None:
                by_session.setdefault(place.session_id, {}).setdefault(place.seq, []).append(at)
            else:
                differs[at] = said != hash(lines_of(payload))
        for session, seqs in by_session.items():
            for event in self._events(scope, session, sorted(seqs)):
                for at in () if event.redacted else seqs.get(event.seq, ()):
                    event_id, _, payload = told[at]
                    if event.event_id == event_id:
                        differs[at] = not holds(event.payload, payload)
        return differs

    def _events(self, scope: Scope, session: str, seqs: Sequence[int]) -> Iterator[Event]:
        """Give the events of a session with these seqs, and some between them."""
        read = 0
        for at, seq in enumerate(seqs):
            if seq <= read:
                continue
            last = seq
            for one in seqs[at:]:
                if one - last > _GAP_MAX or one - seq >= _READ_MAX:
                    break
                last = one
            after = make_seq_cursor(scope, session, seq - 1)
            try:
                page = self._ledger.replay_events(
                    scope, session, first=last - seq + 1, after=after
                ).items
            except KeyMissing:
                return
            yield from page
            read = page[-1].seq if page else last

    @cached_property
    def has_legacy_ids(self) -> bool:
        """Whether the ledger may hold ids that an earlier version made of what was said."""
        return self._ledger.rekeyed_ms() is not None

    def progress(self, scope: Scope, session: str) -> SessionProgress:
        """Return how far a session has come."""
        foreseen = self._lines.get((scope, session))
        if foreseen is not None:
            return foreseen
        handle = self._handle(scope, session)
        last = next(iter(handle.headers(last=1)), None)
        if last is None:
            return SessionProgress()
        outline = handle.outline()
        return SessionProgress(last.seq, outline.parent, outline.forked_seq, outline.imported_from)

    def words(self, scope: Scope, session: str) -> list[int]:
        """Return the seqs of all that was said in a session and before it was forked."""
        headers = self._handle(scope, session).headers()
        recorded = [one.seq for one in headers if one.kind.startswith(_WORDS)]
        return recorded + self._words.get((scope, session), [])

    # A dry run.

    def foresee_opening(
        self, scope: Scope, session: str, shared: EventLocation | None, marks: Sequence[str]
    ) -> None:
        """Remember that a session would be opened, as a fork behind the event at ``shared``.

        ``marks`` are the ids by which it may be known, the best first.
        """
        head, parent = 0, None
        if shared is not None:
            head, parent = shared.seq, shared.session_id
            before = self.words(scope, parent)
            self._words[scope, session] = before[: bisect_right(before, head)]
        # Two events tell that it was opened, and from where.
        self._lines[scope, session] = SessionProgress(head + 2, parent, head or None)
        for mark in marks[:1]:
            self._places[scope, mark] = EventLocation(session, head + 2)

    def foresee(self, event: NewEvent) -> None:
        """Remember that an event would be recorded."""
        scope, session = parse_scope(event.scope), event.session_id
        line = self._lines[scope, session] = self.progress(scope, session)
        line.head += 1
        self._places[scope, event.event_id or ""] = EventLocation(
            session, line.head, event.ts_ms or 0
        )
        self._said[scope, event.event_id or ""] = hash(lines_of(event.payload))
        if event.kind.startswith(_WORDS):
            self._words.setdefault((scope, session), []).append(line.head)

    def _handle(self, scope: Scope, session: str) -> Session:
        return self._ledger.session(session, scope=scope, agent=_READER)
