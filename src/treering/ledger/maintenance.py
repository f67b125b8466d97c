"""Keeps the memory of a scope up to date: facts, episodes, fading, vectors, each when it is due.

Nothing depends on it: it only does in advance what commands would do on request.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from treering.errors import Conflict, KeyMissing, NotFound, RunActive
from treering.ledger.outlines import Sketch, head_of
from treering.memory.extraction import BUDGET_TOKENS
from treering.model.memories import MaintenanceReceipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.memory_factory import MemoryFactory
    from treering.ledger.ports import EventStore
    from treering.ledger.sessions import Session
    from treering.memory.ports import Extractor
    from treering.model.scopes import Scope
    from treering.model.sessions import SessionOutline

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
        if recorder.summarised_through(scope, session_id) >= head_seq:
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
            recorder.note_summarised(scope, session_id, head.head_seq)
    return written
