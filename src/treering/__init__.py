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
    from treering.app import administer, open  # noqa: A004  (the public door)
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
    from treering.ledger.following import Follower
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.events import Event, Header, NewEvent
    from treering.model.queries import Page
    from treering.model.receipts import (
        AnchorReceipt,
        Broken,
        CopyReceipt,
        DatabaseStatus,
        DestroyReceipt,
        ExpireReceipt,
        ExportReceipt,
        ImportReceipt,
        InitReceipt,
        KeyGeneration,
        KeyReceipt,
        RebuildReceipt,
        RedactReceipt,
        ScrubReceipt,
        Verification,
    )
    from treering.model.runs import Message
    from treering.model.tool_records import ToolRecord, ToolStatistics
    from treering.model.tools import SyntheticPolicy
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
    "Closed",
    "Conflict",
    "CopyReceipt",
    "Corrupt",
    "DatabaseStatus",
    "Delivery",
    "DestroyReceipt",
    "DuplicateEvent",
    "Event",
    "ExpireReceipt",
    "ExportReceipt",
    "Follower",
    "Gate",
    "Header",
    "ImportReceipt",
    "InitReceipt",
    "InvalidCursor",
    "InvalidInput",
    "InvalidKind",
    "InvalidScope",
    "KeyGeneration",
    "KeyMissing",
    "KeyReceipt",
    "Ledger",
    "Message",
    "NewEvent",
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
    "RedactReceipt",
    "Run",
    "RunActive",
    "RunClosed",
    "RunInterrupted",
    "SafeEvent",
    "SafeSink",
    "SchemaTooNew",
    "SchemaTooOld",
    "ScrubReceipt",
    "SensitiveContent",
    "Session",
    "SinkStatus",
    "Spine",
    "StorageError",
    "StorageFull",
    "SyntheticPolicy",
    "TooLarge",
    "ToolCall",
    "ToolDenied",
    "ToolRecord",
    "ToolStatistics",
    "TreeringError",
    "Unavailable",
    "Unsupported",
    "Verdict",
    "Verification",
    "__version__",
    "administer",
    "open",
]

_HOMES: Final = {
    "AnchorReceipt": "treering.model.receipts",
    "Broken": "treering.model.receipts",
    "CopyReceipt": "treering.model.receipts",
    "DatabaseStatus": "treering.model.receipts",
    "Delivery": "treering.spine.ports",
    "DestroyReceipt": "treering.model.receipts",
    "Event": "treering.model.events",
    "ExpireReceipt": "treering.model.receipts",
    "ExportReceipt": "treering.model.receipts",
    "Follower": "treering.ledger.following",
    "Gate": "treering.spine.ports",
    "Header": "treering.model.events",
    "ImportReceipt": "treering.model.receipts",
    "InitReceipt": "treering.model.receipts",
    "KeyGeneration": "treering.model.receipts",
    "KeyReceipt": "treering.model.receipts",
    "Ledger": "treering.ledger.ledger",
    "Message": "treering.model.runs",
    "NewEvent": "treering.model.events",
    "Occasion": "treering.spine.ports",
    "Page": "treering.model.queries",
    "Preparation": "treering.spine.ports",
    "PrivateEvent": "treering.model.carried",
    "PrivateSink": "treering.spine.ports",
    "RebuildReceipt": "treering.model.receipts",
    "RedactReceipt": "treering.model.receipts",
    "Run": "treering.spine.runs",
    "SafeEvent": "treering.model.carried",
    "SafeSink": "treering.spine.ports",
    "ScrubReceipt": "treering.model.receipts",
    "Session": "treering.ledger.sessions",
    "SinkStatus": "treering.spine.ports",
    "Spine": "treering.spine.spine",
    "SyntheticPolicy": "treering.model.tools",
    "ToolCall": "treering.spine.calls",
    "ToolRecord": "treering.model.tool_records",
    "ToolStatistics": "treering.model.tool_records",
    "Verdict": "treering.spine.ports",
    "Verification": "treering.model.receipts",
    "administer": "treering.app",
    "open": "treering.app",
}
"""Where each public name lives; every other one is an error."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "treering.errors")), name)
    globals()[name] = value
    return value
