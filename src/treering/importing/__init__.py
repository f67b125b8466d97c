"""The interface of reader plug-ins: how to have the logs of another agent imported.

A plug-in is a ``Format`` under the entry point group ``treering.readers``; ``testing`` has the laws
that its reader must keep.
"""

from __future__ import annotations

from treering.formats.event_content import (
    EventContent,
    called,
    compacted,
    interrupted,
    observation,
    outcome,
    said,
    shortened,
    thought,
    titled,
    trouble,
    undone,
    used,
)
from treering.formats.format import (
    DatabaseReader,
    Format,
    LogDatabase,
    LogPlace,
    LogRetention,
    share,
)
from treering.formats.parsed import (
    LogReader,
    LogRecord,
    ParsedEvent,
    ParsedRecord,
    RecordGroup,
    SessionHeader,
    content_key,
)
from treering.formats.record_reader import ReaderState, RecordReader

__all__ = [
    "DatabaseReader",
    "EventContent",
    "Format",
    "LogDatabase",
    "LogPlace",
    "LogReader",
    "LogRecord",
    "LogRetention",
    "ParsedEvent",
    "ParsedRecord",
    "ReaderState",
    "RecordGroup",
    "RecordReader",
    "SessionHeader",
    "called",
    "compacted",
    "content_key",
    "interrupted",
    "observation",
    "outcome",
    "said",
    "share",
    "shortened",
    "thought",
    "titled",
    "trouble",
    "undone",
    "used",
]
