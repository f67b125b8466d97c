"""Restoring sessions verbatim: with their order, digests and links."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from psycopg.errors import UniqueViolation

from treering.errors import Conflict, DuplicateEvent, InvalidInput
from treering.ledger.drafts import compressed
from treering.ledger.records import Record, SessionRecord, arriving, check_readable
from treering.model.codec import PAYLOAD_BYTES_MAX, decode
from treering.model.kinds import ERASURE_KINDS
from treering.model.scopes import Scope
from treering.storage.encoding import (
    ALWAYS,
    ERASED,
    EXPIRED,
    NAMED,
    PRIVATE,
    SPILLED,
    either_key,
    erasure_flags,
    id_key,
)
from treering.storage.erasure_records import check_same_key, claim_of
from treering.storage.postgres.eraser import blank, by_genesis, forget_name, forget_runs
from treering.storage.postgres.server import Bytes, Connection
from treering.storage.postgres.sessions import Parent, copied_parent
from treering.storage.record_keys import KEYED_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.storage.postgres.batch import Batch, BatchSession
    from treering.storage.postgres.writer import Writer

_LINKS: Final = """
SELECT e.session, e.seq, e.link
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
"""
_STRETCH: Final = """
SELECT e.seq, e.link, e.kind, e.flags
FROM events AS e
WHERE e.scope = %s AND e.session = %s AND e.seq BETWEEN %s AND %s
ORDER BY e.seq
"""


class Copier:
    """Restores records that were exported from another ledger, or from this one."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Store ``records`` in their order, all or none; return how many were new."""
        if not records:
            return 0
        added = [0]

        def work(connection: Connection, *, again: bool) -> int:
            new = self._try(connection, sessions, records, added)
            # If an earlier try was committed without an answer, this one finds nothing new.
            return max(added) if again else new

        return self._writer.server.write_once(work, Scope(records[0].scope))

    def _try(
        self,
        connection: Connection,
        sessions: Mapping[tuple[str, str], SessionRecord],
        records: Sequence[Record],
        added: list[int],
    ) -> int:
        try:
            return self._restore(connection, sessions, records, added, doubting=False)
        except UniqueViolation:
            # An id is taken: find it.
            return self._restore(connection, sessions, records, added, doubting=True)

    def _restore(
        self,
        connection: Connection,
        sessions: Mapping[tuple[str, str], SessionRecord],
        records: Sequence[Record],
        added: list[int],
        *,
        doubting: bool,
    ) -> int:
        scope = Scope(records[0].scope)
        names = list(dict.fromkeys(record.session_id for record in records))
        first = sessions[scope, names[0]]
        scope_key = self._writer.scope_key(connection, scope, first.scope_key)

        # Row-level security forbids COPY.
        copying = not self._writer.server.walled
        # A session forgotten elsewhere may still be here under its name.
        starts = {sessions[scope, name].genesis for name in names}
        standing = by_genesis(connection, scope, starts)

        def work(batch: Batch) -> int:
            batch.enter(scope, scope_key, [*names, *standing.values()], len(records))
            batch.load_runs(scope, {(r.session_id, r.run_id) for r in records if r.run_id})
            copy = _Copy(batch, scope, scope_key, copying=copying)
            for name in names:
                copy.open(sessions[scope, name], standing)
            fresh = copy.leave_out_known(records)
            if doubting:
                copy.check_new(fresh)
            for record in fresh:
                copy.add(sessions[scope, record.session_id], record)
            copy.note_arriving([r for r in fresh if r.erasure is not None], sessions)
            copy.flush()
            added.append(len(fresh))
            return len(fresh)

        places = {(scope, name) for name in (*names, *standing.values())}
        count = self._writer.transact(connection, places, work, copying=copying)
        if any(not sessions[scope, name].salt for name in names):
            self._writer.cache.forget()
        return count


class _Copy:
    """One transaction of copying, within one scope."""

    def __init__(self, batch: Batch, scope: Scope, scope_key: bytes, *, copying: bool) -> None:
        self._batch = batch
        self._connection = batch.connection
        self._scope = scope
        self._key = scope_key
        self._copying = copying

    def flush(self) -> None:
        """Write what was added."""
        self._batch.flush(copying=self._copying)

    def note_arriving(
        self, erased: Sequence[Record], sessions: Mapping[tuple[str, str], SessionRecord]
    ) -> None:
        """Note that erased events were stored whose proof of erasure is still missing."""
        starts = {sessions[r.scope, r.session_id].genesis for r in erased}
        if starts:
            self._connection.execute(
                "INSERT INTO cursors (scope, follower, cursor)"
                " SELECT %s, f, 'copying' FROM unnest(%s::text[]) AS f"
                " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
                (self._scope, sorted(map(arriving, starts))),
            )

    def open(self, session: SessionRecord, standing: Mapping[bytes, str]) -> None:
        """Create a session, or check that it is the same. A fork is created with its first event.

        ``standing`` are the names of existing sessions by genesis. Raise Conflict if a forgotten
        session would come back.
        """
        head = self._batch.heads.get((self._scope, session.session_id))
        same = self._batch.heads.get((self._scope, standing.get(session.genesis, "")))
        if head is None and same is not None:
            if session.salt:
                raise Conflict(
                    f"session {session.session_id} of {session.scope} was forgotten here",
                    current_seq=same.seq,
                    hint="leave it out: a forgotten session cannot come back",
                )
            # It was copied before the source forgot its name.
            # Whatever its own name is.
            self._batch.heads[self._scope, session.session_id] = same
            head = same
        if head is not None:
            self._check_same(session, head)
        elif session.cut is None:  # Else its parent may be among the records before its own.
            self._open(session)

    def _open(self, session: SessionRecord, parent: Parent | None = None) -> BatchSession:
        head = self._batch.open_session(
            self._scope,
            session.session_id,
            salt=session.salt,
            parent=parent,
            forgotten=None if session.salt else session.genesis,
        )
        self._check_same(session, head)
        return head

    def _open_fork(self, session: SessionRecord) -> BatchSession:
        """Create a fork of an existing session. Raise InvalidInput if there is no such session."""
        if session.cut is None:
            raise AssertionError
        self.flush()
        parent = copied_parent(self._connection, self._scope, session, session.cut)
        return self._open(session, parent)

    def _check_same(self, session: SessionRecord, head: BatchSession) -> None:
        if head.genesis != session.genesis:
            raise Conflict(
                f"session {session.session_id} of {session.scope} exists, with another origin",
                current_seq=head.seq,
                hint="import into an empty ledger",
            )

    def leave_out_known(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that are new. Raise Conflict if one exists and differs."""
        repeated = [r for r in records if not self._is_new(r)]
        if not repeated:
            return list(records)
        rows = self._connection.execute(
            _LINKS,
            (self._scope, [self._head(r).session for r in repeated], [r.seq for r in repeated]),
            binary=True,
        )
        links = {(session, seq): link for session, seq, link in rows}
        for record in repeated:
            head = self._head(record)
            if links.get((head.session, record.seq)) != record.link:
                raise Conflict(
                    f"seq {record.seq} of session {record.session_id} differs from what is here",
                    current_seq=head.seq,
                    hint="import into an empty ledger",
                )
        return [r for r in records if self._is_new(r)]

    def _is_new(self, record: Record) -> bool:
        head = self._batch.heads.get((self._scope, record.session_id))
        return head is None or record.seq > head.seq

    def check_new(self, records: Sequence[Record]) -> None:
        """Raise DuplicateEvent if another event has the id of one of ``records``."""
        keys: dict[bytes, Record] = {}
        for record in records:
            key = self._id(record)[0]
            if key in keys:
                raise _taken(record)
            keys[key] = record
        ids = {key: record.event_id for key, record in keys.items()}
        keys = either_key(self._batch.reader.hiding(self._batch.connection, self._scope, ids), keys)
        row = self._connection.execute(
            "SELECT event_id FROM events WHERE scope = %s AND event_id = ANY(%b) LIMIT 1",
            (self._scope, [Bytes(key) for key in keys]),
            binary=True,
        ).fetchone()
        if row is not None:
            raise _taken(keys[row[0]])

    def add(self, session: SessionRecord, record: Record) -> None:
        """Add one record, which must be the next of its session."""
        head = self._batch.heads.get((self._scope, record.session_id)) or self._open_fork(session)
        if record.seq != head.seq + 1:
            raise InvalidInput(
                f"session {record.session_id} jumps from seq {head.seq} to {record.seq}",
                hint="the file lacks lines; export again",
            )
        if record.erasure == "expired" and record.event_id.startswith("#"):
            check_same_key(self._key, session)
        self._push(head, record)
        if record.run_id is not None:
            self._batch.follow_run(
                self._scope, head.session, record.run_id, record.kind, record.seq
            )
        if record.kind in ERASURE_KINDS:
            self._erase_vouched(head, record)

    def _push(self, head: BatchSession, record: Record) -> None:
        key, name = self._id(record)
        check_readable(record)
        payload = record.payload
        spilled = payload is not None and len(payload) > PAYLOAD_BYTES_MAX
        flags = (
            ALWAYS
            | (PRIVATE if record.visibility == "private" else 0)
            | (SPILLED if spilled else 0)
            | (NAMED if name is not None else 0)
            | erasure_flags(record.erasure)
        )
        salt, stored, blob = self._batch.content(
            self._scope,
            record.kind,
            key,
            record.salt,
            payload,
            compressed(payload) if spilled and payload is not None else None,
        )
        row = (
            self._batch.next_position(), head.session, record.seq, record.ts_ms,
            record.recorded_ms, record.run_seq, self._connection.epoch,
            len(record.payload or b""), flags, record.schema_version, self._scope, key,
            record.kind, record.source, record.agent_id, record.content_digest, record.link,
            salt, name or None, record.origin, record.run_id, record.turn_id,
            record.user_id, record.summary, record.refs, blob, stored,
        )  # fmt: skip
        self._batch.push(self._scope, head, row, record.link)
        if record.kind in KEYED_KINDS:
            refs = None if record.refs is None else decode(record.refs)
            self._batch.follow_keys(self._scope, record.kind, head.session, refs, row[0])

    def _id(self, record: Record) -> tuple[bytes, str | None]:
        """Return the stored bytes of an id and its text, which is empty if it has expired."""
        if record.erasure == "expired" and record.event_id.startswith("#"):
            return bytes.fromhex(record.event_id[1:]), ""
        key, named = id_key(self._key, record.event_id)
        if not named:
            return key, None
        return key, "" if record.erasure == "expired" else record.event_id

    def _head(self, record: Record) -> BatchSession:
        head = self._batch.heads.get((self._scope, record.session_id))
        if head is None:
            raise AssertionError
        return head

    def _erase_vouched(self, head: BatchSession, record: Record) -> None:
        """Erase the events that ``record`` vouches for, if they were copied before."""
        claim = claim_of(record)
        if claim is None:
            return
        self.flush()
        rows = [
            row
            for stretch in claim.ranges
            for row in self._connection.execute(
                _STRETCH, (self._scope, head.session, *stretch), binary=True
            )
        ]
        digest = sha256(b"".join(row[1] for row in rows)).hexdigest()
        if (len(rows), digest) != (claim.count, claim.digest) or any(
            row[2] in ERASURE_KINDS for row in rows
        ):
            return
        erased = EXPIRED if claim.erasure == "expired" else ERASED
        standing = [(head.session, row[0]) for row in rows if row[3] & erased == 0]
        blank(self._batch, self._scope, standing, claim.erasure)
        if record.kind == "ledger.forgotten":
            forget_runs(self._connection, self._scope, head.session)
            if claim.whole:
                start = (head.session, head.genesis)
                forget_name(self._connection, self._scope, self._key, *start)


def _taken(record: Record) -> DuplicateEvent:
    return DuplicateEvent(
        f"event_id already exists: {record.event_id}", hint="import into an empty ledger"
    )
