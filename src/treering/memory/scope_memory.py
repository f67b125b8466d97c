"""The memory of one scope in this process: its fold, indexes and fact columns, in sync."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final

from treering.derive.memory_texts import memory_texts
from treering.memory.alignment import Aligner
from treering.memory.document_index import DocumentIndex
from treering.memory.event_index import EventIndex
from treering.memory.fact_columns import FactColumns
from treering.memory.memory_fold import MemoryFold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.derive.memory_state import FactRow
    from treering.memory.ports import Attributed, Embedder, MemoryStore
    from treering.model.scopes import Scope

SCOPES_HELD_MAX: Final = 32
"""Scopes in memory at once; the least recently used is dropped."""


class ScopeMemory:
    """All state of one scope's memory. Use it under ``lock``, after ``refresh``."""

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
        self.documents = DocumentIndex(store, scope, "memories", embedder)
        self.aligner = Aligner(embedder) if embedder is not None and embedder.knows_words else None
        self.columns = FactColumns()
        self.events = EventIndex(DocumentIndex(store, scope, "events", embedder))
        self._built_from: tuple[int, int] = (-1, -1)
        self._unindexed: list[str] = []
        """Ids of facts that are not indexed yet."""

    def refresh(self, progress: Callable[[int], None] | None = None) -> None:
        """Apply what was recorded since."""
        self.fold.refresh()
        state = self.fold.state
        if self.is_sealed:
            if self._built_from[0] != self.fold.generation:
                self.documents.clear()
            self.documents.add_sealed(self._unindexed_events(), memory_texts)
        else:
            self.documents.catch_up(memory_texts, progress=progress)
        built_from = (self.fold.generation, self.documents.generation)
        if built_from != self._built_from:
            self.columns = FactColumns()
            self._built_from = built_from
            self._enter(list(state.facts.values()))
        elif state.touched or self._unindexed:
            ids = dict.fromkeys([*self._unindexed, *state.touched])
            self._enter([state.facts[one] for one in ids])
        state.touched.clear()

    def _enter(self, rows: list[FactRow]) -> None:
        self.columns.update(rows, self.documents.at)
        # A read-only process waits until another one indexes them.
        self._unindexed = [
            row.id
            for row in rows
            if row.state in {"current", "archived"} and row.position not in self.documents.at
        ]

    def _unindexed_events(self) -> Iterator[Any]:
        """Return the events of memories that are not indexed yet."""
        state = self.fold.state
        positions = [
            *(row.position for row in state.facts.values()),
            *(row.position for row in state.episodes.values()),
        ]
        missing = [one for one in positions if one not in self.documents.at]
        return iter(self.fold.events_at(missing).values())


class ScopeMemories:
    """The scope memories of this process, by scope. Thread-safe."""

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
        """Return the memory of a scope."""
        if self._process != os.getpid():
            # After a fork, threads that held the locks are gone.
            self._lock, self._held, self._process = threading.Lock(), {}, os.getpid()
        with self._lock:
            sealed = self._is_sealed(scope)
            scope_memory = self._held.pop(scope, None)
            if scope_memory is None or scope_memory.is_sealed != sealed:
                scope_memory = ScopeMemory(
                    self._store, self._attributed, scope, self._embedder(), sealed=sealed
                )
            self._held[scope] = scope_memory
            while len(self._held) > SCOPES_HELD_MAX:
                del self._held[next(iter(self._held))]
            return scope_memory

    def clear(self) -> None:
        """Drop everything; it is read again when needed."""
        with self._lock:
            self._held.clear()

    def save(self) -> None:
        """Save the folds of all scopes for the next process."""
        with self._lock:
            scope_memories = list(self._held.values())
        for one in scope_memories:
            with one.lock:
                one.fold.save()
