"""Sweeping: idle sessions are closed, and old ones pruned to an episode. No daemon: asked for.

Maintenance keeps the memory of a scope up to date: facts, episodes, fading, vectors, each when it
is due. Nothing depends on it: it only does in advance what commands would do on request.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Final, Literal, overload

import msgspec

from treering.errors import Conflict, InvalidInput, KeyMissing, NotFound, RunActive
from treering.ledger.erasure import KEPT, check_clock, expire_session
from treering.ledger.inbox import Inbox
from treering.ledger.outlines import Sketch, Titles, head_of, heads
from treering.model.events import Header
from treering.model.kinds import IMPORTED, KINDS
from treering.model.memories import BUDGET_TOKENS, MaintenanceReceipt
from treering.model.parts import SessionClosed
from treering.model.queries import Query
from treering.model.receipts import SweepReceipt
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.drafts import Drafter
    from treering.ledger.memory_factory import MemoryFactory
    from treering.ledger.ports import EventStore
    from treering.ledger.records import SessionHead
    from treering.ledger.sessions import Session
    from treering.memory.ports import Extractor
    from treering.model.sessions import SessionOutline

DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
PAGE: Final = 500
REMAINS: Final = frozenset(KEPT) | {
    name for name in KINDS if name.startswith(("session.", "episode.", "memory.", "user."))
}
"""What is left of a pruned session: what became of it, and what is remembered of it."""

IDLE: Final = SessionClosed(reason="idle")
PRUNED: Final = SessionClosed(reason="pruned", pruned=True)
"""How a sweep closes a session; the reason is a word that anybody may give, the mark is not."""


class PruneDecision(msgspec.Struct, frozen=True):
    """What is to become of a session."""

    deed: Literal["leave", "close", "prune", "finish", "keep", "gone"]
    """finish: what a sweep that died began; keep: it is idle or old; gone: it was pruned before."""
    why: str = ""
    """Why it is kept."""


class SweepPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions a sweep closes and prunes."""

    now_ms: int
    is_clock: bool
    """Whether ``now_ms`` is the clock's, which must be plausible before anything is pruned."""
    idle_minutes: float | None
    """Close sessions that are idle for longer; None closes none."""
    prune_days: float | None
    """Prune sessions that are older; None prunes none."""
    include_imported: bool
    dry_run: bool


def sweep(
    store: EventStore,
    drafter: Drafter,
    open_session: Callable[[SessionOutline], Session],
    scope: Scope,
    policy: SweepPolicy,
) -> SweepReceipt:
    """Close idle sessions and prune old ones. Raise InvalidInput if the clock cannot be right."""
    now_ms, dry_run = policy.now_ms, policy.dry_run
    idle_ms = time_before(now_ms, policy.idle_minutes, MINUTE_MS)
    old_ms = time_before(now_ms, policy.prune_days, DAY_MS)
    sketch = Sketch(store, scope, now_ms, title_of=Titles(store, scope).of_many)
    closed: list[str] = []
    pruned: list[str] = []
    kept: dict[str, str] = {}
    gone: set[str] = set()
    expired = 0
    has_to_check = policy.is_clock and not dry_run
    for listed in _youngest_first(store, scope):
        # Others may have written since the list was made, and may until it is closed.
        head = head_of(store, scope, listed.session_id) or listed
        name, outline = head.session_id, sketch.outline(head)
        quiet_ms = sketch.quiet_ms(head)
        verdict = _verdict(
            store, outline, quiet_ms, gone,
            old_ms=old_ms, idle_ms=idle_ms, include_imported=policy.include_imported,
        )  # fmt: skip
        if has_to_check and verdict.deed in {"prune", "finish"}:
            check_clock(store, scope, now_ms)
            has_to_check = False
        if not dry_run and verdict.deed in {"close", "prune"}:
            verdict = _put_away(open_session(outline), verdict, head.head_seq)
            if verdict.deed == "prune" and not _forks_gone(store, scope, name, gone):
                # Forked while it was put away: its past is another's, too.
                verdict = PruneDecision("keep", "forked")
        if verdict.deed == "keep":
            kept[name] = verdict.why
        elif verdict.deed == "close":
            closed.append(name)
        elif verdict.deed != "leave":
            gone.add(name)
        if verdict.deed in {"prune", "finish"}:
            pruned.append(name)
            if not dry_run:
                # What others add to it meanwhile is kept.
                expired += expire_session(
                    store, drafter, scope, name, until_seq=head.head_seq, spare=REMAINS
                )
    return SweepReceipt(
        scope=scope,
        dry_run=dry_run,
        closed=closed,
        pruned=pruned,
        kept=kept,
        events_expired=expired,
        physical=store.erasure.finish() if expired else "done",
        sessions_kept_imported=sum(why == "imported" for why in kept.values()),
    )


def _youngest_first(store: EventStore, scope: Scope) -> Iterator[SessionHead]:
    """Return sessions so that forks come before what they were forked from."""
    session_heads = list(heads(store, scope))
    depth: dict[str, int] = {}
    parents = {head.session_id: head.cut.parent for head in session_heads if head.cut}

    def depth_of(name: str) -> int:
        steps: list[str] = []
        while name in parents and name not in depth and len(steps) < len(session_heads):
            steps.append(name)
            name = parents[name]
        base = depth.get(name, 0)
        for count, step in enumerate(reversed(steps), start=1):
            depth[step] = base + count
        return depth.get(steps[0], base) if steps else base

    return iter(sorted(session_heads, key=lambda head: -depth_of(head.session_id)))


@overload
def time_before(now_ms: int, age: float, unit_ms: int) -> int: ...
@overload
def time_before(now_ms: int, age: float | None, unit_ms: int) -> int | None: ...
def time_before(now_ms: int, age: float | None, unit_ms: int) -> int | None:
    """Return the time that long ago; None if no age is given. Raise InvalidInput for no age."""
    if age is None:
        return None
    if isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age < math.inf:
        raise InvalidInput(f"not an age: {age!r}", hint="give a number, 0 or more")
    return now_ms - round(age * unit_ms)


def _verdict(
    store: EventStore,
    outline: SessionOutline,
    quiet_ms: int,
    gone: set[str],
    *,
    old_ms: int | None,
    idle_ms: int | None,
    include_imported: bool,
) -> PruneDecision:
    """Return what is to become of a session that was last written to at ``quiet_ms``."""
    scope, name = Scope(outline.scope), outline.session_id
    # A session that is pruned and still has content was left so by a sweep that died.
    is_pruned = outline.state == "pruned"
    if is_pruned and not _has_content(store, scope, name):
        return PruneDecision("gone" if _forks_gone(store, scope, name, gone) else "leave")
    if old_ms is not None and quiet_ms <= old_ms:
        if outline.state == "running":
            return PruneDecision("keep", "running")
        if _has_unread(store, scope, name):
            return PruneDecision("keep", "unread")
        if not _forks_gone(store, scope, name, gone):
            return PruneDecision("keep", "forked")
        if is_pruned:
            return PruneDecision("finish")
        is_kept = not include_imported and _has_kind(store, scope, name, IMPORTED)
        return PruneDecision("keep", "imported") if is_kept else PruneDecision("prune")
    if idle_ms is not None and quiet_ms <= idle_ms and outline.state in {"open", "idle"}:
        return _verdict_of_idle(store, scope, name, include_imported=include_imported)
    return PruneDecision("leave")


def _verdict_of_idle(
    store: EventStore, scope: Scope, session_id: str, *, include_imported: bool
) -> PruneDecision:
    """Return whether an idle session is closed: not while a message is unread."""
    if _has_unread(store, scope, session_id):
        return PruneDecision("keep", "unread")
    if not include_imported and _has_kind(store, scope, session_id, IMPORTED):
        return PruneDecision("keep", "imported")
    return PruneDecision("close")


def _has_unread(store: EventStore, scope: Scope, session_id: str) -> bool:
    """Whether a message waits in a session, whatever it was opened as: that may be erased."""
    if not _has_kind(store, scope, session_id, "inbox.received"):
        return False
    return Inbox(store, scope, session_id).has_message()


def _has_kind(store: EventStore, scope: Scope, session_id: str, kind: str) -> bool:
    """Whether a session has an event of ``kind``, redacted or not."""
    query = Query(scope=scope, session_id=session_id, kinds=(kind,), limit=1)
    return bool(store.reader.by_time(Header, query))


def _forks_gone(store: EventStore, scope: Scope, session_id: str, gone: set[str]) -> bool:
    return all(fork in gone for fork in store.sessions.forks(scope, session_id))


def _has_content(store: EventStore, scope: Scope, session_id: str) -> bool:
    """Whether a session has an event that pruning does not leave."""
    before: int | None = None
    while page := store.reader.last_by_seq(
        Header, scope, session_id, before_seq=before, limit=PAGE
    ):
        if any(header.kind not in REMAINS and not header.redacted for header in page):
            return True
        before = page[0].seq
    return False


def _put_away(session: Session, verdict: PruneDecision, seq: int) -> PruneDecision:
    """Close a session, with an episode; only if it is still at ``seq``."""
    try:
        session.close(IDLE if verdict.deed == "close" else PRUNED, expected_seq=seq)
    except KeyMissing:
        return PruneDecision("keep", "sealed")
    except (Conflict, RunActive):
        if verdict.deed == "close":
            return PruneDecision("leave")
        return PruneDecision(
            "keep", "running" if session.outline().state == "running" else "written"
        )
    return verdict


_LEASE: Final = "memory:"


def maintain(
    store: EventStore,
    memory_factory: MemoryFactory,
    open_session: Callable[[SessionOutline], Session],
    scope: Scope,
    *,
    model: Extractor | None,
    budget_tokens: int | None,
    quiet_since_ms: int,
    progress: Callable[[int], None] | None,
) -> MaintenanceReceipt:
    """Do what is due, step by step; do nothing but report it if another process is at work."""
    if not store.leases.hold(_LEASE + scope):
        return MaintenanceReceipt(scope=scope, is_busy=True)
    try:
        memory = memory_factory.memory(scope)
        budget = BUDGET_TOKENS if budget_tokens is None else budget_tokens
        extracted = memory.extract(model=model, budget_tokens=budget, progress=progress)
        episodes = _write_episodes(store, memory_factory, open_session, scope, quiet_since_ms)
        return MaintenanceReceipt(
            scope=scope,
            messages_read=extracted.messages,
            facts_learned=sum(result.believed for result in extracted.learned),
            facts_to_review=sum(result.outcome == "quarantined" for result in extracted.learned),
            stopped=extracted.stopped,
            episodes_written=episodes,
            facts_archived=len(memory.fade().archived),
            embedded=memory_factory.move_facts(scope, progress),
        )
    finally:
        store.leases.release(_LEASE + scope)


def _write_episodes(
    store: EventStore,
    memory_factory: MemoryFactory,
    open_session: Callable[[SessionOutline], Session],
    scope: Scope,
    quiet_since_ms: int,
) -> int:
    """Write an episode of each session that has been quiet and has something new."""
    recorder = memory_factory.recorder
    sketch = Sketch(store, scope, quiet_since_ms, title_of=lambda _: None)
    written = 0
    for session_id, head_seq in recorder.sessions(scope):
        if recorder.read_through(scope, session_id, "episode") >= head_seq:
            continue
        head = head_of(store, scope, session_id)
        if head is None:
            continue
        outline = sketch.outline(head)
        # An imported session has been quiet since the last line of its log.
        if min(outline.updated_ms, sketch.quiet_ms(head)) > quiet_since_ms:
            continue
        # A session that somebody writes to, or whose key is missing, is tried again later.
        with contextlib.suppress(Conflict, KeyMissing, NotFound, RunActive):
            if open_session(outline).write_episode() is not None:
                written += 1
            head = head_of(store, scope, session_id) or head
            recorder.note_read(scope, session_id, "episode", head.head_seq)
    return written
