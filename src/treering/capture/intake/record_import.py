"""From the records of a log to events: parsed, matched, counted, recorded in batches."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.intake.former_reading import FormerReading
from treering.capture.intake.ledger_buffer import (
    BATCH_BYTES,
    BATCH_EVENTS,
    PendingRecord,
    WaitingEvent,
    batch_faults,
)
from treering.capture.intake.matcher import NO_TIME_MS, EventMatcher
from treering.capture.intake.sessions import Sessions
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import Conflict, DuplicateEvent
from treering.formats.parsed import LogRecord, names_words
from treering.formats.records.json_pieces import TORN
from treering.model.events import NewEvent
from treering.model.fields import MILLISECONDS_MIN, TIME_MS_MAX, looks_like_seconds
from treering.model.intakes import FAULTS_MAX, Fault, ImportReceipt, SourceReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.capture.intake.ledger_buffer import Item, LedgerBuffer
    from treering.capture.intake.reading import ReadStep
    from treering.formats.parsed import ParsedEvent, ParsedRecord, SessionHeader, SessionSource
    from treering.model.intakes import SourceState
    from treering.model.scopes import Scope


ADVANCE_BYTES: Final = 1024 * 1024
"""How often the progress of a file is reported."""
ATTEMPTS_MAX: Final = 3
"""How often a batch is tried while another import records the same."""

_Pair = tuple[PendingRecord, "ParsedEvent"]


class RecordImport:
    """Imports the records of one log into a ledger, wherever they come from."""

    def __init__(
        self,
        buffer: LedgerBuffer,
        *,
        file: str,
        format_name: str,
        real_path: str | None = None,
        scope: Scope | None = None,
        live: bool = False,
        written_ms: int = 1,
        former: str | None = None,
    ) -> None:
        """Take where the records come from; ``former`` is the format they were last read in."""
        self._buffer = buffer
        self._format = format_name
        self._real_path = real_path or os.path.realpath(file)
        self._live = live
        self._advance: Callable[[int], None] = lambda _: None
        """Called with every number of bytes that were read."""
        self._settle: Callable[[], None] = lambda: None
        """Called before events are matched: it completes the files before this one."""
        self._counter = LineCounter(file, format_name, written_ms=written_ms)
        self._former = None if former is None else FormerReading(buffer, former)
        self.sessions = Sessions(buffer, scope=scope, format_name=format_name, former=former)
        self._state: SourceState = "read"
        self._pending: list[PendingRecord] = []
        self._pending_events = 0
        self._pending_bytes = 0

    def import_steps(
        self, source: SessionSource, steps: Iterator[ReadStep], offset: int, line: int
    ) -> tuple[int, int] | None:
        """Import the events of ``steps``; return how far they went, without a torn end.

        None if all of it is left for later.
        """
        end = self.collect_steps(source, steps, offset, line)
        if end is not None:
            self.complete()
        return end

    def collect_steps(
        self, source: SessionSource, steps: Iterator[ReadStep], offset: int, line: int
    ) -> tuple[int, int] | None:
        """Read ``steps`` as ``import_steps`` does, up to where the last events wait."""
        counter = self._counter
        self._source = source
        self._matcher = EventMatcher(
            self._buffer,
            source,
            self.sessions,
            counter.format or "",
            self._former,
            is_resumed=self._state == "grown",
        )
        self._builder = EventBuilder(
            source,
            self.sessions,
            self._matcher,
            file=self._real_path,
            format_name=self._format,
            written_ms=counter.written_ms,
        )
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
        self._advance(offset - reported)
        counter.bytes = offset - start
        # A torn end may be whole the next time.
        counter.torn_at = None if torn is None else torn.offset
        return (offset, line) if torn is None else (torn.offset, torn.line)

    def look_ahead(self) -> set[str]:
        """Return the ids that ``complete`` will ask for."""
        return self._matcher.look_ahead(
            [event for record in self._pending for event in record.events]
        )

    def complete(self) -> None:
        """Import the events that were collected and wait."""
        self._match()
        for scope, event in self.sessions.awaited():
            self._buffer.add(self, scope, self._builder.opening(scope, event), 0)
        if self._former is not None:
            self._replace(self._former)

    def _replace(self, former: FormerReading) -> None:
        """Take over the sessions of an earlier reader, and erase what only that one derived."""
        for (scope, _), event in former.first.items():
            if not self.sessions.is_open(scope, event.session):
                self._buffer.add(self, scope, self._builder.opening(scope, event), 0)
        self._buffer.commit()
        for scope, session in former.first:
            stale = former.stale(scope, session)
            self._counter.replaced += len(stale)
            if stale and not self._buffer.dry_run:
                self._buffer.ledger.importing.withdraw(scope, list(stale))

    def _add(self, parsed: ParsedRecord) -> None:
        """Add a parsed record; its events are matched with others, later."""
        if not parsed.events:
            self._counter.skip(parsed.skipped or "tells nothing", parsed.record.lines)
            return
        for event in parsed.events:
            if event.kind in AIMED_KINDS:
                self._match()  # It refers to earlier events, which need their seqs first.
                break
        # Without the value of the record: most of that can go when it is parsed.
        record = parsed.record
        size = record.end - record.offset
        self._pending.append(PendingRecord(record.line, record.offset, size, parsed.events))
        self._pending_events += len(parsed.events)
        self._pending_bytes += size
        if self._pending_events >= BATCH_EVENTS or self._pending_bytes >= BATCH_BYTES:
            self._match()

    def _match(self) -> None:
        """Find out which pending events are new, and record those."""
        self._settle()
        pending, self._pending = self._pending, []
        self._pending_events = self._pending_bytes = 0
        rounds: list[dict[Scope, list[_Pair]]] = []
        by_session: dict[str, tuple[int, list[_Pair]]] = {}
        for record in pending:
            record.waiting += 1
            for event in record.events:
                found = by_session.get(event.session)
                if found is None:
                    header = self._source.sessions.get(event.session)
                    try:
                        scope = self.sessions.see(event.session, header)
                    except line_faults() as error:
                        record.failure = _refusal(error)
                        continue
                    # A fork comes after what it repeats, which may be in the same records.
                    parent = None if header is None else header.forked_from
                    at = by_session[parent][0] + 1 if parent in by_session else 0
                    rounds += [{} for _ in range(at + 1 - len(rounds))]
                    found = by_session[event.session] = at, rounds[at].setdefault(scope, [])
                    self._counter.sessions[self.sessions.ids.hidden(event.session)] = None
                found[1].append((record, event))
        for scope, pairs in (item for by_scope in rounds for item in by_scope.items()):
            waiting: list[WaitingEvent] = []
            try:
                self._add_items(scope, self._matcher.new_items(scope, pairs), waiting)
            except batch_faults():
                self._take_back(scope, waiting)
                self._record_now(scope, pairs)
        for record in pending:
            if record.waiting > 1:
                record.waiting -= 1
            else:
                self._release(record)

    def _add_items(self, scope: Scope, items: Sequence[Item], waiting: list[WaitingEvent]) -> None:
        """Have new events recorded with the next batch; ``waiting`` are those not added yet."""
        sessions, builder = self.sessions, self._builder
        ready: str | None = None
        for item in items:
            event = item.event
            if event.session != ready:
                if not sessions.is_open(scope, event.session):
                    self._add_waiting(scope, waiting)  # It may continue from one of these.
                    waiting += builder.opening(scope, event)
                ready = event.session
            if event.kind in AIMED_KINDS:
                self._add_waiting(scope, waiting)  # It refers to one of these.
                ready = None  # A batch that failed closes its sessions.
            waiting.append(builder.event(scope, item))
        self._add_waiting(scope, waiting)

    def _add_waiting(self, scope: Scope, waiting: list[WaitingEvent]) -> None:
        """Move ``waiting`` to the buffer, where questions about them find them."""
        moved = waiting.copy()
        waiting.clear()
        size, last = 0, None
        for entry in moved:
            record = None if entry.item is None else entry.item.record
            if record is not None and record is not last:
                last = record
                size += record.size
        self._buffer.add(self, scope, moved, size)

    def _release(self, record: PendingRecord) -> None:
        """Count a record once none of its events waits any more."""
        record.waiting -= 1
        if record.waiting:
            return
        if record.failure is not None:
            end = record.offset + record.size
            self._counter.fail(LogRecord(None, record.line, record.offset, end), record.failure)
        elif record.new_events:
            self._counter.imported += 1
            if record.has_own_id:
                self._counter.mended["an id that something else has"] += 1
        else:
            self._counter.duplicates += 1

    # What the buffer asks for.

    def count(self, scope: Scope, waiting: Sequence[WaitingEvent], new_ids: set[str]) -> None:
        """Count events that the ledger has now; of those without ``new_ids``, it had them."""
        new_events = 0
        for entry in waiting:
            is_new, item = entry.event.event_id in new_ids, entry.item
            if item is None:
                if entry.opens and is_new:
                    self.sessions.opened.add((scope, entry.session))
                continue
            record = item.record
            if is_new:
                new_events += 1
                record.new_events += 1
            if record.waiting > 1:
                record.waiting -= 1
            else:
                self._release(record)
            if is_new and item.event.is_redacted and not self._buffer.dry_run:
                self._buffer.ledger.redact(scope, event_id=item.ids[0], replacement="null")
        if new_events:
            self.sessions.events[scope] += new_events
            self._counter.events += new_events

    def record_again(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        """Record events of a batch that failed, without those of other files."""
        items = [entry.item for entry in waiting if entry.item is not None]
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
                self._write(scope, self._builder.opening(scope, item.event))
        self._write(scope, [self._builder.event(scope, item) for item in items])

    def _write(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        try:
            self._buffer.record(self, scope, waiting)
        except BaseException:
            self._take_back(scope, waiting)
            raise

    def _take_back(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        """Forget that events wait: they were not recorded, nor were their sessions opened."""
        for entry in waiting:
            if entry.item is None:
                self.sessions.close(scope, entry.session)
            else:
                entry.item.record.waiting -= 1


def _refusal(error: Exception) -> str:
    return f"cannot be recorded: {reason_of(error)}"


AIMED_KINDS: Final = frozenset({"session.undone", "context.compacted"})
"""Kinds that refer to earlier events by their seqs."""


class EventBuilder:
    """Makes the events of one file."""

    def __init__(
        self,
        source: SessionSource,
        sessions: Sessions,
        matcher: EventMatcher,
        *,
        file: str,
        format_name: str,
        written_ms: int,
    ) -> None:
        self._source = source
        self._sessions = sessions
        self._matcher = matcher
        self._file = file
        self._format = format_name
        self._written_ms = written_ms
        self._header: SessionHeader | None = None
        """That of the last event, and the name of its agent."""
        self._agent = sessions.agent(None)

    def event(self, scope: Scope, item: Item) -> WaitingEvent:
        """Return the event of ``item``, which its record waits for from now on."""
        parsed, sessions = item.event, self._sessions
        kind, refs, payload = parsed.kind, parsed.refs, parsed.payload
        if kind in AIMED_KINDS:
            kind, refs, payload = self._aim(scope, parsed)
        if refs and names_words(refs):
            refs, payload = sessions.ids.hidden(refs), sessions.ids.hidden(payload)
        ts_ms = parsed.ts_ms
        if not MILLISECONDS_MIN <= ts_ms <= TIME_MS_MAX:
            if looks_like_seconds(ts_ms):
                refs = {**(refs or {}), "stated_seconds": ts_ms}
            ts_ms = self._time(ts_ms)
        if parsed.agent is None:
            header = self._source.sessions.get(parsed.session)
            if header is not self._header:
                self._header, self._agent = header, sessions.agent(header)
            agent = self._agent
        else:
            agent = sessions.actor(parsed.agent)
        event = NewEvent(
            scope=scope,
            session_id=sessions.name(parsed.session),
            kind=kind,
            agent_id=agent,
            summary=parsed.summary,
            payload=payload,
            refs=refs,
            event_id=item.ids[0],
            ts_ms=ts_ms,
            source=parsed.source,
            origin=self._format,
        )
        item.record.waiting += 1
        return WaitingEvent(event, parsed.session, item)

    def opening(self, scope: Scope, parsed: ParsedEvent) -> list[WaitingEvent]:
        """Return the events that open the session of an event."""
        after = None
        if parsed.after is not None and self._source.keys_are_global:
            after = self._matcher.id("", parsed.after)
        return self._sessions.open(
            scope,
            parsed.session,
            self._source.sessions.get(parsed.session),
            ts_ms=self._time(parsed.ts_ms),
            after=after,
            file=self._file,
        )

    def _aim(self, scope: Scope, event: ParsedEvent) -> tuple[str, Any, Any]:
        """Return kind, refs and payload of an event with the seqs of those that it refers to."""
        location = (
            None if event.first is None else self._matcher.find(scope, event.session, event.first)
        )
        refs = dict(event.refs or {})
        if event.kind == "session.undone":
            if location is None:
                rewind = {"record": "rewind", "rewinds_to": self._sessions.ids.hidden(event.first)}
                return "ops.observation", {"observed": "rewind"}, rewind
            return event.kind, {"turns": 1, **refs, "from_seq": location.seq}, None
        payload = dict(event.payload or {})
        # A summary that names no event which is kept replaces all events before it.
        through = self._sessions.head_seq(scope, event.session)
        through = through if location is None else location.seq - 1
        if through > 0:
            payload["through_seq"] = refs["through_seq"] = through
        return event.kind, refs or None, payload

    def _time(self, ts_ms: int) -> int:
        # A log without times is as old as its file.
        if ts_ms <= NO_TIME_MS:
            return self._written_ms
        return ts_ms * 1_000 if looks_like_seconds(ts_ms) else min(ts_ms, TIME_MS_MAX)


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
        self.torn_at: int | None = None
        """Where the last line begins, if it is still being written, and read again."""

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

    def lasting(self, receipt: SourceReceipt) -> SourceReceipt:
        """Return ``receipt`` without a torn end, which is read again."""
        if self.torn_at is None:
            return receipt
        return msgspec.structs.replace(
            receipt,
            lines=self.lines - 1,
            errors=self.errors - 1,
            faults=[fault for fault in self.faults if fault.offset != self.torn_at],
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
