"""Importing logs, as one algorithm.

    files ──probe──▶ ordered files ──read──▶ records ──parse──▶ events ──match──▶ new ones ──▶ batch
          probe.py                reading.py        formats/         matcher.py     file_import.py
                                                                                    ledger_buffer.py

1. **Probe** every file: its format, whether it changed since its bookmark, what it continues.
   A file that others continue is imported before them.
2. **Read** each file from its bookmark: bytes → ``LogRecord`` → ``ParsedEvent``. A line that cannot
   be read is counted and costs no other line.
3. **Match** the events with the ledger. An event has an id made of the log's own ids, so it is the
   same at every reading, from any copy. Known ids are repeats; the others are new.
   Small files are read one after another and then matched in the same order, with one search.
4. **Record** new events in batches that span files: an ``Item`` becomes a ``NewEvent``
   (record_import.py) and waits in the buffer. A session is opened by two events before its first
   one, in the same commit.
5. **Bookmark** the file after its events are recorded.

Three logs, and the events that they become. Each letter is a message with an id of its own:

    a.jsonl       a plain log                   A B C      session a: opened, imported, A B C
    b.jsonl       a fork: copies A and B,       A B D      session b: forked from a after B,
                  then continues                                      imported, D
    copy.jsonl    a repeat of a.jsonl, grown    A B C E    session a: … E

* The plain log is new: a session is opened, and all of its events are recorded.
* The fork repeats ids that are known in session ``a``. Nothing is recorded until its first own
  event, D. Then session ``b`` is forked from ``a`` after the last event that both share.
* The repeat has only known ids until E, which is recorded in session ``a``.

Copies may differ, so an id alone does not decide. An event with other words or at another time than
the known event of its id gets an id of its own (``EventMatcher._match_contents``); so does an event
that a session repeats after it has left the session that has it (``EventMatcher._match_lineage``).
A fork may be imported before its parent: it leaves a mark by which the parent finds it.

Every record ends in exactly one of: imported, duplicate, skipped (with a reason) or error.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.capture.intake.bookmarks import read_bookmark
from treering.capture.intake.file_import import FileImport, ImportCalls
from treering.capture.intake.ledger_buffer import BATCH_BYTES, LedgerBuffer, NoteBuffer
from treering.capture.intake.log_search import look_through
from treering.capture.intake.probe import CUT_OFF, Probe, parents_first, probe
from treering.capture.intake.record_import import LineCounter, in_all
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import NotFound, is_interruption
from treering.formats.parsed import LogRecord
from treering.formats.sources import open_source, source_at
from treering.garbage import collecting_rarely
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.capture.intake.log_search import LogCandidate
    from treering.formats.format import DatabaseReader
    from treering.ledger.ledger import Ledger
    from treering.model.intakes import ImportReceipt, SourceReceipt
    from treering.model.scopes import Scope

BOOKMARK_SCOPE: Final = "treering"
"""The scope that keeps the bookmarks of files whose sessions go to scopes of their own."""
CHUNK_FILES: Final = 100
"""Files whose notes are read at once."""
COLLECTED_BYTES: Final = 512 * 1024
"""Bytes of files whose events are matched with the ledger together."""

_Thing = TypeVar("_Thing")


def import_files(
    importer: Importer,
    paths: Sequence[str | os.PathLike[str]],
    *,
    since_ms: int | None,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[SourceReceipt], None] | None = None,
) -> ImportReceipt:
    """Import logs of agents: see ``treering.import_logs``."""
    with collecting_rarely():
        files = look_through([Path(path) for path in paths])
        receipt = importer.run(
            list(files.found.values()), since_ms=since_ms, progress=progress, report=report
        )
    return msgspec.structs.replace(
        receipt,
        others=dict(files.others.most_common()),
        others_named=files.named,
        unreadable=[*files.unreadable, *importer.unreadable],
    )


def _tell_nobody(_: SourceReceipt) -> None:
    """Take the place of a report that nobody wants."""


class Importer:
    """One import of several files."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        scope: str | None,
        dry_run: bool,
        again: bool,
        live: bool,
        parallel: bool,
        databases: DatabaseReader | None,
    ) -> None:
        self._scope = None if scope is None else parse_scope(scope)
        self._dry_run = dry_run
        self._again = again
        self._live = live
        self._parallel = parallel
        self._databases = databases
        self._progress: Callable[[int, int], None] | None = None
        self._report: Callable[[SourceReceipt], None] = _tell_nobody
        self._notes = NoteBuffer(ledger.importing.bookmarks(self._scope or BOOKMARK_SCOPE))
        self._buffer = LedgerBuffer(ledger.with_masking(), self._notes, dry_run=dry_run)
        self._files: list[FileImport] = []
        """Files with events that wait for the next commit."""
        self._collected: list[FileImport] = []
        """Those of them whose events are not matched yet."""
        self._collected_bytes = 0
        self._receipts: list[SourceReceipt] = []
        self._sessions: set[tuple[Scope, str]] = set()
        self._opened: set[tuple[Scope, str]] = set()
        self._subagents: set[tuple[Scope, str]] = set()
        self._events: Counter[str] = Counter()
        self._done = 0
        self._total = 0
        self.unreadable: list[str] = []
        """Files that cannot be read at all: damaged, or not permitted."""

    def run(
        self,
        files: Sequence[LogCandidate],
        *,
        since_ms: int | None,
        progress: Callable[[int, int], None] | None,
        report: Callable[[SourceReceipt], None] | None,
    ) -> ImportReceipt:
        """Import ``files``, each after those that it continues."""
        self._progress, self._report = progress, report or _tell_nobody
        probes = self._probe_all(files, since_ms)
        self._total = sum(probed.source.size for probed in probes)
        for some in _chunks(parents_first(probes)):
            if self._scope is None:
                self._notes.read_ahead([probed.scope_note for probed in some if probed.scope_note])
            for probed in some:
                self._import(probed)
            self._settle()
        self._buffer.finish()
        self._close_files()
        return in_all(
            self._receipts,
            dry_run=self._dry_run,
            sessions=len(self._sessions - self._subagents),
            sessions_new=len(self._opened - self._subagents),
            subagents=len(self._subagents),
            by_scope=dict(self._events),
        )

    def _close_files(self) -> None:
        """Add up the first files, as far as their events are all recorded."""
        recorded = list(takewhile(FileImport.is_recorded, self._files))
        del self._files[: len(recorded)]
        for file in recorded:
            file.report()
            self._receipts.append(file.receipt())
            self._sessions |= file.sessions.seen
            self._opened |= file.sessions.opened
            self._subagents |= file.sessions.subagents
            self._events.update(file.sessions.events)

    def _probe_all(self, files: Sequence[LogCandidate], since_ms: int | None) -> list[Probe]:
        probes: list[Probe] = []
        folders: dict[str, str] = {}
        for some in _chunks(files):
            real_paths = [_real_path(file.path, folders) for file in some]
            self._notes.read_ahead(real_paths)
            for file, real_path in zip(some, real_paths, strict=True):
                outcome = self._probe(file, real_path, since_ms)
                if isinstance(outcome, Probe):
                    probes.append(outcome)
                elif outcome is not None:
                    self._report(outcome)
                    self._receipts.append(outcome)
        return probes

    def _import(self, file: Probe) -> None:
        if file.source.size > BATCH_BYTES:
            self._settle()
            self._buffer.commit()  # Reading a long file takes a while; nothing waits for it.
        self._close_files()
        file_import = FileImport(
            self._buffer,
            file,
            scope=self._scope,
            live=self._live,
            parallel=self._parallel,
            databases=self._databases,
            calls=ImportCalls(self._advance, self._settle, self._report),
        )
        self._files.append(file_import)
        if file_import.read():
            self._collected.append(file_import)
            self._collected_bytes += file.source.size
            if self._collected_bytes >= COLLECTED_BYTES:
                self._settle()

    def _settle(self) -> None:
        """Import what was read of the files that wait, with one search for all of their ids."""
        files, self._collected, self._collected_bytes = self._collected, [], 0
        if len(files) > 1:
            self._buffer.look_ahead(set().union(*(file.look_ahead() for file in files)))
        for file in files:
            file.finish()
        if len(files) > 1:
            self._buffer.look_ahead(())

    def _probe(
        self, file: LogCandidate, real_path: str, since_ms: int | None
    ) -> SourceReceipt | Probe | None:
        """Return what to import of a file; its receipt, if nothing is; None if it is too old."""
        name = str(file.path)
        if file.left_out is not None:
            return LineCounter(name, None).receipt("refused", file.left_out)
        try:
            source = source_at(file.path)
            if since_ms is not None and source.mtime_ns < since_ms * 1_000_000:
                return None
            note = self._notes.find(real_path)
            # A watcher names files because they were written to, not because they are trusted.
            is_named = file.is_named and not self._live
            usable_note = None if self._again else note
            probed = probe(
                source,
                usable_note,
                real_path=real_path,
                is_named=is_named,
                databases=self._databases,
            )
            if self._again and probed is not None and probed.kind == "log":
                probed.former = _former(note, probed)
            return probed or LineCounter(name, None).receipt("unchanged")
        except (NotFound, OSError) as error:
            if is_interruption(error):
                raise
            return self._refuse(name, error)
        except line_faults() as error:
            return self._refuse(name, error)

    def _refuse(self, name: str, error: Exception) -> SourceReceipt:
        """Return the receipt of a file that is not read; one that is cut off counts as a line."""
        counter, reason = LineCounter(name, None), _reason(error)
        if isinstance(error, OSError) or isinstance(error.__cause__, PermissionError):
            self.unreadable.append(counter.file)
        if reason != CUT_OFF:
            return counter.receipt("refused", reason)
        self.unreadable.append(counter.file)
        counter.lines = 1
        counter.fail(LogRecord(None, 1, 0, 0), reason)
        return counter.receipt("read")

    def _advance(self, done: int) -> None:
        self._done += done
        if self._progress is not None:
            self._progress(self._done, self._total)


def _real_path(path: Path, folders: dict[str, str]) -> str:
    """Return ``path`` without links; ``folders`` keeps the folders, most of which hold many."""
    folder, name = os.path.split(path)
    real_folder = folders.get(folder)
    if real_folder is None:
        # Unlike pathlib, it takes links in a circle.
        real_folder = folders[folder] = os.path.realpath(folder)
    real_path = os.path.join(real_folder, name)  # noqa: PTH118  (no path for each)
    return os.path.realpath(real_path) if os.path.islink(real_path) else real_path  # noqa: PTH114


def _former(note: Any, probed: Probe) -> str | None:
    """Return the format of an earlier reading of a file that the present reader replaces."""
    bookmark = read_bookmark(note)
    if bookmark is None:
        return None
    with open_source(probed.source.path) as stream:
        if not stream.seekable():
            return None
        return bookmark.former_format(probed.source, stream, probed.name)


def _chunks(things: Sequence[_Thing]) -> Iterator[Sequence[_Thing]]:
    for start in range(0, len(things), CHUNK_FILES):
        yield things[start : start + CHUNK_FILES]


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else reason_of(error)
