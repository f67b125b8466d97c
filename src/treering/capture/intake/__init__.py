"""Taking in the logs that agents write: every line accounted for, nothing taken twice."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from treering.capture.intake.file_importer import FileImporter
from treering.capture.intake.ledger_view import LedgerView
from treering.capture.intake.line_counter import LineCounter, in_all
from treering.capture.intake.log_search import look_through
from treering.capture.intake.scope_resolver import DryRunNotes
from treering.capture.intake.surveys import CUT_OFF, parents_first, survey
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import NotFound
from treering.formats.parsed import LogRecord
from treering.formats.sources import source_at
from treering.model.intakes import SourceReceipt
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.capture.intake.log_search import LogCandidate
    from treering.capture.intake.scope_resolver import LogNotes
    from treering.capture.intake.surveys import Survey
    from treering.ledger.ledger import Ledger
    from treering.model.intakes import IntakeReceipt

BOOKMARK_SCOPE = "treering"
"""Where it is noted how far files were read whose sessions belong to scopes of their own."""


class RowReader(Protocol):
    """Reads the rows of a table of somebody else's SQLite file."""

    def __call__(self, path: Path) -> Iterator[dict[str, Any]]:
        """Return each row by the names of its columns.

        Raises NotFound if there is no such table, InvalidInput if it cannot be read.
        """


def take_logs(
    ledger: Ledger,
    paths: Sequence[str | os.PathLike[str]],
    *,
    scope: str | None = None,
    since_ms: int | None = None,
    dry_run: bool = False,
    again: bool = False,
    live: bool = False,
    parallel: bool = False,
    rows: RowReader | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> IntakeReceipt:
    """Take in logs of agents: see ``treering.import_logs``."""
    intake = Intake(
        ledger,
        scope=scope,
        dry_run=dry_run,
        again=again,
        live=live,
        parallel=parallel,
        rows=rows,
        progress=progress,
    )
    files = look_through([Path(path) for path in paths])
    receipt = intake.take(list(files.found.values()), since_ms=since_ms)
    return msgspec.structs.replace(
        receipt,
        others=dict(files.others.most_common()),
        others_named=files.named,
        unreadable=[*files.unreadable, *intake.unreadable],
    )


class Intake:
    """One round of taking in."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        scope: str | None,
        dry_run: bool,
        again: bool,
        live: bool,
        parallel: bool,
        rows: RowReader | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._ledger = ledger.masking()
        self._scope = None if scope is None else parse_scope(scope)
        self._dry_run = dry_run
        self._again = again
        self._live = live
        self._parallel = parallel
        self._rows = rows
        self._progress = progress
        kept: LogNotes = ledger.bookmarks(self._scope or BOOKMARK_SCOPE)
        self._bookmarks = DryRunNotes(kept) if dry_run else kept
        self._ledger_view = LedgerView(self._ledger, dry_run=dry_run)
        self._done = 0
        self._total = 0
        self.unreadable: list[str] = []
        """Files of which nothing can be read: damaged, or not allowed."""

    def take(self, files: Sequence[LogCandidate], *, since_ms: int | None) -> IntakeReceipt:
        """Take in ``files``, those first that others may go on from."""
        receipts: list[SourceReceipt] = []
        surveys: list[Survey] = []
        for found in files:
            told = self._look(found, since_ms)
            if told is None:
                continue
            if isinstance(told, SourceReceipt):
                receipts.append(told)
            else:
                surveys.append(told)
        self._total = sum(one.source.size for one in surveys)
        sessions: set[tuple[str, str]] = set()
        opened: set[tuple[str, str]] = set()
        subagents: set[tuple[str, str]] = set()
        by_scope: Counter[str] = Counter()
        for one in parents_first(surveys):
            reading = FileImporter(
                self._ledger,
                one,
                self._bookmarks,
                self._ledger_view,
                scope=self._scope,
                live=self._live,
                apart=self._parallel,
                rows=self._rows,
                advance=self._advance,
            )
            receipts.append(reading.take())
            sessions |= reading.sessions.seen
            opened |= reading.sessions.opened
            subagents |= reading.sessions.subagents
            by_scope.update(reading.sessions.events)
        return in_all(
            receipts,
            dry_run=self._dry_run,
            sessions=len(sessions - subagents),
            sessions_new=len(opened - subagents),
            subagents=len(subagents),
            by_scope=dict(by_scope),
        )

    def _look(self, found: LogCandidate, since_ms: int | None) -> SourceReceipt | Survey | None:
        """Return what is to be read of a file; what became of it, if nothing is; None if old."""
        tally = LineCounter(str(found.path), None)
        if found.left_out is not None:
            return tally.receipt("refused", found.left_out)
        try:
            source = source_at(found.path)
            if since_ms is not None and source.mtime_ns < since_ms * 1_000_000:
                return None
            note = None if self._again else self._bookmarks.find(os.path.realpath(found.path))
            # Whoever watches names what was written to, and not what is to be trusted.
            is_named = found.is_named and not self._live
            return survey(source, note, is_named=is_named) or tally.receipt("unchanged")
        except (NotFound, OSError) as error:
            return self._refuse(tally, error)
        except line_faults() as error:
            return self._refuse(tally, error)

    def _refuse(self, tally: LineCounter, error: Exception) -> SourceReceipt:
        """Return that nothing is read of a file; one that is cut off counts as a line."""
        reason = _reason(error)
        if isinstance(error, OSError) or isinstance(error.__cause__, PermissionError):
            self.unreadable.append(tally.file)
        if reason != CUT_OFF:
            return tally.receipt("refused", reason)
        self.unreadable.append(tally.file)
        tally.lines = 1
        tally.fail(LogRecord(None, 1, 0, 0), reason)
        return tally.receipt("read")

    def _advance(self, done: int) -> None:
        self._done += done
        if self._progress is not None:
            self._progress(self._done, self._total)


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else reason_of(error)
