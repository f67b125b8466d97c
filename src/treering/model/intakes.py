"""Receipts of log imports, which account for every line, per file and in total."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FAULTS_MAX: Final = 100
"""The number of faults that a receipt lists; all are counted."""
NOT_A_LOG: Final = "not a log Treering can read"
"""How the reason begins if no reader understands a file."""
OTHERS_MAX: Final = 100
"""The number of files that a receipt lists because they are not logs; all are counted."""

SourceState = Literal["read", "grown", "unchanged", "refused"]
"""read: from the beginning; grown: from the last position; refused: not imported."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file that could not be imported, and its position."""

    file: str
    line: int
    offset: int
    """The byte where it begins."""
    reason: str


class SourceReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file: ``imported + duplicates + skipped + errors = lines``.

    A line is a record: two records on one line count as two, and one spread over several lines
    counts as one.
    """

    file: str
    format: str | None
    state: SourceState
    reason: str | None = None
    """Why it was refused."""
    bytes: int = 0
    """The number of bytes read."""
    lines: int = 0
    imported: int = 0
    """Lines with new events."""
    duplicates: int = 0
    """Lines without anything new."""
    skipped: dict[str, int] = {}
    """Lines without events of their own, by reason."""
    errors: int = 0
    mended: dict[str, int] = {}
    """Lines that were repaired to read them, by the kind of damage."""
    events: int = 0
    """Events that were recorded."""
    replaced: int = 0
    """Events that an older reader derived and this one does not; their content was erased."""
    sessions: list[str] = []
    """The sessions in the file."""
    faults: list[Fault] = []


class ImportReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result for all files: ``imported + duplicates + skipped + errors = lines``."""

    dry_run: bool
    """Whether nothing was written; the numbers are what an import would give."""
    files: int
    files_unchanged: int
    files_refused: int
    bytes: int
    lines: int
    imported: int
    duplicates: int
    skipped: dict[str, int]
    errors: int
    mended: dict[str, int]
    events: int
    sessions: int
    """Sessions in the files, without subagent sessions."""
    sessions_new: int
    subagents: int
    by_scope: dict[str, int]
    """Recorded events, by scope."""
    by_format: dict[str, int]
    """Files, by format."""
    faults: list[Fault]
    """The first records that could not be imported."""
    sources: list[SourceReceipt]
    """The receipts of files with content, or that were refused."""
    replaced: int = 0
    """Events that older readers derived and the present ones do not; their content was erased."""
    others: dict[str, int] = {}
    """Files in the folders that were skipped because their names are not those of logs, by
    extension."""
    others_named: list[str] = []
    """The first of these files."""
    unreadable: list[str] = []
    """Files and folders that could not be read: damaged, or without permission."""
