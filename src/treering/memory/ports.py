"""What the memory needs from outside: a store, an embedder, and whoever records events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from treering.derive.fact_extraction import Utterance
    from treering.memory.model_reading import Extraction
    from treering.memory.records import Document, IndexEntry, IndexName, IndexState, Row, SavedFold
    from treering.model.events import Event
    from treering.model.followers import FollowedEvents, FollowStep, Mark
    from treering.model.scopes import Scope
    from treering.model.sessions import Attribution

    Matrix = npt.NDArray[np.float32]
    Attributed = Callable[[Scope, str], Attribution]
    """Says whose is what a session of a scope tells without naming a user."""


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of two embedders are never compared."""

    @property
    def name(self) -> str:
        """Return the name of its space: another model, or another version, has another."""

    @property
    def dimensions(self) -> int:
        """Return how long its vectors are."""

    @property
    def cosine_min(self) -> float:
        """Return the cosine from which a text speaks of what is asked, if there are few."""

    @property
    def knows_words(self) -> bool:
        """Return whether single words have vectors of their own, at next to no cost."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one row for each text, of length 1; of length 0 if it knows no word of it."""

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return the same for questions: rare words may weigh more."""


class Extractor(Protocol):
    """A model that finds facts in what was said. What it finds is checked against that."""

    @property
    def name(self) -> str:
        """Return the name of the model."""

    def __call__(self, messages: Sequence[Utterance]) -> Extraction:
        """Return what it finds in ``messages``, and what that used."""


class MemoryStore(Protocol):
    """Keeps what is derived from events for the memory. All of it can be made anew."""

    def end(self, scope: Scope) -> Mark:
        """Return the mark of the last event of the scope that can be followed by now."""

    def remembered_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return events of REMEMBERED_KINDS, and headers of erasures as events without payload.

        They come in the order they are followed, behind ``mark``; an empty mark is the beginning.
        Erased events are left out. ``last`` of the stretch is where to go on, also if many events
        of other kinds stood between.
        """

    def memory_rows(self, scope: Scope) -> SavedFold:
        """Return what was folded and kept."""

    def keep_memory_rows(
        self, scope: Scope, rows: Sequence[Row], *, since: Mark, until: Mark, anew: bool
    ) -> bool:
        """Keep rows that events between two marks changed; in one transaction.

        Return False, and change nothing, if what is kept is no longer at ``since``, or if nothing
        may be written. ``anew`` throws away what was kept before.
        """

    def follow_documents(
        self,
        scope: Scope,
        shelf: IndexName,
        read: Callable[[Sequence[Event]], Sequence[IndexEntry]],
        *,
        embedder: str,
    ) -> FollowStep:
        """Have a shelf follow the next stretch of its events, as ``read`` tells them."""

    def documents(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int
    ) -> list[tuple[int, Document]]:
        """Return documents with their numbers, in the order they were entered, behind ``after``."""

    def index_state(self, scope: Scope, shelf: IndexName) -> IndexState:
        """Return the state of a shelf."""

    def documents_lag(self, scope: Scope, shelf: IndexName) -> int:
        """Return how many events of a shelf's kinds are not on it yet."""

    def drop_documents(self, scope: Scope | None = None) -> int:
        """Take all documents out, to be entered anew; return how many there were."""

    def nearest(
        self, scope: Scope, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return numbers of documents and cosines, by an index of neighbours; None without one."""

    def term_key(self, scope: Scope) -> bytes:
        """Return the key that the words of a scope are hashed under; empty if it is not there."""

    def events_at_positions(self, scope: Scope, positions: Sequence[int]) -> list[Event]:
        """Return events of a scope by position, as far as they are there and not erased."""
