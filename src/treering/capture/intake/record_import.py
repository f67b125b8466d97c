"""From the records of a log to events in the ledger: parsed, matched, recorded in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.capture.intake.event_builder import AIMED_KINDS, EventBuilder
from treering.capture.intake.former_reading import FormerReading
from treering.capture.intake.ledger_buffer import (
    BATCH_BYTES,
    BATCH_EVENTS,
    PendingRecord,
    WaitingEvent,
    batch_faults,
)
from treering.capture.intake.line_counter import LineCounter
from treering.capture.intake.matcher import EventMatcher
from treering.capture.intake.sessions import Sessions
from treering.capture.quarantine import line_faults, reason_of
from treering.errors import Conflict, DuplicateEvent
from treering.formats.records.json_pieces import TORN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.capture.intake.ledger_buffer import Item, LedgerBuffer
    from treering.capture.intake.reading import ReadStep
    from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionSource
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
        scope: Scope | None = None,
        live: bool = False,
        written_ms: int = 1,
        former: str | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Take where the records come from; ``former`` is the format they were last read in."""
        self._buffer = buffer
        self._format = format_name
        self._live = live
        self._advance = advance
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
            file=counter.file,
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
        self._match()
        for scope, event in self.sessions.awaited():
            self._buffer.add(self, scope, self._builder.opening(scope, event), 0)
        if self._former is not None:
            self._replace(self._former)
        self._advance(offset - reported)
        counter.bytes = offset - start
        # A torn end may be whole the next time.
        return (offset, line) if torn is None else (torn.offset, torn.line)

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
        self._pending.append(PendingRecord(parsed))
        self._pending_events += len(parsed.events)
        self._pending_bytes += parsed.record.end - parsed.record.offset
        if self._pending_events >= BATCH_EVENTS or self._pending_bytes >= BATCH_BYTES:
            self._match()

    def _match(self) -> None:
        """Find out which pending events are new, and record those."""
        pending, self._pending = self._pending, []
        self._pending_events = self._pending_bytes = 0
        rounds: list[dict[Scope, list[_Pair]]] = []
        by_session: dict[str, tuple[int, list[_Pair]]] = {}
        for record in pending:
            for event in record.parsed.events:
                if event.session not in by_session:
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
                    by_session[event.session] = at, rounds[at].setdefault(scope, [])
                    self._counter.sessions[self.sessions.ids.hidden(event.session)] = None
                by_session[event.session][1].append((record, event))
        for record in pending:
            record.waiting += 1
        for scope, pairs in (item for by_scope in rounds for item in by_scope.items()):
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
        sessions, builder = self.sessions, self._builder
        for item in items:
            event = item.event
            if not sessions.is_open(scope, event.session):
                self._add_waiting(scope, waiting)  # It may continue from one of these.
                waiting += builder.opening(scope, event)
            if event.kind in AIMED_KINDS:
                self._add_waiting(scope, waiting)  # It refers to one of these.
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
                size += record.parsed.record.end - record.parsed.record.offset
        self._buffer.add(self, scope, moved, size)

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

    def count(self, scope: Scope, waiting: Sequence[WaitingEvent], new_ids: set[str]) -> None:
        """Count events that the ledger has now; of those without ``new_ids``, it had them."""
        new_events = 0
        for entry in waiting:
            is_new, item = entry.event.event_id in new_ids, entry.item
            if item is None:
                if entry.opens and is_new:
                    self.sessions.opened.add((scope, entry.session))
                continue
            if is_new:
                new_events += 1
                item.record.new_events += 1
            self._release(item.record)
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
