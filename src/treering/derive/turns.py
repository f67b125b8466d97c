"""Turns: a timeline divided at the inputs of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.later_changes import LaterChanges
from treering.derive.reports import Report, add_up, by_model, larger, report_of
from treering.model.events import Header
from treering.model.kinds import RUN_ENDS
from treering.model.runs import COMPACTION, RunState
from treering.model.views import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from treering.model.events import Event

INPUT: Final = "conversation.user"
_STARTED: Final = "run.started"


def turns(events: Sequence[Event]) -> Iterator[Turn]:
    """Return the turns of a whole timeline, in order.

    Nothing is left out but what comes before the first input of the user: turns whose runs failed
    are shown with their state, undone ones are marked, and an erased input reads as erased. A turn
    begins with the start of the run that took the input, or else with the input; a run without an
    input of its own belongs to the turn before it. One that only compacts is none of its runs.
    """
    later_changes, ends = LaterChanges(), LaterEnds()
    for event in reversed(events):
        later_changes.add(event)
        ends.look(event)
    division = Division(later_changes.is_undone, ends.states)
    for event in events:
        turn = division.take(event, report_of(event))
        if turn is not None:
            yield turn
    last = division.rest()
    if last is not None:
        yield last


def is_compaction(header: Header) -> bool:
    """Whether ``header`` is the start or the end of a run that only compacts its session."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    name = "entry_point" if header.kind == _STARTED else "reason"
    return (header.kind == _STARTED or header.kind in RUN_ENDS) and refs.get(name) == COMPACTION


class LaterEnds:
    """How runs end that go on behind the turn they began in, found on the way back from the end."""

    def __init__(self) -> None:
        self.states: dict[str, RunState] = {}
        self._ended: dict[str, RunState] = {}
        """Runs whose end was seen and whose start was not, within one turn so far."""
        self._asking: str | None = None
        """The run of the input that was seen last."""

    def look(self, header: Header) -> None:
        """Take in an event. Come with every one, from the last to the first."""
        run_id = header.run_id
        if header.kind == INPUT:
            # The start of the input's own run may still be ahead, in the same turn.
            self._cross(but=run_id if run_id != self._asking else None)
            self._asking = run_id
        elif run_id is None:
            return
        elif header.kind in RUN_ENDS:
            self._ended.setdefault(run_id, RUN_ENDS[header.kind])
        elif header.kind == _STARTED:
            self._ended.pop(run_id, None)
            if run_id == self._asking:
                self._cross(but=None)
                self._asking = None

    def _cross(self, *, but: str | None) -> None:
        """Leave a turn: whatever ended in it may have begun before."""
        for run_id in [run_id for run_id in self._ended if run_id != but]:
            self.states.setdefault(run_id, self._ended.pop(run_id))


class Division:
    """Turns, found event by event. ``hides`` and ``later`` say what is known from behind."""

    def __init__(self, hides: Callable[[int], bool], later: Mapping[str, RunState]) -> None:
        self._hides = hides
        self._later = later
        self._pieces: list[_Piece] = [_Piece()]
        """The turn, and behind it what may turn out to be the next: each begins with a run."""
        self._compactions: set[str] = set()

    def take(self, header: Header, report: Report | None) -> Turn | None:
        """Follow one event, and what it reports; return the turn that ends before it, if one does.

        With an input comes the turn before the one that the input begins.
        """
        turn = None
        if header.kind == INPUT:
            turn = self._begin(header)
        elif header.kind == _STARTED and header.run_id is not None:
            if is_compaction(header):
                self._compactions.add(header.run_id)
            else:
                self._pieces.append(_Piece(run_id=header.run_id))
        is_apart = header.run_id in self._compactions
        self._pieces[-1].take(header, report, is_apart=is_apart)
        if header.kind in RUN_ENDS and not is_apart:
            self._join_to(lambda piece: piece.run_id == header.run_id)
        return turn

    def rest(self) -> Turn | None:
        """Return the last turn, as far as it has come."""
        self._join_to(lambda _: True)
        return self._turn(self._pieces[0])

    def _begin(self, header: Header) -> Turn | None:
        """Close the turn that is under way and begin the next; return the one that is closed."""
        starts = [
            at
            for at, piece in enumerate(self._pieces)
            if at and header.run_id is not None and piece.run_id == header.run_id
        ]
        begun = starts[-1] if starts else len(self._pieces)
        following = self._pieces[begun:] or [_Piece()]
        self._pieces = self._pieces[:begun]
        closed = self.rest()
        self._pieces = following
        self._join_to(lambda _: True)
        self._pieces[0].asked = header
        return closed

    def _join_to(self, belongs: Callable[[_Piece], bool]) -> None:
        """Give the pieces that are chosen to those before them: they begin no turn any more."""
        for at in range(len(self._pieces) - 1, 0, -1):
            if belongs(self._pieces[at]):
                self._pieces[at - 1].join(self._pieces.pop(at))

    def _turn(self, piece: _Piece) -> Turn | None:
        asked = piece.asked
        if asked is None or piece.first is None or piece.last is None:
            return None
        return Turn(
            first_seq=piece.first.seq,
            last_seq=piece.last.seq,
            started_ms=piece.first.ts_ms,
            ended_ms=piece.last_ms,
            input_event_id=asked.event_id,
            prompt=asked.summary,
            turn_id=asked.turn_id,
            run_ids=tuple(piece.runs),
            state=self._state(asked, piece),
            is_undone=self._hides(asked.seq),
            tool_calls=piece.tool_calls,
            usage=by_model(add_up(piece.reports.values())),
        )

    def _state(self, asked: Header, piece: _Piece) -> RunState | None:
        """Return how a turn ended: as the last run did that was begun to carry it out.

        Another run that came behind, without an input, cannot undo that; one that ended well can
        make up for a failure.
        """
        if not piece.runs:
            return None
        taker = asked.run_id or next(iter(piece.starts or list(piece.runs)[::-1]))
        own = taker
        for run_id, turn_id in piece.runs.items():
            if turn_id is not None and turn_id == asked.turn_id:
                own = run_id
        others = (
            piece.starts[piece.starts.index(own) + 1 :] if own in piece.starts else piece.starts
        )
        if any(self._state_of(run_id, piece) == "ended" for run_id in others):
            return "ended"
        return self._state_of(own, piece)

    def _state_of(self, run_id: str, piece: _Piece) -> RunState:
        return piece.ends.get(run_id) or self._later.get(run_id, "open")


class _Piece(msgspec.Struct):
    """What is known of a stretch of a timeline."""

    run_id: str | None = None
    """The run that it begins with."""
    asked: Header | None = None
    first: Header | None = None
    last: Header | None = None
    last_ms: int = 0
    starts: list[str] = []
    """The runs that began in it."""
    runs: dict[str, str | None] = {}
    """The turn that each run says it carries out."""
    ends: dict[str, RunState] = {}
    tool_calls: int = 0
    reports: dict[int | tuple[int, str | None, str | None], Report] = {}

    def take(self, header: Header, report: Report | None, *, is_apart: bool) -> None:
        if self.first is None:
            self.first = header
        self.last = header
        self.last_ms = max(self.last_ms, header.ts_ms)
        self.tool_calls += header.kind == "tool.call"
        if header.run_id is not None and not is_apart:
            self.runs.setdefault(header.run_id, header.turn_id)
            if header.kind == _STARTED:
                self.starts.append(header.run_id)
            elif header.kind in RUN_ENDS:
                self.ends[header.run_id] = RUN_ENDS[header.kind]
        if report is not None:
            self._count(report)

    def join(self, later: _Piece) -> None:
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
        known = self.reports.get(call)
        self.reports[call] = report if known is None else larger(known, report)
