"""Records that the memory stores about events to find them again: numbers, never text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from treering.derive.fact_rows import SavedRows

IndexName = Literal["events", "memories"]
"""events: what was said and done; memories: facts and episodes."""
INDEX_NAMES: Final[tuple[IndexName, ...]] = ("events", "memories")

MEMORY_SESSION: Final = "treering:memory"
"""The session for events that belong to no other session."""

REMEMBERED_KINDS: Final = (
    "episode.written",
    "memory.archived",
    "memory.forgotten",
    "memory.recalled",
    "memory.refused",
    "memory.restored",
    "memory.revised",
    "memory.stored",
    "memory.superseded",
    "user.linked",
    "user.merged",
    "user.unlinked",
)
"""Kinds of events that the memory is folded from."""

TOLD_KINDS: Final = ("episode.written", "memory.revised", "memory.stored")
"""Kinds in the index of memories: their events hold the texts that are recalled."""


class Document(msgspec.Struct, frozen=True, gc=False):
    """The index record of one event."""

    position: int
    session: int
    """The store's number of the session; neighbouring documents share it."""
    seq: int
    ts_ms: int
    kind: str
    embedder: str
    """The embedder of the vectors; empty without vectors."""
    terms: bytes
    """Hashed words: unsigned 32-bit numbers, little-endian."""
    vectors: bytes
    """One or more 8-bit vectors; see vectors.py."""


class DocumentColumns(msgspec.Struct, frozen=True, gc=False):
    """Documents in the order of their numbers, field by field."""

    numbers: list[int]
    positions: list[int]
    sessions: list[int]
    seqs: list[int]
    term_bytes: list[int]
    """How many bytes of ``terms`` each document has."""
    vector_bytes: list[int]
    terms: bytes
    vectors: bytes

    def __post_init__(self) -> None:
        """Raise ValueError if a field lacks something, as damaged ones may."""
        counts = {len(column) for column in msgspec.structs.astuple(self)[:6]}
        held = (len(self.terms), len(self.vectors))
        if len(counts) > 1 or held != (sum(self.term_bytes), sum(self.vector_bytes)):
            raise ValueError("a document lacks a required field")


class IndexEntry(msgspec.Struct, frozen=True, gc=False):
    """What the index stores of an event."""

    position: int
    terms: bytes
    vectors: bytes


class IndexState(msgspec.Struct, frozen=True, gc=False):
    """The state of an index, to detect changes since it was read."""

    generation: int
    """Changes whenever documents are removed or rebuilt."""
    newest: int
    """The number of the newest document; 0 if the index is empty."""
    count: int


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of the fold: numbers, hashes and ids of memories only."""

    sort: str
    """fact, episode, handle, user, …"""
    key: str
    body: bytes | None
    """Canonical JSON; None deletes the row."""


class SavedFold(NamedTuple):
    """A fold as it was saved."""

    mark: tuple[int, ...]
    """The follower's mark up to which events are folded; empty at the beginning."""
    tables: dict[str, SavedRows]
    """The bodies of rows by their sort and key."""

    @property
    def items(self) -> list[Row]:
        """Return the rows."""
        return [
            Row(sort, key, body)
            for sort, bodies in self.tables.items()
            for key, body in bodies.items()
        ]
