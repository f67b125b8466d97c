"""The ledger as an importer sees it: what is recorded, and what is about to be.

Events wait here until a batch is full, so that one commit takes the events of many files. A
question about a session or an id that waits commits the batch first: every answer is that of a
ledger which has it all. A dry run commits nothing, and its answers include the events that it would
record.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from treering.capture.intake.former_reading import holds, lines_of
from treering.capture.quarantine import line_faults
from treering.errors import Conflict, DuplicateEvent, KeyMissing
from treering.formats.parsed import ParsedEvent
from treering.ledger.records import EventLocation
from treering.model.events import NewEvent
from treering.model.queries import make_seq_cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.events import Event
    from treering.model.scopes import Scope

BATCH_EVENTS: Final = 1_000
"""Events that are recorded in one commit."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of logs whose events are recorded in one commit, if they are fewer."""
_WORDS: Final = "conversation."
_READER: Final = "treering"
"""The agent of a handle that only reads."""
_GAP_MAX: Final = 8
"""Events between two wanted ones that are read with them."""
_READ_MAX: Final = 200
"""Events that are read at once."""
SEARCHED_MAX: Final = 4_000
"""Ids whose places, and sessions whose origins, are remembered."""


def batch_faults() -> tuple[type[Exception], ...]:
    """Return what a batch may raise because of an event in it: the others can be recorded."""
    return (DuplicateEvent, Conflict, *line_faults())


class PendingRecord(msgspec.Struct, gc=False):
    """The events of a record, and what has become of them so far."""

    line: int
    """The line where the record begins."""
    offset: int
    """The byte where it begins."""
    size: int
    events: list[ParsedEvent]
    waiting: int = 0
    """Its events that are not recorded yet."""
    new_events: int = 0
    has_own_id: bool = False
    """Whether one of its events got another id, because its own is that of another event."""
    failure: str | None = None


class Item(msgspec.Struct, gc=False):
    """One event of a log on its way into the ledger."""

    record: PendingRecord
    event: ParsedEvent
    ids: list[str]
    """The id that it is recorded by, then those that it has if its session is a fork."""


class WaitingEvent(msgspec.Struct, gc=False):
    """An event that waits for the next commit."""

    event: NewEvent
    session: str
    """Its session, as its log names it."""
    item: Item | None = None
    """None for an event that opens a session."""
    opens: bool = False
    """Whether its session is new once it is recorded."""


class BatchMember(Protocol):
    """The import of a file that has events in a batch."""

    def count(self, scope: Scope, waiting: Sequence[WaitingEvent], new_ids: set[str]) -> None:
        """Count events that the ledger has now; of those without ``new_ids``, it had them."""

    def record_again(self, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        """Record events of a batch that failed, without those of other files."""


class LogNotes(Protocol):
    """Keeps what is known of logs beyond one import."""

    def find_all(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the notes under ``names``; None where there is none."""

    def keep_all(self, notes: Mapping[str, Any]) -> None:
        """Keep notes under their names, in one commit."""


class NoteBuffer:
    """Notes that are read and written many at once; those of a dry run are never written."""

    def __init__(self, notes: LogNotes) -> None:
        self._notes = notes
        self._waiting: dict[str, Any] = {}
        self._read: dict[str, Any] = {}
        """Notes that will be asked for soon."""

    def read_ahead(self, names: Sequence[str]) -> None:
        """Read the notes that ``find`` is asked for next, in place of those of the last call."""
        self._read = self._notes.find_all(names) if names else {}

    def find(self, name: str) -> Any:
        """Return the note under ``name``; None if there is none."""
        for notes in (self._waiting, self._read):
            if name in notes:
                return notes[name]
        return self._notes.find_all([name])[name]

    def keep(self, name: str, note: Any) -> None:
        """Keep a note under ``name`` with the next ones that are written."""
        self._waiting[name] = note
        self._read.pop(name, None)

    def write(self) -> None:
        """Write the notes that wait."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            self._notes.keep_all(waiting)


class SessionProgress(msgspec.Struct):
    """How far a session has come, and where it comes from."""

    head: int = 0
    """Its last seq; 0 if it has no past."""
    parent: str | None = None
    forked_seq: int | None = None
    """Up to here its past is its parent's."""
    imported_from: str | None = None
    """The format of the log that it was imported from."""


class LedgerBuffer:
    """Answers questions about a ledger, and records events in batches."""

    def __init__(self, ledger: Ledger, notes: NoteBuffer, *, dry_run: bool) -> None:
        self.ledger = ledger
        self.notes = notes
        self.dry_run = dry_run
        self._waiting: dict[Scope, list[tuple[BatchMember, Sequence[WaitingEvent]]]] = {}
        self._events = self._bytes = 0
        self.batch = 0
        """The number of the batch that waits."""
        self._ids: dict[Scope, set[str | None]] = {}
        self._sessions: set[tuple[Scope, str]] = set()
        self._searched: dict[Scope, tuple[set[str], dict[str, EventLocation]]] = {}
        """Of each scope, the ids that were last asked for, and where the known ones are."""
        self._ahead: Collection[str] = ()
        """Ids that will be asked for soon: the first question about a scope asks for all."""
        self._origins: dict[tuple[Scope, str], tuple[str | None, int | None]] = {}
        """Where sessions that are in the ledger come from."""
        self._bookmarks: dict[str, tuple[Any, Callable[[], None]]] = {}
        """Bookmarks of files whose events wait, and what reports those files."""
        self._unreported: list[Callable[[], None]] = []
        """What reports files whose bookmarks are in the notes that wait."""
        # What a dry run would have recorded.
        self._foreseen: dict[tuple[Scope, str], SessionProgress] = {}
        self._places: dict[tuple[Scope, str], EventLocation] = {}
        self._words: dict[tuple[Scope, str], list[int]] = {}
        self._word_hashes: dict[tuple[Scope, str], int] = {}
        """A hash of the words of each event."""

    # Recording.

    def add(
        self, member: BatchMember, scope: Scope, waiting: Sequence[WaitingEvent], size: int
    ) -> None:
        """Record events, which ``size`` bytes of a log hold, with the next batch."""
        if self.dry_run:
            for entry in waiting:
                self._foresee(scope, entry.event)
            member.count(scope, waiting, {entry.event.event_id or "" for entry in waiting})
            return
        self._waiting.setdefault(scope, []).append((member, waiting))
        self._ids.setdefault(scope, set()).update([entry.event.event_id for entry in waiting])
        self._sessions.update({(scope, entry.event.session_id) for entry in waiting})
        self._events += len(waiting)
        self._bytes += size
        if self._events >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
            self.commit()

    def has_recorded(self, batch: int) -> bool:
        """Return whether the events of a batch do not wait any more."""
        return batch < self.batch or not self._events

    def add_bookmark(self, name: str, bookmark: Any, report: Callable[[], None]) -> None:
        """Keep a bookmark once all that was read before it is recorded, and ``report`` is done."""
        if self._events:
            self._bookmarks[name] = bookmark, report
        else:
            self._keep_bookmark(name, bookmark, report)

    def commit(self) -> None:
        """Record all events that wait; if a batch cannot be recorded, file by file."""
        if self.dry_run:
            return
        batches, self._waiting = self._waiting, {}
        bookmarks, self._bookmarks = self._bookmarks, {}
        self._ids, self._sessions = {}, set()
        self._events = self._bytes = 0
        self.batch += 1
        # Where a session belongs is written before its events: it must not change any more.
        self._write_notes()
        for scope, batch in batches.items():
            try:
                new_ids = self._record([entry.event for _, waiting in batch for entry in waiting])
            except batch_faults():
                for member, parts in groupby(batch, key=itemgetter(0)):
                    member.record_again(scope, [entry for _, waiting in parts for entry in waiting])
            else:
                for member, waiting in batch:
                    member.count(scope, waiting, new_ids)
        for name, (bookmark, report) in bookmarks.items():
            self._keep_bookmark(name, bookmark, report)

    def finish(self) -> None:
        """Record all events and notes that wait."""
        self.commit()
        if not self.dry_run:
            self._write_notes()

    def _keep_bookmark(self, name: str, bookmark: Any, report: Callable[[], None]) -> None:
        self.notes.keep(name, bookmark)
        self._unreported.append(report)

    def _write_notes(self) -> None:
        # Reported first: a file with a bookmark is not read again.
        unreported, self._unreported = self._unreported, []
        for report in unreported:
            report()
        self.notes.write()

    def record(self, member: BatchMember, scope: Scope, waiting: Sequence[WaitingEvent]) -> None:
        """Record events at once, all or none. Raises what the ledger raises."""
        member.count(scope, waiting, self._record([entry.event for entry in waiting]))

    def _record(self, events: list[NewEvent]) -> set[str]:
        """Record events; return the ids of those that the ledger did not have."""
        if not events:
            return set()
        searched, self._searched = self._searched, {}
        new_ids = {header.event_id for header in self.ledger.importing.append_missing(events)}
        # If that fails, somebody else has recorded some of it: then nothing is known any more.
        for ids, _ in searched.values():
            ids.difference_update([event.event_id or "" for event in events])
        self._searched = searched
        return new_ids

    # Questions about events.

    def look_ahead(self, event_ids: Collection[str]) -> None:
        """Take the ids that ``find_ids`` is asked for next, to be searched for all at once."""
        self._ahead, self._searched = event_ids, {}

    def find_ids(self, scope: Scope, event_ids: Collection[str]) -> dict[str, EventLocation]:
        """Return where the events with these ids are, for those that the ledger has."""
        waiting_ids = self._ids.get(scope)
        if waiting_ids and not waiting_ids.isdisjoint(event_ids):
            self.commit()
        asked, found = self._searched.get(scope, (set[str](), {}))
        if not asked.issuperset(event_ids):
            if len(asked) > SEARCHED_MAX:
                asked, found = set(), {}
            missing = {*event_ids, *(() if asked else self._ahead)} - asked
            found |= self.ledger.find_ids(scope, list(missing))
            self._searched[scope] = asked | missing, found
        locations = (
            {event_id: found[event_id] for event_id in event_ids if event_id in found}
            if found
            else {}
        )
        if self._places:
            foreseen = ((event_id, self._places.get((scope, event_id))) for event_id in event_ids)
            locations |= {
                event_id: location for event_id, location in foreseen if location is not None
            }
        return locations

    def differing(
        self, scope: Scope, parsed: Sequence[tuple[str, EventLocation, Any]]
    ) -> list[bool | None]:
        """Return for each payload whether it has words that the known event of its id has not.

        None if the ledger cannot tell: the event was erased, or its key is not here.
        """
        differs: list[bool | None] = [None] * len(parsed)
        by_session: dict[str, dict[int, list[int]]] = {}
        for at, (event_id, location, payload) in enumerate(parsed):
            word_hash = self._word_hashes.get((scope, event_id))
            if word_hash is None:
                by_session.setdefault(location.session_id, {}).setdefault(location.seq, []).append(
                    at
                )
            else:
                differs[at] = word_hash != hash(lines_of(payload))
        for session, seqs in by_session.items():
            for event in self._read_events(scope, session, sorted(seqs)):
                for at in () if event.redacted else seqs.get(event.seq, ()):
                    event_id, _, payload = parsed[at]
                    if event.event_id == event_id:
                        differs[at] = not holds(event.payload, payload)
        return differs

    def _read_events(self, scope: Scope, session: str, seqs: Sequence[int]) -> Iterator[Event]:
        """Give the events of a session with these seqs, and some between them."""
        read = 0
        for at, seq in enumerate(seqs):
            if seq <= read:
                continue
            last = seq
            for following in seqs[at:]:
                if following - last > _GAP_MAX or following - seq >= _READ_MAX:
                    break
                last = following
            after = make_seq_cursor(scope, session, seq - 1)
            try:
                page = self.ledger.replay_events(
                    scope, session, first=last - seq + 1, after=after
                ).items
            except KeyMissing:
                return
            yield from page
            read = page[-1].seq if page else last

    @cached_property
    def has_legacy_ids(self) -> bool:
        """Whether the ledger may hold ids that an earlier version made of words."""
        return self.ledger.importing.rekeyed_ms() is not None

    # Questions about sessions.

    def progress(self, scope: Scope, session: str) -> SessionProgress:
        """Return how far a session has come."""
        if (scope, session) in self._sessions:
            self.commit()
        foreseen = self._foreseen.get((scope, session))
        if foreseen is not None:
            return foreseen
        if self.ledger.importing.is_unknown(scope, session):
            return SessionProgress()
        handle = self._handle(scope, session)
        last = next(iter(handle.headers(last=1)), None)
        if last is None:
            return SessionProgress()
        outline = handle.outline()
        return SessionProgress(last.seq, outline.parent, outline.forked_seq, outline.imported_from)

    def origin(self, scope: Scope, session: str) -> tuple[str | None, int | None]:
        """Return the session that a session was forked from, and the last seq that they share."""
        origin = self._origins.get((scope, session))
        if origin is None:
            progress = self.progress(scope, session)
            origin = progress.parent, progress.forked_seq
            if progress.head:  # Once it is there, it stays what it is.
                if len(self._origins) >= SEARCHED_MAX:
                    self._origins.clear()
                self._origins[scope, session] = origin
        return origin

    def words(self, scope: Scope, session: str) -> list[int]:
        """Return the seqs of all messages in a session and in its past before a fork."""
        if (scope, session) in self._sessions:
            self.commit()
        headers = self._handle(scope, session).headers()
        recorded = [header.seq for header in headers if header.kind.startswith(_WORDS)]
        return recorded + self._words.get((scope, session), [])

    def all_events(self, scope: Scope, session: str) -> list[Event]:
        """Return the events of a session, and of its past before a fork; none if it has no key."""
        if (scope, session) in self._sessions:
            self.commit()
        try:
            return list(self._handle(scope, session).events())
        except KeyMissing:
            return []

    def _handle(self, scope: Scope, session: str) -> Session:
        return self.ledger.session(session, scope=scope, agent=_READER)

    # A dry run.

    def foresee_opening(
        self, scope: Scope, session: str, shared: EventLocation | None, marks: Sequence[str]
    ) -> None:
        """Remember that a session would be opened, as a fork after the event at ``shared``.

        ``marks`` are the ids that it may be known by, the best first.
        """
        head, parent = 0, None
        if shared is not None:
            head, parent = shared.seq, shared.session_id
            before = self.words(scope, parent)
            self._words[scope, session] = before[: bisect_right(before, head)]
        # Two events say that it was opened, and from which file.
        self._foreseen[scope, session] = SessionProgress(head + 2, parent, head or None)
        for mark in marks[:1]:
            self._places[scope, mark] = EventLocation(session, head + 2)

    def _foresee(self, scope: Scope, event: NewEvent) -> None:
        """Remember that an event would be recorded."""
        session = event.session_id
        line = self._foreseen[scope, session] = self.progress(scope, session)
        line.head += 1
        event_id = event.event_id or ""
        self._places[scope, event_id] = EventLocation(session, line.head, event.ts_ms or 0)
        self._word_hashes[scope, event_id] = hash(lines_of(event.payload))
        if event.kind.startswith(_WORDS):
            self._words.setdefault((scope, session), []).append(line.head)
