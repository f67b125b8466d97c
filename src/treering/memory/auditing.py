"""Auditing: how sound what is remembered is, and what is to be looked at."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from treering.memory.columns import CURRENT
from treering.memory.fact_gate import mine
from treering.memory.facts import CONFIRMED_BY, facts_of
from treering.memory.fading import has_faded
from treering.model.memories import CATEGORIES, FACT_STATES, FactAudit

if TYPE_CHECKING:
    from treering.derive.memory_state import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory

NAMED_MAX: Final = 100
"""Facts of one sort that are named; all are counted."""
TWINS_FROM: Final = 0.95
COMPARED_MAX: Final = 5_000
"""Facts of one person that are compared with each other, the newest."""


def audit(scope_memory: ScopeMemory, recorder: Recorder) -> FactAudit:
    """Return how sound the facts of a scope are. Hold the lock, and refresh before."""
    state = scope_memory.fold.state
    rows = list(state.facts.values())
    current = [row for row in rows if row.state == "current"]
    bare = [row.id for row in current if not row.cites]
    gone = _without_evidence_left(scope_memory, current, recorder)
    twins = _twins(scope_memory, current)
    unconfirmed = sum(not row.accepted and len(row.cites) < CONFIRMED_BY for row in current)
    now_ms = recorder.engine.now_ms()
    doubtful = {*bare, *gone, *(one for pair in twins for one in pair)}
    return FactAudit(
        scope=scope_memory.scope,
        facts=len(current),
        by_state=dict.fromkeys(FACT_STATES, 0) | Counter(row.state for row in rows),
        by_category=dict.fromkeys(CATEGORIES, 0) | Counter(row.category for row in current),
        refused_by_reason=dict(
            Counter(
                row.reason or "" for row in rows if row.state in {"refused", "quarantined"}
            ).most_common()
        ),
        unconfirmed=unconfirmed,
        without_evidence=bare[:NAMED_MAX],
        evidence_gone=gone[:NAMED_MAX],
        near_duplicates=twins[:NAMED_MAX],
        never_used=sum(row.uses == 0 for row in current),
        faded=sum(has_faded(row, now_ms) for row in current),
        vectors_missing=scope_memory.shelf.without_vector,
        score=round(1 - len(doubtful) / len(current), 4) if current else 1.0,
    )


def _without_evidence_left(
    scope_memory: ScopeMemory, rows: list[FactRow], recorder: Recorder
) -> list[str]:
    citing = [row for row in rows if row.cites]
    return [
        fact.id
        for fact in facts_of(scope_memory, citing, recorder)
        if fact.evidence and len(fact.evidence_gone) == len(fact.evidence)
    ]


def _twins(scope_memory: ScopeMemory, rows: list[FactRow]) -> list[tuple[str, str]]:
    """Return pairs of one person's facts that nearly say the same."""
    import numpy as np  # noqa: PLC0415  (only who remembers needs it)

    vectors, columns = scope_memory.shelf.vectors, scope_memory.columns
    if vectors is None or scope_memory.embedder is None:
        return []
    pairs: list[tuple[str, str]] = []
    for user, wall in dict.fromkeys(row.owner for row in rows):
        facts = mine(scope_memory, {user}, {wall}, states=(CURRENT,))[-COMPARED_MAX:]
        documents = columns.column("document")[facts]
        facts, documents = facts[documents >= 0], documents[documents >= 0]
        if scope_memory.shelf.has_parts():
            documents = scope_memory.shelf.starts[documents]
        near = np.triu(vectors[documents] @ vectors[documents].T, k=1)
        for one, other in np.argwhere(near >= TWINS_FROM)[:NAMED_MAX]:
            pairs.append((columns.ids[int(facts[one])], columns.ids[int(facts[other])]))
    return pairs
