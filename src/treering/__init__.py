"""Treering: the flight recorder and the memory of AI agents.

    ledger = treering.open("agents.db")
    session = ledger.session("monday", scope="acme/app", agent="lyria")

Here is what one needs to record, read, ask and catch. The rest is in treering.errors,
treering.receipts, treering.views, treering.sinks, treering.memory, treering.context and
treering.importing.
Names are imported when first used, so that the command line starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_names
from treering.version import __version__

if TYPE_CHECKING:
    from treering import aio as aio
    from treering import context as context
    from treering import errors as errors
    from treering import importing as importing
    from treering import memory as memory
    from treering import receipts as receipts
    from treering import sinks as sinks
    from treering import views as views
    from treering.adapters.clients import record
    from treering.app import administer, import_logs, open  # noqa: A004  (the public door)
    from treering.context.assemble import Context
    from treering.errors import (
        Conflict,
        InvalidInput,
        NotFound,
        RunInterrupted,
        SensitiveContent,
        TreeringError,
    )
    from treering.ledger.contexts import Contributor
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.memory.memory import Memory
    from treering.memory.ports import Embedder, Extractor
    from treering.memory.recall_result import RecallResult
    from treering.model.events import Event, Header, NewEvent
    from treering.model.memories import Episode, Fact
    from treering.model.queries import Page
    from treering.model.searches import SearchResult
    from treering.spine.dispatcher import Spine
    from treering.spine.runs import Run, ToolCall
    from treering.spine.tool_functions import tool

__all__ = [
    "Conflict",
    "Context",
    "Contributor",
    "Embedder",
    "Episode",
    "Event",
    "Extractor",
    "Fact",
    "Header",
    "InvalidInput",
    "Ledger",
    "Memory",
    "NewEvent",
    "NotFound",
    "Page",
    "RecallResult",
    "Run",
    "RunInterrupted",
    "SearchResult",
    "SensitiveContent",
    "Session",
    "Spine",
    "ToolCall",
    "TreeringError",
    "__version__",
    "administer",
    "import_logs",
    "open",
    "record",
    "tool",
]

_HOMES: Final = {
    "Conflict": "treering.errors",
    "Context": "treering.context.assemble",
    "Contributor": "treering.ledger.contexts",
    "Embedder": "treering.memory.ports",
    "Episode": "treering.model.memories",
    "Event": "treering.model.events",
    "Extractor": "treering.memory.ports",
    "Fact": "treering.model.memories",
    "Header": "treering.model.events",
    "InvalidInput": "treering.errors",
    "Ledger": "treering.ledger.ledger",
    "Memory": "treering.memory.memory",
    "NewEvent": "treering.model.events",
    "NotFound": "treering.errors",
    "Page": "treering.model.queries",
    "RecallResult": "treering.memory.recall_result",
    "Run": "treering.spine.runs",
    "RunInterrupted": "treering.errors",
    "SearchResult": "treering.model.searches",
    "SensitiveContent": "treering.errors",
    "Session": "treering.ledger.sessions",
    "Spine": "treering.spine.dispatcher",
    "ToolCall": "treering.spine.runs",
    "TreeringError": "treering.errors",
    "administer": "treering.app",
    "import_logs": "treering.app",
    "open": "treering.app",
    "record": "treering.adapters.clients",
    "tool": "treering.spine.tool_functions",
}
"""Where each public name lives; every other one is an error."""
_ROOMS: Final = ("aio", "context", "errors", "importing", "memory", "receipts", "sinks", "views")
"""Modules that are there without an import of their own."""

if not TYPE_CHECKING:  # A type checker would take any name for one that is here.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _ROOMS)
