"""Taking in native JSONL: every line accounted for, the chain checked on arrival."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import msgspec

from treering.errors import InvalidInput, TreeringError
from treering.ledger import chain
from treering.ledger.jsonl import EndLine, EventLine, OpeningLine, SessionLine, decode_line
from treering.ledger.records import Record, SessionRecord
from treering.ledger.verification import link_of, verify
from treering.model.codec import SPILL_BYTES_MAX, decode, encode
from treering.model.receipts import ImportReceipt, LineError
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.jsonl import Line
    from treering.ledger.ports import EventStore

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
        self._opening: OpeningLine | None = None
        self._sessions: dict[tuple[str, str], SessionRecord] = {}
        self._links: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._erased: set[tuple[str, str]] = set()
        self._page: list[tuple[Record, int, int]] = []
        self._lines = self._imported = self._duplicates = self._other = self._errors = 0
        self._events = 0
        self._sample: list[LineError] = []
        self._complete = False

    def take(self, line: bytes, number: int, offset: int) -> None:
        """Take one line, or note why not."""
        self._lines += 1
        if not line.strip():
            self._other += 1
            return
        try:
            entry = decode_line(line)
        except (msgspec.MsgspecError, ValueError) as error:
            self._refuse(number, offset, f"not a line of an export: {error}")
            return
        if isinstance(entry, OpeningLine) and entry.payloads == "withheld":
            raise InvalidInput(
                "this export has no payloads and cannot be restored",
                hint="export again with --include-payload",
            )
        try:
            self._take(entry, number, offset)
        except TreeringError as error:
            self._refuse(number, offset, str(error))

    def finish(self) -> ImportReceipt:
        """Store what is left and account for everything."""
        self._store_page()
        for scope, session_id in sorted(self._erased):
            sessions = self._store.session_records(Scope(scope), session_id)
            proof = verify(self._store, sessions, whole=False)
            if proof.first_broken is not None:
                self._complete = False
                self._sample.append(
                    LineError(line=0, offset=0, reason=f"{session_id}: {proof.first_broken.detail}")
                )
        return ImportReceipt(
            lines=self._lines,
            imported=self._imported,
            duplicates=self._duplicates,
            other=self._other,
            errors=self._errors,
            sessions=len(self._sessions),
            complete=self._complete and not self._errors,
            errors_sample=self._sample[:ERRORS_SAMPLE_MAX],
        )

    def _take(self, entry: Line, number: int, offset: int) -> None:
        match entry:
            case OpeningLine():
                parse_scope(entry.scope)
                self._opening = entry
                self._other += 1
            case SessionLine():
                self._open_session(entry)
                self._other += 1
            case EventLine():
                self._page.append((self._record(entry), number, offset))
                self._events += 1
                if len(self._page) >= PAGE:
                    self._store_page()
            case EndLine():
                self._complete = entry.events == self._events
                self._other += 1

    def _open_session(self, entry: SessionLine) -> None:
        scope = self._scope()
        salt, first = bytes.fromhex(entry.salt), bytes.fromhex(entry.genesis)
        if chain.genesis(salt, scope, entry.session_id) != first:
            raise InvalidInput(
                f"session {entry.session_id} was exported from another scope or renamed",
                hint="import the file as it was exported",
            )
        self._sessions[scope, entry.session_id] = SessionRecord(
            scope=scope,
            scope_key=bytes.fromhex(entry.scope_key),
            session_id=entry.session_id,
            salt=salt,
            genesis=first,
            head_seq=0,
            head_link=first,
        )

    def _record(self, entry: EventLine) -> Record:
        scope = self._scope()
        key = (scope, entry.session_id)
        session = self._sessions.get(key)
        if session is None:
            raise InvalidInput(
                f"session {entry.session_id} was not introduced before its events",
                hint="the file lacks lines; export again",
            )
        record = _to_record(entry, scope)
        self._check_link(session, record)
        if record.erasure is not None:
            self._erased.add(key)
        return record

    def _check_link(self, session: SessionRecord, record: Record) -> None:
        """Raise unless ``record`` holds what its digest says and follows the one before."""
        key = (record.scope, record.session_id)
        seq, previous = self._links.get(key, (0, session.genesis))
        if record.seq != seq + 1:
            before = self._store.link_at(session.genesis, record.seq - 1)
            if before is None:
                raise InvalidInput(
                    f"session {record.session_id} jumps from seq {seq} to {record.seq}",
                    hint="the file lacks lines; export again",
                )
            previous = before
        if record.erasure is None:
            _check_digest(record)
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

    def _store_one(self, record: Record, number: int, offset: int) -> None:
        try:
            new = self._store.restore(self._sessions, [record])
        except InvalidInput as error:
            self._refuse(number, offset, str(error))
        except TreeringError as error:
            if error.code not in {"conflict", "duplicate"}:
                raise
            self._refuse(number, offset, str(error))
        else:
            self._imported += new
            self._duplicates += 1 - new

    def _scope(self) -> str:
        if self._opening is None:
            raise InvalidInput(
                "the file does not start as an export does", hint="import a treering export"
            )
        return self._opening.scope

    def _refuse(self, number: int, offset: int, reason: str) -> None:
        self._errors += 1
        if len(self._sample) < ERRORS_SAMPLE_MAX:
            self._sample.append(LineError(line=number, offset=offset, reason=reason))


def _to_record(entry: EventLine, scope: str) -> Record:
    return Record(
        scope=scope,
        session_id=entry.session_id,
        seq=entry.seq,
        event_id=entry.event_id,
        kind=entry.kind,
        source=entry.source,
        origin=entry.origin,
        run_id=entry.run_id,
        run_seq=entry.run_seq,
        turn_id=entry.turn_id,
        agent_id=entry.agent_id,
        user_id=entry.user_id,
        ts_ms=entry.ts_ms,
        recorded_ms=entry.recorded_ms,
        visibility=entry.visibility,
        schema_version=entry.schema_version,
        summary=entry.summary,
        refs=_raw(entry.refs),
        payload=_raw(entry.payload),
        salt=None if entry.salt is None else bytes.fromhex(entry.salt),
        content_digest=bytes.fromhex(entry.content_digest),
        link=bytes.fromhex(entry.link),
        erasure=entry.erasure,
        payload_bytes=entry.payload_bytes,
    )


def _check_digest(record: Record) -> None:
    if record.salt is None or record.summary is None:
        raise InvalidInput(
            f"seq {record.seq} of session {record.session_id} lacks its content",
            hint="import an unchanged export",
        )
    digest = chain.content_digest(record.salt, record.summary, record.refs, record.payload)
    if digest != record.content_digest:
        raise InvalidInput(
            f"seq {record.seq} of session {record.session_id} does not hold what its digest says",
            hint="import an unchanged export",
        )


def _raw(value: msgspec.Raw) -> bytes | None:
    # Re-encoded, so that a file that was pretty-printed on the way still holds.
    return None if bytes(value) == b"null" else encode(decode(value))
