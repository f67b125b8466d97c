"""Lineages: a session and the pasts that it shares with those it was forked from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from treering.errors import Corrupt
from treering.model.events import Event, Header
from treering.model.kinds import ERASURE_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from treering.ledger.ports import EventStore
    from treering.model.queries import SessionTally
    from treering.model.scopes import Scope

NO_END: Final = 2**63 - 1
"""The end of a session that was not cut."""

PAGE: Final = 1_000

Item = TypeVar("Item", bound=Header)


class Segment(msgspec.Struct, frozen=True):
    """The part of a lineage that one session recorded."""

    session_id: str
    after_seq: int
    until_seq: int
    parent: str | None = None
    """The session that it was forked from."""

    def holds(self, seq: int) -> bool:
        """Whether the event at ``seq`` is of this part."""
        return self.after_seq < seq <= self.until_seq


class Lineage:
    """The whole past of a session as one timeline; parents are looked up as they are reached."""

    def __init__(self, store: EventStore, scope: Scope, session_id: str) -> None:
        self.store = store
        self.scope = scope
        self.session_id = session_id
        self._segments: tuple[Segment, ...] = ()
        """Those that cannot change any more, the session's own first."""

    def segments(self) -> Iterator[Segment]:
        """Return the parts of the lineage, the session's own first, its oldest ancestor's last."""
        number = 0
        while (segment := self._segment(number)) is not None:
            yield segment
            if segment.parent is None:
                return
            number += 1

    def _segment(self, number: int) -> Segment | None:
        segments = self._segments
        if number < len(segments):
            return segments[number]
        below = segments[number - 1] if number else None
        if below is None:
            session_id, until_seq = self.session_id, NO_END
        elif below.parent is None:
            return None
        else:
            session_id, until_seq = below.parent, below.after_seq
        cut = self.store.sessions.cut(self.scope, session_id)
        if cut is not None and cut.seq >= until_seq:
            raise Corrupt(
                f"session {session_id} of {self.scope} appears to be forked from its own future",
                hint="keep a copy, then run treering verify",
            )
        segment = Segment(
            session_id, cut.seq if cut else 0, until_seq, parent=cut.parent if cut else None
        )
        if cut or below:
            # A session of our own that has no parent may still become a fork, by another process.
            self._segments = (*segments[:number], segment)
        return segment

    def own_after_seq(self) -> int:
        """Return the seq after which the session's own events begin."""
        return next(self.segments()).after_seq

    def head_seq(self) -> int:
        """Return the last seq; 0 if the session has no past."""
        return self._head_of(self.session_id)

    def _head_of(self, session_id: str) -> int:
        last = self.store.reader.last_by_seq(
            Header, self.scope, session_id, before_seq=None, limit=1
        )
        return last[0].seq if last else 0

    def segment_of(self, seq: int) -> Segment | None:
        """Return the part that the event at ``seq`` is of."""
        return next((segment for segment in self.segments() if segment.holds(seq)), None)

    def after(
        self, part: type[Item], seq: int, limit: int, kinds: Collection[str] = ()
    ) -> list[Item]:
        """Return headers or events in order, after ``seq``, of some kinds or of all.

        ``part`` is Header, or Event for payloads as well. Only an empty page is the end.
        """
        reached: list[Segment] = []
        for segment in self.segments():
            reached.append(segment)
            if segment.after_seq <= seq:
                break
        for segment in reversed(reached):
            page = self.store.reader.by_seq(
                part,
                self.scope,
                segment.session_id,
                after_seq=max(seq, segment.after_seq),
                limit=limit,
                kinds=kinds,
            )
            if page and page[-1].seq > segment.until_seq:
                page = [item for item in page if item.seq <= segment.until_seq]
            if page:
                if not self._segments and page[0].seq == 1:
                    # It has the first event itself, so it cannot become a fork any more.
                    self._segments = (segment,)
                return page
        return []

    def before(
        self, part: type[Item], seq: int | None, limit: int, kinds: Collection[str] = ()
    ) -> list[Item]:
        """Return the last headers or events before ``seq``, in order, of some kinds or of all.

        Only an empty page is the end.
        """

        def read(session_id: str, before: int | None) -> list[Item]:
            return self.store.reader.last_by_seq(
                part, self.scope, session_id, before_seq=before, limit=limit, kinds=kinds
            )

        if not self._segments and (page := read(self.session_id, seq)):
            return page  # Its own last events, wherever they begin.
        for segment in self.segments():
            if seq is not None and seq <= segment.after_seq + 1:
                continue
            before = None if segment.until_seq == NO_END else segment.until_seq + 1
            if seq is not None:
                before = seq if before is None else min(seq, before)
            page = read(segment.session_id, before)
            if page:
                return page
        return []

    def tallies(self, after_seq: int, until_seq: int) -> list[SessionTally]:
        """Return the numbers of the events after a seq, up to another, oldest first."""
        stretches = [
            (segment, max(after_seq, segment.after_seq), min(until_seq, segment.until_seq))
            for segment in self.segments()
        ]
        return [
            self.store.reader.tally(self.scope, segment.session_id, after_seq=first, until_seq=last)
            for segment, first, last in reversed(stretches)
            if first < last
        ]

    def committed_before(
        self,
        seq: int,
        *,
        kinds: Collection[str],
        until_seq: int = NO_END,
        run_id: str | None = None,
        limit: int,
    ) -> list[Event]:
        """Return the last events of ``kinds`` before ``seq`` that count, in order.

        Those of runs count that ended well at or before ``until_seq`` and within the lineage, and
        those of ``run_id``.
        """
        for segment in self.segments():
            if seq <= segment.after_seq + 1:
                continue
            page = self.store.reader.committed_events(
                self.scope,
                segment.session_id,
                kinds=kinds,
                before_seq=min(seq, _seq_after(segment)),
                until_seq=min(segment.until_seq, until_seq),
                run_id=run_id,
                limit=limit,
            )
            if page:
                return page
        return []

    def events_at(self, seqs: Sequence[int]) -> list[Event]:
        """Return the events at ``seqs``, in order; those that are gone are left out."""
        wanted = sorted(set(seqs))
        events: list[Event] = []
        for segment in self.segments():
            own = [seq for seq in wanted if segment.holds(seq)]
            if own:
                events = self.store.reader.events_at(self.scope, segment.session_id, own) + events
            if not wanted or wanted[0] > segment.after_seq:
                break
        return events

    def run_headers(self, run_id: str, seq: int) -> Iterator[Header]:
        """Return the headers of the run that the event at ``seq`` is of, in order."""
        segment = self.segment_of(seq)
        if segment is not None:
            yield from self.store.reader.by_run(Header, self.scope, segment.session_id, run_id)

    def ancestors(self) -> dict[str, int]:
        """Return the last seq of each session that this one was forked from."""
        return {
            segment.session_id: self._head_of(segment.session_id)
            for segment in self.segments()
            if segment.until_seq != NO_END
        }

    def erased_since(self, ancestors: Mapping[str, int]) -> bool:
        """Whether anything was erased in an ancestor after these seqs."""
        for session_id, seq in ancestors.items():
            after = seq
            while page := self.store.reader.by_seq(
                Header, self.scope, session_id, after_seq=after, limit=PAGE
            ):
                if any(header.kind in ERASURE_KINDS for header in page):
                    return True
                after = page[-1].seq
        return False

    def snapshot(self, until_seq: int, view: int = 0) -> tuple[int, bytes] | None:
        """Return the latest snapshot at or before ``until_seq``, an ancestor's if need be."""
        for segment in self.segments():
            snapshot = self.store.snapshots.latest(
                self.scope,
                segment.session_id,
                until_seq=min(until_seq, segment.until_seq),
                view=view,
            )
            if snapshot is not None:
                return snapshot
        return None

    def keep_snapshot(self, seq: int, body: bytes, view: int = 0) -> None:
        """Keep a snapshot of the lineage at ``seq``."""
        self.store.snapshots.keep(self.scope, self.session_id, seq=seq, body=body, view=view)


def next_limit(limit: int, page: Sequence[Header], limit_max: int) -> int:
    """Return how many events to ask for after ``page``: twice as many, if it was full.

    One that is not full ends with its session. The parent's past may be long.
    """
    return min(2 * limit, limit_max) if len(page) == limit else limit


def _seq_after(segment: Segment) -> int:
    return segment.until_seq if segment.until_seq == NO_END else segment.until_seq + 1
