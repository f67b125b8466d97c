"""Facts as values: folded rows joined with the events that hold their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import FactPayload, assertion_at, state_at
from treering.memory.fading import faded
from treering.model.memories import DoubtfulChange, Fact, FactChange
from treering.model.sessions import LOGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering.derive.fact_rows import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.ports import MemoryStore
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Event
    from treering.model.memories import FactState

_LOGS: Final = hashed(LOGS)
CONFIRMED_BY: Final = 2
"""Events that have to state a fact for it to be confirmed."""


def fact_of(
    row: FactRow,
    event: Event,
    *,
    now_ms: int,
    gone: Iterable[str] = (),
    state: FactState | None = None,
) -> Fact:
    """Return a fact from its row and the event that states it; ``state`` overrides the row's."""
    content = msgspec.convert(event.payload, FactPayload)
    fact_state = state or row.state
    superseded = fact_state == "superseded"
    return msgspec.convert(
        {
            "id": row.id,
            "scope": event.scope,
            "user": event.user_id,
            "text": content.text,
            "category": content.category,
            "importance": content.importance,
            "confidence": content.confidence,
            "faded": faded(
                content.confidence,
                importance=content.importance / 10,
                uses=row.uses,
                accessed_ms=row.accessed_ms,
                now_ms=now_ms,
            ),
            "state": fact_state,
            "reason": row.reason,
            "confirmed": row.accepted or len(row.cites) >= CONFIRMED_BY,
            "source_session": content.source_session,
            "group": content.walled,
            "session_only": row.wall not in {None, _LOGS} and not content.walled,
            "evidence": list(content.evidence),
            "evidence_gone": [event_id for event_id in content.evidence if event_id in gone],
            "created_ms": row.recorded_ms,
            "last_accessed_ms": row.accessed_ms,
            "access_count": row.uses,
            "valid_from_ms": row.valid_from_ms if state is None else content.valid_from_ms,
            "valid_to_ms": row.valid_to_ms if superseded else content.valid_to_ms,
            "recorded_ms": row.recorded_ms,
            "superseded_ms": row.superseded_ms if superseded else None,
            "superseded_by": row.superseded_by if superseded else None,
            "event_id": event.event_id,
            "revisions": len(row.assertions) - 1,
        },
        Fact,
    )


def facts_of(
    scope_memory: ScopeMemory,
    rows: Sequence[FactRow],
    recorder: Recorder,
    *,
    as_of_ms: int | None = None,
) -> list[Fact]:
    """Return facts in the order of ``rows``, without those erased meanwhile."""
    now_ms = recorder.engine.now_ms()
    positions = [
        row.position if as_of_ms is None else assertion_at(row, as_of_ms).position for row in rows
    ]
    tellings = scope_memory.fold.events_at(positions)
    stated = [
        (row, tellings[position])
        for row, position in zip(rows, positions, strict=True)
        if position in tellings
    ]
    gone = _gone(scope_memory, recorder, [event for _, event in stated])
    return [
        fact_of(
            row,
            event,
            now_ms=now_ms,
            gone=gone,
            state=None if as_of_ms is None else state_at(row, as_of_ms),
        )
        for row, event in stated
    ]


def doubts_of(scope_memory: ScopeMemory, recorder: Recorder) -> list[DoubtfulChange]:
    """Return the current facts that may have ended another one that still holds, oldest first."""
    known = scope_memory.fold.state.facts
    newer = [row for row in known.values() if row.state == "current" and row.may_end in known]
    pairs = ((row, known[row.may_end]) for row in newer if row.may_end is not None)
    rows = [
        (row, earlier)
        for row, earlier in pairs
        if earlier.state == "current"
        and earlier.owner == row.owner
        and (earlier.valid_to_ms is None or earlier.valid_to_ms > row.valid_from_ms)
    ]
    events = scope_memory.fold.events_at([row.assertions[0].position for row, _ in rows])
    found = {fact.id: fact for pair in rows for fact in facts_of(scope_memory, pair, recorder)}
    return [
        DoubtfulChange(
            fact=found[row.id],
            earlier=found[other.id],
            signs=msgspec.convert(events[row.assertions[0].position].payload, FactPayload).signs
            or (),
        )
        for row, other in rows
        if {row.id, other.id} <= found.keys() and row.assertions[0].position in events
    ]


def history_of(row: FactRow, store: MemoryStore, scope_memory: ScopeMemory) -> Iterator[FactChange]:
    """Return every change to a fact that was not erased, in order."""
    state: FactState = "current"
    for event in _events_about(row, store, scope_memory):
        payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
        state = _STATE_AFTER.get(event.kind, state)
        if event.kind == "memory.refused" and payload.get("quarantined"):
            state = "quarantined"
        yield FactChange(
            event_id=event.event_id,
            kind=event.kind,
            ts_ms=event.ts_ms,
            recorded_ms=event.recorded_ms,
            text=payload.get("text"),
            state=state,
            reason=payload.get("reason"),
            evidence=tuple(payload.get("evidence", ())),
            signs=tuple(payload.get("signs", ())),
        )


_STATE_AFTER: Final[dict[str, FactState]] = {
    "memory.stored": "current",
    "memory.revised": "current",
    "memory.restored": "current",
    "memory.refused": "refused",
    "memory.superseded": "superseded",
    "memory.archived": "archived",
    "memory.forgotten": "forgotten",
}
PAGE_EVENTS: Final = 2_000


def _events_about(row: FactRow, store: MemoryStore, scope_memory: ScopeMemory) -> Iterator[Event]:
    mark: tuple[int, ...] = ()
    more = True
    while more:
        page = store.remembered_after(scope_memory.scope, mark, limit=PAGE_EVENTS)
        for event in page.items:
            payload = event.payload if isinstance(event.payload, dict) else {}
            if event.kind in _STATE_AFTER and payload.get("id") == row.id:
                yield event
        mark, more = page.last, page.more


def _gone(scope_memory: ScopeMemory, recorder: Recorder, events: Sequence[Event]) -> set[str]:
    """Return the cited events that have expired."""
    cited = [
        event_id
        for event in events
        for event_id in (event.payload if isinstance(event.payload, dict) else {}).get(
            "evidence", []
        )
    ]
    if not cited:
        return set()
    return recorder.gone(scope_memory.scope, list(dict.fromkeys(cited)))
