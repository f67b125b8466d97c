"""The import of one file: read or restored, parsed, matched, recorded, with a bookmark."""

from __future__ import annotations

import contextlib
import io
import time
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

import msgspec

from treering.capture.intake.bookmarks import make_bookmark, note_of_bookmark
from treering.capture.intake.reading import (
    UNCHANGED,
    ReadJob,
    make_reader,
    read_steps,
    resume,
    start_reading,
    use_subprocess,
)
from treering.capture.intake.record_import import RecordImport
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import Busy, InvalidInput, NotFound, is_interruption
from treering.formats.parsed import LogRecord, RecordGroup
from treering.formats.records import read_records
from treering.formats.sources import open_source
from treering.formats.whole import UNFINISHED, WholeReader
from treering.model.intakes import Fault
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from treering.capture.intake.bookmarks import Bookmark
    from treering.capture.intake.ledger_buffer import LedgerBuffer
    from treering.capture.intake.probe import Probe
    from treering.capture.intake.record_import import LineCounter
    from treering.capture.intake.sessions import Sessions
    from treering.formats.format import DatabaseReader, Format
    from treering.formats.parsed import SessionSource
    from treering.ledger.ledger import Ledger
    from treering.model.intakes import SourceReceipt
    from treering.model.scopes import Scope


SETTLED_S: Final = 120
"""In a log that nobody has written to for so long, nothing is unfinished."""
_NAMED: Final = "openclaw-header:"


class ImportCalls(NamedTuple):
    """What the import of a file calls in the import of all."""

    advance: Callable[[int], None]
    """With the number of bytes that were read."""
    settle: Callable[[], None]
    """Before it needs what the files before it hold."""
    report: Callable[[SourceReceipt], None]
    """With what became of its lines."""


class FileImport(RecordImport):
    """Imports one file into a ledger."""

    def __init__(
        self,
        buffer: LedgerBuffer,
        probe: Probe,
        *,
        scope: Scope | None,
        live: bool,
        parallel: bool,
        databases: DatabaseReader | None,
        calls: ImportCalls,
    ) -> None:
        super().__init__(
            buffer,
            file=str(probe.source.path),
            real_path=probe.real_path,
            format_name=probe.name,
            scope=scope,
            live=live,
            written_ms=probe.source.mtime_ns // 1_000_000,
            former=probe.former,
        )
        self._advance, self._settle = calls.advance, calls.settle
        self._report: Callable[[SourceReceipt], None] | None = calls.report
        """None once it was called."""
        self._probe = probe
        self._scope = scope
        self._parallel = parallel
        self._databases = databases
        self._reason: str | None = None
        self._bookmark: Bookmark | None = None
        self._marks: list[str] = []
        """The groups of records that are imported."""
        self._batch: int | None = None
        """The batch that has its last events; None while it is not finished."""
        self.sessions.scopes.folder = probe.folder
        self.sessions.scopes.may_be_named = probe.may_name_scope

    def read(self) -> bool:
        """Read what is new in the file; return whether it is left to ``finish`` to import that.

        The receipt says what is wrong with the file.
        """
        with self._refusing():
            if self._probe.kind == "log":
                self._read_log()
                if self._bookmark is not None:
                    return True
            else:
                self._settle()
                if self._probe.kind == "native":
                    self._restore()
                else:
                    self._import_records()
        self._batch = self._buffer.batch
        return False

    def finish(self) -> None:
        """Import what was read."""
        with self._refusing():
            self.complete()
            self._keep_bookmark()
        self._batch = self._buffer.batch

    def is_recorded(self) -> bool:
        """Return whether the ledger has all of its events."""
        return self._batch is not None and self._buffer.has_recorded(self._batch)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except (NotFound, OSError) as error:  # It may be removed meanwhile.
            if is_interruption(error):
                raise
            self._state, self._reason = "refused", str(error)
        except line_faults() as error:
            self._state, self._reason = "refused", reason_of(error)

    def receipt(self) -> SourceReceipt:
        """Return what became of the lines, once all events are recorded."""
        return self._counter.receipt(self._state, self._reason)

    def report(self) -> None:
        """Report what became of the lines, once."""
        if self._report is not None:
            self._report(self._counter.lasting(self.receipt()))
            self._report = None

    # Where the records come from.

    def _read_log(self) -> None:
        probe = self._probe
        if probe.header_mark is not None:
            self._settle()  # A file before it may name its session.
        with open_source(probe.source.path) as stream:
            names = self._names()
            reader, bookmark = resume(probe, stream, names)
            self._state = "grown" if bookmark else "read"
            job = ReadJob(
                path=str(probe.source.path),
                format=probe.name,
                grammar=probe.grammar,
                content=probe.content,
                offset=bookmark.offset if bookmark else 0,
                line=bookmark.line if bookmark else 1,
                final=not self._live,
                state=bookmark.state if bookmark else None,
                names=names,
            )
            apart = self._parallel and use_subprocess(probe.source.size - job.offset)
            source, steps = start_reading(job, stream, reader, apart=apart)
            end = self.collect_steps(source, steps, job.offset, job.line)
            if end is not None:
                self._make_bookmark(stream, source, *end)

    def _import_records(self) -> None:
        probe = self._probe
        reader, values = make_reader(probe, {}), cast("Format", probe.format).records
        if self._databases is None or values is None:
            raise InvalidInput("this is a database", hint="import it with `treering import`")
        if isinstance(reader, WholeReader):
            age_s = time.time() - probe.source.mtime_ns / 1e9
            reader.is_live = self._live and age_s < SETTLED_S
        records = self._records(values(probe.source.path, self._databases))
        self.import_steps(reader, read_steps(reader, records), 0, 1)
        with open_source(probe.source.path) as stream:
            self._make_bookmark(stream, None, 0, 1)
        self._keep_bookmark()

    def _records(self, values: Iterable[Any]) -> Iterator[LogRecord]:
        """Give the rows of a database, or the documents of a folder, as records by their numbers.

        A group that is as its bookmark left it is one record, which is not read.
        """
        known: set[str] = set()
        bookmark = self._probe.bookmark
        if bookmark is not None and bookmark.is_up_to_date and bookmark.format == self._format:
            known.update(bookmark.marks)
        number = 1
        try:
            for value in values:
                group = value if isinstance(value, RecordGroup) else None
                if group is not None and group.mark in known:
                    yield LogRecord(UNCHANGED, number, number, number + 1, lines=group.lines)
                    number += group.lines
                    self._marks.append(group.mark)
                    continue
                unfinished = self._counter.skipped[UNFINISHED]
                for entry in [value] if group is None else group.records:
                    is_record = isinstance(entry, LogRecord)
                    yield entry if is_record else LogRecord(entry, number, number, number + 1)
                    number += 1
                if group is not None and self._counter.skipped[UNFINISHED] == unfinished:
                    self._marks.append(group.mark)
        except Busy as error:
            raise InvalidInput(str(error), hint=error.hint or "try again") from error

    def _restore(self) -> None:
        """Restore an export of our own."""
        self._buffer.commit()
        restore(
            self._buffer.ledger,
            self._probe.source.path,
            self.sessions,
            self._counter,
            scope=self._scope,
            dry_run=self._buffer.dry_run,
            advance=self._advance,
        )

    # Copies of OpenClaw's topics, whose names are in the names of their files.

    def _names(self) -> dict[str, str]:
        """Return the earlier name of the session of this log, by the mark of its header."""
        mark = self._probe.header_mark
        name = None if mark is None else self._buffer.notes.find(f"{_NAMED}{mark}")
        return {mark: name} if mark is not None and isinstance(name, str) else {}

    def _keep_name(self) -> None:
        mark = self._probe.header_mark
        session = None if mark is None else next(iter(self._source.sessions), None)
        if mark is not None and session is not None and not self._names():
            self._buffer.notes.keep(f"{_NAMED}{mark}", session)

    # The bookmark.

    def _make_bookmark(
        self, stream: BinaryIO, source: SessionSource | None, offset: int, line: int
    ) -> None:
        """Note how far the file was read."""
        self._bookmark = make_bookmark(
            self._probe.source,
            stream,
            (offset, line),
            format_name=self._format,
            reader=None if self._buffer.dry_run else source,
            before=None if self._former is not None else self._probe.bookmark,
            marks=self._marks,
        )

    def _keep_bookmark(self) -> None:
        """Keep the bookmark of a file whose events are all on their way."""
        self._keep_name()
        bookmark = self._bookmark
        if bookmark is None or self._buffer.dry_run:
            return
        if self.sessions.only_repeats:
            # Where a session that only repeats another leaves it is not known yet.
            bookmark = msgspec.structs.replace(bookmark, state=None, sessions={})
        if UNFINISHED in self._counter.skipped:
            # It may be left as it is, and is read again then.
            bookmark = msgspec.structs.replace(bookmark, mtime_ns=0)
        self._buffer.add_bookmark(self._probe.real_path, note_of_bookmark(bookmark), self.report)


PART_BYTES: Final = 1024 * 1024
"""Bytes that are read at once if lines are only counted."""
_SESSION: Final = b'{"record":"session"'


class _Introduced(msgspec.Struct):
    """The line that a session begins with."""

    session_id: str


class _Tapped(io.RawIOBase):
    """The lines of an export; it reports the sessions on the way."""

    def __init__(self, stream: BinaryIO, report: Callable[[str], None]) -> None:
        super().__init__()
        self._stream = stream
        self._report = report

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line, or its first ``size`` bytes."""
        line = self._stream.readline(-1 if size is None else size)
        if line.startswith(_SESSION):
            with contextlib.suppress(msgspec.DecodeError):  # It is refused where it is read.
                self._report(msgspec.json.decode(line, type=_Introduced).session_id)
        return line


def restore(
    ledger: Ledger,
    path: Path,
    sessions: Sessions,
    counter: LineCounter,
    *,
    scope: Scope | None,
    dry_run: bool,
    advance: Callable[[int], None],
) -> None:
    """Restore an export. Raises InvalidInput if it is of another scope than ``scope``."""
    with open_source(path) as stream:
        own_scope = _check_scope(stream, scope)
        tapped = _Tapped(stream, lambda session: _see(sessions, counter, own_scope, session))
        if dry_run:
            counter.lines = _count(tapped)
            checked = "an export of Treering: its lines are checked when it is restored"
            counter.skipped[checked] = counter.lines
            return
        receipt = ledger.admin.restore(cast("IO[bytes]", tapped), progress=advance)
    if receipt.imported and own_scope is not None:
        sessions.events[own_scope] += receipt.imported
    counter.lines, counter.bytes = receipt.lines, path.stat().st_size
    counter.imported, counter.duplicates = receipt.imported, receipt.duplicates
    counter.events, counter.errors = receipt.imported, receipt.errors
    if receipt.other:
        counter.skipped["frames the events"] = receipt.other
    counter.faults = [
        Fault(file=counter.file, line=error.line, offset=error.offset, reason=error.reason)
        for error in receipt.errors_sample
    ]


def _count(tapped: _Tapped) -> int:
    """Return the number of lines, however long one of them is."""
    lines, is_open = 0, False
    while part := tapped.readline(PART_BYTES):
        is_open = not part.endswith(b"\n")
        lines += not is_open
    return lines + is_open


def _see(sessions: Sessions, counter: LineCounter, scope: Scope | None, session: str) -> None:
    if scope is not None:
        counter.sessions[session] = None
        sessions.see_restored(scope, session)


def _check_scope(stream: BinaryIO, named: Scope | None) -> Scope | None:
    """Return the scope of an export. Raises InvalidInput if it is not the one named."""
    first = next(read_records(stream), None)
    stream.seek(0)
    scope = first.value.get("scope") if first and isinstance(first.value, dict) else None
    if named is not None and scope != named:
        raise InvalidInput(
            f"it is an export of scope {scope}, not of {named}",
            hint="an export is restored to its own scope: leave --scope out",
        )
    return parse_scope(scope) if isinstance(scope, str) else None
