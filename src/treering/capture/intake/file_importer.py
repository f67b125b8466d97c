"""Reading one log: its records told, entered, counted, and a bookmark left behind them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec

from treering.capture.intake.bookmarks import STATE_BYTES_MAX, Bookmark
from treering.capture.intake.event_writer import EventWriter
from treering.capture.intake.line_counter import LineCounter
from treering.capture.intake.read_steps import ReadJob, SubprocessReader, read_steps, use_subprocess
from treering.capture.intake.restoring import restore
from treering.capture.intake.sessions import Sessions
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import Busy, InvalidInput, NotFound
from treering.formats.openclaw import OpenClawReader
from treering.formats.parsed import LogRecord
from treering.formats.records import read_records
from treering.formats.records.json_pieces import TORN
from treering.formats.registry import module_of, version_of
from treering.formats.sources import fingerprint, open_source, tail_print
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering.capture.intake import RowReader
    from treering.capture.intake.ledger_view import LedgerView
    from treering.capture.intake.read_steps import ReadStep
    from treering.capture.intake.scope_resolver import LogNotes
    from treering.capture.intake.surveys import Survey
    from treering.formats.parsed import LogReader, SessionSource
    from treering.ledger.ledger import Ledger
    from treering.model.intakes import SourceReceipt, SourceState
    from treering.model.scopes import Scope

_NAMED: Final = "openclaw-header:"
ADVANCE_BYTES: Final = 1024 * 1024
"""How often it is told how far a file was read."""


class FileImporter:
    """Reads one file into a ledger."""

    def __init__(
        self,
        ledger: Ledger,
        survey: Survey,
        bookmarks: LogNotes,
        pasts: LedgerView,
        *,
        scope: Scope | None,
        live: bool,
        apart: bool,
        rows: RowReader | None,
        advance: Callable[[int], None],
    ) -> None:
        self._ledger = ledger
        self._survey = survey
        self._bookmarks = bookmarks
        self._scope = scope
        self._ledger_view = pasts
        self._live = live
        self._apart = apart
        self._rows = rows
        self._advance = advance
        self._tally = LineCounter(
            str(survey.source.path), survey.name, written_ms=survey.source.mtime_ns // 1_000_000
        )
        self.sessions = Sessions(ledger, bookmarks, pasts, scope=scope, form=survey.name)
        self.sessions.homes.folder = survey.folder
        self.sessions.homes.may_be_named = survey.may_name_scope

    def take(self) -> SourceReceipt:
        """Take in what is new in the file; what is amiss with it is in the receipt."""
        try:
            if self._survey.sort == "native":
                return self._restore()
            if self._survey.sort == "database":
                return self._take_rows()
            return self._take_log()
        except OSError as error:
            return self._tally.receipt("refused", str(error))
        except line_faults() as error:
            return self._tally.receipt("refused", reason_of(error))

    def _take_log(self) -> SourceReceipt:
        source = self._survey.source
        with open_source(source.path) as stream:
            reader, bookmark = self._reader(stream)
            offset, line = (bookmark.offset, bookmark.line) if bookmark else (0, 1)
            state: SourceState = "grown" if bookmark else "read"
            teller, steps = self._steps(stream, reader, bookmark, offset, line)
            end = self._enter(teller, steps, offset, line)
            if end is not None:
                self._keep(stream, teller, *end)
        return self._tally.receipt(state)

    def _steps(
        self,
        stream: BinaryIO,
        reader: LogReader,
        bookmark: Bookmark | None,
        offset: int,
        line: int,
    ) -> tuple[SessionSource, Iterator[ReadStep]]:
        """Return who reads the file, and what it makes of each record."""
        source, form = self._survey.source, self._survey.format
        if self._apart and form is not None and use_subprocess(source.size - offset):
            job = ReadJob(
                path=str(source.path),
                format=module_of(form),
                offset=offset,
                line=line,
                final=not self._live,
                state=None if bookmark is None else bookmark.state,
                names=self._names(),
            )
            with contextlib.suppress(OSError):  # It is read here, if no process can be had.
                apart = SubprocessReader(job, reader)
                apart.sessions.update(reader.sessions)
                return apart, apart.steps()
        stream.seek(offset)
        records = read_records(stream, offset=offset, line=line, final=not self._live)
        return reader, read_steps(reader, records)

    def _take_rows(self) -> SourceReceipt:
        if self._rows is None:
            raise InvalidInput("this is a database", hint="take it in by `treering import`")
        reader, path = self._make_reader(), self._survey.source.path
        try:
            self._enter(reader, read_steps(reader, _records(self._rows, path)), 0, 1)
        except NotFound:
            # Whose database it is, is not known.
            self._tally.format = None
            raise InvalidInput(
                "not a log Treering can read: a database of something else",
                hint="see docs/importing.md for the formats",
            ) from None
        return self._tally.receipt("read")

    def _restore(self) -> SourceReceipt:
        """Take in an export of our own, as it is."""
        restore(
            self._ledger,
            self._survey.source.path,
            self.sessions,
            self._tally,
            scope=self._scope,
            dry_run=self._ledger_view.dry_run,
            advance=self._advance,
        )
        return self._tally.receipt("read")

    # A log.

    def _reader(self, stream: BinaryIO) -> tuple[LogReader, Bookmark | None]:
        """Return a reader, and where it goes on; it begins anew where it cannot."""
        reader, bookmark = self._make_reader(), self._survey.bookmark
        if (
            bookmark is None
            or bookmark.format != self._survey.name
            or not stream.seekable()
            or not bookmark.goes_on(self._survey.source, stream)
        ):
            return reader, None
        try:
            reader.resume(bookmark.state)
        except ValueError:
            return self._make_reader(), None
        for name, opening in bookmark.sessions.items():
            reader.sessions.setdefault(name, opening)
        return reader, bookmark

    def _make_reader(self) -> LogReader:
        form = self._survey.format
        assert form is not None  # noqa: S101  (only exports of our own have none)
        reader = form.READER(self._survey.source.path)
        if isinstance(reader, OpenClawReader):
            reader.names = self._names()
        return reader

    # Copies of OpenClaw's topics, whose names are in the names of their files.

    def _names(self) -> dict[str, str]:
        """Return what the session of this log was called before, by the mark of its header."""
        mark = self._survey.header_mark
        name = None if mark is None else self._bookmarks.find(f"{_NAMED}{mark}")
        return {mark: name} if mark is not None and isinstance(name, str) else {}

    def _keep_name(self, teller: SessionSource) -> None:
        mark, session = self._survey.header_mark, next(iter(teller.sessions), None)
        if mark is not None and session is not None and not self._names():
            self._bookmarks.keep(f"{_NAMED}{mark}", session)

    def _enter(
        self, teller: SessionSource, steps: Iterator[ReadStep], offset: int, line: int
    ) -> tuple[int, int] | None:
        """Enter what is told in ``steps``; return how far they went, but for a torn end.

        None if all of it is left for later.
        """
        tally = self._tally
        writer = EventWriter(self._ledger, self._ledger_view, teller, self.sessions, tally)
        start, told = offset, offset
        torn: LogRecord | None = None
        for step in steps:
            record = step.record
            if record is not None:
                tally.see(record)
                torn = record if record.fault == TORN else None
                offset, line = record.end, record.line + record.lines
                fault = record.fault or step.failure
                if fault is not None:
                    tally.fail(record, fault)
            elif self._live and not step.is_named:
                # Whoever writes it has yet to say which session it is, and where that works.
                self._tally = LineCounter(tally.file, tally.format)
                return None
            for outcome in step.outcomes:
                writer.add(outcome)
            if offset - told >= ADVANCE_BYTES:
                self._advance(offset - told)
                told = offset
        writer.finish()
        self._advance(offset - told)
        tally.bytes = offset - start
        # A torn end may be whole the next time.
        return (offset, line) if torn is None else (torn.offset, torn.line)

    def _keep(self, stream: BinaryIO, teller: SessionSource, offset: int, line: int) -> None:
        self._keep_name(teller)
        if self._ledger_view.dry_run:
            return
        source = self._survey.source
        goes_on = stream.seekable() and not self.sessions.only_repeats
        state = teller.state() if goes_on else None
        if state is not None and len(encode(state)) > STATE_BYTES_MAX:
            state = None
        bookmark = Bookmark(
            size=source.size,
            mtime_ns=source.mtime_ns,
            device=source.device,
            inode=source.inode,
            offset=offset,
            line=line,
            head=fingerprint(stream, source.size) if stream.seekable() else "",
            tail=tail_print(stream, offset) if stream.seekable() else "",
            format=self._survey.name,
            version=version_of(self._survey.name),
            state=state,
            sessions={}
            if state is None
            else {name: one.bare() for name, one in teller.sessions.items()},
        )
        note = cast("Any", msgspec.to_builtins(bookmark))
        self._bookmarks.keep(os.path.realpath(source.path), note)


def _records(rows: RowReader, path: Path) -> Iterator[LogRecord]:
    """Give the rows of a database as records, by their numbers."""
    try:
        for number, row in enumerate(rows(path), start=1):
            yield LogRecord(row, number, number, number + 1)
    except Busy as error:
        raise InvalidInput(str(error), hint=error.hint or "try again") from error
