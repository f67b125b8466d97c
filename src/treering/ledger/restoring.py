"""Restoring native JSONL: every line is accounted for, the chain is checked on arrival."""

from __future__ import annotations

import re
from functools import partial
from typing import IO, TYPE_CHECKING, Final, TypeAlias

from treering.errors import (
    Conflict,
    DuplicateEvent,
    InvalidInput,
    InvalidKind,
    TooLarge,
    TreeringError,
)
from treering.ledger import chain
from treering.ledger.jsonl import (
    EndLine,
    EventLine,
    OpeningLine,
    SessionLine,
    parse_line,
    to_record,
    to_session,
)
from treering.ledger.records import ID_NOTES, arriving, check_readable, forgotten_name, shared_seq
from treering.ledger.verification import link_of, verify
from treering.model.codec import REFS_BYTES_MAX, SPILL_BYTES_MAX
from treering.model.fields import COUNT_MAX, check_id, check_name, check_summary
from treering.model.kinds import KINDS, SOURCES, VISIBILITIES
from treering.model.receipts import Broken, LineError, RestoreReceipt
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from treering.ledger.jsonl import Line
    from treering.ledger.ports import EventStore
    from treering.ledger.records import ForkPoint, Record, SessionRecord

    Refuse: TypeAlias = Callable[[str], None]
    """Called with the reason if a record could not be stored."""

ERRORS_SAMPLE_MAX: Final = 5
LINE_BYTES_MAX: Final = 2 * SPILL_BYTES_MAX
"""A longer line is not an event of a ledger."""


def read_export(
    store: EventStore, stream: IO[bytes], progress: Callable[[int], None] | None = None
) -> RestoreReceipt:
    """Read back what ``write_export`` wrote; damaged lines cost no other."""
    reading = _ExportReader(store)
    offset = 0
    for number, (line, size) in enumerate(_lines(stream), start=1):
        reading.take(line, number, offset)
        offset += size
        if progress is not None:
            progress(size)
    return reading.finish()


def _lines(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line and its size; of a line over the limit, only the beginning."""
    while line := stream.readline(LINE_BYTES_MAX):
        size = len(line)
        while size >= LINE_BYTES_MAX and not line.endswith(b"\n"):
            rest = stream.readline(LINE_BYTES_MAX)
            size += len(rest)
            if len(rest) < LINE_BYTES_MAX or rest.endswith(b"\n"):
                break
        yield line, size


class _ExportReader:
    """One restore: every line is stored, or refused with its place, and counted."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._arrivals = RecordRestorer(store)
        self._exports = _Exports()
        self._lines = self._other = self._errors = 0
        self._sample: list[LineError] = []
        self._marks: list[tuple[Scope, dict[str, str]]] = []
        """The marks of the keys that hide the ids of each export."""

    def take(self, line: bytes, number: int, offset: int) -> None:
        """Take one line, or note why not. Raise InvalidInput if no line can be stored."""
        self._lines += 1
        if not line.strip():
            self._other += 1
            return
        refuse = partial(self._refuse, number, offset)
        try:
            self._take(parse_line(line), refuse)
        except InvalidInput as error:
            if self._exports.withheld and not self._arrivals.sessions:
                raise
            refuse(str(error))

    def finish(self) -> RestoreReceipt:
        """Store the rest, prove it, and return the receipt."""
        unproved = self._arrivals.finish(whole=self._exports.whole)
        for scope, marks in self._marks:
            note_id_marks(self._store, scope, marks)
        for broken in unproved:
            self._note(0, 0, f"session {broken.session_id}, seq {broken.seq}: {broken.detail}")
        return RestoreReceipt(
            lines=self._lines,
            imported=self._arrivals.added,
            duplicates=self._arrivals.known,
            other=self._other,
            errors=self._errors,
            sessions=self._arrivals.sessions,
            complete=self._exports.whole and not unproved and not self._errors,
            errors_sample=self._sample,
        )

    def _take(self, entry: Line, refuse: Refuse) -> None:
        match entry:
            case OpeningLine():
                self._arrivals.flush()
                self._exports.open(entry)
                self._marks.append((scope := Scope(self._exports.scope()), entry.id_keys))
                check_id_marks(self._store, scope, entry.id_keys)
                self._other += 1
            case SessionLine():
                self._arrivals.introduce(to_session(entry, self._exports.scope()))
                self._exports.sessions += 1
                self._other += 1
            case EventLine():
                self._arrivals.take(to_record(entry, self._exports.scope()), refuse)
                self._exports.events += 1
            case EndLine():
                self._exports.close(entry)
                self._other += 1

    def _refuse(self, number: int, offset: int, reason: str) -> None:
        self._errors += 1
        self._note(number, offset, reason)

    def _note(self, number: int, offset: int, reason: str) -> None:
        if len(self._sample) < ERRORS_SAMPLE_MAX:
            self._sample.append(LineError(line=number, offset=offset, reason=reason))


class _Exports:
    """The exports in one file, one after the other: each opens, and ends with its counts."""

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
                "the line is outside of an export: its opening is missing",
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
                f"{line.scope!r} is not spelled as in a ledger: {scope}",
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


PAGE: Final = 500
PAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of payloads that are stored together; a single one may be larger."""


class RecordRestorer:
    """Stores records in order; a fault in one session does not affect another."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._sessions: dict[tuple[str, str], SessionRecord] = {}
        self._links: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._refused: dict[tuple[str, str], str] = {}
        """Why no more events of a session are stored."""
        self._touched: set[tuple[str, str]] = set()
        """Sessions whose records were stored."""
        self._page: list[tuple[Record, Refuse]] = []
        self._page_bytes = 0
        self.added = 0
        """Events that the store did not have."""
        self.known = 0
        """Events that were there already."""

    @property
    def sessions(self) -> int:
        """Return how many sessions were introduced."""
        return len(self._sessions)

    def introduce(self, session: SessionRecord) -> None:
        """Announce the records of ``session``. Raise InvalidInput if it cannot begin like this."""
        check_session(session)
        key = (session.scope, session.session_id)
        if key in self._sessions:
            # The waiting records belong to the session as it was introduced before.
            self.flush()
        if session.cut is not None and not self._has_parent(session.scope, session.cut):
            error = without_parent(session, session.cut)
            self._refused[key] = str(error)
            raise error
        self._sessions[key] = session
        self._links[key] = (shared_seq(session), session.genesis)
        self._refused.pop(key, None)

    def _has_parent(self, scope: str, cut: ForkPoint) -> bool:
        """Whether the store has the parent of a fork, once the waiting records are stored."""
        if self._finds(Scope(scope), cut):
            return True
        self.flush()
        return self._finds(Scope(scope), cut)

    def _finds(self, scope: Scope, cut: ForkPoint) -> bool:
        if self._store.sessions.link_at(scope, cut.genesis, cut.seq) != cut.link:
            return False
        gone = forgotten_name(cut.genesis)
        if cut.parent == gone:
            return True  # Here it may still have the name that was forgotten there.
        names = (cut.parent, gone)
        parents = (next(self._store.sessions.records(scope, name), None) for name in names)
        return any(parent is not None and parent.genesis == cut.genesis for parent in parents)

    def take(self, record: Record, refuse: Refuse) -> None:
        """Take the next record of a session; ``refuse`` is called if it is not stored in the end.

        Raise InvalidInput if it is not a valid record, or not at that place.
        """
        key = (record.scope, record.session_id)
        if key in self._refused:
            raise InvalidInput(self._refused[key])
        session = self._sessions.get(key)
        if session is None:
            raise InvalidInput(
                f"session {record.session_id} has events before its opening line",
                hint="the file lacks lines; export again",
            )
        check_record(record)
        self._check_link(session, record)
        self._links[key] = (record.seq, record.link)
        self._page.append((record, refuse))
        self._page_bytes += len(record.payload or b"")
        if len(self._page) >= PAGE or self._page_bytes >= PAGE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Store the waiting records."""
        page, self._page, self._page_bytes = self._page, [], 0
        if not page:
            return
        try:
            added = self._store.restore(self._sessions, [record for record, _ in page])
        except TreeringError:
            # One bad record must not cost its neighbours: find it by going one at a time.
            for record, refuse in page:
                self._store_one(record, refuse)
            return
        self.added += added
        self.known += len(page) - added
        self._touched.update((record.scope, record.session_id) for record, _ in page)

    def finish(self, *, whole: bool) -> list[Broken]:
        """Store the waiting records, and return the faults of the sessions that were stored.

        ``whole`` says that no more records follow: a session that is broken then stays so.
        """
        self.flush()
        if not self._touched:
            return []
        self._store.erasure.finish()
        faults = (self._prove(*key, whole=whole) for key in sorted(self._touched))
        return [broken for broken in faults if broken is not None]

    def _prove(self, scope: str, session_id: str, *, whole: bool) -> Broken | None:
        name, mark = Scope(scope), arriving(self._sessions[scope, session_id].genesis)
        if whole and self._store.cursors.find(name, mark):
            self._store.cursors.set(name, mark, "")
        return verify(self._store, self._store.sessions.records(name, session_id)).first_broken

    def _check_link(self, session: SessionRecord, record: Record) -> None:
        """Raise InvalidInput unless ``record`` follows the one before."""
        seq, previous = self._links[record.scope, record.session_id]
        if record.seq != seq + 1:
            before = self._store.sessions.link_at(
                Scope(record.scope), session.genesis, record.seq - 1
            )
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

    def _store_one(self, record: Record, refuse: Refuse) -> None:
        key = (record.scope, record.session_id)
        if key in self._refused:
            refuse(self._refused[key])
            return
        try:
            added = self._store.restore(self._sessions, [record])
        except TreeringError as error:
            if not isinstance(error, InvalidInput | Conflict | DuplicateEvent):
                raise
            # No record can follow one that is missing.
            self._refused[key] = str(error)
            refuse(str(error))
        else:
            self.added += added
            self.known += 1 - added
            self._touched.add(key)


def id_marks(store: EventStore, scope: Scope) -> dict[str, str]:
    """Return the marks of the keys that hide the ids of a scope."""
    marks = ((name, store.cursors.find(scope, name)) for name in ID_NOTES)
    return {name: mark for name, mark in marks if mark is not None}


def check_id_marks(target: EventStore, scope: Scope, marks: Mapping[str, str]) -> None:
    """Raise InvalidInput if the target hides ids of the scope under another key."""
    there = id_marks(target, scope)
    if any(there.get(name, mark) != mark for name, mark in marks.items()):
        raise InvalidInput(
            f"ids of scope {scope} are hidden under different keys there and here",
            hint="use an empty ledger, and copy ids.secret from the source",
        )


def note_id_marks(target: EventStore, scope: Scope, marks: Mapping[str, str]) -> None:
    """Note in the target which keys hide the ids that were stored."""
    if marks and next(iter(target.sessions.records(scope)), None) is not None:
        there = id_marks(target, scope)
        for name in ID_NOTES:
            if name in marks and name not in there:
                target.cursors.set(scope, name, marks[name])


_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 32
SEQ_MAX: Final = 2**63 - 1
_EXPIRED_ID: Final = re.compile(
    r"#[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""What remains of an id: the hash of a name, or a UUID."""
_UNCHANGED: Final = "take it from where it is unchanged"


def check_session(session: SessionRecord) -> None:
    """Raise InvalidInput unless a session can begin where ``session`` says."""
    name = check_name(session.session_id, "session_id")
    forgotten = not session.salt and name == forgotten_name(session.genesis)
    sizes = (0 if forgotten else chain.SALT_BYTES, _KEY_BYTES, _DIGEST_BYTES)
    if (len(session.salt), len(session.scope_key), len(session.genesis)) != sizes:
        raise InvalidInput(
            f"session {name} has a salt, key or genesis of another size", hint=_UNCHANGED
        )
    if session.cut is not None:
        _check_cut(name, session.cut)
    # Whether an event vouches for a forgotten name is checked once all events are here.
    if (
        not forgotten
        and chain.genesis(session.salt, session.scope, name, session.cut) != session.genesis
    ):
        raise InvalidInput(
            f"session {name} comes from another scope, was renamed, or forked elsewhere",
            hint=_UNCHANGED,
        )


def without_parent(session: SessionRecord, cut: ForkPoint) -> InvalidInput:
    """Return the error for a fork whose parent is missing."""
    return InvalidInput(
        f"session {session.session_id} was forked from {cut.parent} at seq {cut.seq}, and that is"
        f" not here: import {cut.parent} first, or an export of the fork that includes it",
        hint=f"export the fork, or its whole scope, where {cut.parent} is, and import that",
    )


def _check_cut(name: str, cut: ForkPoint) -> None:
    check_name(cut.parent, "session_id")
    if not 0 < cut.seq <= SEQ_MAX or {len(cut.genesis), len(cut.link)} != {_DIGEST_BYTES}:
        raise InvalidInput(f"session {name} cannot have been forked there", hint=_UNCHANGED)


def check_record(record: Record) -> None:
    """Raise InvalidInput, saying what is wrong, unless a ledger could hold ``record``.

    Raises KeyMissing if its payload is sealed and cannot be opened.
    """
    check_readable(record)
    _check_kind(record.kind)
    if record.visibility not in VISIBILITIES:
        raise InvalidInput(f"invalid visibility: {record.visibility[:200]!r}", hint=_UNCHANGED)
    if record.schema_version < 1:
        raise InvalidInput("schema_version must be > 0", hint=_UNCHANGED)
    if len(record.link) != _DIGEST_BYTES:
        raise InvalidInput("link is not a SHA-256", hint=_UNCHANGED)
    if record.run_id is not None:
        check_name(record.run_id, "run_id")
    if record.erasure != "expired":
        _check_header(record)
    elif not _EXPIRED_ID.fullmatch(record.event_id) or _is_complete(record):
        raise InvalidInput("an expired event has fields that expiry removes", hint=_UNCHANGED)
    if record.erasure is None:
        _check_content(record)
    elif record.salt or record.summary or record.refs or record.payload or record.payload_bytes:
        raise InvalidInput(
            "there is content although the event says it was erased", hint=_UNCHANGED
        )


def _check_kind(name: str) -> None:
    kind = KINDS.get(check_name(name, "kind"))
    if kind is None or not kind.durable:
        raise InvalidKind(
            f"invalid kind: {name!r} is not one that this version of Treering records",
            hint="update Treering",
        )


def _check_header(record: Record) -> None:
    check_id(record.event_id)
    check_name(record.agent_id, "agent_id")
    for field in ("origin", "turn_id", "user_id"):
        name = getattr(record, field)
        if name is not None:
            check_name(name, field)
    if record.source not in SOURCES:
        raise InvalidInput(f"invalid source: {record.source[:200]!r}", hint=_UNCHANGED)
    if record.run_seq is not None and record.run_seq < 1:
        raise InvalidInput("run_seq must be > 0", hint=_UNCHANGED)
    for field, time_ms in (("ts_ms", record.ts_ms), ("recorded_ms", record.recorded_ms)):
        # Earlier versions kept whatever their clock said, before 1970 too.
        if not time_ms or abs(time_ms) > COUNT_MAX:
            raise InvalidInput(f"{field} {time_ms} is not a time", hint=_UNCHANGED)
    if len(record.content_digest) != _DIGEST_BYTES:
        raise InvalidInput("content_digest is not a SHA-256", hint=_UNCHANGED)


def _check_content(record: Record) -> None:
    label = f"seq {record.seq} of session {record.session_id}"
    salt, summary, refs, payload = record.salt, record.summary, record.refs, record.payload
    if salt is None or summary is None:
        raise InvalidInput(f"{label} lacks its content", hint=_UNCHANGED)
    check_summary(summary)
    if len(salt) != chain.SALT_BYTES:
        raise InvalidInput(f"{label} has a salt of another size", hint=_UNCHANGED)
    if len(refs or b"") > REFS_BYTES_MAX or len(payload or b"") > SPILL_BYTES_MAX:
        raise TooLarge(f"refs or payload of {label} exceeds its cap", hint=_UNCHANGED)
    if chain.content_digest(salt, summary, refs, payload) != record.content_digest:
        raise InvalidInput(f"{label} does not hold what its digest says", hint=_UNCHANGED)


def _is_complete(record: Record) -> bool:
    """Whether a record still has fields that an expired one has lost."""
    absent = (record.origin, record.run_seq, record.turn_id, record.user_id)
    blank = (record.source, record.agent_id, record.ts_ms, record.recorded_ms)
    return any(v is not None for v in absent) or any(blank) or bool(record.content_digest)
