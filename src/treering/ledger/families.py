"""Families: sessions that were forked from one another, as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import NotFound
from treering.ledger.outlines import Sketch, head_of
from treering.model.sessions import SessionOutline

if TYPE_CHECKING:
    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope

SESSIONS_MAX: Final = 10_000
"""Sessions of one family that are shown."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A session and those that were forked from it."""

    session: SessionOutline
    forks: tuple[Family, ...] = ()


def family(store: EventStore, scope: Scope, session_id: str, *, now_ms: int) -> Family:
    """Return the whole family of a session, from its oldest ancestor down. Raises NotFound."""
    root = session_id
    while (cut := store.cut(scope, root)) is not None:
        root = cut.parent
    sketch = Sketch(store, scope, now_ms)
    order: list[tuple[str, str | None]] = [(root, None)]
    outlines: dict[str, SessionOutline] = {}
    for name, _ in order:
        head = head_of(store, scope, name)
        if head is None:
            if name == root:
                raise NotFound(f"no session {session_id} in scope {scope}", hint="check both names")
            continue
        outlines[name] = sketch.outline(head)
        if len(order) < SESSIONS_MAX:
            order += [(fork, name) for fork in store.forks(scope, name)]
    forks: dict[str | None, list[Family]] = {}
    # From the last to the first, so that the forks of each are known before it is.
    for name, parent in reversed(order):
        if name in outlines:
            below = tuple(reversed(forks.pop(name, [])))
            forks.setdefault(parent, []).append(Family(session=outlines[name], forks=below))
    return forks[None][0]
