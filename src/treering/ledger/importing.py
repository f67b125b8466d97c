"""Taking in native JSONL: every line accounted for, the chain checked on arrival."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from treering.errors import Conflict, DuplicateEvent, InvalidInput, TreeringError
from treering.ledger.drafts import check_name
from treering.ledger.jsonl import (
    EndLine,
    EventLine,
    OpeningLine,
    SessionLine,
    parse_line,
    to_record,
    to_session,
)
from treering.ledger.verification import link_of, verify
from treering.model.codec import SPILL_BYTES_MAX
from treering.model.receipts import ImportReceipt, LineError
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.jsonl import Line
    from treering.ledger.ports import EventStore
    from treering.ledger.records import Record, SessionRecord

PAGE: Final = 500
ERRORS_SAMPLE_MAX: Final = 5
LINE_BYTES_MAX: Final = 2 * SPILL_BYTES_MAX
"""A longer line is no event of ours."""


def read_export(
    store: EventStore, stream: IO[bytes], progress: Callable[[int], None] | None = None
) -> ImportReceipt:
    """Take in what ``write_export`` wrote; good lines are kept whatever the others are like."""
    reading = _Reading(store)
    offset = 0
    for number, (line, size) in enumerate(_lines(stream), start=1):
        reading.take(line, number, offset)
        offset += size
        if progress is not None:
            progress(size)
    return reading.finish()


def _lines(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Return each line and its size; of a line beyond all bounds, only the beginning."""
    while line := stream.readline(LINE_BYTES_MAX):
        size = len(line)
        while size >= LINE_BYTES_MAX and not line.endswith(b"\n"):
            rest = stream.readline(LINE_BYTES_MAX)
            size += len(rest)
            if len(rest) < LINE_BYTES_MAX or rest.endswith(b"\n"):
                break
        yield line, size


class _Reading:
    """One import: gathers lines into pages, checks the chain, counts everything."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._exports = _Exports()
        self._sessions: dict[tuple[str, str], SessionRecord] = {}
        self._links: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._refused: dict[tuple[str, str], str] = {}
        """Why the store took no more of a session."""
        self._touched: set[tuple[str, str]] = set()
        """Sessions of which the store has what came in."""
        self._page: list[tuple[Record, int, int]] = []
        self._lines = self._imported = self._duplicates = self._other = self._errors = 0
        self._sample: list[LineError] = []

    def take(self, line: bytes, number: int, offset: int) -> None:
        """Take one line, or note why not. Raises InvalidInput if no line can be taken."""
        self._lines += 1
        if not line.strip():
            self._other += 1
            return
        try:
            self._take(parse_line(line), number, offset)
        except TreeringError as error:
            if self._exports.withheld and not self._sessions:
                raise
            self._refuse(number, offset, str(error))

    def finish(self) -> ImportReceipt:
        """Store what is left, prove it, and account for everything."""
        self._store_page()
        self._store.finish_erasure()
        proved = self._prove()
        return ImportReceipt(
            lines=self._lines,
            imported=self._imported,
            duplicates=self._duplicates,
            other=self._other,
            errors=self._errors,
            sessions=len(self._sessions),
            complete=self._exports.whole and proved and not self._errors,
            errors_sample=self._sample,
        )

    def _prove(self) -> bool:
        """Verify every session that something came in for; note those that do not hold."""
        proved = True
        for scope, session_id in sorted(self._touched):
            sessions = self._store.session_records(Scope(scope), session_id)
            broken = verify(self._store, sessions, whole=False).first_broken
            if broken is not None:
                proved = False
                self._note(0, 0, f"session {session_id}, seq {broken.seq}: {broken.detail}")
        return proved

    def _take(self, entry: Line, number: int, offset: int) -> None:
        match entry:
            case OpeningLine():
                self._store_page()
                self._exports.open(entry)
                self._other += 1
            case SessionLine():
                self._open_session(entry)
                self._other += 1
            case EventLine():
                self._page.append((self._record(entry), number, offset))
                self._exports.events += 1
                if len(self._page) >= PAGE:
                    self._store_page()
            case EndLine():
                self._exports.close(entry)
                self._other += 1

    def _open_session(self, entry: SessionLine) -> None:
        session = to_session(entry, self._exports.scope())
        key = (session.scope, session.session_id)
        if key in self._sessions:
            # What waits belongs to the session as it was introduced before.
            self._store_page()
        self._sessions[key] = session
        self._links[key] = (0, session.genesis)
        self._refused.pop(key, None)
        self._exports.sessions += 1

    def _record(self, entry: EventLine) -> Record:
        scope = self._exports.scope()
        key = (scope, check_name(entry.session_id, "session_id"))
        session = self._sessions.get(key)
        if session is None:
            raise InvalidInput(
                f"session {entry.session_id} was not introduced before its events",
                hint="the file lacks lines; export again",
            )
        if key in self._refused:
            raise InvalidInput(self._refused[key])
        record = to_record(entry, scope)
        self._check_link(session, record)
        return record

    def _check_link(self, session: SessionRecord, record: Record) -> None:
        """Raise InvalidInput unless ``record`` follows the one before."""
        key = (record.scope, record.session_id)
        seq, previous = self._links[key]
        if record.seq != seq + 1:
            before = self._store.link_at(Scope(record.scope), session.genesis, record.seq - 1)
            if before is None:
                raise InvalidInput(
                    f"session {record.session_id} jumps from seq {seq} to {record.seq}",
                    hint="the file lacks lines; export again",
                )
            previous = before
        if record.erasure != "expired" and link_of(previous, record) != record.link:
            raise InvalidInput(
                f"seq {record.seq} of session {record.session_id} does not follow from the one"
                " before: the chain is broken",
                hint="import an unchanged export",
            )
        self._links[key] = (record.seq, record.link)

    def _store_page(self) -> None:
        page, self._page = self._page, []
        if not page:
            return
        try:
            new = self._store.restore(self._sessions, [record for record, _, _ in page])
        except TreeringError:
            # One bad record must not cost its neighbours: find it by going one at a time.
            for record, number, offset in page:
                self._store_one(record, number, offset)
            return
        self._imported += new
        self._duplicates += len(page) - new
        self._touched.update((record.scope, record.session_id) for record, _, _ in page)

    def _store_one(self, record: Record, number: int, offset: int) -> None:
        key = (record.scope, record.session_id)
        if key in self._refused:
            self._refuse(number, offset, self._refused[key])
            return
        try:
            new = self._store.restore(self._sessions, [record])
        except TreeringError as error:
            if not isinstance(error, InvalidInput | Conflict | DuplicateEvent):
                raise
            # Nothing can stand behind a record that is not there.
            self._refused[key] = str(error)
            self._refuse(number, offset, str(error))
        else:
            self._imported += new
            self._duplicates += 1 - new
            self._touched.add(key)

    def _refuse(self, number: int, offset: int, reason: str) -> None:
        self._errors += 1
        self._note(number, offset, reason)

    def _note(self, number: int, offset: int, reason: str) -> None:
        if len(self._sample) < ERRORS_SAMPLE_MAX:
            self._sample.append(LineError(line=number, offset=offset, reason=reason))


class _Exports:
    """The exports in one file, one behind the other: each opens, and ends with its counts."""

    def __init__(self) -> None:
        self.sessions = 0
        """Sessions of the export that is open."""
        self.events = 0
        self.withheld = False
        """Whether the last opening was of an export for reading only."""
        self._scope: str | None = None
        self._ended = 0
        self._sound = True

    @property
    def whole(self) -> bool:
        """Whether every opening has its end, and every end its counts."""
        return self._sound and self._ended > 0 and self._scope is None

    def scope(self) -> str:
        """Return the scope of the export that is open. Raises InvalidInput if none is."""
        if self._scope is None:
            raise InvalidInput(
                "the line stands outside of an export: its opening is missing",
                hint="import a treering export",
            )
        return self._scope

    def open(self, line: OpeningLine) -> None:
        """Begin an export. Raises InvalidInput if it cannot be restored."""
        self._sound = self._sound and self._scope is None
        self._scope = None
        scope = parse_scope(line.scope)
        if scope != line.scope:
            raise InvalidInput(
                f"{line.scope!r} is not how a ledger spells {scope}",
                hint="import the file as it was exported",
            )
        self.withheld = line.payloads == "withheld"
        if self.withheld:
            raise InvalidInput(
                "this export has no payloads and cannot be restored",
                hint="export again with --include-payload",
            )
        self._scope = scope
        self.sessions = self.events = 0

    def close(self, line: EndLine) -> None:
        """End the export that is open."""
        self.scope()
        self._sound = self._sound and (line.sessions, line.events) == (self.sessions, self.events)
        self._ended += 1
        self._scope = None
