"""Treering: the flight recorder and the memory of AI agents.

    ledger = treering.open("agents.db")
    session = ledger.session("monday", scope="acme/app", agent="lyria")

Names are imported when first used, so that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from treering.version import __version__

if TYPE_CHECKING:
    from treering.app import administer, import_logs, open  # noqa: A004  (the public door)
    from treering.context.assemble import Context
    from treering.context.exact import exact_counter
    from treering.derive.fact_extraction import Candidate, Utterance
    from treering.errors import (
        Busy,
        Closed,
        Conflict,
        Corrupt,
        DuplicateEvent,
        InvalidCursor,
        InvalidInput,
        InvalidKind,
        InvalidScope,
        KeyMissing,
        LedgerMoved,
        NotALedger,
        NotFound,
        NotPermitted,
        OutcomeUnknown,
        ReadOnly,
        RunActive,
        RunClosed,
        RunInterrupted,
        SchemaTooNew,
        SchemaTooOld,
        SensitiveContent,
        StorageError,
        StorageFull,
        TooLarge,
        ToolDenied,
        TreeringError,
        Unavailable,
        Unsupported,
    )
    from treering.ledger.contexts import Contributor, Shown, Working
    from treering.ledger.families import Family
    from treering.ledger.following import Follower
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.memory.memory import Memory
    from treering.memory.model_reading import Extraction
    from treering.memory.ports import Embedder, Extractor
    from treering.memory.recalled import Recalled, Weights
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.envelopes import Envelope
    from treering.model.episodes import Episode
    from treering.model.events import Event, Header, NewEvent
    from treering.model.intakes import IntakeReceipt, SourceReceipt
    from treering.model.memories import (
        ExtractReceipt,
        Fact,
        FactAudit,
        FactChange,
        FadeReceipt,
        Learned,
        MergeReceipt,
        NewFact,
        RecalledEpisode,
        RecalledFact,
        UserHandle,
    )
    from treering.model.messages import Repair
    from treering.model.queries import Page
    from treering.model.receipts import (
        AnchorReceipt,
        Broken,
        CopyReceipt,
        DatabaseStatus,
        DestroyReceipt,
        ExpireReceipt,
        ExportReceipt,
        ForgetReceipt,
        ImportReceipt,
        InitReceipt,
        KeyGeneration,
        KeyReceipt,
        RebuildReceipt,
        RedactReceipt,
        ScrubReceipt,
        SweepReceipt,
        VectorsReceipt,
        Verification,
    )
    from treering.model.runs import Message
    from treering.model.searches import SearchHit, SearchResult, SessionHits
    from treering.model.sessions import Charter, Isolation, SessionOutline
    from treering.model.tool_records import ToolRecord, ToolStatistics
    from treering.model.tools import SyntheticPolicy
    from treering.model.views import Counts, Goal, MemoryRecord, ModelUsage, Schedule, Turn, Usage
    from treering.spine.calls import ToolCall
    from treering.spine.ports import (
        Delivery,
        Gate,
        Occasion,
        Preparation,
        PrivateSink,
        SafeSink,
        SinkStatus,
        Verdict,
    )
    from treering.spine.runs import Run
    from treering.spine.spine import Spine

__all__ = [
    "AnchorReceipt",
    "Broken",
    "Busy",
    "Candidate",
    "Charter",
    "Closed",
    "Conflict",
    "Context",
    "Contributor",
    "CopyReceipt",
    "Corrupt",
    "Counts",
    "DatabaseStatus",
    "Delivery",
    "DestroyReceipt",
    "DuplicateEvent",
    "Embedder",
    "Envelope",
    "Episode",
    "Event",
    "ExpireReceipt",
    "ExportReceipt",
    "ExtractReceipt",
    "Extraction",
    "Extractor",
    "Fact",
    "FactAudit",
    "FactChange",
    "FadeReceipt",
    "Family",
    "Follower",
    "ForgetReceipt",
    "Gate",
    "Goal",
    "Header",
    "ImportReceipt",
    "InitReceipt",
    "IntakeReceipt",
    "InvalidCursor",
    "InvalidInput",
    "InvalidKind",
    "InvalidScope",
    "Isolation",
    "KeyGeneration",
    "KeyMissing",
    "KeyReceipt",
    "Learned",
    "Ledger",
    "LedgerMoved",
    "Memory",
    "MemoryRecord",
    "MergeReceipt",
    "Message",
    "ModelUsage",
    "NewEvent",
    "NewFact",
    "NotALedger",
    "NotFound",
    "NotPermitted",
    "Occasion",
    "OutcomeUnknown",
    "Page",
    "Preparation",
    "PrivateEvent",
    "PrivateSink",
    "ReadOnly",
    "RebuildReceipt",
    "Recalled",
    "RecalledEpisode",
    "RecalledFact",
    "RedactReceipt",
    "Repair",
    "Run",
    "RunActive",
    "RunClosed",
    "RunInterrupted",
    "SafeEvent",
    "SafeSink",
    "Schedule",
    "SchemaTooNew",
    "SchemaTooOld",
    "ScrubReceipt",
    "SearchHit",
    "SearchResult",
    "SensitiveContent",
    "Session",
    "SessionHits",
    "SessionOutline",
    "Shown",
    "SinkStatus",
    "SourceReceipt",
    "Spine",
    "StorageError",
    "StorageFull",
    "SweepReceipt",
    "SyntheticPolicy",
    "TooLarge",
    "ToolCall",
    "ToolDenied",
    "ToolRecord",
    "ToolStatistics",
    "TreeringError",
    "Turn",
    "Unavailable",
    "Unsupported",
    "Usage",
    "UserHandle",
    "Utterance",
    "VectorsReceipt",
    "Verdict",
    "Verification",
    "Weights",
    "Working",
    "__version__",
    "administer",
    "exact_counter",
    "import_logs",
    "open",
]

_HOMES: Final = {
    "AnchorReceipt": "treering.model.receipts",
    "Broken": "treering.model.receipts",
    "Candidate": "treering.derive.fact_extraction",
    "Charter": "treering.model.sessions",
    "Context": "treering.context.assemble",
    "Contributor": "treering.ledger.contexts",
    "CopyReceipt": "treering.model.receipts",
    "Counts": "treering.model.views",
    "DatabaseStatus": "treering.model.receipts",
    "Delivery": "treering.spine.ports",
    "DestroyReceipt": "treering.model.receipts",
    "Embedder": "treering.memory.ports",
    "Envelope": "treering.model.envelopes",
    "Episode": "treering.model.episodes",
    "Event": "treering.model.events",
    "ExpireReceipt": "treering.model.receipts",
    "ExportReceipt": "treering.model.receipts",
    "ExtractReceipt": "treering.model.memories",
    "Extraction": "treering.memory.model_reading",
    "Extractor": "treering.memory.ports",
    "Fact": "treering.model.memories",
    "FactAudit": "treering.model.memories",
    "FactChange": "treering.model.memories",
    "FadeReceipt": "treering.model.memories",
    "Family": "treering.ledger.families",
    "Follower": "treering.ledger.following",
    "ForgetReceipt": "treering.model.receipts",
    "Gate": "treering.spine.ports",
    "Goal": "treering.model.views",
    "Header": "treering.model.events",
    "ImportReceipt": "treering.model.receipts",
    "InitReceipt": "treering.model.receipts",
    "IntakeReceipt": "treering.model.intakes",
    "Isolation": "treering.model.sessions",
    "KeyGeneration": "treering.model.receipts",
    "KeyReceipt": "treering.model.receipts",
    "Learned": "treering.model.memories",
    "Ledger": "treering.ledger.ledger",
    "Memory": "treering.memory.memory",
    "MemoryRecord": "treering.model.views",
    "MergeReceipt": "treering.model.memories",
    "Message": "treering.model.runs",
    "ModelUsage": "treering.model.views",
    "NewEvent": "treering.model.events",
    "NewFact": "treering.model.memories",
    "Occasion": "treering.spine.ports",
    "Page": "treering.model.queries",
    "Preparation": "treering.spine.ports",
    "PrivateEvent": "treering.model.carried",
    "PrivateSink": "treering.spine.ports",
    "RebuildReceipt": "treering.model.receipts",
    "Recalled": "treering.memory.recalled",
    "RecalledEpisode": "treering.model.memories",
    "RecalledFact": "treering.model.memories",
    "RedactReceipt": "treering.model.receipts",
    "Repair": "treering.model.messages",
    "Run": "treering.spine.runs",
    "SafeEvent": "treering.model.carried",
    "SafeSink": "treering.spine.ports",
    "Schedule": "treering.model.views",
    "ScrubReceipt": "treering.model.receipts",
    "SearchHit": "treering.model.searches",
    "SearchResult": "treering.model.searches",
    "Session": "treering.ledger.sessions",
    "SessionHits": "treering.model.searches",
    "SessionOutline": "treering.model.sessions",
    "Shown": "treering.ledger.contexts",
    "SinkStatus": "treering.spine.ports",
    "SourceReceipt": "treering.model.intakes",
    "Spine": "treering.spine.spine",
    "SweepReceipt": "treering.model.receipts",
    "SyntheticPolicy": "treering.model.tools",
    "ToolCall": "treering.spine.calls",
    "ToolRecord": "treering.model.tool_records",
    "ToolStatistics": "treering.model.tool_records",
    "Turn": "treering.model.views",
    "Usage": "treering.model.views",
    "UserHandle": "treering.model.memories",
    "Utterance": "treering.derive.fact_extraction",
    "VectorsReceipt": "treering.model.receipts",
    "Verdict": "treering.spine.ports",
    "Verification": "treering.model.receipts",
    "Weights": "treering.memory.recalled",
    "Working": "treering.ledger.contexts",
    "administer": "treering.app",
    "exact_counter": "treering.context.exact",
    "import_logs": "treering.app",
    "open": "treering.app",
}
"""Where each public name lives; every other one is an error."""


if not TYPE_CHECKING:  # A type checker would take any name for one that is here.

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES.get(name, "treering.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
