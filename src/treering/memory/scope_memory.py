"""The memory of one scope in this process: its fold, indexes and fact columns, in sync."""

from __future__ import annotations

import contextlib
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from treering.derive.search_texts import memory_texts
from treering.garbage import collecting_rarely
from treering.lazy import LazyModule
from treering.locks import Lock
from treering.memory.alignment import Aligner
from treering.memory.document_index import DocumentIndex
from treering.memory.event_index import EventIndex
from treering.memory.fact_columns import ARCHIVED, CURRENT, FactColumns
from treering.memory.memory_fold import MemoryFold
from treering.memory.ports import ChangeModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.memory import change_decision
    from treering.memory.ports import Attributed, Embedder, Matrix, MemoryStore
    from treering.memory.walls import Owner
    from treering.model.events import Event
    from treering.model.scopes import Scope
else:
    change_decision = LazyModule("treering.memory.change_decision")  # Who only recalls needs none.

PATIENCE_S: Final = 3_600.0
"""How long to wait for another thread, which may be embedding a whole scope by a slow model."""
SCOPES_HELD_MAX: Final = 32
"""Scopes in memory at once; the least recently used is dropped."""
WAITING_MAX: Final = 256
"""Facts that are indexed in a process alone before their words and vectors are stored."""
_INDEXED: Final = frozenset({"current", "archived"})
"""The states of facts that are searched."""

Result = TypeVar("Result")


class ScopeMemory:
    """All state of one scope's memory. Use it under ``lock``, after ``refresh``."""

    def __init__(
        self,
        store: MemoryStore,
        attributed: Attributed,
        scope: Scope,
        embedders: tuple[Embedder | None, Embedder | None],
        *,
        sealed: bool,
    ) -> None:
        """Take the embedder of events, and that of facts and episodes."""
        self._store = store
        self.scope = scope
        event_embedder, embedder = embedders
        self.embedder = embedder
        self.is_sealed = sealed
        self.lock = Lock(patience_s=PATIENCE_S)
        self.fold = MemoryFold(store, attributed, scope, sealed=sealed)
        self.documents = DocumentIndex(store, scope, "memories", embedder)
        self.aligner = Aligner(embedder) if embedder is not None and embedder.knows_words else None
        self._embedders = embedders
        self.columns = FactColumns()
        self.events = EventIndex(DocumentIndex(store, scope, "events", event_embedder))
        self.owners: dict[str, Owner] = {}
        """Who the turns of a session belong to; a session is opened once."""
        self._built_from: tuple[int, int] = (-1, -1)
        self._unindexed: list[str] = []
        """Ids of facts that the store has not indexed yet."""
        self._is_refreshing = False
        """Whether a refresh has begun and not ended: what it left half done is read again."""

    def refresh(self, progress: Callable[[int], None] | None = None, *, store: bool = True) -> None:
        """Apply what was recorded since.

        Unless ``store``, a few new facts are indexed in this process alone; a later call stores
        their words and vectors.
        """
        if self._is_refreshing:
            self.fold.reset()
            self.documents.reset()
            self._built_from = (-1, -1)
        self._is_refreshing = True
        with contextlib.nullcontext() if self.fold.state.facts else collecting_rarely():
            self.fold.refresh()
        state = self.fold.state
        if self._built_from[0] != self.fold.generation:
            # What was erased must not stay in this process either.
            self.documents.drop_unstored()
        touched = list(dict.fromkeys(state.touched))
        waits = not self.is_sealed and not store and self._may_wait(touched)
        if self.is_sealed:
            self.documents.add_unstored(self._unindexed_events(), memory_texts)
        elif not waits:
            self.documents.catch_up(memory_texts, progress=progress)
        built_from = (self.fold.generation, self.documents.generation)
        if built_from != self._built_from:
            self.owners.clear()
            self._built_from = built_from
            self._unindexed = self._enter_all()
        elif waits:
            self._unindexed += self._enter(touched)
        elif touched or self._unindexed:
            self._unindexed = self._enter(list(dict.fromkeys([*self._unindexed, *touched])))
        state.touched.clear()
        self._is_refreshing = False

    @cached_property
    def judge(self) -> change_decision.ChangeJudge | None:
        """What decides what a fact changes, by single words or with the model of facts."""
        by_words = (one for one in self._embedders[::-1] if one is not None and one.knows_words)
        model = self.embedder if isinstance(self.embedder, ChangeModel) else None
        words = next(by_words, None if model is None else model.words)
        if words is None:
            return None
        return change_decision.ChangeJudge(self.aligner or Aligner(words), model)

    def fresh(self, work: Callable[[ScopeMemory], Result]) -> Result:
        """Return what ``work`` makes of it, under the lock and after a refresh."""
        with self.lock.guard, self.lock:
            self.refresh()
            return work(self)

    def save(self) -> None:
        """Save what was folded and indexed, for the next process."""
        self.fold.save()
        if self.documents.unstored_count and not self.is_sealed:
            # Closing a ledger must not wait for a model.
            self.documents.catch_up(memory_texts, embedding=False)

    @property
    def is_elsewhere(self) -> bool:
        """Whether all facts have vectors of another embedder: somebody has moved them."""
        documents = self.documents
        return bool(documents.count) and documents.without_vector == documents.count

    def texts_to_move(self, embedder: Embedder) -> list[str]:
        """Return all texts of facts and episodes, if any has a vector of another embedder."""
        ours = self.embedder
        if ours is not None and ours.name == embedder.name and not self.documents.without_vector:
            return []
        positions = self.documents.column("position").tolist()
        return [
            text
            for event in self.fold.events_at(positions).values()
            for text in memory_texts(event)
        ]

    def events_at(self, positions: list[int]) -> dict[int, Event]:
        """Return the events at these positions, without erased ones."""
        events = self._store.events_at_positions(self.scope, positions)
        return {event.position: event for event in events}

    def _enter_all(self) -> list[str]:
        """Enter all facts in new columns; return those that the store has not indexed yet."""
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        facts, at = self.fold.state.facts, self.documents.at
        self.columns = columns = FactColumns()
        columns.load(facts)
        columns.update(facts.read.values(), at)
        columns.place(at)
        unstored = np.isin(columns.column("position"), self.documents.unstored_positions)
        unstored |= columns.column("document") < 0
        searched = np.isin(columns.column("state"), [CURRENT, ARCHIVED])
        unindexed = np.flatnonzero(searched & unstored).tolist()
        return self._enter([columns.ids[index] for index in unindexed])

    def _enter(self, ids: list[str]) -> list[str]:
        """Enter facts in the columns; return those that the store has not indexed yet."""
        documents = self.documents
        rows = [self.fold.state.facts[fact_id] for fact_id in ids]
        searched = [row for row in rows if row.state in _INDEXED]
        missing = [row.position for row in searched if row.position not in documents.at]
        if 0 < len(missing) <= WAITING_MAX and not documents.embedder_failed:
            documents.add_unstored(self.fold.events_at(missing).values(), memory_texts)
        self.columns.update(rows, documents.at)
        is_indexed = documents.at.__contains__ if self.is_sealed else documents.is_stored
        return [row.id for row in searched if not is_indexed(row.position)]

    def _may_wait(self, touched: list[str]) -> bool:
        """Return whether the facts that are not stored are few, and the others are read."""
        documents = self.documents
        if documents.embedder_failed:
            # Nothing was added since; the store asks it again.
            return False
        is_built = self._built_from == (self.fold.generation, documents.generation)
        is_begun = documents.count > documents.unstored_count and documents.vectors is not None
        return is_built and is_begun and len(self._unindexed) + len(touched) <= WAITING_MAX

    def _unindexed_events(self) -> Iterator[Any]:
        """Return the events of memories that are not indexed yet."""
        state = self.fold.state
        positions = [
            *(row.position for row in state.facts.values()),
            *(row.position for row in state.episodes.values()),
        ]
        missing = [position for position in positions if position not in self.documents.at]
        return iter(self.fold.events_at(missing).values())


class Embedders(NamedTuple):
    """Functions that return the embedder of events, and the one that is wanted for facts."""

    events: Callable[[], Embedder | None]
    facts: Callable[[], Embedder | None]


class EmbeddedAhead:
    """An embedder that remembers what it has embedded."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self.dimensions = embedder.dimensions
        self.cosine_min = embedder.cosine_min
        self.knows_words = embedder.knows_words
        self.embed_queries = embedder.embed_queries
        self._vectors: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one row per text."""
        import numpy as np  # noqa: PLC0415  (slow to import, and few need it)

        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            self._vectors.update(zip(new, self._embedder.embed(new), strict=True))
        return np.array([self._vectors[text] for text in texts], np.float32)


class ScopeMemories:
    """The scope memories of this process, by scope. Thread-safe."""

    def __init__(
        self,
        store: MemoryStore,
        attributed: Attributed,
        embedders: Embedders,
        is_sealed: Callable[[Scope], bool],
    ) -> None:
        self._store = store
        self._attributed = attributed
        self._embedders = embedders
        self._is_sealed = is_sealed
        self._lock = Lock(patience_s=PATIENCE_S)
        self._held: dict[Scope, ScopeMemory] = {}
        self._process = os.getpid()

    def of(self, scope: Scope) -> ScopeMemory:
        """Return the memory of a scope."""
        if self._process != os.getpid():
            # After a fork, threads that held the locks are gone.
            self._lock, self._held = Lock(patience_s=PATIENCE_S), {}
            self._process = os.getpid()
        with self._lock.guard, self._lock:
            sealed = self._is_sealed(scope)
            scope_memory = self._held.pop(scope, None)
            if (
                scope_memory is None
                or scope_memory.is_sealed != sealed
                or (scope_memory.is_elsewhere and self._is_chosen_here)
            ):
                scope_memory = self._new(scope, self._fact_embedder(scope, sealed=sealed), sealed)
            self._held[scope] = scope_memory
            while len(self._held) > SCOPES_HELD_MAX:
                del self._held[next(iter(self._held))]
            return scope_memory

    def replace(self, scope: Scope, embedder: Embedder) -> ScopeMemory:
        """Return a new memory of a scope that is not sealed, with this embedder of facts."""
        with self._lock.guard, self._lock:
            self._held[scope] = self._new(scope, embedder, sealed=False)
            return self._held[scope]

    def _new(self, scope: Scope, embedder: Embedder | None, sealed: bool) -> ScopeMemory:  # noqa: FBT001
        embedders = (self._embedders.events(), embedder)
        return ScopeMemory(self._store, self._attributed, scope, embedders, sealed=sealed)

    @property
    def _is_chosen_here(self) -> bool:
        """Whether there is a choice: the caller has not named one embedder for everything."""
        events, facts = self._embedders.events(), self._embedders.facts()
        return events is not None and facts is not None and events.name != facts.name

    def _fact_embedder(self, scope: Scope, *, sealed: bool) -> Embedder | None:
        """Return the embedder whose vectors the facts of a scope have, else the wanted one."""
        events, facts = self._embedders.events(), self._embedders.facts()
        if events is None or facts is None or events.name == facts.name:
            return facts
        if sealed:
            # Its vectors are made again in each process, which has to be quick.
            return events
        newest = self._store.index_state(scope, "memories").newest
        page = self._store.documents(scope, "memories", after=newest - 1, limit=1) if newest else []
        return events if page and page[0][1].embedder == events.name else facts

    def clear(self) -> None:
        """Drop everything; it is read again when needed."""
        with self._lock.guard, self._lock:
            self._held.clear()

    def save(self) -> None:
        """Save the folds of all scopes for the next process."""
        if self._process != os.getpid():
            # The parent saves what it holds, and its threads may have held the locks.
            return
        with self._lock.guard, self._lock:
            scope_memories = list(self._held.values())
        for scope_memory in scope_memories:
            with scope_memory.lock.guard, scope_memory.lock:
                scope_memory.save()
