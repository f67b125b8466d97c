"""Where a session can turn: the ends of its turns, for forks, and their beginnings, for undo."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from treering.derive.turns import is_compaction
from treering.derive.visible import UndoFilter, Undone, redone_by, undone_by
from treering.errors import InvalidInput, NotFound
from treering.ledger.lineage import NO_END, Lineage, next_limit
from treering.model.events import Event, Header
from treering.model.kinds import HIDING_KINDS, RUN_ENDS

FIRST_PAGE: Final = 16
PAGE: Final = 500
_BEGINNINGS: Final = frozenset({"conversation.user", "run.started"})
_TURN_KINDS: Final = _BEGINNINGS | HIDING_KINDS


class Undoing(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo is about to hide."""

    from_seq: int
    turns: int
    """As ``Session.turns`` counts them: a run that takes two inputs has two."""


def turn_end(lineage: Lineage, event: Header, *, under_way: Collection[str] = ()) -> int:
    """Return the last seq of the turn that ``event`` is part of, up to the next user input.

    A run is never cut in two: the turn ends no earlier than the run around the event, and before
    the run that takes the next input. The undoing of a turn is not part of it. Raises InvalidInput
    if the event's run has not ended; a run that is merely around it has to be ``under_way``.
    """
    run_id = event.run_id or _run_around(lineage, event.seq)
    last = _end_behind(lineage, event.seq, None if event.kind in RUN_ENDS else run_id)
    if last is None and event.run_id is None and run_id not in under_way:
        # Nobody will end the run around it.
        last = _end_behind(lineage, event.seq, None)
    if last is None:
        raise InvalidInput(
            f"event {event.event_id} belongs to a turn that has not ended",
            hint="end the turn first, or name an event before it",
        )
    return last


def _end_behind(lineage: Lineage, seq: int, open_run: str | None) -> int | None:
    """Return the last seq before the next turn, once ``open_run`` has ended; None if it has not."""
    last = seq
    begun: dict[str | None, int] = {}
    """Runs that have begun since and neither ended nor taken an input, with the seq before."""
    for header in _headers_after(lineage, seq):
        if open_run is not None:
            if header.run_id == open_run and header.kind in RUN_ENDS:
                open_run = None
        elif header.kind in {"conversation.user", "session.undone", "session.redone"}:
            break
        elif header.kind == "run.started":
            begun[header.run_id] = last
        elif header.kind in RUN_ENDS:
            begun.pop(header.run_id, None)
        last = header.seq
    return None if open_run is not None else min(begun.values(), default=last)


def _run_around(lineage: Lineage, seq: int) -> str | None:
    """Return the run that was under way just before ``seq``."""
    limit = FIRST_PAGE
    compactions: set[str] = set()
    while page := lineage.before(Header, seq, limit):
        for header in reversed(page):
            if header.run_id is None or header.run_id in compactions:
                continue
            if header.kind not in RUN_ENDS:
                return header.run_id
            if not is_compaction(header):
                return None
            # It took place at once, perhaps in the midst of another run.
            compactions.add(header.run_id)
        seq, limit = page[0].seq, next_limit(limit, page, PAGE)
    return None


def undoable(lineage: Lineage, turns: int) -> Undoing:
    """Return what the last ``turns`` turns are, a run counting as one. Raises InvalidInput."""
    if type(turns) is not int or turns < 1:
        raise InvalidInput(f"cannot undo {turns} turns", hint="undo 1 or more")
    count, inputs = 0, 0
    asked_in: set[str | None] = set()
    events = (event for event in _visible_before(lineage) if event.kind in _BEGINNINGS)
    for event, before in _with_next(events):
        if event.kind == "conversation.user":
            inputs += 1
            asked_in.add(event.run_id)
        elif event.run_id is None or event.run_id not in asked_in:
            continue
        if _begins_turn(lineage, event, before):
            count += 1
            if count == turns:
                return Undoing(from_seq=event.seq, turns=inputs)
    raise InvalidInput(
        f"cannot undo {_counted(turns)}: there {'is' if count == 1 else 'are'} {_counted(count)}",
        hint=f"undo {count}" if count else "there is nothing to undo",
    )


def _begins_turn(lineage: Lineage, event: Header, before: Header | None) -> bool:
    """Whether a turn begins with the start of a run or with an input; ``before`` precedes it."""
    if event.kind == "run.started" or event.run_id is None:
        return True
    if before is not None and before.run_id == event.run_id:
        return False
    # Other systems log runs without a start: such a one begins with its first input.
    run = lineage.run_headers(event.run_id, event.seq)
    first = next((header for header in run if header.kind in _BEGINNINGS), None)
    return first is not None and first.seq == event.seq


def _with_next(events: Iterable[Event]) -> Iterator[tuple[Event, Event | None]]:
    """Return each event with the one after it, if there is one."""
    previous: Event | None = None
    for following in events:
        if previous is not None:
            yield previous, following
        previous = following
    if previous is not None:
        yield previous, None


def _counted(turns: int) -> str:
    return "1 turn" if turns == 1 else f"{turns} turns"


def redoable(lineage: Lineage) -> Undone:
    """Return the undo that can be taken back: the last, if nothing was said since."""
    taken_back: set[int] = set()
    for event in _events_before(lineage):
        undone, redone = undone_by(event), redone_by(event)
        if redone is not None:
            taken_back.add(redone)
        elif undone is not None and undone.seq not in taken_back:
            return undone
        elif event.kind == "conversation.user":
            break
    raise NotFound(
        "there is nothing to redo", hint="an undo can be redone only if no turn followed it"
    )


def _visible_before(lineage: Lineage) -> Iterator[Event]:
    hidden = UndoFilter()
    return (event for event in _events_before(lineage) if hidden.is_visible(event))


def _events_before(lineage: Lineage) -> Iterator[Event]:
    """Return what counts of a session for its turns, from its end backwards."""
    seq, limit = NO_END, FIRST_PAGE
    while page := lineage.committed_before(seq, kinds=_TURN_KINDS, limit=limit):
        yield from reversed(page)
        seq, limit = page[0].seq, next_limit(limit, page, PAGE)


def _headers_after(lineage: Lineage, seq: int) -> Iterator[Header]:
    while page := lineage.after(Header, seq, PAGE):
        yield from page
        seq = page[-1].seq
