"""Families: sessions that were forked from one another, as trees, and how a fork is opened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import NotFound
from treering.ledger.lineage import NO_END, Lineage
from treering.ledger.outlines import Sketch, head_of, heads
from treering.ledger.turn_bounds import turn_end
from treering.model.codec import decode, encode
from treering.model.events import Event, Header, NewEvent
from treering.model.kinds import RUN_ENDS
from treering.model.parts import SessionForked
from treering.model.queries import Page, check_limit, pack, unpack
from treering.model.sessions import SessionOutline, SessionSettings
from treering.spine.words import new_id, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ports import EventStore
    from treering.ledger.records import EventLocation
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope
    from treering.model.views import OpenRun

SESSIONS_MAX: Final = 10_000
"""Sessions of one family that are shown."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A session and those that were forked from it."""

    session: SessionOutline
    forks: tuple[Family, ...] = ()


def family(store: EventStore, scope: Scope, session_id: str, *, now_ms: int) -> Family:
    """Return the whole family of a session, from its oldest ancestor down. Raises NotFound."""
    root = session_id
    until_seq = NO_END
    while (cut := store.sessions.cut(scope, root)) is not None:
        if cut.seq >= until_seq:
            break  # No family is like this: verify names the fault.
        root, until_seq = cut.parent, cut.seq
    descent = _descent(store, Sketch(store, scope, now_ms), scope, root)
    if descent is None:
        raise NotFound(f"no session {session_id} in scope {scope}", hint="check both names")
    return descent


def families(
    store: EventStore, scope: Scope, *, limit: int, after: str | None, now_ms: int
) -> Page[Family]:
    """Return one page of the families of a scope that have forks, the last written to first."""
    check_limit(limit)
    before = None if after is None else unpack(after, tuple[int])[0]
    roots = [
        (position, root)
        for root, position in _roots(store, scope).items()
        if before is None or position < before
    ]
    sketch = Sketch(store, scope, now_ms)
    descents = [_descent(store, sketch, scope, root) for _, root in roots[:limit]]
    has_more = len(roots) > limit
    return Page(
        items=[descent for descent in descents if descent is not None],
        has_more=has_more,
        next_cursor=pack((roots[limit - 1][0],)) if has_more else None,
    )


def _roots(store: EventStore, scope: Scope) -> dict[str, int]:
    """Return where each family was last written to, by the session that it began with."""
    positions = {head.session_id: (head.position, head.cut) for head in heads(store, scope)}
    parents = {name: cut.parent for name, (_, cut) in positions.items() if cut is not None}
    have_forks = set(parents.values())
    roots: dict[str, int] = {}
    root_of: dict[str, str] = {}
    # The first that is met of each family is the last that was written to.
    for name, (position, _) in positions.items():
        steps: list[str] = []
        root = name
        while root not in root_of and parents.get(root) in positions and len(steps) < len(parents):
            steps.append(root)
            root = parents[root]
        root = root_of.get(root, root)
        root_of.update(dict.fromkeys(steps, root))
        if root in have_forks or root in parents:
            roots.setdefault(root, position)
    return roots


def _descent(store: EventStore, sketch: Sketch, scope: Scope, root: str) -> Family | None:
    """Return a session with all that were forked from it; None if it has no past."""
    order: list[tuple[str, str | None]] = [(root, None)]
    outlines: dict[str, SessionOutline] = {}
    for name, _ in order:
        head = head_of(store, scope, name)
        if head is None:
            continue
        outlines[name] = sketch.outline(head)
        if len(order) < SESSIONS_MAX:
            order += [(fork, name) for fork in store.sessions.forks(scope, name)]
    forks: dict[str | None, list[Family]] = {}
    # From the last to the first, so that the forks of each are known before it is.
    for name, parent in reversed(order):
        if name in outlines:
            below = tuple(reversed(forks.pop(name, [])))
            forks.setdefault(parent, []).append(Family(session=outlines[name], forks=below))
    return forks[None][0] if None in forks else None


_NAMED: Final = re.compile(r"(?:-fork-[0-9a-f]{8})+$")
FIRST_CHARACTERS_MAX: Final = 180
LOOKS_MAX: Final = 20
"""How often a fork looks at a session that others write to."""


def fork_name(session_id: str) -> str:
    """Return a fresh name for a fork: that of the first session, however often it was forked."""
    first = _NAMED.sub("", session_id)
    return f"{first[:FIRST_CHARACTERS_MAX]}-fork-{new_id()[-8:]}"


def turn_end_of(
    lineage: Lineage, event: Event | None, *, running: Callable[[], list[OpenRun]]
) -> int | None:
    """Return the last seq of an event's turn; None if the event is not of the lineage."""
    segment = None if event is None else lineage.segment_of(event.seq)
    if event is None or segment is None or segment.session_id != event.session_id:
        return None
    return turn_end(lineage, event, under_way={run.run_id for run in running()})


def seq_of(lineage: Lineage, place: EventLocation | None) -> int | None:
    """Return the seq of an event, whether or not it is erased; None if it is not of the lineage."""
    segment = None if place is None else lineage.segment_of(place.seq)
    same = place is not None and segment is not None and segment.session_id == place.session_id
    return place.seq if place is not None and same else None


def last_end(lineage: Lineage, *, running: Callable[[], list[OpenRun]]) -> int:
    """Return the last seq that is of no turn under way; 0 if there is none."""
    seq = 0
    for _ in range(LOOKS_MAX):
        last = next(iter(lineage.before(Header, None, 1)), None)
        seq = 0 if last is None else last.seq
        # Runs without an owner may never end; what they said does not count in a fork either.
        before = min((run.first_seq - 1 for run in running()), default=seq)
        if before < seq or last is None or last.run_id is None or last.kind in RUN_ENDS:
            return min(before, seq)
        # It was in the midst of a run that has ended since: look again.
    return seq


def forked(
    child: Session,
    settings: SessionSettings,
    *,
    parent: str,
    seq: int,
    at: str | None,
    ts_ms: int | None = None,
) -> NewEvent:
    """Return the event that opens ``child`` with the past of ``parent`` up to ``seq``."""
    part = SessionForked(
        parent=parent, at_seq=seq, at_event=at, channel=settings.channel, mode=settings.mode
    )
    return child.new_event(
        "session.forked",
        shorten(f"forked from {parent} at {seq}"),
        payload=decode(encode(settings)),
        refs=part.as_refs(),
        ts_ms=ts_ms,
    )
