"""Snapshots: all views of a timeline up to some point, in numbers, ready to be carried on.

A snapshot holds numbers and the names of kinds, never a text that might have to be erased. It
depends on nothing but the events up to its seq, so it serves every fork that leaves behind it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.counts import EventCounter
from treering.derive.entity_log import EntityLog
from treering.derive.goals import GOALS
from treering.derive.memories import MEMORIES
from treering.derive.prices import prices_version
from treering.derive.reports import REPORT, report_of
from treering.derive.schedules import SCHEDULES
from treering.derive.usage import FrozenSpending, Spending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.derive.entity_log import EventsAt
    from treering.model.events import Header

VERSION: Final = 2
"""Goes up whenever what is in a snapshot, or what it means, changes."""
WAITING_MAX: Final = 10_000
"""With more events of open runs there is no snapshot: it would cost more than it saves."""
_DIGEST_BYTES: Final = 16
_NOUNS: Final = (GOALS, SCHEDULES, MEMORIES)


class Snapshot(msgspec.Struct, array_like=True):
    """The state of all views at a seq."""

    seq: int
    prices: str
    """Which prices the costs were found with."""
    tally: EventCounter
    spending: FrozenSpending
    goals: EntityLog
    schedules: EntityLog
    memories: EntityLog


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as it is kept: a version, a digest, the numbers."""
    numbers = _encoder.encode(snapshot)
    return bytes([VERSION]) + _digest(numbers) + numbers


def decode_snapshot(body: bytes, seq: int) -> Snapshot | None:
    """Return the snapshot in ``body``; None if it is damaged or not one of ours at ``seq``."""
    numbers = body[1 + _DIGEST_BYTES :]
    if body[:1] != bytes([VERSION]) or body[1 : 1 + _DIGEST_BYTES] != _digest(numbers):
        return None
    try:
        found = _decoder.decode(numbers)
    except msgspec.MsgspecError:
        return None
    # Where nothing was used, it does not matter what it would have cost.
    priced = found.prices == prices_version() or not found.spending.models
    return found if found.seq == seq and priced else None


class Fold:
    """All views of a timeline, carried on event by event."""

    def __init__(self, read: EventsAt) -> None:
        self._read = read
        self.seq = 0
        self.tally = EventCounter()
        self.spending = Spending()
        self.goals, self.schedules, self.memories = EntityLog(), EntityLog(), EntityLog()

    @classmethod
    def resumed(cls, snapshot: Snapshot, read: EventsAt) -> Fold | None:
        """Return the views as a snapshot has them; None if what it names is gone."""
        spending = snapshot.spending.thaw(read)
        if spending is None:
            return None
        fold = cls(read)
        fold.seq, fold.tally, fold.spending = snapshot.seq, snapshot.tally, spending
        fold.goals, fold.schedules = snapshot.goals, snapshot.schedules
        fold.memories = snapshot.memories
        return fold

    def take(self, headers: Sequence[Header], hides: Callable[[int], bool]) -> None:
        """Follow the next events; ``hides`` says which of them are undone."""
        asked = [h.seq for h in headers if h.kind == REPORT and not h.redacted]
        reports = {event.seq: report_of(event) for event in self._read(asked)} if asked else {}
        for header in headers:
            self.tally.take(header)
            self.spending.take(header, reports.get(header.seq))
            hidden = hides(header.seq)
            for noun, entity_log in zip(_NOUNS, self._trails, strict=True):
                entity_log.take(header, noun.kinds, hidden=hidden)
            self.seq = header.seq
        for noun, entity_log in zip(_NOUNS, self._trails, strict=True):
            if entity_log.is_long:
                entity_log.clear(noun, self._read)

    def equals(self, other: Fold) -> bool:
        """Whether both say the same. Which events they keep for that may differ."""
        if (self.seq, self.tally, self.spending.freeze()) != (
            other.seq,
            other.tally,
            other.spending.freeze(),
        ):
            return False
        return all(
            one.waiting == two.waiting
            and one.values(noun, self._read) == two.values(noun, self._read)
            for noun, one, two in zip(_NOUNS, self._trails, other._trails, strict=True)
        )

    def freeze(self) -> Snapshot | None:
        """Return a snapshot of the views; None if too much depends on open runs."""
        if sum(entity_log.waiting_events for entity_log in self._trails) > WAITING_MAX:
            return None
        return Snapshot(
            seq=self.seq,
            prices=prices_version(),
            tally=self.tally,
            spending=self.spending.freeze(),
            goals=self.goals,
            schedules=self.schedules,
            memories=self.memories,
        )

    @property
    def _trails(self) -> tuple[EntityLog, EntityLog, EntityLog]:
        return self.goals, self.schedules, self.memories


def _digest(numbers: bytes) -> bytes:
    return hashlib.blake2b(numbers, digest_size=_DIGEST_BYTES).digest()


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Snapshot)
