"""Snapshots: the state of views at a point of a timeline, from which they can continue.

Counts are summed by the store and have snapshots of their own. The other views are folded together,
from events of the few kinds that they need.

A snapshot holds numbers and names of kinds, never text that may have to be erased. It depends only
on the events up to its seq, so every fork after that seq can use it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.derive.entity_log import GOALS, MEMORIES, SCHEDULES, EntityLog, run_number
from treering.derive.prices import prices_version
from treering.derive.reports import REPORT, SavedUsage, UsageFold, report_of
from treering.model.kinds import RUN_ENDS
from treering.model.views import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.derive.entity_log import EntityType, EventsAt
    from treering.model.events import Header
    from treering.model.queries import SessionTally

VERSION: Final = 3
"""Increased whenever the content or meaning of snapshots changes."""
WAITING_MAX: Final = 10_000
"""With more pending events of open runs, a snapshot would cost more than it saves."""
_DIGEST_BYTES: Final = 16

Value = TypeVar("Value")
_ENTITY_TYPES: Final[tuple[EntityType[Any], ...]] = (GOALS, SCHEDULES, MEMORIES)
FOLDED, COUNTS = range(2)
"""The numbers of views that have snapshots: those that are folded, and the counts."""
FOLDED_KINDS: Final = frozenset({
    *(REPORT, "conversation.user", "run.started", *RUN_ENDS),
    *(kind for entity_type in _ENTITY_TYPES for kind in entity_type.kinds),
})  # fmt: skip
"""The kinds of events that views are folded from."""


class Snapshot(msgspec.Struct, array_like=True):
    """The state of the folded views at a seq."""

    seq: int
    prices: str
    """The version of the price list used for costs."""
    spending: SavedUsage
    goals: EntityLog
    schedules: EntityLog
    memories: EntityLog


class CountSnapshot(msgspec.Struct, array_like=True):
    """The counts at a seq."""

    seq: int
    tally: EventCounter


def encode_snapshot(snapshot: Snapshot | CountSnapshot) -> bytes:
    """Return a snapshot as bytes: a version, a digest, the numbers."""
    numbers = _encoder.encode(snapshot)
    return bytes([VERSION]) + _digest(numbers) + numbers


def decode_snapshot(body: bytes, seq: int) -> Snapshot | None:
    """Return the snapshot in ``body``; None if it is damaged or not of this version and seq."""
    snapshot = _decode(_decoder, body)
    if snapshot is None or snapshot.seq != seq:
        return None
    # Without any usage the price list does not matter.
    priced = snapshot.prices == prices_version() or not snapshot.spending.models
    return snapshot if priced else None


def decode_counts(body: bytes, seq: int) -> EventCounter | None:
    """Return the counts in ``body``; None if it is damaged or not of this version and seq."""
    snapshot = _decode(_count_decoder, body)
    return snapshot.tally if snapshot and snapshot.seq == seq else None


def is_damaged(body: bytes, seq: int, view: int) -> bool:
    """Whether a snapshot of this version is not what was kept at ``seq``; readers ignore it."""
    if body[:1] != bytes([VERSION]):
        return False
    kept = _decode(_count_decoder, body) if view == COUNTS else _decode(_decoder, body)
    return kept is None or kept.seq != seq


def _decode(decoder: msgspec.msgpack.Decoder[Value], body: bytes) -> Value | None:
    numbers = body[1 + _DIGEST_BYTES :]
    if body[:1] != bytes([VERSION]) or body[1 : 1 + _DIGEST_BYTES] != _digest(numbers):
        return None
    try:
        return decoder.decode(numbers)
    except msgspec.MsgspecError:
        return None


class Fold:
    """All views of a timeline but its counts, updated event by event."""

    def __init__(self, read: EventsAt) -> None:
        self._read = read
        self.seq = 0
        self.spending = UsageFold()
        self.goals, self.schedules, self.memories = EntityLog(), EntityLog(), EntityLog()

    @classmethod
    def resumed(cls, snapshot: Snapshot, read: EventsAt) -> Fold | None:
        """Return the views from a snapshot; None if events it refers to are gone."""
        spending = snapshot.spending.thaw(read)
        if spending is None:
            return None
        fold = cls(read)
        fold.seq, fold.spending = snapshot.seq, spending
        fold.goals, fold.schedules = snapshot.goals, snapshot.schedules
        fold.memories = snapshot.memories
        return fold

    def take(self, headers: Sequence[Header], hides: Callable[[int], bool]) -> None:
        """Apply the next events of FOLDED_KINDS; ``hides`` returns whether a seq is undone."""
        report_seqs = [h.seq for h in headers if h.kind == REPORT and not h.redacted]
        reports = (
            {event.seq: report_of(event) for event in self._read(report_seqs)}
            if report_seqs
            else {}
        )
        for header in headers:
            self.spending.take(header, reports.get(header.seq))
            hidden = hides(header.seq)
            for entity_type, entity_log in zip(_ENTITY_TYPES, self._entity_logs, strict=True):
                entity_log.take(header, entity_type.kinds, hidden=hidden)
            self.seq = header.seq
        for entity_type, entity_log in zip(_ENTITY_TYPES, self._entity_logs, strict=True):
            if entity_log.is_long:
                entity_log.compact(entity_type, self._read)

    def equals(self, other: Fold) -> bool:
        """Return whether both folds give the same views; they may retain different events."""
        if (self.seq, self.spending.freeze()) != (other.seq, other.spending.freeze()):
            return False
        return all(
            ours.waiting == theirs.waiting
            and ours.values(entity_type, self._read) == theirs.values(entity_type, self._read)
            for entity_type, ours, theirs in zip(
                _ENTITY_TYPES, self._entity_logs, other._entity_logs, strict=True
            )
        )

    def freeze(self) -> Snapshot | None:
        """Return a snapshot of the views; None if too many events of open runs are pending."""
        if sum(entity_log.waiting_events for entity_log in self._entity_logs) > WAITING_MAX:
            return None
        return Snapshot(
            seq=self.seq,
            prices=prices_version(),
            spending=self.spending.freeze(),
            goals=self.goals,
            schedules=self.schedules,
            memories=self.memories,
        )

    @property
    def _entity_logs(self) -> tuple[EntityLog, EntityLog, EntityLog]:
        return self.goals, self.schedules, self.memories


def _digest(numbers: bytes) -> bytes:
    return hashlib.blake2b(numbers, digest_size=_DIGEST_BYTES).digest()


class EventCounter(msgspec.Struct, array_like=True):
    """Counts up to some point of a timeline: failed, undone and erased events included."""

    kinds: dict[str, int] = {}
    erased: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    open_runs: set[int] = set()
    """Run numbers of open runs."""

    def add(self, tally: SessionTally) -> None:
        """Count the events of the next stretch."""
        for kind, count in tally.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count
        self.erased += tally.erased
        times = (self.first_ms, self.last_ms, tally.first_ms, tally.last_ms)
        self.first_ms = min((at_ms for at_ms in times if at_ms is not None), default=None)
        self.last_ms = max((at_ms for at_ms in times if at_ms is not None), default=None)
        for run_id, is_open in tally.runs.items():
            (self.open_runs.add if is_open else self.open_runs.discard)(run_number(run_id))

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(
            events=sum(self.kinds.values()),
            by_kind=dict(sorted(self.kinds.items())),
            erased=self.erased,
            turns=self.kinds.get("conversation.user", 0),
            tool_calls=self.kinds.get("tool.call", 0),
            open_runs=len(self.open_runs),
            first_ms=self.first_ms,
            last_ms=self.last_ms,
        )


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Snapshot)
_count_decoder: Final = msgspec.msgpack.Decoder(CountSnapshot)
