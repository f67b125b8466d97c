"""Where a session can turn: the ends of its turns, for forks, and their beginnings, for undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.visible import Hidden, redone_by, undone_by
from treering.errors import InvalidInput, NotFound
from treering.ledger.lineage import ENDLESS
from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from treering.derive.visible import Undone
    from treering.ledger.lineage import Lineage
    from treering.model.events import Event, Header

FIRST_PAGE: Final = 16
PAGE: Final = 500
_TURN_KINDS: Final = frozenset(
    {
        "conversation.user",
        "run.started",
        "session.undone",
        "session.redone",
    }
)


def turn_end(lineage: Lineage, event: Header, *, under_way: Collection[str] = ()) -> int:
    """Return the last seq of the turn that ``event`` is part of, up to the next user input.

    A run is never cut in two: the turn ends with the one that the event stands in at the earliest,
    and before the one that takes the next input. What undoes a turn is no part of it. Raises
    InvalidInput if the event's run has not ended; one it merely stands in has to be ``under_way``.
    """
    run_id = event.run_id or _run_around(lineage, event.seq)
    last = _end_behind(lineage, event.seq, None if event.kind in RUN_ENDS else run_id)
    if last is None and event.run_id is None and run_id not in under_way:
        # Nobody will end the run that it stands in.
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
    for header in reversed(lineage.headers_before(seq, PAGE)):
        if header.run_id is not None:
            return None if header.kind in RUN_ENDS else header.run_id
    return None


def undoable(lineage: Lineage, turns: int) -> int:
    """Return the seq from which on the last ``turns`` turns reach. Raises InvalidInput."""
    if turns < 1:
        raise InvalidInput(f"cannot undo {turns} turns", hint="undo 1 or more")
    found, asked_in = 0, set[str]()
    for event in _visible_before(lineage):
        if event.kind == "conversation.user":
            if event.run_id is not None:
                asked_in.add(event.run_id)
                continue
        elif event.kind != "run.started" or event.run_id not in asked_in:
            continue
        found += 1
        if found == turns:
            return event.seq
    noun = "turn" if found == 1 else "turns"
    raise InvalidInput(
        f"cannot undo {turns} turns: there {'is' if found == 1 else 'are'} {found} {noun}",
        hint=f"undo {found}" if found else "there is nothing to undo",
    )


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
    raise NotFound("there is nothing to redo", hint="only an undo with no turn after it is redone")


def _visible_before(lineage: Lineage) -> Iterator[Event]:
    hidden = Hidden()
    return (event for event in _events_before(lineage) if hidden.passes(event))


def _events_before(lineage: Lineage) -> Iterator[Event]:
    """Return what counts of a session for its turns, from its end backwards."""
    seq, limit = ENDLESS, FIRST_PAGE
    while page := lineage.committed_before(seq, kinds=_TURN_KINDS, limit=limit):
        yield from reversed(page)
        seq, limit = page[0].seq, min(2 * limit, PAGE)


def _headers_after(lineage: Lineage, seq: int) -> Iterator[Header]:
    while page := lineage.headers_after(seq, PAGE):
        yield from page
        seq = page[-1].seq
