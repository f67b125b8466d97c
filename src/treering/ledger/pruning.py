"""Sweeping: idle sessions are closed, and old ones pruned to an episode. No daemon: asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.errors import Conflict, RunActive
from treering.ledger.erasure import KEPT, expire_session
from treering.ledger.inbox import Inbox
from treering.ledger.outlines import Sketch, head_of, heads
from treering.model.kinds import KINDS
from treering.model.receipts import SweepReceipt
from treering.model.sessions import IDLE_MINUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import EventStore
    from treering.ledger.records import SessionHead
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionOutline

PRUNE_DAYS: Final = 90
"""A session is old that nobody has written to for so long."""
DAY_MS: Final = 86_400_000
PAGE: Final = 500
REMAINS: Final = frozenset(KEPT) | {
    name for name in KINDS if name.startswith(("session.", "episode.", "memory.", "user."))
}
"""What is left of a pruned session: what became of it, and what is remembered of it."""


def sweep(
    store: EventStore,
    drafter: Drafter,
    open_session: Callable[[SessionOutline], Session],
    scope: Scope,
    *,
    now_ms: int,
    idle_minutes: float | None = IDLE_MINUTES,
    prune_days: float | None = PRUNE_DAYS,
    dry_run: bool = False,
) -> SweepReceipt:
    """Close idle sessions and prune old ones; None leaves either alone."""
    closed: list[str] = []
    pruned: list[str] = []
    kept: dict[str, str] = {}
    gone: set[str] = set()
    expired = 0
    sketch = Sketch(store, scope, now_ms)
    old_ms = None if prune_days is None else now_ms - round(prune_days * DAY_MS)
    idle_ms = None if idle_minutes is None else now_ms - round(idle_minutes * 60_000)
    for listed in _youngest_first(store, scope):
        # Others may have written since the list was made, and may until it is closed.
        head = head_of(store, scope, listed.session_id) or listed
        outline, quiet_ms = sketch.outline(head), sketch.quiet_ms(head)
        name = outline.session_id
        is_pruned = outline.state == "pruned"
        if is_pruned and not _has_content(store, scope, name):
            if _forks_gone(store, scope, name, gone):
                gone.add(name)
        elif old_ms is not None and (is_pruned or quiet_ms <= old_ms):
            # A session that is pruned and still has content was left so by a sweep that died.
            reason = _why_kept(store, scope, outline, gone)
            if reason is None and not (dry_run or is_pruned):
                reason = _put_away(open_session(outline), head.head_seq)
            if reason is not None:
                kept[name] = reason
                continue
            pruned.append(name)
            gone.add(name)
            if not dry_run:
                # Whoever goes on in it meanwhile keeps what is new.
                expired += expire_session(
                    store, drafter, scope, name, until_seq=head.head_seq, spare=REMAINS
                )
        elif (
            idle_ms is not None
            and quiet_ms <= idle_ms
            and outline.state in {"open", "idle"}
            and (dry_run or _close(open_session(outline), "idle", head.head_seq))
        ):
            closed.append(name)
    return SweepReceipt(
        scope=scope,
        dry_run=dry_run,
        closed=closed,
        pruned=pruned,
        kept=kept,
        events_expired=expired,
        physical=store.finish_erasure() if expired else "done",
    )


def _youngest_first(store: EventStore, scope: Scope) -> Iterator[SessionHead]:
    """Return sessions so that forks come before what they were forked from."""
    found = list(heads(store, scope))
    depth: dict[str, int] = {}
    parents = {head.session_id: head.cut.parent for head in found if head.cut}

    def depth_of(name: str) -> int:
        steps: list[str] = []
        while name in parents and name not in depth:
            steps.append(name)
            name = parents[name]
        base = depth.get(name, 0)
        for count, step in enumerate(reversed(steps), start=1):
            depth[step] = base + count
        return depth.get(steps[0], base) if steps else base

    return iter(sorted(found, key=lambda head: -depth_of(head.session_id)))


def _why_kept(
    store: EventStore, scope: Scope, outline: SessionOutline, gone: set[str]
) -> str | None:
    """Return why an old session must stay; None if it may go."""
    if outline.state == "running":
        return "running"
    if outline.mode == "queue" and Inbox(store, scope, outline.session_id).next()[0] is not None:
        return "unread"
    return None if _forks_gone(store, scope, outline.session_id, gone) else "forked"


def _forks_gone(store: EventStore, scope: Scope, session_id: str, gone: set[str]) -> bool:
    return all(fork in gone for fork in store.forks(scope, session_id))


def _has_content(store: EventStore, scope: Scope, session_id: str) -> bool:
    """Whether a session has an event that pruning does not leave."""
    before: int | None = None
    while page := store.last_headers(scope, session_id, before_seq=before, limit=PAGE):
        if any(header.kind not in REMAINS and not header.redacted for header in page):
            return True
        before = page[0].seq
    return False


def _put_away(session: Session, seq: int) -> str | None:
    """Tell a session in an episode and close it; return why it must stay after all."""
    episode = session.write_episode()
    if episode is not None and episode.seq != seq + 1:
        return "running"
    return None if _close(session, "pruned", episode.seq if episode else seq) else "running"


def _close(session: Session, reason: str, seq: int) -> bool:
    """Whether a session could be closed: only if it is still at ``seq``."""
    try:
        session.close(reason, expected_seq=seq)
    except (Conflict, RunActive):
        return False
    return True
