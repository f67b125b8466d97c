"""What the memory needs from outside: a store, an embedder, and whoever records events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from treering.context.summaries import Summariser
    from treering.derive.fact_extraction import Utterance
    from treering.memory.conversations import Conversation
    from treering.memory.model_reading import Extraction
    from treering.memory.records import Document, IndexEntry, IndexName, IndexState, Row, SavedFold
    from treering.model.events import Event, Header, NewEvent
    from treering.model.followers import FollowedEvents, FollowStep, Mark
    from treering.model.queries import TimelinePoint
    from treering.model.scopes import Scope
    from treering.model.sessions import Attribution, SessionSettings

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


class Recorder(Protocol):
    """The ledger, as the memory knows it: it records events, and knows sessions."""

    def append(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record all of ``events`` durably and in order, or none of them."""

    def settings(self, scope: Scope, session_id: str) -> SessionSettings | None:
        """Return what a session was opened as; None if it is not there."""

    def attribution(self, scope: Scope, session_id: str) -> Attribution:
        """Return whose is what a session tells without naming a user."""

    def met(self, scope: Scope, channel: str, handle: str) -> str | None:
        """Return the user that the main session of a handle was opened for; None without one."""

    def find(self, scope: Scope, event_id: str) -> Event | None:
        """Return the event with this id, or None."""

    def places(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return session and time of the events with these ids, as far as there are such."""

    def gone(self, scope: Scope, event_ids: Sequence[str]) -> set[str]:
        """Return those of the events with these ids whose content was erased or has expired."""

    def salts(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the salts of the events with these ids, as far as they are not erased."""

    def is_rekeyed(self) -> bool:
        """Whether the ledger may hold ids that an earlier version made of texts."""

    def redact(self, scope: Scope, event_id: str) -> None:
        """Erase the content of an event."""

    def masked(self, text: str) -> str:
        """Return ``text`` with its secrets masked; the same if there are none."""

    def now_ms(self) -> int:
        """Return the time."""

    def sessions(self, scope: Scope) -> list[tuple[str, int]]:
        """Return the sessions that somebody talked in, and their last seq.

        The one that was written to longest ago comes first.
        """

    def conversation(self, scope: Scope, session_id: str, *, after_seq: int) -> Conversation:
        """Return what was said in a session behind ``after_seq``, as far as it counts."""

    def read_through(self, scope: Scope, session_id: str) -> int:
        """Return the seq up to which a session was read for facts; 0 if it was not."""

    def note_read(self, scope: Scope, session_id: str, seq: int) -> None:
        """Keep durably up to which seq a session was read for facts."""

    def usage(self, scope: Scope, *, since_ms: int, after: TimelinePoint | None) -> list[Header]:
        """Return a page of what was reported as used since a time, behind ``after``, in order."""


class Talk(Protocol):
    """A session whose episodes can be written."""

    @property
    def scope(self) -> Scope:
        """Return the scope that it is in."""

    def write_episode(self, *, summariser: Summariser | None = None) -> Header | None:
        """Record what it was about since the last episode; None if nothing was said."""
