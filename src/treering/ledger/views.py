"""Views of a session, carried on from snapshots: a long past is folded once."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from treering.derive.goals import GOALS
from treering.derive.later_changes import LaterChanges
from treering.derive.memories import MEMORIES
from treering.derive.reports import REPORT, report_of
from treering.derive.schedules import SCHEDULES
from treering.derive.snapshots import Fold, decode_snapshot, encode_snapshot
from treering.derive.turns import INPUT, LaterEnds, TurnSplitter
from treering.errors import InvalidInput, NotFound
from treering.ledger.pages import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.derive.entity_log import EntityLog, EntityType, Value_co
    from treering.ledger.lineage import Lineage
    from treering.model.events import Event, Header
    from treering.model.views import Counts, Goal, MemoryRecord, Schedule, TurnView, Usage

SNAPSHOT_EVENTS: Final = 1_000
"""A snapshot is kept when this many events were folded without one."""
REPLAY_EVENTS: Final = 20_000
"""In a long replay, one is kept every this many events: an undo may need an older one."""
FIRST_PAGE: Final = 64


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
            raise NotFound(f"there is no turn {number}", hint="turns count from 1")
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
        fold = self._folded()
        return self._values(GOALS, fold.goals, run_id)

    def schedules(self, *, run_id: str | None = None) -> list[Schedule]:
        """Return the schedules that count, as ``goals`` does."""
        fold = self._folded()
        return self._values(SCHEDULES, fold.schedules, run_id)

    def memories(self, *, run_id: str | None = None) -> list[MemoryRecord]:
        """Return what was done to each memory and counts, as ``goals`` does."""
        fold = self._folded()
        return self._values(MEMORIES, fold.memories, run_id)

    def usage(self) -> Usage:
        """Return what was used, by model, whatever became of it."""
        return self._folded().spending.usage()

    def counts(self) -> Counts:
        """Return how much of what there is."""
        return self._folded().tally.counts()

    def _values(
        self, noun: EntityType[Value_co], entity_log: EntityLog, run_id: str | None
    ) -> list[Value_co]:
        return entity_log.for_run(run_id).values(noun, self._read)

    # Folding.

    def _folded(self) -> Fold:
        """Return all views at the end of the timeline, and keep a snapshot if that took long."""
        head, ancestors = self._lineage.head_seq(), self._lineage.ancestors()
        later_changes = LaterChanges()
        fold = self._start(head, later_changes)
        kept = fold.seq
        for page in self._pages(fold.seq, head):
            fold.take(page, later_changes.is_undone)
            if fold.seq - kept >= self._replay_events and self._keep(
                fold, later_changes, ancestors
            ):
                kept = fold.seq
        if fold.seq - kept > self._snapshot_events:
            self._keep(fold, later_changes, ancestors)
        return fold

    def wrong_snapshot(self, kept: Mapping[int, bytes]) -> int | None:
        """Return the seq of one of the snapshots ``kept`` that is not what the events give.

        Those that are never used do not count: damaged ones, or of before an erasure.
        """
        head, later_changes = self._lineage.head_seq(), LaterChanges()
        self._look_back(head + 1, 0, later_changes)
        wanted = {
            seq: found
            for seq, body in kept.items()
            if later_changes.invalid_from(seq) is None
            and (found := decode_snapshot(body, seq)) is not None
        }
        fold = Fold(self._read)
        for page in self._pages(0, max(wanted, default=0)):
            for header in page:
                fold.take([header], later_changes.is_undone)
                found = wanted.pop(header.seq, None)
                resumed = found and Fold.resumed(found, self._read)
                if resumed and not fold.equals(resumed):
                    return header.seq
        return min(wanted, default=None)  # There is no such event yet.

    def _start(self, head: int, later_changes: LaterChanges) -> Fold:
        """Return the latest state that still holds, after looking back to it."""
        seen, until = head + 1, head
        while until > 0:
            found = self._lineage.snapshot(until)
            if found is None:
                break
            seq, body = found
            seen = self._look_back(seen, seq, later_changes)
            start = later_changes.invalid_from(seq)
            if start is not None:
                until = start - 1
                continue
            snapshot = decode_snapshot(body, seq)
            fold = snapshot and Fold.resumed(snapshot, self._read)
            if fold:
                return fold
            until = seq - 1
        self._look_back(seen, 0, later_changes)
        return Fold(self._read)

    def _look_back(self, before: int, after: int, later_changes: LaterChanges) -> int:
        """Show ``hindsight`` the events between two seqs; return the seq of the first."""
        for header in self._backwards(before) if after + 1 < before else ():
            if header.seq <= after:
                break
            later_changes.add(header)
        return after + 1

    def _keep(self, fold: Fold, later_changes: LaterChanges, ancestors: Mapping[str, int]) -> bool:
        """Keep a snapshot, unless a later event has made it worthless already."""
        snapshot = fold.freeze() if later_changes.invalid_from(fold.seq) is None else None
        if snapshot is None:
            return False
        self._lineage.keep_snapshot(snapshot.seq, encode_snapshot(snapshot))
        if self._lineage.erased_since(ancestors):
            # It may have been folded before the erasure and kept after it: this one is not read.
            self._lineage.keep_snapshot(snapshot.seq, b"")
        return True

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

    def _pages(self, after: int, head: int) -> Iterator[list[Header]]:
        """Return headers in order up to ``head``, a page at a time."""
        while after < head and (page := self._lineage.headers_after(after, PAGE)):
            yield list(takewhile(lambda header: header.seq <= head, page))
            after = page[-1].seq

    def _backwards(self, before: int) -> Iterator[Header]:
        """Return the headers before a seq, the last one first, in pages that grow."""
        limit = FIRST_PAGE
        while page := self._lineage.headers_before(before, limit):
            yield from reversed(page)
            before, limit = page[0].seq, min(2 * limit, PAGE)

    def _read(self, seqs: Sequence[int]) -> Iterator[Event]:
        """Return the events at ``seqs``, a page at a time."""
        for at in range(0, len(seqs), PAGE):
            yield from self._lineage.events_at(seqs[at : at + PAGE])
