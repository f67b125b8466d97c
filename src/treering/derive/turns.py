"""Turns: a timeline split at the user's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from treering.derive.reports import Report, add_up, larger_report, usage_by_model
from treering.model.events import Header
from treering.model.kinds import ERASURE_KINDS, RUN_ENDS
from treering.model.parts import is_approximate
from treering.model.views import COMPACTION, RunState, TurnView

INPUT: Final = "conversation.user"
_STARTED: Final = "run.started"


def is_compaction(header: Header) -> bool:
    """Return whether ``header`` starts or ends a run that only compacts its session."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    name = "entry_point" if header.kind == _STARTED else "reason"
    return (header.kind == _STARTED or header.kind in RUN_ENDS) and refs.get(name) == COMPACTION


class LaterEnds:
    """How runs end that outlast the turn they began in; found by reading backwards."""

    def __init__(self) -> None:
        self.states: dict[str, RunState] = {}
        self._ended: dict[str, RunState] = {}
        """Runs of the current turn whose end was seen, but not their start."""
        self._input_run: str | None = None
        """The run of the last input seen."""

    def add(self, header: Header) -> None:
        """Add an event. Events must be added newest first, without gaps."""
        run_id = header.run_id
        if header.kind == INPUT:
            # The start of the input's own run may still follow, in the same turn.
            self._cross(but=run_id if run_id != self._input_run else None)
            self._input_run = run_id
        elif run_id is None:
            return
        elif header.kind in RUN_ENDS:
            self._ended.setdefault(run_id, RUN_ENDS[header.kind])
        elif header.kind == _STARTED:
            self._ended.pop(run_id, None)
            if run_id == self._input_run:
                self._cross(but=None)
                self._input_run = None

    def _cross(self, *, but: str | None) -> None:
        """Leave a turn: runs that ended in it may have begun earlier."""
        for run_id in [run_id for run_id in self._ended if run_id != but]:
            self.states.setdefault(run_id, self._ended.pop(run_id))


class TurnSplitter:
    """Splits a timeline into turns, event by event.

    Only events before the first input are left out: failed turns have their state, undone ones are
    marked, and an erased input reads as erased. A turn begins with the start of the run that took
    the input, or with the input itself. A run without an input belongs to the turn before it. Runs
    that only compact the session do not count as runs of a turn.

    ``hides`` and ``later`` hold what was found by reading backwards.
    """

    def __init__(self, hides: Callable[[int], bool], later: Mapping[str, RunState]) -> None:
        self._hides = hides
        self._later = later
        self._segments: list[_TurnSegment] = [_TurnSegment()]
        """The current turn, then segments that may become the next one: each begins with a run."""
        self._compactions: set[str] = set()

    def take(self, header: Header, report: Report | None) -> TurnView | None:
        """Apply one event and its report; return the turn that ends before it, if one does.

        An input returns the turn before the one it begins.
        """
        turn = None
        if header.kind == INPUT:
            turn = self._begin(header)
        elif header.kind == _STARTED and header.run_id is not None:
            if is_compaction(header):
                self._compactions.add(header.run_id)
            else:
                self._segments.append(_TurnSegment(run_id=header.run_id))
        is_compaction_run = header.run_id in self._compactions
        self._segments[-1].take(header, report, is_compaction_run=is_compaction_run)
        if header.kind in RUN_ENDS and not is_compaction_run:
            self._join_to(lambda segment: segment.run_id == header.run_id)
        return turn

    def rest(self) -> TurnView | None:
        """Return the last turn so far."""
        self._join_to(lambda _: True)
        return self._turn(self._segments[0])

    def _begin(self, header: Header) -> TurnView | None:
        """Close the current turn and begin the next; return the closed one."""
        starts = [
            at
            for at, segment in enumerate(self._segments)
            if at and header.run_id is not None and segment.run_id == header.run_id
        ]
        start = starts[-1] if starts else len(self._segments)
        following = self._segments[start:] or [_TurnSegment()]
        self._segments = self._segments[:start]
        closed = self.rest()
        self._segments = following
        self._join_to(lambda _: True)
        self._segments[0].input_header = header
        return closed

    def _join_to(self, belongs: Callable[[_TurnSegment], bool]) -> None:
        """Merge the chosen segments into the ones before them: they do not begin a turn."""
        for at in range(len(self._segments) - 1, 0, -1):
            if belongs(self._segments[at]):
                self._segments[at - 1].join(self._segments.pop(at))

    def _turn(self, segment: _TurnSegment) -> TurnView | None:
        input_header = segment.input_header
        if input_header is None or segment.first is None or segment.last is None:
            return None
        return TurnView(
            first_seq=segment.first.seq,
            last_seq=segment.last.seq,
            started_ms=segment.first.ts_ms,
            ended_ms=segment.last_ms,
            input_event_id=input_header.event_id,
            prompt=input_header.summary,
            turn_id=input_header.turn_id,
            run_ids=tuple(segment.runs),
            state=self._state(input_header, segment),
            is_undone=self._hides(input_header.seq),
            tool_calls=segment.tool_calls,
            usage=usage_by_model(add_up(segment.reports.values())),
            is_approximate=is_approximate(input_header.refs),
        )

    def _state(self, input_header: Header, segment: _TurnSegment) -> RunState | None:
        """Return how a turn ended: as the last run that was started for it.

        A later run without an input cannot spoil that; one that ended well can make up for a
        failure.
        """
        if not segment.runs:
            return None
        first_run = input_header.run_id or next(iter(segment.starts or list(segment.runs)[::-1]))
        own = first_run
        for run_id, turn_id in segment.runs.items():
            if turn_id is not None and turn_id == input_header.turn_id:
                own = run_id
        others = (
            segment.starts[segment.starts.index(own) + 1 :]
            if own in segment.starts
            else segment.starts
        )
        if any(self._state_of(run_id, segment) == "ended" for run_id in others):
            return "ended"
        return self._state_of(own, segment)

    def _state_of(self, run_id: str, segment: _TurnSegment) -> RunState:
        return segment.ends.get(run_id) or self._later.get(run_id, "open")


class _TurnSegment(msgspec.Struct):
    """What is known about a segment of a timeline."""

    run_id: str | None = None
    """The run that it begins with."""
    input_header: Header | None = None
    first: Header | None = None
    last: Header | None = None
    last_ms: int = 0
    starts: list[str] = []
    """The runs that began in it."""
    runs: dict[str, str | None] = {}
    """The turn id of each run."""
    ends: dict[str, RunState] = {}
    tool_calls: int = 0
    reports: dict[int | tuple[int, str | None, str | None], Report] = {}

    def take(self, header: Header, report: Report | None, *, is_compaction_run: bool) -> None:
        if self.first is None:
            self.first = header
        self.last = header
        if header.kind not in ERASURE_KINDS or not self.last_ms:
            # Erasing a turn later does not make it longer.
            self.last_ms = max(self.last_ms, header.ts_ms)
        self.tool_calls += header.kind == "tool.call"
        if header.run_id is not None and not is_compaction_run:
            self.runs.setdefault(header.run_id, header.turn_id)
            if header.kind == _STARTED:
                self.starts.append(header.run_id)
            elif header.kind in RUN_ENDS:
                self.ends[header.run_id] = RUN_ENDS[header.kind]
        if report is not None:
            self._count(report)

    def join(self, later: _TurnSegment) -> None:
        self.first = self.first or later.first
        self.last = later.last or self.last
        self.last_ms = max(self.last_ms, later.last_ms)
        self.starts += later.starts
        for run_id, turn_id in later.runs.items():
            self.runs.setdefault(run_id, turn_id)
        self.ends.update(later.ends)
        self.tool_calls += later.tool_calls
        for report in later.reports.values():
            self._count(report)

    def _count(self, report: Report) -> None:
        call = report.call or report.seq
        earlier = self.reports.get(call)
        self.reports[call] = report if earlier is None else larger_report(earlier, report)
