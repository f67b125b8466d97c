"""Sessions copied verbatim: the same order, digests and links as in their source."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import Conflict, DuplicateEvent, InvalidInput
from treering.ledger.drafts import compressed
from treering.ledger.records import ForkPoint, Record, SessionRecord, arriving, check_readable
from treering.ledger.restoring import without_parent
from treering.model.codec import PAYLOAD_BYTES_MAX, decode
from treering.model.kinds import ERASURE_KINDS
from treering.storage import encoding
from treering.storage.erasure_records import check_same_key, claim_of
from treering.storage.record_keys import KEYED_KINDS
from treering.storage.sqlite.eraser import (
    blank,
    by_genesis,
    forget_name,
    forget_names,
    name_by_genesis,
)
from treering.storage.sqlite.indexes import position_at, positions_in
from treering.storage.sqlite.rows import fetch_all, fetch_value
from treering.storage.sqlite.sessions import find_cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.writer import Writer

_STRETCH: Final = f"""
SELECT e.session, e.seq, e.position, e.link, e.kind, e.flags
FROM ({positions_in("= ?1")}) AS place
CROSS JOIN events AS e ON e.position = place.position
WHERE e.seq BETWEEN ?2 AND ?3
ORDER BY e.seq
"""
_LINK_AT: Final = f"SELECT link FROM events WHERE position = {position_at('?1', '?2')}"


class Copier:
    """Restores records that were exported from another ledger, or from this one."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def restore(
        self, sessions: Mapping[tuple[str, str], SessionRecord], records: Sequence[Record]
    ) -> int:
        """Record ``records`` verbatim and in order, all or none; return how many were new."""
        added = forgotten = 0

        def work(batch: Batch, _: None) -> None:
            nonlocal added, forgotten
            copy = _Copy(self._writer, batch)
            copy.look_ahead(records)
            for record in records:
                added += copy.place(sessions[record.scope, record.session_id], record)
            copy.note_arriving()
            forgotten = copy.forgotten

        self._writer.transact(work, None)
        if forgotten:
            forget_names(self._writer)
        return added


class _Copy:
    """One transaction's worth of copying."""

    def __init__(self, writer: Writer, batch: Batch) -> None:
        self._ids = writer.ids
        self._batch = batch
        self._connection = batch.connection
        self._places: dict[tuple[str, str], tuple[tuple[int, bytes], int]] = {}
        self._keys: set[tuple[int, bytes]] = set()
        self._taken: set[tuple[int, bytes]] = set()
        """Ids that events here have already."""
        self._arriving: set[tuple[int, bytes]] = set()
        self.forgotten = 0
        """Events that record the forgetting of a user who has events here."""

    def look_ahead(self, records: Sequence[Record]) -> None:
        """Look by few statements which ids of ``records`` are given already."""
        by_scope: dict[str, list[Record]] = {}
        for record in records:
            by_scope.setdefault(record.scope, []).append(record)
        for name, group in by_scope.items():
            scope, scope_key = self._ids.scope(self._connection, name, create=False)
            if scope:
                keys = [_id_key(scope_key, record)[0] for record in group]
                self._taken.update((scope, key) for key in self._batch.find_ids(scope, keys))

    def place(self, session: SessionRecord, record: Record) -> int:
        """Add one record unless it is there already; return how many were added."""
        address = self._places.get((session.scope, session.session_id))
        if address is None:
            address = self._place_session(session)
            self._places[session.scope, session.session_id] = address
        scope, number = address
        seq = self._batch.head(number)[0]
        if record.seq <= seq:
            self._check_same(number, record)
            return 0
        if record.seq != seq + 1:
            raise InvalidInput(
                f"session {record.session_id} jumps from seq {seq} to {record.seq}",
                hint="the file lacks lines; export again",
            )
        if _is_hidden(record):
            check_same_key(scope[1], session)
        self._add(scope, number, record)
        if record.erasure is not None:
            self._arriving.add((scope[0], session.genesis))
        if record.kind in ERASURE_KINDS:
            self._erase_vouched(number, record)
        return 1

    def note_arriving(self) -> None:
        """Note, with the erased events, that the events that vouch for them arrive later."""
        self._connection.executemany(
            "INSERT INTO cursors (scope, follower, cursor) VALUES (?, ?, 'copying')"
            " ON CONFLICT (scope, follower) DO UPDATE SET cursor = excluded.cursor",
            [(scope, arriving(genesis)) for scope, genesis in self._arriving],
        )

    def _place_session(self, session: SessionRecord) -> tuple[tuple[int, bytes], int]:
        ids, connection = self._ids, self._connection
        scope = ids.scope(connection, session.scope, create=True, key=session.scope_key)
        number = ids.session(connection, *scope, session.session_id)
        same = by_genesis(connection, scope[0], session.genesis)
        if same and not session.salt:
            # It was copied before its name was forgotten there.
            return scope, same
        if same and same != number:
            raise Conflict(
                f"session {session.session_id} of {session.scope} was forgotten here",
                current_seq=self._batch.head(same)[0],
                hint="leave it out: a forgotten session cannot come back",
            )
        if not number:
            cut = self._check_parent(scope, session)
            number = ids.open_session(
                connection, scope, session.scope, session.session_id, session.salt, cut,
                forgotten=None if session.salt else session.genesis,
            )  # fmt: skip
        genesis = fetch_value(connection, "SELECT genesis FROM sessions WHERE id = ?", (number,))
        if genesis != session.genesis:
            raise Conflict(
                f"session {session.session_id} of {session.scope} exists, with another origin",
                current_seq=self._batch.head(number)[0],
                hint="import into an empty ledger",
            )
        return scope, number

    def _check_parent(self, scope: tuple[int, bytes], session: SessionRecord) -> ForkPoint | None:
        """Return where a fork leaves what it was forked from, as that is called here.

        Raise InvalidInput unless that is here.
        """
        cut = session.cut
        if cut is None:
            return None
        self._batch.flush()
        connection = self._connection
        name = cut.parent
        if not self._ids.session(connection, *scope, name):
            # Its name was forgotten, there or here.
            name = name_by_genesis(connection, scope[0], cut.genesis) or name
        here = msgspec.structs.replace(cut, parent=name)
        parent = self._ids.session(connection, *scope, name)
        if find_cut(connection, parent, name, cut.seq) != here:
            raise without_parent(session, cut)
        return here

    def _check_same(self, session: int, record: Record) -> None:
        self._batch.flush()
        stored = fetch_value(self._connection, _LINK_AT, (session, record.seq))
        if stored != record.link:
            raise Conflict(
                f"seq {record.seq} of session {record.session_id} differs from what is here",
                current_seq=self._batch.head(session)[0],
                hint="import into an empty ledger",
            )

    def _add(self, scope: tuple[int, bytes], session: int, record: Record) -> None:
        expired = record.erasure == "expired"
        if _is_hidden(record):
            self._batch.note_hidden()
        key, named = _id_key(scope[1], record)
        check_readable(record)
        self._check_new((scope[0], key), record)
        spilled = record.payload is not None and len(record.payload) > PAYLOAD_BYTES_MAX
        flags = (
            encoding.ALWAYS
            | (encoding.PRIVATE if record.visibility == "private" else 0)
            | (encoding.SPILLED if spilled else 0)
            | (encoding.NAMED if named else 0)
            | encoding.erasure_flags(record.erasure)
        )
        name = self._name
        run = name(record.run_id)
        position = self._batch.next_position()
        event = (
            position, scope[0], session, record.seq, key,
            record.event_id if named and not expired else None,
            name(record.kind), name(record.source) or 0, name(record.origin), run,
            record.run_seq, name(record.turn_id), name(record.agent_id) or 0,
            name(record.user_id), record.ts_ms, record.recorded_ms, flags,
            record.schema_version, len(record.payload or b""), record.content_digest,
            record.link, record.summary, record.refs,
        )  # fmt: skip
        payload = record.payload
        content = self._batch.content(
            (record.scope, *scope),
            record.kind,
            key,
            record.salt,
            payload,
            compressed(payload) if spilled and payload is not None else None,
        )
        self._batch.push(event, (position, *content), session, (record.seq, record.link))
        if run is not None:
            self._batch.follow_run(session, run, record.kind, record.seq)
        if record.kind in KEYED_KINDS:
            refs = None if record.refs is None else decode(record.refs)
            copied = (record.kind, session, refs, record.event_id)
            self._batch.follow_keys(*scope, copied, position)

    def _check_new(self, key: tuple[int, bytes], record: Record) -> None:
        if key in self._taken or key in self._keys or self._batch.is_hidden(*key, record):
            raise DuplicateEvent(
                f"event_id already exists: {record.event_id}", hint="import into an empty ledger"
            )
        self._keys.add(key)

    def _name(self, text: str | None) -> int | None:
        return self._ids.name(self._connection, text) if text else None

    def _erase_vouched(self, session: int, record: Record) -> None:
        """Erase events that ``record`` vouches for and that were copied here before."""
        claim = claim_of(record)
        if claim is None:
            return
        self._batch.flush()
        rows = [
            row
            for stretch in claim.ranges
            for row in fetch_all(self._connection, _STRETCH, (session, *stretch))
        ]
        digest = sha256(b"".join(row[3] for row in rows)).hexdigest()
        vouching = {self._name(kind) for kind in ERASURE_KINDS}
        if (len(rows), digest) != (claim.count, claim.digest) or any(
            row[4] in vouching for row in rows
        ):
            return
        erased = encoding.EXPIRED if claim.erasure == "expired" else encoding.ERASED
        standing = [row[2] for row in rows if row[5] & erased == 0]
        if standing:
            blank(self._batch, standing, claim.erasure)
        if record.kind == "ledger.forgotten":
            self.forgotten += 1 if standing else 0
            if claim.whole:
                self.forgotten += forget_name(self._batch, self._ids, session)


def _is_hidden(record: Record) -> bool:
    """Whether a record has the hash of an id in place of the id itself."""
    return record.erasure == "expired" and record.event_id.startswith("#")


def _id_key(scope_key: bytes, record: Record) -> tuple[bytes, bool]:
    """Return the bytes an id is stored as, and whether they are a hash."""
    if _is_hidden(record):
        return bytes.fromhex(record.event_id[1:]), True
    return encoding.id_key(scope_key, record.event_id)
