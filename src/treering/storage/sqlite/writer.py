"""Appending: numbers, chains and writes drafts, many callers in one transaction."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import apsw

from treering.errors import Conflict, DuplicateEvent, InvalidInput, RunClosed, TreeringError
from treering.ledger.chain import content_digest, link
from treering.model.codec import encode
from treering.model.events import SCHEMA_VERSION, Header
from treering.model.kinds import RUN_ENDS
from treering.storage.sqlite import rows
from treering.storage.sqlite.faults import translate, translate_commit
from treering.storage.sqlite.sql import fetch_one, fetch_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.records import Draft
    from treering.storage.sqlite.commits import Job
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.known import Known, SessionTexts, Texts
    from treering.storage.sqlite.sql import Row

PREVIEW_CHARACTERS: Final = 200
RUN_OPEN: Final = 0
RUN_STATES: Final = {"ended": 1, "failed": 2, "interrupted": 3}


class Writer:
    """Carries out writes on the one writing connection."""

    def __init__(
        self, database: Database, known: Known, names: Texts, sessions: SessionTexts
    ) -> None:
        self.database = database
        self.known = known
        self.names = names
        self.sessions = sessions

    def carry_out(self, jobs: list[Job]) -> None:
        """Record every job that can be, in one transaction; a job that cannot gets its error."""

        def place_all(batch: Batch) -> None:
            for job in jobs:
                try:
                    job.headers = batch.place(job.drafts, job.expected_seq)
                except TreeringError as error:
                    job.error = error

        try:
            self.transact(place_all)
        except TreeringError as error:
            for job in jobs:
                job.error = job.error or error

    def transact(self, work: Callable[[Batch], None]) -> None:
        """Do ``work`` inside one write transaction, all or nothing."""
        database = self.database
        with database.lock:
            connection = database.writer()
            database.gate.enter()
            batch = Batch(self, connection)
            try:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    self.known.refresh(connection)
                    work(batch)
                    batch.flush()
                except apsw.Error as error:
                    raise translate(error, database.path) from error
                try:
                    connection.execute("COMMIT" if batch.dirty else "ROLLBACK")
                except apsw.Error as error:
                    raise translate_commit(error, database.path, batch.event_ids()) from error
            except BaseException as error:
                self._undo(connection, error)
                raise
            finally:
                database.gate.leave()

    def _undo(self, connection: apsw.Connection, error: BaseException) -> None:
        self.known.forget()
        if isinstance(error.__cause__, apsw.IOError):
            self.database.reopen()
        elif connection.in_transaction:
            connection.execute("ROLLBACK")


class Batch:
    """The rows of one transaction, placed in memory first and written together."""

    def __init__(self, writer: Writer, connection: apsw.Connection) -> None:
        self._writer = writer
        self._known = writer.known
        self.connection = connection
        self.dirty = False
        self._events: list[Row] = []
        self._contents: list[Row] = []
        self._heads: dict[int, tuple[int, bytes]] = {}
        self._placed: dict[tuple[int, bytes], tuple[Draft, Header]] = {}

    def place(self, drafts: Sequence[Draft], expected_seq: int | None = None) -> list[Header]:
        """Give each draft its order and link. Raises, and leaves nothing, if one cannot have it."""
        if len(drafts) == 1 and not drafts[0].given_id:
            repeated: list[Header | int | None] = [None]
        else:
            repeated = self._repeated(drafts)
        fresh = [draft for draft, known in zip(drafts, repeated, strict=True) if known is None]
        if expected_seq is not None and fresh:
            self._expect(fresh, expected_seq)
        self._check_runs(fresh)
        headers: list[Header] = []
        for draft, known in zip(drafts, repeated, strict=True):
            match known:
                case None:
                    headers.append(self._add(draft))
                case int():
                    headers.append(headers[known])
                case _:
                    headers.append(known)
        return headers

    def event_ids(self) -> list[str]:
        """Return the ids of what this transaction adds."""
        return [header.event_id for _, header in self._placed.values()]

    def head(self, session: int) -> tuple[int, bytes]:
        """Return where a session stands, with what this transaction has added."""
        return self._heads.get(session) or self._known.head(self.connection, session)

    def flush(self) -> None:
        """Write what was placed."""
        connection = self.connection
        if not self._events:
            return
        self.dirty = True
        if len(self._events) == 1:
            connection.execute(rows.INSERT_EVENT, self._events[0])
            connection.execute(rows.INSERT_CONTENT, self._contents[0])
        else:
            connection.executemany(rows.INSERT_EVENT, self._events)
            connection.executemany(rows.INSERT_CONTENT, self._contents)
        for session, (seq, last) in self._heads.items():
            connection.execute(
                "UPDATE heads SET seq = ?, link = ? WHERE session = ?", (seq, last, session)
            )
        self._known.heads.update(self._heads)
        self._events, self._contents, self._heads = [], [], {}

    # Checks, before anything is written.

    def _repeated(self, drafts: Sequence[Draft]) -> list[Header | int | None]:
        """Return, for each draft, the header that its id has, or where it stands in this call."""
        here: dict[tuple[str, str], int] = {}
        repeated: list[Header | int | None] = []
        for at, draft in enumerate(drafts):
            if not draft.given_id:
                repeated.append(None)
                continue
            first = here.setdefault((draft.scope, draft.event_id), at)
            if first == at:
                repeated.append(self._known_header(draft))
            elif _same_draft(draft, drafts[first]):
                repeated.append(first)
            else:
                raise _taken(draft)
        return repeated

    def _known_header(self, draft: Draft) -> Header | None:
        scope, scope_key = self._known.scope(self.connection, draft.scope, create=False)
        if not scope:
            return None
        key, _ = rows.id_key(scope_key, draft.event_id)
        placed = self._placed.get((scope, key))
        if placed is not None:
            if not _same_draft(draft, placed[0]):
                raise _taken(draft)
            return placed[1]
        row = fetch_one(
            self.connection,
            f"SELECT {rows.HEADER}, {rows.CONTENT} FROM events AS e {rows.JOINS}"  # noqa: S608
            " WHERE e.scope = ? AND e.event_id = ?",
            (scope, key),
        )
        if row is None:
            return None
        names = {row[at]: self._text(row[at]) for at in (6, 7, 8, 9, 11, 12, 13)}
        session = {row[2]: (str(draft.scope), self._session_text(row[2]))}
        header = rows.headers([row[: len(rows.COLUMNS)]], names, session)[0]
        if not header.redacted and not _same_stored(draft, header, row[-2]):
            raise _taken(draft)
        return header

    def _text(self, name: int | None) -> str:
        if not name:
            return ""
        text: str = fetch_value(self.connection, "SELECT name FROM names WHERE id = ?", (name,))
        return text

    def _session_text(self, session: int) -> str:
        text: str = fetch_value(
            self.connection, "SELECT name FROM sessions WHERE id = ?", (session,)
        )
        return text

    def _expect(self, drafts: Sequence[Draft], expected_seq: int) -> None:
        targets = {(draft.scope, draft.session_id) for draft in drafts}
        if len(targets) > 1:
            raise InvalidInput(
                "expected_seq speaks of one session, the events belong to several",
                hint="append one session at a time",
            )
        session = self._find_session(drafts[0])
        current = self.head(session)[0] if session else 0
        if current != expected_seq:
            raise Conflict(
                f"session {drafts[0].session_id} is at seq {current}, not {expected_seq}",
                current_seq=current,
                hint="read what is new, then append again",
            )

    def _check_runs(self, drafts: Sequence[Draft]) -> None:
        """Raise RunClosed if an event comes after its run's end, in the ledger or in this call."""
        states: dict[tuple[str, str, str], int | None] = {}
        for draft in drafts:
            if draft.run_id is None:
                continue
            key = (draft.scope, draft.session_id, draft.run_id)
            state = states[key] if key in states else self._stored_run_state(draft)
            if state is not None and draft.kind == "run.started":
                raise RunClosed(
                    f"run {draft.run_id} has started before", hint="give each attempt its own id"
                )
            if state:
                raise RunClosed(
                    f"run {draft.run_id} has ended and takes no more events",
                    hint="start a new run",
                )
            states[key] = _state_after(draft.kind)

    def _stored_run_state(self, draft: Draft) -> int | None:
        session = self._find_session(draft)
        if not session or draft.run_id is None:
            return None
        run = self._known.name(self.connection, draft.run_id)
        return self._known.run_state(self.connection, session, run)

    def _find_session(self, draft: Draft) -> int:
        scope, scope_key = self._known.scope(self.connection, draft.scope, create=False)
        return scope and self._known.session(self.connection, scope, scope_key, draft.session_id)

    # Placing.

    def _add(self, draft: Draft) -> Header:
        known, connection = self._known, self.connection
        scope = known.scope(connection, draft.scope, create=True)
        session = known.session(connection, *scope, draft.session_id) or known.open_session(
            connection, scope, draft.scope, draft.session_id
        )
        seq, previous = self.head(session)
        seq += 1
        last = link(previous, seq, draft.header_digest, draft.content_digest)
        position = self.next_position()
        key, named = rows.id_key(scope[1], draft.event_id)
        spilled = draft.blob is not None
        flags = (
            rows.ALWAYS
            | (rows.PRIVATE if draft.visibility == "private" else 0)
            | (rows.SPILLED if spilled else 0)
            | (rows.NAMED if named else 0)
        )
        name = known.name
        run = name(connection, draft.run_id) if draft.run_id is not None else None
        event = (
            position, scope[0], session, seq, key, draft.event_id if named else None,
            name(connection, draft.kind), name(connection, draft.source),
            name(connection, draft.origin) if draft.origin is not None else None,
            run, draft.run_seq,
            name(connection, draft.turn_id) if draft.turn_id is not None else None,
            name(connection, draft.agent_id),
            name(connection, draft.user_id) if draft.user_id is not None else None,
            draft.ts_ms, draft.recorded_ms, flags, SCHEMA_VERSION, draft.payload_bytes,
            draft.content_digest, last, draft.summary,
            draft.refs.decode() if draft.refs is not None else None,
        )  # fmt: skip
        if draft.blob is not None and draft.payload is not None:
            blob = self.keep_blob(scope, draft.payload, draft.blob)
            content: Row = (position, draft.salt, stub(draft.payload), blob)
        else:
            content = (position, draft.salt, draft.payload, None)
        self.push(event, content, session, (seq, last))
        if run is not None:
            self.follow_run(session, run, draft.kind, seq)
        header = Header(
            position, seq, draft.event_id, draft.scope, draft.session_id, draft.kind,
            draft.source, draft.origin, draft.run_id, draft.run_seq, draft.turn_id,
            draft.agent_id, draft.user_id, draft.ts_ms, draft.recorded_ms, draft.visibility,
            draft.summary, draft.refs_value, draft.payload_bytes, False, False, SCHEMA_VERSION,
            draft.content_digest, last,
        )  # fmt: skip
        self._placed[scope[0], key] = (draft, header)
        return header

    def next_position(self) -> int:
        """Return the position of the next event."""
        self._known.position += 1
        return self._known.position

    def push(self, event: Row, content: Row, session: int, head: tuple[int, bytes]) -> None:
        """Add one event's rows, and move its session's head."""
        self._events.append(event)
        self._contents.append(content)
        self._heads[session] = head

    def keep_blob(self, scope: tuple[int, bytes], payload: bytes, body: bytes) -> int:
        """Return the id of the blob with this content, adding it if it is new to the scope."""
        key = hmac.digest(scope[1], payload, "sha256")
        known: int | None = fetch_value(
            self.connection, "SELECT id FROM blobs WHERE scope = ? AND key = ?", (scope[0], key)
        )
        if known is not None:
            return known
        added: int = fetch_value(
            self.connection,
            "INSERT INTO blobs (scope, key, body) VALUES (?, ?, ?) RETURNING id",
            (scope[0], key, body),
        )
        return added

    def follow_run(self, session: int, run: int, kind: str, seq: int) -> None:
        """Note that a run has begun, gone on or ended at ``seq``."""
        known, connection = self._known, self.connection
        state = _state_after(kind)
        if known.run_state(connection, session, run) is None:
            connection.execute(
                "INSERT INTO runs (session, run, state, first_seq, last_seq)"
                " VALUES (?, ?, ?, ?, ?)",
                (session, run, state, seq, seq if state else None),
            )
        elif state:
            connection.execute(
                "UPDATE runs SET state = ?, last_seq = ? WHERE session = ? AND run = ?",
                (state, seq, session, run),
            )
        known.runs[session, run] = state


def _state_after(kind: str) -> int:
    end = RUN_ENDS.get(kind)
    return RUN_OPEN if end is None else RUN_STATES[end]


def stub(payload: bytes) -> bytes:
    """Return what stands in the place of a spilled payload for plain SQL readers."""
    preview = payload[: PREVIEW_CHARACTERS * 4].decode(errors="ignore")[:PREVIEW_CHARACTERS]
    return encode({"spilled": {"bytes": len(payload), "preview": preview}})


def _same_draft(draft: Draft, placed: Draft) -> bool:
    same_content = draft.content_digest == content_digest(
        draft.salt, placed.summary, placed.refs, placed.payload
    )
    return same_content and _same_fields(draft, placed)


def _same_stored(draft: Draft, header: Header, salt: bytes) -> bool:
    digest = content_digest(salt, draft.summary, draft.refs, draft.payload)
    return digest == header.content_digest and _same_fields(draft, header)


def _same_fields(draft: Draft, other: Draft | Header) -> bool:
    """Whether what the caller said agrees; a time that was filled in does not count."""
    same_time = not draft.given_ts or draft.ts_ms == other.ts_ms
    fields = (
        "session_id", "kind", "source", "origin", "run_id", "run_seq", "turn_id", "agent_id",
        "user_id", "visibility",
    )  # fmt: skip
    return same_time and all(getattr(draft, name) == getattr(other, name) for name in fields)


def _taken(draft: Draft) -> DuplicateEvent:
    return DuplicateEvent(
        f"event_id already exists: {draft.event_id}",
        hint="give another id, or leave it out to have one made",
    )
