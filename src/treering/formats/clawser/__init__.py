"""Clawser's event logs and workspaces on disk, and their conversion to sessions of a ledger.

log = EventLog.from_jsonl(text)
log.derive_session_history("You are a pilot.")
to_session(log, session)
"""

from __future__ import annotations

from treering.formats.clawser.log import (
    EventLog,
    ImportedLog,
    ParsedLog,
    from_session,
    read_jsonl,
    to_session,
)
from treering.formats.clawser.text import UnreadLine
from treering.formats.clawser.workspaces import (
    Card,
    Checkpoint,
    ClawserConversation,
    PassedOver,
    Restored,
    Workspace,
    checkpoint_of,
    events_of,
)

__all__ = [
    "Card",
    "Checkpoint",
    "ClawserConversation",
    "EventLog",
    "ImportedLog",
    "ParsedLog",
    "PassedOver",
    "Restored",
    "UnreadLine",
    "Workspace",
    "checkpoint_of",
    "events_of",
    "from_session",
    "read_jsonl",
    "to_session",
]
