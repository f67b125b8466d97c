"""What the memory keeps of events so that they are found again: numbers, never a text."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

IndexName = Literal["events", "memories"]
"""events: what was said and done; memories: facts and episodes."""
INDEX_NAMES: Final[tuple[IndexName, ...]] = ("events", "memories")

MEMORY_SESSION: Final = "treering:memory"
"""The session of a scope in which is recorded what belongs to no other."""

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
"""The kinds that what is remembered is folded from."""

TOLD_KINDS: Final = ("episode.written", "memory.revised", "memory.stored")
"""The kinds on the shelf of memories: they hold the texts that are recalled."""


class Document(msgspec.Struct, frozen=True, gc=False):
    """What one event is found by."""

    position: int
    session: int
    """The store's number of its session: neighbours have the same."""
    seq: int
    ts_ms: int
    kind: str
    embedder: str
    """The space of its vectors; empty if it has none."""
    terms: bytes
    """The words, hashed: unsigned 32 bits each, little-endian."""
    vectors: bytes
    """One or several, as 8-bit numbers: see vectors.py."""


class IndexEntry(msgspec.Struct, frozen=True, gc=False):
    """How an event is entered: what a reader makes of it."""

    position: int
    terms: bytes
    vectors: bytes


class IndexState(msgspec.Struct, frozen=True, gc=False):
    """The state of a shelf, to see whether what was read of it is still so."""

    generation: int
    """Changes whenever documents are taken out or made anew."""
    newest: int
    """The number of the last document that was entered; 0 if there is none."""
    count: int


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of what was folded from the events. Only numbers and hashes, and ids of memories."""

    sort: str
    """fact, episode, handle, user, …"""
    key: str
    body: bytes | None
    """Canonical JSON; None takes the row out."""


class SavedFold(msgspec.Struct, frozen=True):
    """What was folded, as far as it was kept."""

    mark: tuple[int, ...]
    """Up to where events are in it: the mark of a follower; empty at the beginning."""
    items: list[Row]
