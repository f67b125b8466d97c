"""The events of one transaction: numbered, chained, and written together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.errors import Conflict, InvalidInput
from treering.ledger.chain import SALT_BYTES, link
from treering.ledger.records import Draft, SealedMeanwhile
from treering.model.events import SCHEMA_VERSION, Header
from treering.storage.encoding import ALWAYS, NAMED, PRIVATE, SPILLED, Row, id_key, name_key
from treering.storage.postgres.id_cache import IdCache, RunCount, open_session
from treering.storage.postgres.record_keys import INSERT as KEEP_KEY
from treering.storage.postgres.record_keys import versions_of
from treering.storage.postgres.server import Bytes, Connection
from treering.storage.record_keys import (
    KEYED_KINDS,
    RecordKey,
    check_expected,
    keys_of,
    named_keys,
    record_key,
)
from treering.storage.repeats import find_repeats, in_call_order, not_first
from treering.storage.runs import RUN_OPEN, check_run, state_after
from treering.storage.sealing import check_unsealed, is_sealable, prove, stored_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg import Cursor

    from treering.ledger.ports import Vault
    from treering.model.scopes import Scope
    from treering.storage.postgres.reader import Reader
    from treering.storage.postgres.sessions import Parent

PLAIN: Final = {"safe": ALWAYS, "private": ALWAYS | PRIVATE}
"""Flags of an ordinary event, by its visibility."""

COLUMNS: Final = (
    "position", "session", "seq", "ts_ms", "recorded_ms", "run_seq", "epoch", "payload_bytes",
    "flags", "schema_version", "scope", "event_id", "kind", "source", "agent_id",
    "content_digest", "link", "salt", "event_name", "origin", "run_id", "turn_id", "user_id",
    "summary", "refs", "blob", "payload",
)  # fmt: skip
COLUMN_TYPES: Final = (
    "int8", "int8", "int8", "int8", "int8", "int8", "int4", "int4", "int2", "int2", "text",
    "bytea", "text", "text", "text", "bytea", "bytea", "bytea", "text", "text", "text", "text",
    "text", "text", "bytea", "bytea", "bytea",
)  # fmt: skip
INSERT: Final = (
    f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
)
COPY: Final = f"COPY events ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_HEADS: Final = """
SELECT s.key, s.id, s.genesis, h.seq, h.link
FROM sessions AS s
JOIN heads AS h ON h.scope = s.scope AND h.session = s.id
WHERE s.scope = %s AND s.key = ANY(%b)
"""
_RUNS: Final = """
SELECT r.session, r.run_id, r.state, r.writer
FROM sessions AS s
JOIN runs AS r ON r.scope = s.scope AND r.session = s.id
WHERE s.scope = %s AND s.key = ANY(%b) AND r.run_id = ANY(%s::text[])
"""
_LAST_RUN_SEQ: Final = """
SELECT max(e.run_seq)
FROM events AS e
WHERE e.scope = %s AND e.session = %s AND e.run_id = %s AND e.seq > greatest(%s, (
  SELECT r.first_seq - 1
  FROM runs AS r
  WHERE r.scope = %s AND r.session = %s AND r.run_id = %s
))
"""
_SEALED: Final = "SELECT round FROM seals WHERE scope = %s"
# Ids that we make are in order of time.
_LAST_BOXES: Final = """
SELECT event_id, salt FROM (
  SELECT event_id, salt FROM events WHERE scope = %s ORDER BY event_id DESC LIMIT 64
) AS e WHERE length(salt) > %s
"""
_STATE_SCOPE: Final = "SELECT set_config('treering.scope', %s, true)"
_POSITIONS: Final = "SELECT nextval('event_positions') FROM generate_series(1, %s::bigint)"
_MOVE_HEAD: Final = "UPDATE heads SET seq = %s, link = %s WHERE scope = %s AND session = %s"
_KEEP_RUN: Final = """
INSERT INTO runs (scope, session, run_id, state, first_seq, last_seq, writer)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (scope, session, run_id) DO UPDATE
SET state = excluded.state, last_seq = excluded.last_seq, writer = excluded.writer
"""
# An existing blob is locked, so that nobody erases it as one that no event holds.
_KEEP_BLOB: Final = """
INSERT INTO blobs (scope, key, body)
VALUES (%s, %s, %s)
ON CONFLICT (scope, key) DO UPDATE SET key = excluded.key
"""


class BatchSession:
    """A session within a transaction."""

    __slots__ = ("genesis", "link", "moved", "seq", "session")

    def __init__(self, session: int, genesis: bytes, seq: int, last: bytes) -> None:
        self.session = session
        self.genesis = genesis
        self.seq = seq
        self.link = last
        self.moved = False


class Batch:
    """The rows of one transaction, placed in memory first and written together.

    Call ``enter`` before anything is written: a transaction gets its xid with its first write, and
    within a session xids must go up with seq.
    """

    def __init__(
        self, connection: Connection, cache: IdCache, reader: Reader, vault: Vault
    ) -> None:
        self.connection = connection
        self.cache = cache
        self.reader = reader
        self.vault = vault
        self._keys: dict[str, bytes] = {}
        self._sealed: dict[str, int] = {}
        self._has_key: dict[str, bool] = {}
        self._plain: set[str] = set()
        """Scopes that were never sealed."""
        self.heads: dict[tuple[str, str], BatchSession] = {}
        """Sessions that exist, by the names of scope and session."""
        self.runs: dict[tuple[int, str], int] = {}
        """The states of runs, by session and run."""
        self._writers: dict[tuple[int, str], int | None] = {}
        """Who counts the events of runs, by session and run."""
        self._own: dict[tuple[int, str], int] = {}
        """By which number each run that is counted here was ours; 0 if it was not."""
        self._taken: dict[tuple[str, str, str], RunCount] = {}
        """How far the cache thinks that runs have come, by scope, session and run."""
        self._run_seqs: dict[tuple[str, str, str], int] = {}
        """The last numbers of runs whose events are numbered here, by scope, session and run."""
        self._added: set[tuple[str, str, str]] = set()
        """Runs that have events here, by scope, session and run."""
        self._changed_runs: dict[tuple[str, int, str], tuple[int, int, int | None, int | None]] = {}
        self._repeats: dict[tuple[str, str], Header] = {}
        self._positions: list[int] = []
        self._rows: dict[str, list[Row]] = {}
        self._blobs: list[tuple[str, bytes, bytes]] = []
        self._keyed: dict[str, list[Row]] = {}
        """Rows of keys, by scope."""

    def lock(self, places: Iterable[tuple[str, str]]) -> None:
        """Take the locks of sessions, in the order that every writer uses."""
        locks = sorted({self.cache.lock_of(scope, session_id) for scope, session_id in places})
        self.connection.execute(
            "SELECT count(pg_advisory_xact_lock(k)) FROM unnest(%s::bigint[]) AS k", (locks,)
        )

    def enter(self, scope: Scope, scope_key: bytes, sessions: Sequence[str], events: int) -> None:
        """Load the heads of ``sessions``, and positions for ``events`` events. Locks are held."""
        self._keys[scope] = scope_key
        names = {name_key(scope_key, name): name for name in sessions}
        keys = [Bytes(key) for key in names]
        self.connection.execute(_STATE_SCOPE, (scope,))
        self.connection.execute(
            "SELECT pg_advisory_xact_lock_shared(%s)", (self.cache.lock_of(scope, ""),)
        )
        # Before the mark is read: encryption sets the mark before it uses the key.
        self._has_key[scope] = self.vault.has_sealed(scope)
        sealed = self.connection.execute(_SEALED, (scope,), binary=True)
        heads = self.connection.execute(_HEADS, (scope, keys), binary=True)
        numbers = self.connection.execute(_POSITIONS, (events,), binary=True)
        row = sealed.fetchone()
        self.cache.sealed[scope] = self._sealed[scope] = row[0] if row else 0
        for key, session, genesis, seq, last in heads.fetchall():
            self.heads[scope, names[key]] = BatchSession(session, genesis, seq, last)
        self._positions[:0] = [row[0] for row in reversed(numbers.fetchall())]

    def open_sessions(self, scope: Scope, names: Iterable[str]) -> None:
        """Create the sessions that do not exist."""
        for name in names:
            if (scope, name) not in self.heads:
                self.open_session(scope, name)

    def open_session(
        self,
        scope: Scope,
        name: str,
        *,
        salt: bytes | None = None,
        parent: Parent | None = None,
        forgotten: bytes | None = None,
    ) -> BatchSession:
        """Create a session, as a fork if it has a parent."""
        session, genesis = open_session(
            self.connection, scope, self._keys[scope], name,
            salt=salt, parent=parent, forgotten=forgotten,
        )  # fmt: skip
        seq = 0 if parent is None else parent.cut.seq
        self.heads[scope, name] = head = BatchSession(session, genesis, seq, genesis)
        return head

    def load_repeats(self, scope: Scope, drafts: Sequence[Draft]) -> set[str]:
        """Load the events with the ids of ``drafts``; return the ids that exist."""
        keys: dict[bytes, list[Draft]] = {}
        for draft in drafts:
            keys.setdefault(id_key(self._keys[scope], draft.event_id)[0], []).append(draft)
        if not keys:
            return set()
        headers = self.reader.repeats(self.connection, scope, keys)
        for key, header in headers.items():
            self._repeats[scope, keys[key][0].event_id] = header
        return {keys[key][0].event_id for key in headers}

    def load_runs(self, scope: Scope, pairs: Iterable[tuple[str, str]]) -> None:
        """Load the states of runs, named by session and run."""
        pairs = list(pairs)
        if not pairs:
            return
        keys = {Bytes(name_key(self._keys[scope], session_id)) for session_id, _ in pairs}
        states = self.connection.execute(
            _RUNS, (scope, list(keys), list({run for _, run in pairs})), binary=True
        )
        for session, run, state, writer in states:
            self.runs[session, run] = state
            self._writers[session, run] = writer

    def load_run_seqs(self, scope: Scope, pairs: Iterable[tuple[str, str]]) -> None:
        """Load the last numbers of runs, named by session and run.

        Heads of sessions and states of runs are loaded.
        """
        for session_id, run_id in pairs:
            run = (scope, session_id, run_id)
            self._taken[run] = count = self.cache.take_run(*run)
            last = count.number
            head = self.heads.get((scope, session_id))
            if head is None or (head.session, run_id) not in self.runs:
                last = 0  # The run is new, or all drafts are repeats.
            elif count.seq != head.seq and not self._is_own(head.session, run_id, count.writer):
                # Somebody has written to the session since.
                asked = (scope, head.session, run_id)
                result = self.connection.execute(
                    _LAST_RUN_SEQ, (*asked, count.seq, *asked), binary=True
                )
                last = max(last, (result.fetchone() or (0,))[0] or 0)
            if head is not None:
                self._own[head.session, run_id] = count.writer
            self._run_seqs[run] = last

    def _is_own(self, session: int, run_id: str, writer: int) -> bool:
        return writer > 0 and writer == self._writers.get((session, run_id))

    def place(self, drafts: Sequence[Draft], expected_seq: int | None = None) -> list[Header]:
        """Give each draft its seq and link. Raise if one is refused."""
        repeats = find_repeats(drafts, lambda d: self._repeats.get((d.scope, d.event_id)))
        fresh = [draft for draft, repeat in zip(drafts, repeats, strict=True) if repeat is None]
        if expected_seq is not None and fresh:
            self._expect(fresh, expected_seq)
        for draft in fresh:
            if draft.expected is not None:
                self._expect_keys(draft)
        return in_call_order(repeats, [self._add(draft) for draft in fresh])

    def flush(self, *, copying: bool = False) -> None:
        """Write all placed rows; ``copying`` is faster for many, and not allowed to every role."""
        if copying:
            self._copy()
        with self.connection.cursor() as cursor:
            # Scopes, too, in the order that every writer uses.
            for scope in sorted(self._keys):
                if len(self._keys) > 1:
                    cursor.execute(_STATE_SCOPE, (scope,))
                self._write(cursor, scope)
        for head in self.heads.values():
            head.moved = False
        self._rows, self._blobs, self._changed_runs, self._keyed = {}, [], {}, {}

    def _copy(self) -> None:
        with self.connection.cursor() as cursor, cursor.copy(COPY) as copy:
            copy.set_types(COLUMN_TYPES)
            for rows in self._rows.values():
                for row in rows:
                    copy.write_row(row)
        self._rows = {}

    def _write(self, cursor: Cursor[Row], scope: str) -> None:
        """Write the rows placed in ``scope``; events before heads."""
        # In the order that every writer uses, or two would wait for each other.
        blobs = sorted({blob[1]: blob for blob in self._blobs if blob[0] == scope}.values())
        heads = [
            (head.seq, head.link, scope, head.session)
            for (own, _), head in self.heads.items()
            if own == scope and head.moved
        ]
        runs = [(*run, *state) for run, state in self._changed_runs.items() if run[0] == scope]
        for statement, rows in (
            (_KEEP_BLOB, blobs),
            (INSERT, self._rows.get(scope, ())),
            (_MOVE_HEAD, heads),
            (_KEEP_RUN, runs),
            (KEEP_KEY, self._keyed.get(scope, ())),
        ):
            if rows:
                cursor.executemany(statement, rows)

    def settle(self) -> None:
        """Remember the sessions of a committed transaction."""
        for (scope, session_id), head in self.heads.items():
            self.cache.remember_session(scope, session_id, head.session, self._keys[scope])
            self.cache.note_seq(scope, session_id, head.seq)
        # Of a run that has only repeats here, somebody else may be the writer.
        for scope, session_id, run_id in self._added & self._run_seqs.keys():
            head = self.heads[scope, session_id]
            if self.runs[head.session, run_id] == RUN_OPEN:  # One that is over has no next number.
                own = self._own.get((head.session, run_id), 0)
                writer = own if self._is_own(head.session, run_id, own) else 0
                number = self._run_seqs[scope, session_id, run_id]
                self.cache.note_run(scope, session_id, run_id, RunCount(number, head.seq, writer))

    def give_back(self) -> None:
        """Note the runs as they were, after a transaction that was rolled back."""
        for run, count in self._taken.items():
            self.cache.note_run(*run, count)

    def push(self, scope: str, head: BatchSession, row: Row, last: bytes) -> None:
        """Add one event's row, and move its session's head."""
        self._rows.setdefault(scope, []).append(row)
        head.seq += 1
        head.link = last
        head.moved = True

    def next_position(self) -> int:
        """Return the position of the next event."""
        return self._positions.pop()

    def content(
        self,
        scope: str,
        kind: str,
        event_key: bytes,
        salt: bytes | None,
        payload: bytes | None,
        body: bytes | None,
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return the stored salt, payload and blob key; sealed, if the scope is."""
        sealed = self._sealed[scope] and payload is not None and is_sealable(kind)
        key = self.vault.in_use(scope) if sealed else None
        if key is not None and not key.is_proved:
            prove(key, scope, self._last_boxes(scope))
        plain = payload is not None and not sealed and is_sealable(kind)
        if plain and scope not in self._plain:
            self._check_plain(scope)
        stored = stored_content(key, (scope, self._keys[scope]), event_key, salt, payload, body)
        if stored.blob_key is not None and stored.blob is not None:
            self._blobs.append((scope, stored.blob_key, stored.blob))
        return stored.salt, stored.payload, stored.blob_key

    def _check_wordless(self, draft: Draft) -> None:
        """Raise SealedMeanwhile if the draft's open text may repeat its sealed payload."""
        sealed = self._sealed[draft.scope] and draft.payload is not None
        if sealed and not draft.wordless and is_sealable(draft.kind):
            raise SealedMeanwhile(draft.scope)

    def _check_plain(self, scope: str) -> None:
        boxless = self.cache.boxless

        def has_boxes() -> bool:
            if scope in boxless:
                return False
            if not self._last_boxes(scope):
                return False
            # Somebody may have sealed the scope since we read its mark, and waits for us.
            return self.connection.execute(_SEALED, (scope,), binary=True).fetchone() is None

        check_unsealed(scope, has_key=self._has_key[scope], has_boxes=has_boxes)
        boxless.add(scope)
        self._plain.add(scope)

    def _last_boxes(self, scope: str) -> list[Any]:
        """Return what was sealed lately in a scope, each with the id of its event."""
        return self.connection.execute(_LAST_BOXES, (scope, SALT_BYTES), binary=True).fetchall()

    def follow_run(self, scope: str, session: int, run_id: str, kind: str, seq: int) -> None:
        """Note that a run has begun, continued or ended at ``seq``."""
        was, state = self.runs.get((session, run_id)), state_after(kind)
        known = writer = self._writers.get((session, run_id))
        if known is not None and not self._is_own(
            session, run_id, self._own.get((session, run_id), 0)
        ):
            writer = 0
        if was is not None and state == RUN_OPEN and writer == known:
            return
        first = self._changed_runs.get((scope, session, run_id), (0, seq, None, None))[1]
        self._changed_runs[scope, session, run_id] = (
            state, first, seq if state else None, writer,
        )  # fmt: skip
        self.runs[session, run_id] = state
        self._writers[session, run_id] = writer

    def _expect(self, drafts: Sequence[Draft], expected_seq: int) -> None:
        if len({(draft.scope, draft.session_id) for draft in drafts}) > 1:
            raise InvalidInput(
                "expected_seq is for one session, but the events belong to several",
                hint="append one session at a time",
            )
        head = self.heads.get((drafts[0].scope, drafts[0].session_id))
        current = head.seq if head is not None else 0
        if current != expected_seq:
            raise moved_on(drafts[0], current, expected_seq)

    def _expect_keys(self, draft: Draft) -> None:
        scope_key = self._keys[draft.scope]
        name, _ = named_keys(draft.refs) or ("", [])
        places = {key: record_key(scope_key, name, key) for key in draft.expected or {}}
        check_expected(draft, versions_of(self.connection, draft.scope, places))

    def follow_keys(self, scope: str, kind: str, session: int, refs: Any, position: int) -> None:
        """Note the keys of an event."""
        keys: list[RecordKey] = keys_of(self._keys[scope], kind, session, refs)
        self._keyed.setdefault(scope, []).extend((scope, *key, position) for key in keys)

    def _number(self, draft: Draft) -> None:
        """Give a draft its number in its run, if the store counts; note it."""
        run = (draft.scope, draft.session_id, draft.run_id or "")
        self._added.add(run)
        if draft.counted:
            self._run_seqs[run] = draft.number_after(self._run_seqs[run])
        elif run in self._run_seqs:
            self._run_seqs[run] = max(self._run_seqs[run], draft.run_seq or 0)

    def _add(self, draft: Draft) -> Header:
        if draft.run_id is not None:
            head = self.heads[draft.scope, draft.session_id]
            check_run(draft, self.runs.get((head.session, draft.run_id)))
            self._number(draft)
        scope, kind, run_id = draft.scope, draft.kind, draft.run_id
        head = self.heads[scope, draft.session_id]
        if draft.is_first and head.seq:
            raise not_first(draft, head.seq)
        seq = head.seq + 1
        if run_id is not None:
            self.follow_run(scope, head.session, run_id, kind, seq)
        last = link(head.link, seq, draft.header_digest, draft.content_digest)
        position = self.next_position()
        key, name, flags = stored_id(draft, self._keys[scope])
        salt: bytes | None = draft.salt
        payload, blob = draft.payload, None
        if draft.blob is not None or payload is not None or self._sealed[scope]:
            flags |= 0 if draft.blob is None else SPILLED
            self._check_wordless(draft)
            salt, payload, blob = self.content(scope, kind, key, draft.salt, payload, draft.blob)
        row = (
            position, head.session, seq, draft.ts_ms, draft.recorded_ms, draft.run_seq,
            self.connection.epoch, draft.payload_bytes, flags, SCHEMA_VERSION, scope, key, kind,
            draft.source, draft.agent_id, draft.content_digest, last, salt, name, draft.origin,
            run_id, draft.turn_id, draft.user_id, draft.summary, draft.stored_refs, blob, payload,
        )  # fmt: skip
        self.push(scope, head, row, last)
        if kind in KEYED_KINDS:
            self.follow_keys(scope, kind, head.session, draft.refs, position)
        return draft.header(position, seq, last)


def stored_id(draft: Draft, scope_key: bytes) -> tuple[bytes, str | None, int]:
    """Return the stored bytes and text of a draft's id, and its flags."""
    flags = PLAIN[draft.visibility]
    if draft.made_id is not None:
        return draft.made_id, None, flags
    key, named = id_key(scope_key, draft.event_id)
    return (key, draft.event_id, flags | NAMED) if named else (key, None, flags)


def moved_on(draft: Draft, current: int, expected: int) -> Conflict:
    """Return the error for a session that is not at the expected seq."""
    return Conflict(
        f"session {draft.session_id} is at seq {current}, not {expected}",
        current_seq=current,
        hint="read what is new, then append again",
    )
