"""The fold of a scope's memory events, held in memory and kept up to date with the ledger.

Saved rows only avoid folding all events again. An erasure in the scope discards the fold, and it is
built again from the remaining events.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import MemoryState
from treering.memory.records import Row
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.memory.ports import Attributed, MemoryStore
    from treering.model.events import Event
    from treering.model.queries import FollowedEvents, Mark
    from treering.model.scopes import Scope

PAGE_EVENTS: Final = 2_000
SAVED_EVERY: Final = 256
"""Changed rows after which the fold is saved; fewer are folded again by the next process."""
NEW_HELD_MAX: Final = 500
"""The most new events that are held in memory while they are folded."""
TEXTS_MAX: Final = 20_000
"""Events held in memory; the oldest are read again when needed."""


class MemoryFold:
    """The folded memory of one scope, used by one thread at a time."""

    def __init__(
        self, store: MemoryStore, attributed: Attributed, scope: Scope, *, sealed: bool = False
    ) -> None:
        self._store = store
        self._attributed = attributed
        self._sealed = sealed
        """Whether nothing is saved, because words of a sealed event could be guessed from hashes.
        """
        self.scope = scope
        self.state = self._empty_state()
        self.generation = 0
        """Changes whenever everything is folded again: what was derived before is void."""
        self._mark: Mark = ()
        self._saved: Mark = ()
        """The mark of the saved rows."""
        self._may_save = True
        self._replaces_saved = False
        """Whether the fold replaces all saved rows."""
        self._unsettled: list[str] = []
        """Ids of events folded before their place in the order was final."""
        self._start: Mark = ()
        """The end of the ledger when folding began: content erased before is never read."""
        self._applied_erasures: set[str] = set()
        """Ids of erasures that were applied."""
        self._texts: dict[int, Event] = {}
        self._loaded = False
        self._is_folding = False
        """Whether folding has begun and not ended: what it left half done is folded again."""

    def refresh(self) -> None:
        """Fold what was recorded since."""
        if self._is_folding:
            self.reset()
        self._is_folding = True
        if not self._loaded:
            self._load()
        while True:
            page = self._store.remembered_after(self.scope, self._mark, limit=PAGE_EVENTS)
            if not self._take(page):
                continue
            self._mark = page.last
            if not page.more:
                break
        self._is_folding = False
        if len(self.state.changed) >= SAVED_EVERY:
            self.save()

    def save(self) -> None:
        """Save the rows for the next process, where possible."""
        if (
            self._sealed
            or self._is_folding
            or self._unsettled
            or not self._may_save
            or (self._mark == self._saved and not self._replaces_saved)
        ):
            return
        rows = [Row(*row) for row in self.state.rows(self.state.changed)]
        # If another process saved its fold first, that one is as good.
        self._may_save = self._store.keep_memory_rows(
            self.scope, rows, since=self._saved, until=self._mark, replace=self._replaces_saved
        )
        self._saved, self._replaces_saved = self._mark, False
        self.state.changed.clear()

    def events_at(self, positions: Sequence[int]) -> dict[int, Event]:
        """Return the events at these positions that exist; read ones are cached."""
        missing = [position for position in dict.fromkeys(positions) if position not in self._texts]
        if missing:
            for event in self._store.events_at_positions(self.scope, missing):
                self._texts[event.position] = event
        events = {
            position: self._texts[position] for position in positions if position in self._texts
        }
        self._drop_oldest()
        return events

    def _drop_oldest(self) -> None:
        while len(self._texts) > TEXTS_MAX:
            del self._texts[next(iter(self._texts))]

    def citing(self, event_ids: Iterable[str]) -> list[str]:
        """Return the ids of memory events that cite one of these events."""
        positions = [
            position
            for event_id in event_ids
            for position in self.state.citing.get(hashed(event_id), [])
        ]
        return [event.event_id for event in self.events_at(positions).values()]

    def _take(self, page: FollowedEvents[Event]) -> bool:
        """Fold a page of events; return False if everything has to be folded again."""
        events, marks = page.items, page.marks
        ids = [event.event_id for event in events]
        unsettled = len(self._unsettled)
        if ids[:unsettled] != self._unsettled:
            # They settled in another order than they arrived in.
            self._start_over()
            return False
        erasures = {
            event.event_id
            for event, mark in zip(events, marks, strict=True)
            if event.kind in ERASURE_KINDS and mark > self._start
        }
        if erasures - self._applied_erasures:
            self._applied_erasures |= erasures
            if self._mark or unsettled:
                self._start_over()
                return False
        for event in events[unsettled:]:
            self.state.follow(event)
        if len(events) <= NEW_HELD_MAX:
            # What was just learned is needed next.
            self._texts.update((event.position, event) for event in events)
            self._drop_oldest()
        self._unsettled = [
            event_id for event_id, mark in zip(ids, marks, strict=True) if mark > page.last
        ]
        return True

    def _load(self) -> None:
        self._loaded = True
        rows = self._store.memory_rows(self.scope)
        self._saved = rows.mark
        try:
            self.state.load(rows.tables)
            if rows.tables and not rows.mark:
                raise ValueError  # noqa: TRY301  (rows that no fold has saved)
        except (TypeError, ValueError):
            # Another version, or damaged.
            self._start_over()
        else:
            self._mark = rows.mark
        if not self._mark:
            self._start = self._store.end(self.scope)

    def _empty_state(self) -> MemoryState:
        # Cached: a session's settings change only by an erasure, which starts a new fold.
        return MemoryState(cache(partial(self._attributed, self.scope)))

    def reset(self) -> None:
        """Have the saved rows read again, and what was recorded since folded again."""
        self._clear()
        self._start, self._applied_erasures = (), set()
        self._replaces_saved, self._may_save, self._loaded = False, True, False

    def _start_over(self) -> None:
        self._clear()
        self._start = self._store.end(self.scope)
        self._replaces_saved, self._may_save = True, True

    def _clear(self) -> None:
        self.state = self._empty_state()
        self.generation += 1
        self._mark = ()
        self._unsettled = []
        self._texts.clear()
