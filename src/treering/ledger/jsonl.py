"""The native JSONL: a scope, or one session, as lines that restore to the same bytes and chain.

{"record":"export", …}        what this is
{"record":"session", …}       before the first event of each session
{"record":"event", …}         in the ledger's order
{"record":"end", …}           how many there were, so that a cut file is noticed
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final, Literal

import msgspec

from treering.errors import InvalidInput, TreeringError
from treering.ledger import chain
from treering.ledger.records import Erasure, Record, SessionRecord
from treering.ledger.verification import link_of, verify
from treering.model.codec import decode, encode
from treering.model.receipts import ExportReceipt, ImportReceipt, LineError
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ports import EventStore

FORMAT: Final = "treering.export.v1"
PAGE: Final = 500
ERRORS_SAMPLE_MAX: Final = 5

Payloads = Literal["included", "withheld"]

_ABSENT: Final = msgspec.Raw(b"null")


class _Opening(msgspec.Struct, frozen=True, tag_field="record", tag="export"):
    format: Literal["treering.export.v1"]
    scope: str
    payloads: Payloads
    at_ms: int


class _Session(msgspec.Struct, frozen=True, tag_field="record", tag="session"):
    session_id: str
    salt: str
    genesis: str
    scope_key: str


class _Event(msgspec.Struct, frozen=True, tag_field="record", tag="event", omit_defaults=True):
    session_id: str
    seq: int
    event_id: str
    kind: str
    source: str
    agent_id: str
    ts_ms: int
    recorded_ms: int
    visibility: str
    schema_version: int
    summary: str | None
    content_digest: str
    link: str
    salt: str | None = None
    refs: msgspec.Raw = _ABSENT
    payload: msgspec.Raw = _ABSENT
    payload_bytes: int = 0
    origin: str | None = None
    run_id: str | None = None
    run_seq: int | None = None
    turn_id: str | None = None
    user_id: str | None = None
    erasure: Erasure | None = None


class _End(msgspec.Struct, frozen=True, tag_field="record", tag="end"):
    sessions: int
    events: int


_decode_line = msgspec.json.Decoder(_Opening | _Session | _Event | _End).decode
_encode_line = msgspec.json.Encoder().encode


def write_export(
    store: EventStore,
    scope: Scope,
    stream: IO[bytes],
    *,
    session_id: str | None,
    payloads: Payloads,
    at_ms: int,
    progress: Callable[[int], None] | None = None,
) -> ExportReceipt:
    """Write a scope, or one session of it, to ``stream``, a page at a time."""
    stream.write(_encode_line(_Opening(FORMAT, scope, payloads, at_ms)) + b"\n")
    opened: set[str] = set()
    events = 0
    for page in _pages(store, scope, session_id):
        lines: list[bytes] = []
        for record in page:
            if record.session_id not in opened:
                opened.add(record.session_id)
                lines.append(_encode_line(_session_line(store, scope, record.session_id)))
            lines.append(_encode_line(_event_line(record, payloads)))
        stream.write(b"\n".join(lines) + b"\n")
        events += len(page)
        if progress is not None:
            progress(len(page))
    stream.write(_encode_line(_End(len(opened), events)) + b"\n")
    return ExportReceipt(scope=scope, sessions=len(opened), events=events, payloads=payloads)


def read_export(
    store: EventStore, stream: IO[bytes], progress: Callable[[int], None] | None = None
) -> ImportReceipt:
    """Take in what ``write_export`` wrote; good lines are kept whatever the others are like."""
    reading = _Reading(store)
    offset = 0
    for number, line in enumerate(stream, start=1):
        reading.take(line, number, offset)
        offset += len(line)
        if progress is not None:
            progress(len(line))
    return reading.finish()


def _pages(store: EventStore, scope: Scope, session_id: str | None) -> Iterator[list[Record]]:
    after = 0
    if session_id is not None:
        while page := store.records(scope, session_id, after_seq=after, limit=PAGE):
            yield page
            after = page[-1].seq
        return
    newest = store.last_position()
    while after < newest:
        page, after = store.records_after(scope, after, limit=PAGE)
        if page:
            yield page


def _session_line(store: EventStore, scope: Scope, session_id: str) -> _Session:
    session = next(store.session_records(scope, session_id))
    return _Session(session_id, session.salt.hex(), session.genesis.hex(), session.scope_key.hex())


def _event_line(record: Record, payloads: Payloads) -> _Event:
    included = payloads == "included"
    return _Event(
        session_id=record.session_id,
        seq=record.seq,
        event_id=record.event_id,
        kind=record.kind,
        source=record.source,
        agent_id=record.agent_id,
        ts_ms=record.ts_ms,
        recorded_ms=record.recorded_ms,
        visibility=record.visibility,
        schema_version=record.schema_version,
        summary=record.summary,
        content_digest=record.content_digest.hex(),
        link=record.link.hex(),
        salt=record.salt.hex() if record.salt is not None and included else None,
        refs=msgspec.Raw(record.refs) if record.refs is not None else _ABSENT,
        payload=msgspec.Raw(record.payload) if record.payload is not None and included else _ABSENT,
        payload_bytes=record.payload_bytes,
        origin=record.origin,
        run_id=record.run_id,
        run_seq=record.run_seq,
        turn_id=record.turn_id,
        user_id=record.user_id,
        erasure=record.erasure,
    )


class _Reading:
    """One import: gathers lines into pages, checks the chain, counts everything."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._opening: _Opening | None = None
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
            self._take(_decode_line(line), number, offset)
        except msgspec.MsgspecError as error:
            self._refuse(number, offset, f"not a line of an export: {error}")
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

    def _take(self, entry: _Opening | _Session | _Event | _End, number: int, offset: int) -> None:
        match entry:
            case _Opening():
                if entry.payloads == "withheld":
                    raise InvalidInput(
                        "this export has no payloads and cannot be restored",
                        hint="export again with --include-payload",
                    )
                parse_scope(entry.scope)
                self._opening = entry
                self._other += 1
            case _Session():
                self._open_session(entry)
                self._other += 1
            case _Event():
                self._page.append((self._record(entry), number, offset))
                self._events += 1
                if len(self._page) >= PAGE:
                    self._store_page()
            case _End():
                self._complete = entry.events == self._events
                self._other += 1

    def _open_session(self, entry: _Session) -> None:
        scope = self._scope()
        salt, first = _unhex(entry.salt), _unhex(entry.genesis)
        if chain.genesis(salt, scope, entry.session_id) != first:
            raise InvalidInput(
                f"session {entry.session_id} was exported from another scope or renamed",
                hint="import the file as it was exported",
            )
        self._sessions[scope, entry.session_id] = SessionRecord(
            scope=scope,
            scope_key=_unhex(entry.scope_key),
            session_id=entry.session_id,
            salt=salt,
            genesis=first,
            head_seq=0,
            head_link=first,
        )

    def _record(self, entry: _Event) -> Record:
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


def _to_record(entry: _Event, scope: str) -> Record:
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
        salt=None if entry.salt is None else _unhex(entry.salt),
        content_digest=_unhex(entry.content_digest),
        link=_unhex(entry.link),
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


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise InvalidInput("a digest is not hexadecimal", hint="export again") from error
