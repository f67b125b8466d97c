"""Counting what becomes of each line of a file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from treering.model.intakes import FAULTS_MAX, Fault, ImportReceipt, SourceReceipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.parsed import LogRecord
    from treering.model.intakes import SourceState

BLANK = "blank"
"""The fault of an empty line: it is neither an error nor an event."""


class LineCounter:
    """Counts the lines of one file."""

    def __init__(self, file: str, format_name: str | None, *, written_ms: int = 1) -> None:
        self.file = file
        self.format = format_name
        self.written_ms = max(written_ms, 1)
        """When the file was last written."""
        self.lines = 0
        self.imported = 0
        self.duplicates = 0
        self.events = 0
        self.errors = 0
        self.replaced = 0
        self.bytes = 0
        self.skipped: Counter[str] = Counter()
        self.mended: Counter[str] = Counter()
        self.sessions: dict[str, None] = {}
        self.faults: list[Fault] = []

    def see(self, record: LogRecord) -> None:
        """Count a record that was read."""
        self.lines += record.lines
        if record.mended is not None:
            self.mended[record.mended] += 1

    def skip(self, reason: str, lines: int = 1) -> None:
        """Count lines without an event of their own."""
        self.skipped[reason] += lines

    def fail(self, record: LogRecord, reason: str) -> None:
        """Count a record that could not be imported, and note where it is."""
        if reason == BLANK:
            self.skip(reason, record.lines)
            return
        self.errors += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(
                Fault(file=self.file, line=record.line, offset=record.offset, reason=reason)
            )

    def receipt(self, state: SourceState, reason: str | None = None) -> SourceReceipt:
        """Return the sums."""
        return SourceReceipt(
            file=self.file,
            format=self.format,
            state=state,
            reason=reason,
            bytes=self.bytes,
            lines=self.lines,
            imported=self.imported,
            duplicates=self.duplicates,
            skipped=dict(sorted(self.skipped.items())),
            errors=self.errors,
            mended=dict(sorted(self.mended.items())),
            events=self.events,
            replaced=self.replaced,
            sessions=list(self.sessions),
            faults=self.faults,
        )


def in_all(
    sources: Sequence[SourceReceipt],
    *,
    dry_run: bool,
    sessions: int,
    sessions_new: int,
    subagents: int,
    by_scope: dict[str, int],
) -> ImportReceipt:
    """Return the sums of all files."""
    read = [source for source in sources if source.state in {"read", "grown"}]
    skipped: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    for source in read:
        skipped.update(source.skipped)
        mended.update(source.mended)
    return ImportReceipt(
        dry_run=dry_run,
        files=len(sources),
        files_unchanged=sum(source.state == "unchanged" for source in sources),
        files_refused=sum(source.state == "refused" for source in sources),
        bytes=sum(source.bytes for source in read),
        lines=sum(source.lines for source in read),
        imported=sum(source.imported for source in read),
        duplicates=sum(source.duplicates for source in read),
        skipped=dict(sorted(skipped.items())),
        errors=sum(source.errors for source in read),
        mended=dict(sorted(mended.items())),
        events=sum(source.events for source in read),
        replaced=sum(source.replaced for source in read),
        sessions=sessions,
        sessions_new=sessions_new,
        subagents=subagents,
        by_scope=dict(sorted(by_scope.items())),
        by_format=dict(sorted(Counter(source.format for source in read if source.format).items())),
        faults=[fault for source in read for fault in source.faults][:FAULTS_MAX],
        sources=[source for source in sources if source.state != "unchanged"],
    )
