"""The memory: learned from events, recalled, and faded when unused.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_names

if TYPE_CHECKING:
    from treering.memory.model_extraction import Extraction
    from treering.memory.recall_result import Weights
    from treering.model.memories import (
        FactAudit,
        FactChange,
        LearnResult,
        NewFact,
        RecalledEpisode,
        RecalledFact,
        RecalledTurn,
        UserHandle,
    )
    from treering.rules.fact_extraction import Candidate, Utterance

__all__ = [
    "Candidate",
    "Extraction",
    "FactAudit",
    "FactChange",
    "LearnResult",
    "NewFact",
    "RecalledEpisode",
    "RecalledFact",
    "RecalledTurn",
    "UserHandle",
    "Utterance",
    "Weights",
]

_HOMES: Final = {
    "Candidate": "treering.rules.fact_extraction",
    "Extraction": "treering.memory.model_extraction",
    "FactAudit": "treering.model.memories",
    "FactChange": "treering.model.memories",
    "LearnResult": "treering.model.memories",
    "NewFact": "treering.model.memories",
    "RecalledEpisode": "treering.model.memories",
    "RecalledFact": "treering.model.memories",
    "RecalledTurn": "treering.model.memories",
    "UserHandle": "treering.model.memories",
    "Utterance": "treering.rules.fact_extraction",
    "Weights": "treering.memory.recall_result",
}

if not TYPE_CHECKING:  # A type checker would take any name for one that is here.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
