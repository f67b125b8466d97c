"""Values that reads return: sessions, turns, calls, usage, hits."""

from __future__ import annotations

from treering.ledger.contexts import Shown, Working
from treering.ledger.families import Family
from treering.ledger.keyed_records import KeyedRecord, RecordChange
from treering.ledger.runs import RunMoment, RunOutline, RunView
from treering.ledger.scopes import ScopeOutline
from treering.model.messages import Repair
from treering.model.searches import SearchHit, SessionHits
from treering.model.sessions import Isolation, SessionOutline, SessionSettings
from treering.model.tools import ToolRecord, ToolStatistics
from treering.model.views import (
    Counts,
    Goal,
    MemoryRecord,
    Message,
    ModelUsage,
    Schedule,
    TurnView,
    Usage,
)

__all__ = [
    "Counts",
    "Family",
    "Goal",
    "Isolation",
    "KeyedRecord",
    "MemoryRecord",
    "Message",
    "ModelUsage",
    "RecordChange",
    "Repair",
    "RunMoment",
    "RunOutline",
    "RunView",
    "Schedule",
    "ScopeOutline",
    "SearchHit",
    "SessionHits",
    "SessionOutline",
    "SessionSettings",
    "Shown",
    "ToolRecord",
    "ToolStatistics",
    "TurnView",
    "Usage",
    "Working",
]
