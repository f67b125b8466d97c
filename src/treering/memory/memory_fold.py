"""Recollections: what is remembered in a scope, held in memory and kept up with the ledger.

The rows that the store keeps save folding all events again; they are a convenience. An erasure in
the scope throws away what is held, and has it folded anew from what is left.
"""

from __future__ import annotations

import threading
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from treering.derive.memory_state import MemoryState, hashed
from treering.memory.records import Row
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.memory.ports import Attributed, MemoryStore
    from treering.model.events import Event
    from treering.model.followers import FollowedEvents, Mark
    from treering.model.scopes import Scope

STRETCH_EVENTS: Final = 2_000
KEPT_EVERY: Final = 256
"""Rows are kept when so many differ; fewer are folded again by whoever comes next."""
TEXTS_MAX: Final = 20_000
"""Texts that are held: the oldest are read again when they are needed."""


class MemoryFold:
    """What is remembered in one scope. Callers hold ``lock`` while they look at it."""

    def __init__(
        self, store: MemoryStore, attributed: Attributed, scope: Scope, *, sealed: bool = False
    ) -> None:
        self._store = store
        self._attributed = attributed
        self._sealed = sealed
        """Whether nothing of it is kept: a hash of what a sealed event says can be guessed."""
        self.scope = scope
        self.lock = threading.RLock()
        self.state = self._nothing()
        self.generation = 0
        """Changes whenever all was folded anew: what was made of it before is void."""
        self._mark: Mark = ()
        self._kept: Mark = ()
        """How far the rows had come that the store keeps."""
        self._may_keep = True
        self._anew = False
        """Whether what is held is to replace all that was kept."""
        self._ahead: list[str] = []
        """Ids of events that were taken in before their place in the order was certain."""
        self._beginning: Mark = ()
        """Where the ledger ended when folding began: what was erased before is not read."""
        self._vouchers: set[str] = set()
        """Ids of erasures that were heeded."""
        self._texts: dict[int, Event] = {}
        self._loaded = False

    def refresh(self) -> None:
        """Take in what was recorded since."""
        if not self._loaded:
            self._load()
        while True:
            stretch = self._store.remembered_after(self.scope, self._mark, limit=STRETCH_EVENTS)
            if not self._take(stretch):
                continue
            self._mark = stretch.last
            if not stretch.more:
                break
        if len(self.state.changed) >= KEPT_EVERY:
            self.keep()

    def keep(self) -> None:
        """Keep rows for whoever comes next, where that is possible."""
        if (
            self._sealed
            or self._ahead
            or not self._may_keep
            or (self._mark == self._kept and not self._anew)
        ):
            return
        rows = [Row(*row) for row in self.state.rows(self.state.changed)]
        # Where somebody else has kept what he knows, that is as good.
        self._may_keep = self._store.keep_memory_rows(
            self.scope, rows, since=self._kept, until=self._mark, anew=self._anew
        )
        self._kept, self._anew = self._mark, False
        self.state.changed.clear()

    def tellings(self, positions: Sequence[int]) -> dict[int, Event]:
        """Return events by position, as far as they are there: those that were read are held."""
        missing = [one for one in dict.fromkeys(positions) if one not in self._texts]
        if missing:
            for event in self._store.events_at_positions(self.scope, missing):
                self._texts[event.position] = event
        found = {one: self._texts[one] for one in positions if one in self._texts}
        while len(self._texts) > TEXTS_MAX:
            del self._texts[next(iter(self._texts))]
        return found

    def citing(self, event_ids: Iterable[str]) -> list[str]:
        """Return the ids of the memory's events that cite one of these events."""
        positions = [
            position for one in event_ids for position in self.state.citing.get(hashed(one), [])
        ]
        return [event.event_id for event in self.tellings(positions).values()]

    def _take(self, stretch: FollowedEvents[Event]) -> bool:
        """Fold events; return False if all has to be folded anew."""
        events, marks = stretch.items, stretch.marks
        ids = [event.event_id for event in events]
        known = len(self._ahead)
        if ids[:known] != self._ahead:
            # They settled in another order than they came in.
            self._start_anew()
            return False
        erasures = {
            event.event_id
            for event, mark in zip(events, marks, strict=True)
            if event.kind in ERASURE_KINDS and mark > self._beginning
        }
        if erasures - self._vouchers:
            self._vouchers |= erasures
            if self._mark or known:
                self._start_anew()
                return False
        for event in events[known:]:
            self.state.follow(event)
        self._ahead = [one for one, mark in zip(ids, marks, strict=True) if mark > stretch.last]
        return True

    def _load(self) -> None:
        self._loaded = True
        rows = self._store.memory_rows(self.scope)
        self._kept = rows.mark
        try:
            self.state.load((one.sort, one.key, one.body or b"") for one in rows.items)
        except ValueError:
            # Of another version, or damaged.
            self._start_anew()
        else:
            self._mark = rows.mark
        if not self._mark:
            self._beginning = self._store.end(self.scope)

    def _nothing(self) -> MemoryState:
        # Sessions are asked once: what one was opened as does not change, but by an erasure.
        return MemoryState(cache(partial(self._attributed, self.scope)))

    def _start_anew(self) -> None:
        self.state = self._nothing()
        self.generation += 1
        self._beginning = self._store.end(self.scope)
        self._mark = ()
        self._ahead = []
        self._texts.clear()
        self._anew, self._may_keep = True, True
