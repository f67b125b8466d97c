"""Views of a session, carried on from snapshots: a long past is folded once."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, TypeVar

from treering.derive.entity_log import GOALS, MEMORIES, SCHEDULES
from treering.derive.reports import REPORT, report_of
from treering.derive.snapshots import (
    COUNTS,
    FOLDED,
    FOLDED_KINDS,
    CountSnapshot,
    EventCounter,
    Fold,
    decode_counts,
    decode_snapshot,
    encode_snapshot,
    is_damaged,
)
from treering.derive.turns import INPUT, LaterEnds, TurnSplitter
from treering.derive.visible import CHANGING_KINDS, LaterChanges
from treering.errors import InvalidInput, NotFound
from treering.ledger.lineage import Lineage, next_limit
from treering.ledger.paging import PAGE
from treering.model.events import Event, Header

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from treering.model.views import Counts, Goal, MemoryRecord, Schedule, TurnView, Usage

SNAPSHOT_EVENTS: Final = 1_000
"""A snapshot is kept when this many events were folded without one."""
REPLAY_EVENTS: Final = 20_000
"""In a long replay, one is kept every this many events: an undo may need an older one."""
FIRST_PAGE: Final = 64

State = TypeVar("State")


class Views:
    """Views of a session and the pasts it shares, as of when they are asked for."""

    def __init__(
        self,
        lineage: Lineage,
        *,
        snapshot_events: int = SNAPSHOT_EVENTS,
        replay_events: int = REPLAY_EVENTS,
    ) -> None:
        self._lineage = lineage
        self._snapshot_events = snapshot_events
        self._replay_events = replay_events

    def turns(self, *, last: int | None = None) -> Iterator[TurnView]:
        """Return all turns in order, or the last: those cost no more than they are long."""
        if last is not None and last < 0:
            raise InvalidInput("the number of turns must be >= 0", hint="ask for 1 or more")
        return self._turns(last)

    def turn(self, number: int) -> TurnView:
        """Return one turn, found from the end of the session that is nearer. Raises NotFound."""
        if type(number) is not int:
            raise InvalidInput(f"{number!r} is not a turn", hint="turns count from 1")
        turn = self._turn(number)
        if turn is None:
            raise NotFound(f"no turn {number}", hint="turns count from 1")
        return turn

    def _turn(self, number: int) -> TurnView | None:
        count = self.counts().turns
        later = count - number
        if later < number:
            turn = next(self.turns(last=later + 1), None) if later >= 0 else None
            # A turn that began meanwhile has moved the end.
            if self.counts().turns == count:
                return turn
        return next(islice(self.turns(), number - 1, None), None) if number > 0 else None

    def goals(self, *, run_id: str | None = None) -> list[Goal]:
        """Return the goals that count, in the order they were added.

        Those of ``run_id`` count, too: the run that asks, and has not ended.
        """
        return self._folded().goals.for_run(run_id).values(GOALS, self._read)

    def schedules(self) -> list[Schedule]:
        """Return the schedules that count, as ``goals`` does."""
        return self._folded().schedules.values(SCHEDULES, self._read)

    def memories(self) -> list[MemoryRecord]:
        """Return what was done to each memory and counts, as ``goals`` does."""
        return self._folded().memories.values(MEMORIES, self._read)

    def usage(self) -> Usage:
        """Return what was used, by model, whatever became of it."""
        return self._folded().spending.usage()

    def counts(self) -> Counts:
        """Return how much of what there is."""
        return self._counted().counts()

    # Folding.

    def _folded(self) -> Fold:
        """Return all views at the end of the timeline, and keep a snapshot if that took long."""
        head, ancestors = self._lineage.head_seq(), self._lineage.ancestors()
        later_changes = LaterChanges()
        fold = self._start(FOLDED, head, later_changes, self._resume) or Fold(self._read)
        saved_seq = fold.seq

        def keep() -> int:
            """Keep a snapshot, unless a later event has made it worthless already."""
            snapshot = fold.freeze() if later_changes.invalid_from(fold.seq) is None else None
            if snapshot is None:
                return saved_seq
            self._keep(FOLDED, fold.seq, encode_snapshot(snapshot), ancestors)
            return fold.seq

        for page in self._pages(fold.seq, head, FOLDED_KINDS):
            fold.take(page, later_changes.is_undone)
            if fold.seq - saved_seq >= self._replay_events:
                saved_seq = keep()
        fold.seq = head
        if fold.seq - saved_seq > self._snapshot_events:
            keep()
        return fold

    def _advance(self, fold: Fold, until: int, later_changes: LaterChanges) -> None:
        """Apply the events up to a seq."""
        for page in self._pages(fold.seq, until, FOLDED_KINDS):
            fold.take(page, later_changes.is_undone)
        fold.seq = until

    def _counted(self) -> EventCounter:
        """Return the counts at the end of the timeline, and keep a snapshot if that took long."""
        head, ancestors = self._lineage.head_seq(), self._lineage.ancestors()
        start = self._start(COUNTS, head, LaterChanges(), _resume_counts)
        seq, counter = start or (0, EventCounter())
        for tally in self._lineage.tallies(seq, head):
            counter.add(tally)
        if head - seq > self._snapshot_events:
            snapshot = CountSnapshot(head, counter)
            self._keep(COUNTS, head, encode_snapshot(snapshot), ancestors)
        return counter

    def wrong_snapshot(self, kept: Mapping[int, bytes], view: int = FOLDED) -> int | None:
        """Return the seq of one of the snapshots ``kept`` that is not what the events give.

        Those of another version, and of before an erasure, do not count: they are never used.
        """
        head, later_changes = self._lineage.head_seq(), LaterChanges()
        self._look_back(head + 1, 0, later_changes)
        fold, counter, counted = Fold(self._read), EventCounter(), 0
        for seq in sorted(kept):
            if is_damaged(kept[seq], seq, view):
                return seq
            if later_changes.invalid_from(seq) is not None:
                continue
            if view == COUNTS:
                counts = decode_counts(kept[seq], seq)
                for tally in self._lineage.tallies(counted, seq):
                    counter.add(tally)
                counted = seq
                differs = counts is not None and counts != counter
            else:
                resumed = self._resume(kept[seq], seq)
                self._advance(fold, seq, later_changes)
                differs = resumed is not None and not fold.equals(resumed)
            if differs or (seq > head and _is_readable(kept[seq], seq, view)):
                return seq
        return None

    def _start(
        self,
        view: int,
        head: int,
        later_changes: LaterChanges,
        resume: Callable[[bytes, int], State | None],
    ) -> State | None:
        """Return the latest state of a view that still holds, after looking back to it."""
        seen, until = head + 1, head
        while until > 0:
            snapshot = self._lineage.snapshot(until, view)
            if snapshot is None:
                break
            seq, body = snapshot
            seen = self._look_back(seen, seq, later_changes)
            start = later_changes.invalid_from(seq)
            if start is not None:
                until = start - 1
                continue
            state = resume(body, seq)
            if state is not None:
                return state
            until = seq - 1
        if view != COUNTS:
            self._look_back(seen, 0, later_changes)
        return None

    def _resume(self, body: bytes, seq: int) -> Fold | None:
        snapshot = decode_snapshot(body, seq)
        return None if snapshot is None else Fold.resumed(snapshot, self._read)

    def _look_back(self, before: int, after: int, later_changes: LaterChanges) -> int:
        """Add the events between two seqs that change earlier ones; return the seq of the first."""
        for header in self._backwards(before, CHANGING_KINDS) if after + 1 < before else ():
            if header.seq <= after:
                break
            later_changes.add(header)
        return after + 1

    def _keep(self, view: int, seq: int, body: bytes, ancestors: Mapping[str, int]) -> None:
        """Keep a snapshot."""
        self._lineage.keep_snapshot(seq, body, view)
        if self._lineage.erased_since(ancestors):
            # It may have been folded before the erasure and kept after it: this one is not read.
            self._lineage.keep_snapshot(seq, b"", view)

    # Dividing.

    def _turns(self, last: int | None) -> Iterator[TurnView]:
        head = self._lineage.head_seq()
        later_changes, ends = LaterChanges(), LaterEnds()
        first = self._first_of(last, head, later_changes, ends)
        division = TurnSplitter(later_changes.is_undone, ends.states)
        for page in self._pages(first - 1, head):
            asked = [header.seq for header in page if header.kind == REPORT]
            reports = {event.seq: report_of(event) for event in self._read(asked)}
            for header in page:
                turn = division.take(header, reports.get(header.seq))
                if turn is not None:
                    yield turn
        rest = division.rest()
        if rest is not None:
            yield rest

    def _first_of(
        self, last: int | None, head: int, later_changes: LaterChanges, ends: LaterEnds
    ) -> int:
        """Return where the last turns begin, after looking back to there."""
        first, left = head + 1, last
        asking: str | None = None
        for header in self._backwards(head + 1) if last != 0 else ():
            if header.kind == INPUT:
                if left == 0:
                    break
                first, asking = header.seq, header.run_id
                left = None if left is None else left - 1
            later_changes.add(header)
            ends.add(header)
            if left == 0 and asking is None:
                break
            if left == 0 and (header.kind, header.run_id) == ("run.started", asking):
                first = header.seq
                break
        return first if left == 0 else 1

    # Reading.

    def _pages(self, after: int, head: int, kinds: Collection[str] = ()) -> Iterator[list[Header]]:
        """Return headers in order up to ``head``, a page at a time."""
        while after < head and (page := self._lineage.after(Header, after, PAGE, kinds)):
            yield list(takewhile(lambda header: header.seq <= head, page))
            after = page[-1].seq

    def _backwards(self, before: int, kinds: Collection[str] = ()) -> Iterator[Header]:
        """Return the headers before a seq, the last one first, in pages that grow."""
        limit = FIRST_PAGE
        while page := self._lineage.before(Header, before, limit, kinds):
            yield from reversed(page)
            before, limit = page[0].seq, next_limit(limit, page, PAGE)

    def _read(self, seqs: Sequence[int]) -> Iterator[Event]:
        """Return the events at ``seqs``, a page at a time."""
        for at in range(0, len(seqs), PAGE):
            yield from self._lineage.events_at(seqs[at : at + PAGE])


def _resume_counts(body: bytes, seq: int) -> tuple[int, EventCounter] | None:
    counter = decode_counts(body, seq)
    return None if counter is None else (seq, counter)


def _is_readable(body: bytes, seq: int, view: int) -> bool:
    return (decode_counts(body, seq) if view == COUNTS else decode_snapshot(body, seq)) is not None
