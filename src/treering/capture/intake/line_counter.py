"""Tallies: what became of each line of a file, counted as it happens."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from treering.model.intakes import FAULTS_MAX, Fault, IntakeReceipt, SourceReceipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.formats.parsed import LogRecord
    from treering.model.intakes import SourceState

BLANK = "blank"
"""The fault of a line with nothing on it: no error, and nothing to take in."""


class LineCounter:
    """Counts the lines of one file."""

    def __init__(self, file: str, form: str | None, *, written_ms: int = 1) -> None:
        self.file = file
        self.format = form
        self.written_ms = max(written_ms, 1)
        """When the file was last written."""
        self.lines = 0
        self.imported = 0
        self.duplicates = 0
        self.events = 0
        self.errors = 0
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
        """Count one that tells nothing of its own, or several."""
        self.skipped[reason] += lines

    def fail(self, record: LogRecord, reason: str) -> None:
        """Count one that could not be taken in, and say where it is."""
        if reason == BLANK:
            self.skip(reason, record.lines)
            return
        self.errors += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(
                Fault(file=self.file, line=record.line, offset=record.offset, reason=reason)
            )

    def receipt(self, state: SourceState, reason: str | None = None) -> SourceReceipt:
        """Return what it came to."""
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
) -> IntakeReceipt:
    """Return what all files came to."""
    read = [one for one in sources if one.state in {"read", "grown"}]
    skipped: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    for one in read:
        skipped.update(one.skipped)
        mended.update(one.mended)
    return IntakeReceipt(
        dry_run=dry_run,
        files=len(sources),
        files_unchanged=sum(one.state == "unchanged" for one in sources),
        files_refused=sum(one.state == "refused" for one in sources),
        bytes=sum(one.bytes for one in read),
        lines=sum(one.lines for one in read),
        imported=sum(one.imported for one in read),
        duplicates=sum(one.duplicates for one in read),
        skipped=dict(sorted(skipped.items())),
        errors=sum(one.errors for one in read),
        mended=dict(sorted(mended.items())),
        events=sum(one.events for one in read),
        sessions=sessions,
        sessions_new=sessions_new,
        subagents=subagents,
        by_scope=dict(sorted(by_scope.items())),
        by_format=dict(sorted(Counter(one.format for one in read if one.format).items())),
        faults=[fault for one in read for fault in one.faults][:FAULTS_MAX],
        sources=[one for one in sources if one.state != "unchanged"],
    )
