"""What the memory needs from outside: a store, an embedder and an extractor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from treering.memory.model_extraction import Extraction
    from treering.memory.records import (
        Document,
        DocumentColumns,
        IndexEntry,
        IndexName,
        IndexState,
        Row,
        SavedFold,
    )
    from treering.model.events import Event
    from treering.model.queries import FollowedEvents, FollowStep, Mark
    from treering.model.scopes import Scope
    from treering.model.sessions import Attribution
    from treering.rules.fact_extraction import Utterance

    Matrix = npt.NDArray[np.float32]
    Attributed = Callable[[Scope, str], Attribution]
    """Returns who the facts of a session belong to when it names no user."""


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of different embedders are never compared."""

    @property
    def name(self) -> str:
        """Return the name of the vector space: every model and version has its own."""

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""

    @property
    def cosine_min(self) -> float:
        """Return the cosine from which a text is about a query, among few texts."""

    @property
    def knows_words(self) -> bool:
        """Return whether single words have vectors of their own, at almost no cost."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text; a zero row if it knows no word of the text."""

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return the same for queries, where rare words may weigh more."""


@runtime_checkable
class ChangeScorer(Protocol):
    """Reads two statements together, and tells whether one ends the other."""

    def change_scores(self, new: str, earlier: Sequence[str]) -> Sequence[float]:
        """Return the log odds that a statement makes each earlier one outdated."""


@runtime_checkable
class ChangeModel(ChangeScorer, Protocol):
    """A model that does so, and that takes its time for it."""

    @property
    def words(self) -> Embedder:
        """Return an embedder that knows single words."""


class Extractor(Protocol):
    """A model that finds facts in messages. Its answers are checked against them."""

    @property
    def name(self) -> str:
        """Return the name of the model."""

    def __call__(self, messages: Sequence[Utterance]) -> Extraction:
        """Return the facts in ``messages``, and the tokens used."""


class MemoryStore(Protocol):
    """Stores what the memory derives from events. All of it can be rebuilt."""

    def end(self, scope: Scope) -> Mark:
        """Return the mark of the scope's last event that can be followed by now."""

    def remembered_after(self, scope: Scope, mark: Mark, *, limit: int) -> FollowedEvents[Event]:
        """Return events of REMEMBERED_KINDS, and headers of erasures as events without payload.

        They come in follower order after ``mark``; an empty mark is the beginning. Erased events
        are left out. Continue from ``last``, even if many events of other kinds were skipped.
        """

    def memory_rows(self, scope: Scope) -> SavedFold:
        """Return the saved fold."""

    def keep_memory_rows(
        self, scope: Scope, rows: Sequence[Row], *, since: Mark, until: Mark, replace: bool
    ) -> bool:
        """Save rows that events between two marks changed, in one transaction.

        Return False and change nothing if the saved fold is no longer at ``since``, or if the store
        is read-only. ``replace`` drops what was saved before.
        """

    def follow_documents(
        self,
        scope: Scope,
        shelf: IndexName,
        read: Callable[[Sequence[Event]], Sequence[IndexEntry]],
        *,
        embedder: str,
    ) -> FollowStep:
        """Let an index follow the next page of its events; ``read`` turns them into entries."""

    def documents(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int
    ) -> list[tuple[int, Document]]:
        """Return documents with their numbers, in insertion order after ``after``."""

    def document_columns(
        self, scope: Scope, shelf: IndexName, *, after: int, limit: int, embedder: str
    ) -> DocumentColumns:
        """Return the same as columns, with the vectors of one embedder alone."""

    def index_state(self, scope: Scope, shelf: IndexName) -> IndexState:
        """Return the state of an index."""

    def documents_lag(self, scope: Scope, shelf: IndexName) -> int:
        """Return how many events are not indexed yet."""

    def drop_documents(self, scope: Scope | None = None, shelf: IndexName | None = None) -> int:
        """Remove all documents, of a scope or of one index of it, to be indexed again.

        Return how many there were.
        """

    def nearest(
        self, scope: Scope, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return document numbers and cosines from a nearest-neighbour index; None without one."""

    def term_key(self, scope: Scope) -> bytes:
        """Return the key that hashes the words of a scope; empty if there is none."""

    def events_at_positions(self, scope: Scope, positions: Sequence[int]) -> list[Event]:
        """Return the events at these positions that exist and are not erased."""

    def sessions_at_positions(self, scope: Scope, positions: Sequence[int]) -> dict[int, int]:
        """Return the store's number of the session of the event at each position."""

    def stray_rows(self) -> int:
        """Return how many rows and documents belong to no scope, or to no index."""
