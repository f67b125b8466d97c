"""An audit of the memory: counts, missing evidence, duplicates and unused facts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from treering.memory.fact_columns import CURRENT
from treering.memory.fact_gate import facts_visible_to
from treering.memory.facts import CONFIRMED_BY, facts_of
from treering.memory.fading import has_faded
from treering.model.memories import CATEGORIES, FACT_STATES, FactAudit

if TYPE_CHECKING:
    from treering.derive.fact_rows import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory

LISTED_MAX: Final = 100
"""Facts listed per finding; all are counted."""
DUPLICATE_COSINE_MIN: Final = 0.95
COMPARED_MAX: Final = 5_000
"""The newest facts of one person that are compared with each other."""


def audit(scope_memory: ScopeMemory, recorder: Recorder) -> FactAudit:
    """Return how reliable the facts of a scope are.

    The caller holds the lock and has refreshed the memory.
    """
    state = scope_memory.fold.state
    rows = list(state.facts.values())
    current = [row for row in rows if row.state == "current"]
    uncited = [row.id for row in current if not row.cites]
    gone = _without_evidence_left(scope_memory, current, recorder)
    duplicates = _near_duplicates(scope_memory, current)
    unconfirmed = sum(not row.accepted and len(row.cites) < CONFIRMED_BY for row in current)
    now_ms = recorder.engine.now_ms()
    doubtful = {*uncited, *gone, *(fact_id for pair in duplicates for fact_id in pair)}
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
        without_evidence=uncited[:LISTED_MAX],
        evidence_gone=gone[:LISTED_MAX],
        near_duplicates=duplicates[:LISTED_MAX],
        never_used=sum(row.uses == 0 for row in current),
        faded=sum(has_faded(row, now_ms) for row in current),
        vectors_missing=scope_memory.documents.without_vector,
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


def _near_duplicates(scope_memory: ScopeMemory, rows: list[FactRow]) -> list[tuple[str, str]]:
    """Return pairs of one person's facts that say nearly the same."""
    import numpy as np  # noqa: PLC0415  (only who remembers needs it)

    vectors, columns = scope_memory.documents.vectors, scope_memory.columns
    if vectors is None or scope_memory.embedder is None:
        return []
    pairs: list[tuple[str, str]] = []
    for user, wall in dict.fromkeys(row.owner for row in rows):
        facts = facts_visible_to(scope_memory, {user}, {wall}, states=(CURRENT,))[-COMPARED_MAX:]
        documents = columns.column("document")[facts]
        facts, documents = facts[documents >= 0], documents[documents >= 0]
        if scope_memory.documents.has_parts():
            documents = scope_memory.documents.starts[documents]
        cosines = np.triu(vectors[documents] @ vectors[documents].T, k=1)
        for first, second in np.argwhere(cosines >= DUPLICATE_COSINE_MIN)[:LISTED_MAX]:
            pairs.append((columns.ids[int(facts[first])], columns.ids[int(facts[second])]))
    return pairs
