"""Lineages of logs: which sessions one goes on from, whichever of them was taken in first."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treering.capture.intake.event_ids import EventIds
    from treering.capture.intake.ledger_view import LedgerView
    from treering.ledger.records import EventLocation
    from treering.model.scopes import Scope

ROOTS_MAX: Final = 50
"""How many times a session may have been forked before, to be told by its parents' ids."""


class Lineages:
    """Finds what the sessions of one format go on from."""

    def __init__(self, pasts: LedgerView, ids: EventIds) -> None:
        self._ledger_view = pasts
        self._ids = ids
        self._stems: dict[tuple[Scope, str], dict[str, float]] = {}
        """Of each session, how far it has whose events."""
        self._words: dict[tuple[Scope, str], list[int]] = {}
        """Where in each session something is said."""

    def ancestors(self, scope: Scope, session: str, parent: str | None) -> tuple[str, ...]:
        """Return what a session goes on from: ``parent``, as its log says, and by the ledger."""
        ahead = [parent, self._before(scope, session)]
        found: dict[str, None] = {}
        while ahead and len(found) < ROOTS_MAX:
            one = ahead.pop(0)
            if one is not None and one != session and one not in found:
                found[one] = None
                ahead.append(self._before(scope, one))
        return tuple(found)

    def holds(self, scope: Scope, session: str, place: EventLocation) -> bool:
        """Whether an event is of a session or of its past, which has to be settled by now."""
        stems = self._stems.get((scope, session))
        if stems is None:
            stems = self._stems[scope, session] = self._stems_of(scope, session)
        return place.seq <= stems.get(place.session_id, 0)

    def _stems_of(self, scope: Scope, session: str) -> dict[str, float]:
        one: str | None = self._ids.session(session)
        until = float("inf")
        found: dict[str, float] = {}
        while one is not None and one not in found and len(found) < ROOTS_MAX:
            found[one] = until
            line = self._ledger_view.progress(scope, one)
            one, until = line.parent, min(until, line.forked_seq or 0)
        return found

    def skips_words(self, scope: Scope, before: EventLocation | None, place: EventLocation) -> bool:
        """Whether something was said between two events of another's past.

        A fork that repeats both would repeat that as well: it says the second one itself.
        """
        if before is None or place.seq <= before.seq + 1:
            return False
        words = self._words.get((scope, place.session_id))
        if words is None:
            words = self._ledger_view.words(scope, place.session_id)
            self._words[scope, place.session_id] = words
        return bisect_right(words, before.seq) < bisect_right(words, place.seq - 1)

    def marks(self, scope: Scope, session: str, forked_from: str | None) -> list[str]:
        """Return the ids by which a session is marked as imported, the best first; none if it is.

        If what it was ``forked_from`` has not come yet, it is to be found by that one.
        """
        own = self._ids.named(session, "imported")
        every = [own] if forked_from is None else [self._stand_in_id(forked_from), own]
        known = self._ledger_view.find_ids(scope, every)
        if forked_from is not None and self._has_come(scope, forked_from):
            every = [own]
        name = self._ids.session(session)
        # Whoever opened it may have come no further, or be about to.
        is_marked = any(place.session_id == name for place in known.values())
        return [] if is_marked else [one for one in every if one not in known]

    def _stand_in_id(self, session: str) -> str:
        """Return the id of the event by which a fork is found before its parent has come."""
        return self._ids.named(session, "fork")

    def is_awaited(self, scope: Scope, session: str) -> bool:
        """Whether a fork of a session came before it."""
        return self._stand_in(scope, session) is not None

    def _before(self, scope: Scope, session: str) -> str | None:
        """Return what a session goes on from; what stands in for it, if it has not come yet."""
        if self._has_come(scope, session):
            return self._ledger_view.progress(scope, self._ids.session(session)).parent
        place = self._stand_in(scope, session)
        return None if place is None else place.session_id

    def _has_come(self, scope: Scope, session: str) -> bool:
        return self._ledger_view.progress(scope, self._ids.session(session)).head > 0

    def _stand_in(self, scope: Scope, session: str) -> EventLocation | None:
        event_id = self._stand_in_id(session)
        return self._ledger_view.find_ids(scope, [event_id]).get(event_id)
