"""All that is known about a fact except its text, and how it is saved.

A saved row begins with its numbers at fixed places, so that those of 50,000 facts become columns at
once. The rest is read when the fact itself is needed:

    numbers ──► columns, and which fact has a statement or a slot
    JSON    ──► FactRow, one at a time
    sum     ──► whether the row is as it was written

Saved rows stay end to end, as the database returns them: to make an object of each takes longer
than to read them all.
"""

from __future__ import annotations

import hashlib
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, count
from struct import Struct
from typing import Final

import msgspec

from treering.errors import Corrupt
from treering.model.codec import encode
from treering.model.memories import FactState

HASH_CHARACTERS: Final = 16
STATES: Final[tuple[FactState, ...]] = (
    "current", "archived", "superseded", "forgotten", "quarantined", "refused",
)  # fmt: skip
"""By number."""
STATE_NUMBERS: Final = {state: number for number, state in enumerate(STATES)}
COMPETING: Final = frozenset({"current", "archived"})
"""States of facts that compete for a statement or slot."""
_COMPETING_NUMBERS: Final = frozenset(STATE_NUMBERS[state] for state in ("current", "archived"))
NO_END_MS: Final = 2**62
NOBODY: Final = 0
"""The number for no user, no wall and no slot."""
NUMBERS_HELD: Final = 4_096
FIELDS: Final = (
    ("state", "u1"),
    ("importance", "u1"),
    ("unused", "u2"),
    ("uses", "<u4"),
    ("accessed", "<i8"),
    ("valid_from", "<i8"),
    ("valid_to", "<i8"),
    ("position", "<i8"),
    ("user", "<u8"),
    ("wall", "<u8"),
    ("statement", "<u8"),
    ("slot", "<u8"),
)
"""The numbers of a saved row, as NumPy names their types."""
_NUMBERS: Final = Struct("<BBxxIqqqqQQQQ")
_KEYS: Final = Struct("<B15xq8xqQQQQ")
"""Of these, what finds a fact: state, start, position, user, wall, statement and slot."""
_SUM_BYTES: Final = 4
_BYTES_MIN: Final = _NUMBERS.size + _SUM_BYTES
_SUM_OF_WHOLE: Final = 0x2144DF1C
"""The CRC-32 of anything that ends with its own."""
GAP: Final = bytes.fromhex("81d59d4c")
"""What is between two saved rows: behind one that is whole, it sets their sum back to nothing."""

Key = tuple[int, int, int]
"""A user, a wall, and a statement or slot, as numbers."""


def hashed(*texts: str) -> str:
    """Return a short hash, to be stored instead of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:HASH_CHARACTERS]


@lru_cache(NUMBERS_HELD)
def number(text: str | None) -> int:
    """Return a hash as a number that is never NOBODY."""
    return NOBODY if text is None else int(text, 16) or 1


class FactAssertion(msgspec.Struct, array_like=True, gc=False):
    """One event that stated a fact, and the validity it gave."""

    recorded_ms: int
    position: int
    valid_from_ms: int
    valid_to_ms: int | None


class FactRow(msgspec.Struct, kw_only=True, gc=False, array_like=True):
    """All that is known about a fact except its text."""

    id: str
    user: str | None
    """Hashed, like all names here."""
    wall: str | None
    """The session that keeps it to itself: a group, or a session that names no user."""
    state: FactState
    reason: str | None = None
    category: str
    importance: int
    confidence: float
    recorded_ms: int
    valid_from_ms: int
    valid_to_ms: int | None = None
    superseded_ms: int | None = None
    superseded_by: str | None = None
    accessed_ms: int
    uses: int = 0
    accepted: bool = False
    cites: list[str] = []
    """Hashes of the cited events."""
    statement: str
    """A hash of its words, independent of spelling."""
    slot: str | None = None
    """A hash of what it is about, if only one value can be true at a time."""
    assertions: list[FactAssertion] = []
    """In order; the last one has the current text."""
    changes: list[tuple[int, FactState]] = []
    """When the ledger learned of each state."""
    settled: int = 0
    """The position of the event that caused its state."""
    may_end: str | None = None
    """The id of an earlier fact that it may have ended, until somebody decides."""

    @property
    def position(self) -> int:
        """Return the position of the event with its current text."""
        return self.assertions[-1].position

    @property
    def owner(self) -> tuple[str | None, str | None]:
        """Return its owner: facts of different owners are never compared."""
        return self.user, self.wall


UNREADABLE: Final = ""
"""The sort of saved rows that cannot be read; no other has it."""


class SavedRows(Mapping[str, bytes]):
    """The bodies of saved rows by key, end to end in pages."""

    def __init__(self, pages: Iterable[tuple[list[str], list[int], bytes]] = ()) -> None:
        """Take keys, sizes and bodies with GAP between them. Raise ValueError if they differ."""
        self.pages: list[bytes] = []
        self.shortest = NO_END_MS
        self._places: dict[str, int] = {}
        self._firsts: list[int] = []
        self._starts: list[list[int]] = []
        rows = 0
        for keys, sizes, joined in pages:
            # The last one is not followed by a gap.
            starts = list(accumulate(map(len(GAP).__add__, sizes), initial=0))
            if len(keys) != len(sizes) or starts[-1] != len(joined) + len(GAP):
                raise ValueError("a saved row lacks something")
            self.pages.append(joined)
            self.shortest = min(self.shortest, *sizes)
            self._places.update(zip(keys, count(rows)))
            self._firsts.append(rows)
            self._starts.append(starts)
            rows += len(keys)

    def __getitem__(self, key: str) -> bytes:
        place = self._places[key]
        page = bisect_right(self._firsts, place) - 1
        start, end = self._starts[page][(at := place - self._firsts[page]) : at + 2]
        return self.pages[page][start : end - len(GAP)]

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def heads(self, size: int) -> bytes:
        """Return the first bytes of all rows, one after another."""
        return b"".join(
            b"".join([page[start : start + size] for start in starts[:-1]])
            for page, starts in zip(self.pages, self._starts, strict=True)
        )


class FactRows(Mapping[str, FactRow]):
    """Facts by id: those of this process, and saved ones, each read when it is needed."""

    def __init__(self, saved: SavedRows | None = None) -> None:
        """Take saved rows by id. Raise ValueError if one is not as it was written."""
        self.saved = saved or SavedRows()
        is_whole = {_SUM_OF_WHOLE}.issuperset(map(zlib.crc32, self.saved.pages))
        if not is_whole or self.saved.shortest < _BYTES_MIN:
            raise ValueError("a saved fact is damaged")
        self.numbers = self.saved.heads(_NUMBERS.size)
        """Of the saved rows, one after another; FIELDS says where each is."""
        self.read: dict[str, FactRow] = {}
        """The rows of this process. They may have changed since they were saved."""
        self._new: dict[str, FactRow] = {}

    def __getitem__(self, fact_id: str) -> FactRow:
        row = self.read.get(fact_id)
        if row is None:
            row = self.read[fact_id] = _unpacked(fact_id, self.saved[fact_id])
        return row

    def __setitem__(self, fact_id: str, row: FactRow) -> None:
        self.read[fact_id] = row
        if fact_id not in self.saved:
            self._new[fact_id] = row

    def __contains__(self, fact_id: object) -> bool:
        return fact_id in self._new or fact_id in self.saved

    def __iter__(self) -> Iterator[str]:
        yield from self.saved
        yield from self._new

    def __len__(self) -> int:
        return len(self.saved) + len(self._new)

    def keys_of_saved(self) -> Iterator[tuple[str, int, int, Key, Key]]:
        """Return id, start, position, statement and slot of saved facts that compete for them."""
        for fact_id, keys in zip(self.saved, _KEYS.iter_unpack(self.numbers), strict=True):
            state, since, position, user, wall, statement, slot = keys
            if state in _COMPETING_NUMBERS:
                yield fact_id, since, position, (user, wall, statement), (user, wall, slot)


def packed(row: FactRow) -> bytes:
    """Return a row as it is saved."""
    until = row.valid_to_ms
    whole = _NUMBERS.pack(
        STATE_NUMBERS[row.state],
        row.importance,
        row.uses,
        row.accessed_ms,
        row.valid_from_ms,
        NO_END_MS if until is None else until,
        row.position,
        *key_of(row.owner, row.statement),
        NOBODY if row.slot is None else number(hashed(row.slot)),
    ) + encode(row)
    return whole + zlib.crc32(whole).to_bytes(_SUM_BYTES, "little")


def key_of(owner: tuple[str | None, str | None], text: str) -> Key:
    """Return an owner, hashed, and a statement or slot as numbers."""
    # The writer of an event chooses the text of a statement: it need not be a hash.
    return number(owner[0]), number(owner[1]), number(hashed(text))


_DECODER: Final = msgspec.json.Decoder(FactRow)


def _unpacked(fact_id: str, body: bytes) -> FactRow:
    try:
        row = _DECODER.decode(memoryview(body)[_NUMBERS.size : -_SUM_BYTES])
    except ValueError:
        row = None
    if row is None or row.id != fact_id or not row.assertions:
        raise Corrupt(
            f"the saved memory is damaged: {fact_id} cannot be read", hint="run treering rebuild"
        )
    return row
