"""Appending: one event in one round trip, several in one transaction."""

from __future__ import annotations

import contextlib
import os
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from psycopg.errors import UniqueViolation

from treering.errors import Conflict, InvalidInput, TreeringError
from treering.model.events import SCHEMA_VERSION, Header
from treering.model.scopes import Scope
from treering.storage.encoding import id_key
from treering.storage.postgres.batch import Batch, moved_on, stored_id
from treering.storage.postgres.id_cache import CachedSession, IdCache, RunCount, open_scope
from treering.storage.postgres.server import (
    BOOL,
    BYTEA,
    INT8,
    NO,
    TEXT,
    YES,
    Connection,
    PreparedStatement,
    Server,
    Value,
    enter_scope,
    int8,
)
from treering.storage.postgres.sessions import find_parent, no_such_seq
from treering.storage.record_keys import KEYED_KINDS, named_keys
from treering.storage.repeats import taken
from treering.storage.runs import RUN_ENDED, RUN_KINDS, RUN_OPEN, check_run, state_after
from treering.storage.sealing import is_sealable, stored_content

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft
    from treering.storage.postgres.reader import Reader

_STORED: Final = {
    "session": INT8, "lock": INT8, "epoch": INT8, "ts_ms": INT8, "recorded_ms": INT8,
    "flags": INT8, "payload_bytes": INT8, "scope": TEXT, "kind": TEXT, "source": TEXT,
    "agent_id": TEXT, "event_name": TEXT, "origin": TEXT, "run_id": TEXT, "turn_id": TEXT,
    "user_id": TEXT, "summary": TEXT, "session_key": BYTEA, "event_id": BYTEA, "refs": BYTEA,
    "payload": BYTEA, "salt": BYTEA, "content_digest": BYTEA, "run_seq": INT8, "last_seq": INT8,
}  # fmt: skip
"""The values of every single append."""
_AT_HEAD: Final = _STORED | {
    "scope_lock": INT8, "repeatable": BOOL, "sealed": INT8, "run_state": INT8, "run_starts": BOOL,
    "writer": INT8,
}  # fmt: skip
_APPEND: Final = PreparedStatement(
    "treering_append",
    f"""
SELECT * FROM append_event(
  {{lock}}, {{scope_lock}}, {{epoch}}, {{session}}, {{repeatable}}, {{last_seq}}, {{session_key}},
  {{sealed}}, {{event_id}}, {{event_name}}, {{scope}}, {{kind}}, {{source}}, {{origin}}, {{run_id}},
  {{run_seq}}, {{turn_id}}, {{agent_id}}, {{user_id}}, {{ts_ms}}, {{recorded_ms}}, {{flags}},
  {SCHEMA_VERSION}, {{payload_bytes}}, {{summary}}, {{refs}}, {{payload}}, {{salt}},
  {{content_digest}}, {{header_digest}}, {{run_state}}, {{run_starts}}, {{writer}}
)
""",
    _AT_HEAD | {"header_digest": BYTEA},
)
# The server gives the event its number in its run.
_APPEND_IN_RUN: Final = PreparedStatement(
    "treering_append_in_run",
    f"""
SELECT * FROM append_event_in_run(
  {{lock}}, {{scope_lock}}, {{epoch}}, {{session}}, {{repeatable}}, {{last_seq}}, {{session_key}},
  {{sealed}}, {{event_id}}, {{event_name}}, {{scope}}, {{kind}}, {{source}}, {{origin}}, {{run_id}},
  {{run_seq}}, {{turn_id}}, {{agent_id}}, {{user_id}}, {{ts_ms}}, {{recorded_ms}}, {{flags}},
  {SCHEMA_VERSION}, {{payload_bytes}}, {{summary}}, {{refs}}, {{payload}}, {{salt}},
  {{content_digest}}, {{header_before}}, {{header_after}}, {{counted}}, {{counted_seq}},
  {{run_state}}, {{run_starts}}, {{writer}}, {{is_own}}
)
""",
    _AT_HEAD
    | {
        "header_before": BYTEA,
        "header_after": BYTEA,
        "counted": INT8,
        "counted_seq": INT8,
        "is_own": BOOL,
    },
)
# The usual event, in one plain statement: half of what append_event costs the server. It needs the
# seq that its session has come to. Every append moves the head, so a head that is still where our
# own event left it proves that the run of that event is still open, and numbered by nobody else.
# Nothing is recorded, and append_event finds out why, if the head has moved, if somebody else has
# the lock, or if the scope is sealed; an id that is taken is refused by its index.
#
# The lock is taken before the head is written: a transaction gets its xid with its first write,
# and within a session xids go up with seq.
_APPEND_NEXT: Final = PreparedStatement(
    "treering_append_next",
    f"""
WITH head AS (
  UPDATE heads AS h SET seq = h.seq + 1, link = sha256(h.link || {{linked}})
  WHERE h.scope = {{scope}} AND h.session = {{session}} AND h.key = {{session_key}}
    AND h.seq = {{last_seq}}
    AND NOT EXISTS (SELECT FROM seals AS s WHERE s.scope = {{scope}})
    AND pg_try_advisory_xact_lock({{lock}})
  RETURNING h.seq, h.link
)
INSERT INTO events (
  session, seq, ts_ms, recorded_ms, run_seq, epoch, payload_bytes, flags, schema_version, scope,
  event_id, kind, source, agent_id, content_digest, link, salt, event_name, origin, run_id,
  turn_id, user_id, summary, refs, payload
)
SELECT
  {{session}}, head.seq, {{ts_ms}}, {{recorded_ms}}, {{run_seq}}, {{epoch}}, {{payload_bytes}},
  {{flags}}, {SCHEMA_VERSION}, {{scope}}, {{event_id}}, {{kind}}, {{source}}, {{agent_id}},
  {{content_digest}}, head.link, {{salt}}, {{event_name}}, {{origin}}, {{run_id}}, {{turn_id}},
  {{user_id}}, {{summary}}, {{refs}}, {{payload}}
FROM head
RETURNING position, seq, link
""",
    _STORED | {"linked": BYTEA},
)

ATTEMPTS_MAX: Final = 3
COPY_EVENTS_MIN: Final = 100
"""From this number of events on, COPY is faster, although it cannot be sent in a pipeline."""

_UNCOUNTED: Final = RunCount()

Result = TypeVar("Result")


class AppendOutcome(IntEnum):
    """The outcome that append_event and append_event_in_run return."""

    APPENDED = 0
    REPEATED = 1
    NO_SESSION = 2
    MOVED_ON = 3
    RUN_STARTED = 4
    RUN_OVER = 5
    SEALED_AGAIN = 6
    NUMBER_TAKEN = 7


class Writer:
    """Appends events on connections of the pool."""

    def __init__(self, server: Server, cache: IdCache, reader: Reader, vault: Vault) -> None:
        self.server = server
        self.vault = vault
        self.cache = cache
        self.reader = reader

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""
        only = (
            drafts[0]
            if len(drafts) == 1
            and drafts[0].blob is None
            and not drafts[0].is_first
            and drafts[0].kind not in KEYED_KINDS
            else None
        )

        def work(connection: Connection, *, again: bool) -> list[Header]:
            for _ in range(ATTEMPTS_MAX):
                try:
                    header = only and self._append_one(connection, only, expected_seq, again=again)
                    if header:
                        return [header]
                    return self._append_all(connection, drafts, expected_seq, again=again)
                except UniqueViolation:
                    # Another writer recorded one of these ids at the same moment.
                    again = True
            return self._append_all(connection, drafts, expected_seq, again=True)

        return self.server.write_once(work, drafts[0].scope, [draft.event_id for draft in drafts])

    def _append_one(
        self, connection: Connection, draft: Draft, expected_seq: int | None, *, again: bool
    ) -> Header | None:
        """Record one event of a cached session; return None if it needs a transaction.

        That is one round trip, or two if another writer was faster.
        """
        session = self.cache.sessions.get((draft.scope, draft.session_id))
        if session is None or self._may_be_gone(connection, draft, session.scope_key):
            return None
        sealed = self.cache.sealed.get(draft.scope)
        if sealed is None:
            return None
        stored = self._values(draft, session, connection.epoch, sealed=sealed > 0)
        if stored is None:
            return None
        count = _UNCOUNTED
        if draft.counted:
            count = self.cache.take_run(draft.scope, draft.session_id, draft.run_id or "")
        if not again and not sealed:
            header = self._append_next(connection, draft, stored, expected_seq, count)
            if header is not None:
                return header
        stored += [
            _optional(_stated_number(draft) if draft.counted else draft.run_seq),
            _optional(expected_seq),
            int8(self.cache.lock_of(draft.scope, "") if sealed else 0),
            YES if again or draft.made_id is None else NO,
            int8(sealed),
            int8(state_after(draft.kind)),
            YES if draft.kind == "run.started" else NO,
        ]
        return self._append_at_head(connection, draft, session, stored, expected_seq, count)

    def _append_next(
        self,
        connection: Connection,
        draft: Draft,
        stored: Sequence[Value],
        expected_seq: int | None,
        count: RunCount,
    ) -> Header | None:
        """Record the event after our last one in its session; return None if that fails."""
        last_seq = self.cache.seqs.get((draft.scope, draft.session_id))
        if (
            last_seq is None
            or expected_seq not in {None, last_seq}
            or draft.kind in RUN_KINDS
            or not _number(draft, count, last_seq)
        ):
            return None
        linked = (last_seq + 1).to_bytes(8, "big") + draft.header_digest + draft.content_digest
        values = (*stored, _optional(draft.run_seq), int8(last_seq), linked)
        try:
            row = connection.row(_APPEND_NEXT, values)
        except UniqueViolation:
            # The id is taken. There may be more of those: append_event looks for them first.
            self.cache.lose_seq(draft.scope, draft.session_id)
            self._note_run(draft, count)
            raise
        if row is None:
            self.cache.lose_seq(draft.scope, draft.session_id)
            return None
        position, seq, last_link = row
        return self._recorded(draft, position, seq, last_link, count.writer)

    def _append_at_head(
        self,
        connection: Connection,
        draft: Draft,
        session: CachedSession,
        values: list[Value],
        expected_seq: int | None,
        count: RunCount,
    ) -> Header | None:
        """Record the event after the last one of its session, of any writer.

        Return None if it needs a transaction.
        """
        if draft.counted:
            row = connection.row(_APPEND_IN_RUN, values + _counting(draft, count))
        else:
            row = connection.row(_APPEND, [*values, None, draft.header_digest])
        if row is None:
            raise AssertionError
        outcome, position, seq, last_link, writer, *number = row
        if outcome == AppendOutcome.APPENDED:
            if draft.counted:
                draft.number_after(number[0] - 1)
            return self._recorded(draft, position, seq, last_link, writer)
        self._note_run(draft, count)
        if outcome == AppendOutcome.REPEATED:
            return self._repeated(connection, draft, session.scope_key)
        if outcome == AppendOutcome.MOVED_ON:
            raise moved_on(draft, seq - 1, expected_seq or 0)
        if outcome == AppendOutcome.RUN_OVER:
            check_run(draft, RUN_ENDED)
        elif outcome == AppendOutcome.RUN_STARTED:
            check_run(draft, RUN_OPEN)
        elif outcome != AppendOutcome.NUMBER_TAKEN:
            # The scope was sealed meanwhile, or has another key, or another ledger is in its place.
            self.cache.forget()
        return None

    def _recorded(
        self, draft: Draft, position: int, seq: int, last_link: bytes, writer: int | None
    ) -> Header:
        """Note how far session and run have come; return the header."""
        self.cache.note_seq(draft.scope, draft.session_id, seq)
        header = draft.header(position, seq, last_link)
        self._note_run(draft, RunCount(header.run_seq or 0, seq, writer or 0))
        return header

    def _note_run(self, draft: Draft, count: RunCount) -> None:
        if draft.counted and state_after(draft.kind) == RUN_OPEN:
            self.cache.note_run(draft.scope, draft.session_id, draft.run_id or "", count)

    def _values(
        self, draft: Draft, session: CachedSession, epoch: int, *, sealed: bool
    ) -> list[Value] | None:
        """Return the stored values of a draft; None if its scope has to be checked."""
        scope, kind = draft.scope, draft.kind
        event_id, event_name, flags = stored_id(draft, session.scope_key)
        salt: bytes | None = draft.salt
        payload = draft.payload
        if sealed and payload is not None and not draft.wordless:
            return None
        if sealed and payload is not None and is_sealable(kind):
            secret = self.vault.in_use(scope)
            if not secret.is_proved:
                return None
            salt, payload, _, _ = stored_content(
                secret, (scope, session.scope_key), event_id, salt, payload, None
            )
        elif (
            payload is not None
            and is_sealable(kind)
            and (scope not in self.cache.boxless or self.vault.has_sealed(scope))
        ):
            return None  # The scope may have been sealed meanwhile: that is checked under a lock.
        numbers = (
            session.number, session.lock, epoch, draft.ts_ms, draft.recorded_ms, flags,
            draft.payload_bytes,
        )  # fmt: skip
        texts = (
            scope, kind, draft.source, draft.agent_id, event_name, draft.origin, draft.run_id,
            draft.turn_id, draft.user_id, draft.summary,
        )  # fmt: skip
        return [
            *map(int8, numbers),
            *[None if text is None else text.encode() for text in texts],
            session.key, event_id, draft.stored_refs, payload, salt, draft.content_digest,
        ]  # fmt: skip

    def _may_be_gone(self, connection: Connection, draft: Draft, scope_key: bytes) -> bool:
        """Whether an id may belong to an erased event: the server alone cannot know."""
        if draft.made_id is not None:
            return False
        ids = {id_key(scope_key, draft.event_id)[0]: draft.event_id}
        return bool(self.reader.hiding(connection, Scope(draft.scope), ids))

    def _repeated(self, connection: Connection, draft: Draft, scope_key: bytes) -> Header | None:
        key = id_key(scope_key, draft.event_id)[0]
        return self.reader.repeats(connection, draft.scope, {key: [draft]}).get(key)

    def _append_all(
        self,
        connection: Connection,
        drafts: Sequence[Draft],
        expected_seq: int | None,
        *,
        again: bool,
    ) -> list[Header]:
        def work(batch: Batch) -> list[Header]:
            for scope in scopes:
                own = [draft for draft in drafts if draft.scope == scope]
                sessions = list({draft.session_id for draft in own})
                batch.enter(scope, keys[scope], sessions, len(own))
                repeats = batch.load_repeats(scope, [d for d in own if again or d.made_id is None])
                batch.open_sessions(scope, {d.session_id for d in own if d.event_id not in repeats})
                batch.load_runs(scope, {(d.session_id, d.run_id) for d in own if d.run_id})
                counted = {(d.session_id, d.run_id) for d in own if d.counted and d.run_id}
                batch.load_run_seqs(scope, counted)
            headers = batch.place(drafts, expected_seq)
            batch.flush(copying=copying)
            return headers

        copying = len(drafts) >= COPY_EVENTS_MIN and not self.server.walled

        # In the order that every writer uses: opening a session locks the row of its scope.
        scopes = sorted({draft.scope for draft in drafts})
        keys = {scope: self.scope_key(connection, scope) for scope in scopes}
        places = {(draft.scope, draft.session_id) for draft in drafts}
        for draft in drafts:
            # Whoever puts a record has its part alone: the newest event has the last position.
            if draft.kind in KEYED_KINDS and (named := named_keys(draft.refs)):
                places |= {
                    (draft.scope, f"\0records\0{named[0]}\0{key.partition('/')[0]}")
                    for key in named[1]
                }
        return self.transact(connection, places, work, copying=copying)

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at ``seq``, and record ``draft``.

        Raise Conflict if the session exists, NotFound if the parent has no such seq.
        """

        def work(connection: Connection, *, again: bool) -> Header:
            for _ in range(ATTEMPTS_MAX):
                try:
                    return self._fork(connection, draft, parent, seq, again=again)
                except UniqueViolation:
                    # Another writer recorded the draft's id at the same moment.
                    again = True
            return self._fork(connection, draft, parent, seq, again=True)

        return self.server.write_once(work, draft.scope, [draft.event_id])

    def _fork(
        self, connection: Connection, draft: Draft, parent: str, seq: int, *, again: bool
    ) -> Header:
        scope, child = draft.scope, draft.session_id
        scope_key = self.cache.scope_key(connection, scope)
        if scope_key is None:
            raise no_such_seq(scope, parent, seq)

        def work(batch: Batch) -> Header:
            batch.enter(scope, scope_key, [child], 1)
            fork_parent = find_parent(connection, scope, scope_key, parent, seq)
            head = batch.heads.get((scope, child))
            if head is not None:
                # It is ours, if an earlier try was committed without an answer.
                header = self._repeated(connection, draft, scope_key) if again else None
                if header is not None:
                    return header
                raise Conflict(
                    f"session {child} of {scope} exists already",
                    current_seq=head.seq,
                    hint="give the fork another session id",
                )
            if batch.load_repeats(scope, [draft] if again or draft.made_id is None else []):
                # The id of an erased event does not contradict the draft, but is not free.
                raise taken(draft)
            batch.open_session(scope, child, parent=fork_parent)
            header = batch.place([draft])[0]
            batch.flush()
            return header

        return self.transact(connection, {(scope, child)}, work)

    def transact(
        self,
        connection: Connection,
        places: set[tuple[str, str]] | set[tuple[Scope, str]],
        work: Callable[[Batch], Result],
        *,
        copying: bool = False,
    ) -> Result:
        """Do ``work`` in one transaction that holds the locks of ``places``.

        Statements are sent in a pipeline, unless some of them copy: COPY cannot be.
        """
        batch = Batch(connection, self.cache, self.reader, self.vault)
        sending = contextlib.nullcontext() if copying else connection.pipeline()
        try:
            with sending, connection.transaction():
                batch.lock(places)
                result = work(batch)
        except (TreeringError, UniqueViolation):
            batch.give_back()
            raise
        batch.settle()
        return result

    def scope_key(self, connection: Connection, scope: Scope, key: bytes | None = None) -> bytes:
        """Return the key of a scope; open the scope if need be, with ``key`` if it is given."""
        if self.server.walled:
            enter_scope(connection, scope)
        existing = self.cache.scope_key(connection, scope)
        if existing is not None:
            return existing
        open_scope(connection, scope, key)
        made = self.cache.scope_key(connection, scope)
        if made is None:
            raise AssertionError
        return made


def _number(draft: Draft, count: RunCount, last_seq: int) -> bool:
    """Give ``draft`` its number in its run; return False if only the server can.

    The number is right as long as the session is at ``last_seq``.
    """
    if not draft.counted:
        return draft.run_id is None  # Otherwise the server has to see that the run is open.
    if not count.number or count.seq != last_seq:
        return False
    try:
        draft.number_after(count.number)
    except InvalidInput:
        return False  # The number is taken, unless by the same event.
    return True


def _optional(number: int | None) -> Value:
    return None if number is None else int8(number)


def _stated_number(draft: Draft) -> int | None:
    return draft.run_seq if draft.given_run_seq else draft.least_run_seq or None


def _counting(draft: Draft, count: RunCount) -> list[Value]:
    """Return what the server needs to give ``draft`` its number in its run."""
    before, after = draft.header_around_number()
    writer = count.writer or int.from_bytes(os.urandom(8), "big") >> 1 | 1
    return [
        int8(writer), before, after, int8(count.number), int8(count.seq),
        YES if count.writer > 0 else NO,
    ]  # fmt: skip
