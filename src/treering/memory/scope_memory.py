"""The memory of a scope: all that is held of one scope to remember by, kept in step.

What is folded from events, what facts and episodes are found by, and facts as columns.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final

from treering.derive.memory_texts import memory_texts
from treering.memory.alignment import Aligner
from treering.memory.columns import Columns
from treering.memory.document_index import DocumentIndex
from treering.memory.event_index import EventIndex
from treering.memory.memory_fold import MemoryFold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.derive.memory_state import FactRow
    from treering.memory.ports import Attributed, Embedder, MemoryStore
    from treering.model.scopes import Scope

SCOPES_HELD_MAX: Final = 32
"""Scopes that are held at once; the one that was longest not asked for is let go."""


class ScopeMemory:
    """What is held of one scope. Use it under ``lock``, after ``refresh``."""

    def __init__(
        self,
        store: MemoryStore,
        attributed: Attributed,
        scope: Scope,
        embedder: Embedder | None,
        *,
        sealed: bool,
    ) -> None:
        self._store = store
        self.scope = scope
        self.embedder = embedder
        self.is_sealed = sealed
        self.lock = threading.RLock()
        self.fold = MemoryFold(store, attributed, scope, sealed=sealed)
        self.shelf = DocumentIndex(store, scope, "memories", embedder)
        self.aligner = Aligner(embedder) if embedder is not None and embedder.knows_words else None
        self.columns = Columns()
        self.events = EventIndex(DocumentIndex(store, scope, "events", embedder))
        self._made_of: tuple[int, int] = (-1, -1)
        self._unshelved: list[str] = []
        """Ids of facts that are not on the shelf yet."""

    def refresh(self, progress: Callable[[int], None] | None = None) -> None:
        """Take in what was recorded since."""
        self.fold.refresh()
        state = self.fold.state
        if self.is_sealed:
            if self._made_of[0] != self.fold.generation:
                self.shelf.clear()
            self.shelf.take_private(self._tellings(), memory_texts)
        else:
            self.shelf.catch_up(memory_texts, progress=progress)
        made_of = (self.fold.generation, self.shelf.generation)
        if made_of != self._made_of:
            self.columns = Columns()
            self._made_of = made_of
            self._enter(list(state.facts.values()))
        elif state.touched or self._unshelved:
            ids = dict.fromkeys([*self._unshelved, *state.touched])
            self._enter([state.facts[one] for one in ids])
        state.touched.clear()

    def _enter(self, rows: list[FactRow]) -> None:
        self.columns.update(rows, self.shelf.at)
        # Whoever may only read waits for somebody else to put them on the shelf.
        self._unshelved = [
            row.id
            for row in rows
            if row.state in {"current", "archived"} and row.position not in self.shelf.at
        ]

    def _tellings(self) -> Iterator[Any]:
        """Return the events that tell what is remembered and are not on the shelf yet."""
        state = self.fold.state
        positions = [
            *(row.position for row in state.facts.values()),
            *(row.position for row in state.episodes.values()),
        ]
        missing = [one for one in positions if one not in self.shelf.at]
        return iter(self.fold.tellings(missing).values())


class ScopeMemories:
    """The scopes that are held, by name. Safe to share between threads."""

    def __init__(
        self,
        store: MemoryStore,
        attributed: Attributed,
        embedder: Callable[[], Embedder | None],
        is_sealed: Callable[[Scope], bool],
    ) -> None:
        self._store = store
        self._attributed = attributed
        self._embedder = embedder
        self._is_sealed = is_sealed
        self._lock = threading.Lock()
        self._held: dict[Scope, ScopeMemory] = {}
        self._process = os.getpid()

    def of(self, scope: Scope) -> ScopeMemory:
        """Return what is held of a scope."""
        if self._process != os.getpid():
            # After a fork, locks may be held by threads that are not there any more.
            self._lock, self._held, self._process = threading.Lock(), {}, os.getpid()
        with self._lock:
            sealed = self._is_sealed(scope)
            held = self._held.pop(scope, None)
            if held is None or held.is_sealed != sealed:
                held = ScopeMemory(
                    self._store, self._attributed, scope, self._embedder(), sealed=sealed
                )
            self._held[scope] = held
            while len(self._held) > SCOPES_HELD_MAX:
                del self._held[next(iter(self._held))]
            return held

    def clear(self) -> None:
        """Hold nothing any longer: all is read again when it is asked for."""
        with self._lock:
            self._held.clear()

    def keep(self) -> None:
        """Keep rows of all that is held for whoever comes next."""
        with self._lock:
            held = list(self._held.values())
        for one in held:
            with one.lock:
                one.fold.keep()
