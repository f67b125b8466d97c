"""The import of one file: read, parse, match, record, and keep a bookmark."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec

from treering.capture.intake.bookmarks import make_bookmark
from treering.capture.intake.ledger_buffer import (
    BATCH_BYTES,
    BATCH_EVENTS,
    PendingRecord,
    WaitingEvent,
    batch_faults,
)
from treering.capture.intake.line_counter import LineCounter
from treering.capture.intake.matcher import NO_TIME_MS, EventMatcher
from treering.capture.intake.reading import ReadJob, SubprocessReader, read_steps, use_subprocess
from treering.capture.intake.restoring import restore
from treering.capture.intake.sessions import Sessions
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import Busy, Conflict, DuplicateEvent, InvalidInput, NotFound
from treering.formats.openclaw import OpenClawReader
from treering.formats.parsed import LogRecord, is_content_key
from treering.formats.records import read_records
from treering.formats.records.json_pieces import TORN
from treering.formats.registry import module_of
from treering.formats.sources import open_source
from treering.model.events import NewEvent
from treering.model.fields import MILLISECONDS_MIN, TIME_MS_MAX, looks_like_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from treering.capture.intake import RowReader
    from treering.capture.intake.bookmarks import Bookmark
    from treering.capture.intake.ledger_buffer import Item, LedgerBuffer
    from treering.capture.intake.probe import Probe
    from treering.capture.intake.reading import ReadStep
    from treering.formats.parsed import LogReader, ParsedEvent, ParsedRecord, SessionSource
    from treering.model.intakes import SourceReceipt, SourceState
    from treering.model.scopes import Scope

ADVANCE_BYTES: Final = 1024 * 1024
"""How often the progress of a file is reported."""
ATTEMPTS_MAX: Final = 3
"""How often a batch is tried while another import records the same."""
_NAMED: Final = "openclaw-header:"
_AIMED: Final = frozenset({"session.undone", "context.compacted"})
"""Kinds that refer to earlier events by their seqs."""

_Pair = tuple[PendingRecord, "ParsedEvent"]


class FileImport:
    """Imports one file into a ledger."""

    def __init__(
        self,
        buffer: LedgerBuffer,
        probe: Probe,
        *,
        scope: Scope | None,
        live: bool,
        parallel: bool,
        rows: RowReader | None,
        advance: Callable[[int], None],
    ) -> None:
        self._buffer = buffer
        self._probe = probe
        self._format = probe.name
        self._scope = scope
        self._live = live
        self._parallel = parallel
        self._rows = rows
        self._advance = advance
        self._counter = LineCounter(
            str(probe.source.path), self._format, written_ms=probe.source.mtime_ns // 1_000_000
        )
        self._state: SourceState = "read"
        self._reason: str | None = None
        self.sessions = Sessions(buffer, scope=scope, format_name=self._format)
        self.sessions.scopes.folder = probe.folder
        self.sessions.scopes.may_be_named = probe.may_name_scope
        self._pending: list[PendingRecord] = []
        self._pending_events = 0
        self._pending_bytes = 0

    def run(self) -> None:
        """Import what is new in the file; the receipt says what is wrong with it."""
        try:
            if self._probe.kind == "native":
                self._restore()
            elif self._probe.kind == "database":
                self._import_rows()
            else:
                self._import_log()
        except OSError as error:
            self._state, self._reason = "refused", str(error)
        except line_faults() as error:
            self._state, self._reason = "refused", reason_of(error)

    def receipt(self) -> SourceReceipt:
        """Return what became of the lines, once all events are recorded."""
        return self._counter.receipt(self._state, self._reason)

    # Where the records come from.

    def _import_log(self) -> None:
        with open_source(self._probe.source.path) as stream:
            reader, bookmark = self._reader(stream)
            offset, line = (bookmark.offset, bookmark.line) if bookmark else (0, 1)
            self._state = "grown" if bookmark else "read"
            source, steps = self._steps(stream, reader, bookmark, offset, line)
            end = self._import_steps(source, steps, offset, line)
            if end is not None:
                self._keep_bookmark(stream, source, *end)

    def _import_rows(self) -> None:
        if self._rows is None:
            raise InvalidInput("this is a database", hint="import it by `treering import`")
        reader, path = self._make_reader(), self._probe.source.path
        try:
            self._import_steps(reader, read_steps(reader, _records(self._rows, path)), 0, 1)
        except NotFound:
            self._counter.format = None
            raise InvalidInput(
                "not a log Treering can read: a database of something else",
                hint="see docs/importing.md for the formats",
            ) from None

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

    def _reader(self, stream: BinaryIO) -> tuple[LogReader, Bookmark | None]:
        """Return a reader, and the bookmark that it continues from; None if it starts again."""
        reader, bookmark = self._make_reader(), self._probe.bookmark
        if (
            bookmark is None
            or bookmark.format != self._format
            or not stream.seekable()
            or not bookmark.can_resume(self._probe.source, stream)
        ):
            return reader, None
        try:
            reader.resume(bookmark.state)
        except ValueError:
            return self._make_reader(), None
        for name, header in bookmark.sessions.items():
            reader.sessions.setdefault(name, header)
        return reader, bookmark

    def _make_reader(self) -> LogReader:
        log_format = self._probe.format
        assert log_format is not None  # noqa: S101  (only our own exports have none)
        reader = log_format.READER(self._probe.source.path)
        if isinstance(reader, OpenClawReader):
            reader.names = self._names()
        return reader

    def _steps(
        self,
        stream: BinaryIO,
        reader: LogReader,
        bookmark: Bookmark | None,
        offset: int,
        line: int,
    ) -> tuple[SessionSource, Iterator[ReadStep]]:
        """Return the reader of the file, here or in a process of its own, and its steps."""
        source, log_format = self._probe.source, self._probe.format
        if self._parallel and log_format is not None and use_subprocess(source.size - offset):
            job = ReadJob(
                path=str(source.path),
                format=module_of(log_format),
                offset=offset,
                line=line,
                final=not self._live,
                state=None if bookmark is None else bookmark.state,
                names=self._names(),
            )
            with contextlib.suppress(OSError):  # Without a process, it is read here.
                remote = SubprocessReader(job, reader)
                remote.sessions.update(reader.sessions)
                return remote, remote.steps()
        stream.seek(offset)
        records = read_records(stream, offset=offset, line=line, final=not self._live)
        return reader, read_steps(reader, records)

    # Copies of OpenClaw's topics, whose names are in the names of their files.

    def _names(self) -> dict[str, str]:
        """Return the earlier name of the session of this log, by the mark of its header."""
        mark = self._probe.header_mark
        name = None if mark is None else self._buffer.notes.find(f"{_NAMED}{mark}")
        return {mark: name} if mark is not None and isinstance(name, str) else {}

    def _keep_name(self, source: SessionSource) -> None:
        mark, session = self._probe.header_mark, next(iter(source.sessions), None)
        if mark is not None and session is not None and not self._names():
            self._buffer.notes.keep(f"{_NAMED}{mark}", session)

    # From records to events.

    def _import_steps(
        self, source: SessionSource, steps: Iterator[ReadStep], offset: int, line: int
    ) -> tuple[int, int] | None:
        """Import the events of ``steps``; return how far they went, without a torn end.

        None if all of it is left for later.
        """
        counter = self._counter
        self._source = source
        self._matcher = EventMatcher(self._buffer, source, self.sessions, counter.format or "")
        start, reported = offset, offset
        torn: LogRecord | None = None
        for step in steps:
            record = step.record
            if record is not None:
                counter.see(record)
                torn = record if record.fault == TORN else None
                offset, line = record.end, record.line + record.lines
                fault = record.fault or step.failure
                if fault is not None:
                    counter.fail(record, fault)
            elif self._live and not step.is_named:
                # The agent has not written yet which session it is, and where that works.
                self._counter = LineCounter(counter.file, counter.format)
                return None
            for parsed in step.outcomes:
                self._add(parsed)
            if offset - reported >= ADVANCE_BYTES:
                self._advance(offset - reported)
                reported = offset
        self._match()
        for scope, event in self.sessions.awaited():
            self._buffer.add(self, scope, self._open(scope, event), 0)
        self._advance(offset - reported)
        counter.bytes = offset - start
        # A torn end may be whole the next time.
        return (offset, line) if torn is None else (torn.offset, torn.line)

    def _add(self, parsed: ParsedRecord) -> None:
        """Take a parsed record; its events are matched with others, later."""
        if not parsed.events:
            self._counter.skip(parsed.skipped or "tells nothing")
            return
        if any(event.kind in _AIMED for event in parsed.events):
            self._match()  # It refers to earlier events, which need their seqs first.
        self._pending.append(PendingRecord(parsed))
        self._pending_events += len(parsed.events)
        self._pending_bytes += parsed.record.end - parsed.record.offset
        if self._pending_events >= BATCH_EVENTS or self._pending_bytes >= BATCH_BYTES:
            self._match()

    def _match(self) -> None:
        """Find out which pending events are new, and record those."""
        pending, self._pending = self._pending, []
        self._pending_events = self._pending_bytes = 0
        by_scope: dict[Scope, list[_Pair]] = {}
        by_session: dict[str, list[_Pair]] = {}
        for record in pending:
            for event in record.parsed.events:
                pairs = by_session.get(event.session)
                if pairs is None:
                    header = self._source.sessions.get(event.session)
                    try:
                        scope = self.sessions.see(event.session, header)
                    except line_faults() as error:
                        record.failure = _refusal(error)
                        continue
                    pairs = by_session[event.session] = by_scope.setdefault(scope, [])
                    self._counter.sessions[self.sessions.ids.hidden(event.session)] = None
                pairs.append((record, event))
        for record in pending:
            record.waiting += 1
        for scope, pairs in by_scope.items():
            waiting: list[WaitingEvent] = []
            try:
                self._add_items(scope, self._matcher.new_items(scope, pairs), waiting)
            except batch_faults():
                self._take_back(scope, waiting)
                self._record_now(scope, pairs)
        for record in pending:
            self._release(record)

    def _add_items(self, scope: Scope, items: Sequence[Item], waiting: list[WaitingEvent]) -> None:
        """Have new events recorded with the next batch; ``waiting`` are those not added yet."""
        for item in items:
            event = item.event
            if not self.sessions.is_open(scope, event.session):
                self._add_waiting(scope, waiting)  # It may continue from one of these.
                waiting += self._open(scope, event)
            if event.kind in _AIMED:
                self._add_waiting(scope, waiting)  # It refers to one of these.
            waiting.append(self._wait_for(scope, item))
        self._add_waiting(scope, waiting)

    def _add_waiting(self, scope: Scope, waiting: list[WaitingEvent]) -> None:
        """Move ``waiting`` to the buffer, where questions about them find them."""
        records = {id(one.item.record): one.item.record for one in waiting if one.item is not None}
        places = [record.parsed.record for record in records.values()]
        moved = waiting.copy()
        waiting.clear()
        self._buffer.add(self, scope, moved, sum(place.end - place.offset for place in places))

    def _wait_for(self, scope: Scope, item: Item) -> WaitingEvent:
        event = self._new_event(scope, item)
        item.record.waiting += 1
        return WaitingEvent(event, item.event.session, item)

    def _release(self, record: PendingRecord) -> None:
        """Count a record once none of its events waits any more."""
        record.waiting -= 1
        if record.waiting:
            return
        if record.failure is not None:
            self._counter.fail(record.parsed.record, record.failure)
        elif record.new_events:
            self._counter.imported += 1
            if record.has_own_id:
                self._counter.mended["an id that something else has"] += 1
        else:
            self._counter.duplicates += 1

    # What the buffer asks for.

    def count(self, waiting: WaitingEvent, *, is_new: bool) -> None:
        """Count an event that the ledger has now; it ``is_new``, or another import was faster."""
        scope = cast("Scope", waiting.event.scope)
        if waiting.item is None:
            if waiting.opens and is_new:
                self.sessions.opened.add((scope, waiting.session))
            return
        if is_new:
            waiting.item.record.new_events += 1
            self.sessions.events[scope] += 1
            self._counter.events += 1
        self._release(waiting.item.record)
        if is_new and waiting.item.event.is_redacted and not self._buffer.dry_run:
            event_id = waiting.item.ids[0]
            self._buffer.ledger.redact(scope, event_id=event_id, replacement="null")

    def record_again(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        """Record events of a batch that failed, without those of other files."""
        items = [one.item for one in waiting if one.item is not None]
        for item in items:
            item.record.waiting += 1
        self._take_back(scope, waiting)
        self._record_now(scope, [(item.record, item.event) for item in items])
        for item in items:
            self._release(item.record)

    def _record_now(self, scope: Scope, pairs: Sequence[_Pair]) -> None:
        """Record events at once: all of them, or one by one if that fails."""
        for _ in range(ATTEMPTS_MAX):
            try:
                self._record(scope, self._matcher.new_items(scope, pairs))
            except (DuplicateEvent, Conflict):
                continue  # Another import records the same log, and was faster.
            except line_faults():
                break
            return
        for record, event in pairs:
            record.failure = self._record_one(scope, record, event) or record.failure

    def _record_one(self, scope: Scope, record: PendingRecord, event: ParsedEvent) -> str | None:
        """Record an event at once; return why it cannot be, if so."""
        failure: str | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                self._record(scope, self._matcher.new_items(scope, [(record, event)]))
            except (DuplicateEvent, Conflict) as error:
                # Another import opened its session, and may have been killed before its events.
                failure = _refusal(error)
            except line_faults() as error:
                return _refusal(error)
            else:
                return None
        return failure

    def _record(self, scope: Scope, items: Sequence[Item]) -> None:
        """Record events at once, the openings of their sessions first."""
        for item in items:
            if not self.sessions.is_open(scope, item.event.session):
                self._write(scope, self._open(scope, item.event))
        self._write(scope, [self._wait_for(scope, item) for item in items])

    def _write(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        try:
            self._buffer.record(self, waiting)
        except BaseException:
            self._take_back(scope, waiting)
            raise

    def _take_back(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        """Forget that events wait: they were not recorded, nor were their sessions opened."""
        for one in waiting:
            if one.item is None:
                self.sessions.close(scope, one.session)
            else:
                one.item.record.waiting -= 1

    # From a parsed event to an event of the ledger.

    def _open(self, scope: Scope, event: ParsedEvent) -> list[WaitingEvent]:
        """Return the events that open the session of an event."""
        after = None
        if event.after is not None and self._source.keys_are_global:
            after = self._matcher.id("", event.after)
        return self.sessions.open(
            scope,
            event.session,
            self._source.sessions.get(event.session),
            ts_ms=self._time(event.ts_ms),
            after=after,
            file=self._counter.file,
        )

    def _new_event(self, scope: Scope, item: Item) -> NewEvent:
        event, sessions = item.event, self.sessions
        kind, refs, payload = event.kind, event.refs, event.payload
        if kind in _AIMED:
            kind, refs, payload = self._aim(scope, event)
        if refs and _names_words(refs):
            refs, payload = sessions.ids.hidden(refs), sessions.ids.hidden(payload)
        ts_ms = event.ts_ms
        if not MILLISECONDS_MIN <= ts_ms <= TIME_MS_MAX:
            if looks_like_seconds(ts_ms):
                refs = {**(refs or {}), "stated_seconds": ts_ms}
            ts_ms = self._time(ts_ms)
        return NewEvent(
            scope=scope,
            session_id=sessions.name(event.session),
            kind=kind,
            agent_id=sessions.agent(self._source.sessions.get(event.session))
            if event.agent is None
            else sessions.actor(event.agent),
            summary=event.summary,
            payload=payload,
            refs=refs,
            event_id=item.ids[0],
            ts_ms=ts_ms,
            source=event.source,
            origin=self._format,
        )

    def _aim(self, scope: Scope, event: ParsedEvent) -> tuple[str, Any, Any]:
        """Return kind, refs and payload of an event with the seqs of those that it refers to."""
        place = (
            None if event.first is None else self._matcher.find(scope, event.session, event.first)
        )
        refs = dict(event.refs or {})
        if event.kind == "session.undone":
            if place is None:
                rewind = {"record": "rewind", "rewinds_to": self.sessions.ids.hidden(event.first)}
                return "ops.observation", {"observed": "rewind"}, rewind
            return event.kind, {"turns": 1, **refs, "from_seq": place.seq}, None
        payload = dict(event.payload or {})
        # A summary that names no event which is kept replaces all events before it.
        through = self.sessions.head_seq(scope, event.session)
        through = through if place is None else place.seq - 1
        if through > 0:
            payload["through_seq"] = refs["through_seq"] = through
        return event.kind, refs or None, payload

    def _time(self, ts_ms: int) -> int:
        # A log without times is as old as its file.
        if ts_ms <= NO_TIME_MS:
            return self._counter.written_ms
        return ts_ms * 1_000 if looks_like_seconds(ts_ms) else min(ts_ms, TIME_MS_MAX)

    # The bookmark.

    def _keep_bookmark(
        self, stream: BinaryIO, source: SessionSource, offset: int, line: int
    ) -> None:
        self._keep_name(source)
        if self._buffer.dry_run:
            return
        file = self._probe.source
        bookmark = make_bookmark(
            file,
            stream,
            (offset, line),
            format_name=self._format,
            # Where a session that only repeats another leaves it is not known yet.
            reader=None if self.sessions.only_repeats else source,
        )
        self._buffer.add_bookmark(os.path.realpath(file.path), msgspec.to_builtins(bookmark))


def _records(rows: RowReader, path: Path) -> Iterator[LogRecord]:
    """Give the rows of a database as records, by their numbers."""
    try:
        for number, row in enumerate(rows(path), start=1):
            yield LogRecord(row, number, number, number + 1)
    except Busy as error:
        raise InvalidInput(str(error), hint=error.hint or "try again") from error


def _names_words(refs: dict[str, Any]) -> bool:
    """Whether a name among ``refs`` is made of words of the log."""
    for name in refs.values():  # noqa: SIM110  (every event passes here: a generator costs)
        if type(name) is str and is_content_key(name):
            return True
    return False


def _refusal(error: Exception) -> str:
    return f"cannot be recorded: {reason_of(error)}"
