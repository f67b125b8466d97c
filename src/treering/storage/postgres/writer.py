"""Appending: one event in one round trip, several in one transaction."""

from __future__ import annotations

import contextlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from psycopg.errors import UniqueViolation

from treering.errors import Conflict, InvalidInput
from treering.model.events import SCHEMA_VERSION
from treering.model.scopes import Scope
from treering.storage.encoding import id_key
from treering.storage.postgres.batch import Batch, header_of, moved_on, stored_id
from treering.storage.postgres.connections import enter_scope
from treering.storage.postgres.cuts import find_parent, no_such_seq
from treering.storage.postgres.id_cache import open_scope
from treering.storage.repeats import taken
from treering.storage.runs import RUN_OPEN, check_run, state_after
from treering.storage.sealing import is_sealable, stored_content

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft
    from treering.model.events import Header
    from treering.storage.postgres.connections import Connection
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.reader import Reader
    from treering.storage.postgres.server import Server

_APPEND: Final = f"SELECT * FROM append_event({', '.join(['%s'] * 32)})"

ATTEMPTS_MAX: Final = 3
COPY_EVENTS_MIN: Final = 100
"""From so many events on, COPY is worth that its transaction cannot be sent in one go."""

Result = TypeVar("Result")


class AppendOutcome(IntEnum):
    """What append_event says became of an event."""

    APPENDED = 0
    REPEATED = 1
    NO_SESSION = 2
    MOVED_ON = 3
    RUN_STARTED = 4
    RUN_OVER = 5
    SEALED_ANEW = 6


class Writer:
    """Carries out appends on connections of the pool."""

    def __init__(self, server: Server, known: IdCache, reader: Reader, vault: Vault) -> None:
        self.server = server
        self._vault = vault
        self.known = known
        self.reader = reader

    def append(self, drafts: Sequence[Draft], *, expected_seq: int | None) -> list[Header]:
        """Record all of ``drafts`` durably and in order, or none of them."""
        one = (
            drafts[0]
            if len(drafts) == 1 and drafts[0].blob is None and not drafts[0].is_first
            else None
        )

        def work(connection: Connection, again: bool) -> list[Header]:  # noqa: FBT001
            for _ in range(ATTEMPTS_MAX):
                try:
                    header = one and self._append_one(connection, one, expected_seq, again=again)
                    if header:
                        return [header]
                    return self._append_all(connection, drafts, expected_seq, again=again)
                except UniqueViolation:
                    # Somebody else recorded one of these ids at the same moment.
                    again = True
            return self._append_all(connection, drafts, expected_seq, again=True)

        return self.server.write(work, drafts[0].scope, [draft.event_id for draft in drafts])

    def _append_one(
        self, connection: Connection, draft: Draft, expected_seq: int | None, *, again: bool
    ) -> Header | None:
        """Record one event in one round trip; return None if that cannot be."""
        if not draft.counted:
            return self._append_known(connection, draft, expected_seq, again=again)
        at_seq = expected_seq
        if draft.kind == "run.started":
            draft.number_after(0)  # Its run is new, or it is refused.
        elif (at_seq := self._number(draft, expected_seq)) is None:
            return None
        try:
            # The number is right as long as nobody has written to the session since.
            header = self._append_known(connection, draft, at_seq, again=again)
        except Conflict:
            if expected_seq is not None:
                raise
            return None
        if header is not None and header.content_digest == draft.content_digest:
            run = (draft.scope, draft.session_id, draft.run_id or "")
            self.known.note_run_seq(*run, header.run_seq or 0, header.seq)
        return header

    def _append_known(
        self, connection: Connection, draft: Draft, expected_seq: int | None, *, again: bool
    ) -> Header | None:
        """Record one event of a session that is known; return None if it is not."""
        place = self.known.places.get((draft.scope, draft.session_id))
        if place is None or self._may_be_gone(connection, draft, place[2]):
            return None
        lock, session, scope_key, session_key = place
        (
            _, scope, _, kind, source, origin, run_id, run_seq, turn_id,
            agent_id, user_id, ts_ms, recorded_ms, _, summary, _,
        ) = draft.fields  # fmt: skip
        key, name, flags = stored_id(draft, scope_key)
        salt: bytes | None = draft.salt
        payload, sealed = draft.payload, self.known.sealed.get(scope)
        if sealed is None or (sealed and payload is not None and not draft.wordless):
            return None
        scope_lock = self.known.lock_of(scope, "") if sealed else 0
        if sealed and payload is not None and is_sealable(kind):
            secret = self._vault.in_use(scope)
            salt, payload, _, _ = stored_content(
                secret, (scope, scope_key), key, salt, payload, None
            )
        elif (
            payload is not None
            and is_sealable(kind)
            and (scope not in self.known.boxless or self._vault.has_sealed(scope))
        ):
            return None  # The scope may have been sealed meanwhile: that is looked at under a lock.
        row = connection.execute(
            _APPEND,
            (
                lock, scope_lock, connection.epoch, session, again or draft.made_id is None,
                expected_seq, session_key, sealed, key, name, scope, kind, source, origin, run_id,
                run_seq, turn_id, agent_id, user_id, ts_ms, recorded_ms, flags, SCHEMA_VERSION,
                draft.payload_bytes, summary, draft.refs, payload, salt, draft.content_digest,
                draft.header_digest, state_after(kind), kind == "run.started",
            ),
            binary=True,
        ).fetchone()  # fmt: skip
        if row is None:
            raise AssertionError
        outcome, position, seq, last = row
        match outcome:
            case AppendOutcome.APPENDED:
                return header_of(draft, position, seq, last)
            case AppendOutcome.REPEATED:
                return self._repeated(connection, draft, scope_key)
            case AppendOutcome.MOVED_ON:
                raise moved_on(draft, seq - 1, expected_seq or 0)
            case AppendOutcome.RUN_STARTED | AppendOutcome.RUN_OVER:
                check_run(draft, RUN_OPEN if outcome == AppendOutcome.RUN_STARTED else 1)
        # The scope was sealed meanwhile, or has another key, or another ledger stands in its place.
        self.known.forget()
        return None

    def _number(self, draft: Draft, expected_seq: int | None) -> int | None:
        """Give ``draft`` its number in its run; return the seq of its session at which it holds.

        Return None if that is not known: then the server has to be asked first.
        """
        noted = self.known.last_run_seq(draft.scope, draft.session_id, draft.run_id or "")
        if noted is None or expected_seq not in {None, noted[1]}:
            return None
        try:
            draft.number_after(noted[0])
        except InvalidInput:
            return None  # It is taken, unless it is that of the same event.
        return noted[1]

    def _may_be_gone(self, connection: Connection, draft: Draft, scope_key: bytes) -> bool:
        """Whether an id may be that of something that is gone: the server alone cannot tell."""
        if draft.made_id is not None:
            return False
        ids = {id_key(scope_key, draft.event_id)[0]: draft.event_id}
        return bool(self.reader.hiding(connection, Scope(draft.scope), ids))

    def _repeated(self, connection: Connection, draft: Draft, scope_key: bytes) -> Header | None:
        key = id_key(scope_key, draft.event_id)[0]
        return self.reader.repeats(connection, draft.scope, {key: draft}).get(key)

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
                known = batch.load_repeats(scope, [d for d in own if again or d.made_id is None])
                batch.open_sessions(scope, {d.session_id for d in own if d.event_id not in known})
                batch.load_runs(scope, {(d.session_id, d.run_id) for d in own if d.run_id})
                counted = {(d.session_id, d.run_id) for d in own if d.counted and d.run_id}
                batch.load_run_seqs(scope, counted)
            headers = batch.place(drafts, expected_seq)
            batch.flush(copying=copying)
            return headers

        copying = len(drafts) >= COPY_EVENTS_MIN and not self.server.walled

        # In an order that all keep to: each that gets a session is locked when it is counted.
        scopes = sorted({draft.scope for draft in drafts})
        keys = {scope: self.scope_key(connection, scope) for scope in scopes}
        places = {(draft.scope, draft.session_id) for draft in drafts}
        return self.transact(connection, places, work, copying=copying)

    def fork(self, draft: Draft, *, parent: str, seq: int) -> Header:
        """Open the session of ``draft`` as a fork of ``parent`` at ``seq``, and record ``draft``.

        Raises Conflict if the session is there already, NotFound if the parent has no such seq.
        """

        def work(connection: Connection, again: bool) -> Header:  # noqa: FBT001
            for _ in range(ATTEMPTS_MAX):
                try:
                    return self._fork(connection, draft, parent, seq, again=again)
                except UniqueViolation:
                    # Somebody else recorded the draft's id at the same moment.
                    again = True
            return self._fork(connection, draft, parent, seq, again=True)

        return self.server.write(work, draft.scope, [draft.event_id])

    def _fork(
        self, connection: Connection, draft: Draft, parent: str, seq: int, *, again: bool
    ) -> Header:
        scope, child = draft.scope, draft.session_id
        scope_key = self.known.scope_key(connection, scope)
        if scope_key is None:
            raise no_such_seq(scope, parent, seq)

        def work(batch: Batch) -> Header:
            batch.enter(scope, scope_key, [child], 1)
            found = find_parent(connection, scope, scope_key, parent, seq)
            place = batch.place_of(scope, child)
            if place is not None:
                # It is ours, if an earlier try has gone through without an answer.
                header = self._repeated(connection, draft, scope_key) if again else None
                if header is not None:
                    return header
                raise Conflict(
                    f"session {child} of {scope} is here already",
                    current_seq=place.seq,
                    hint="give the fork another session id",
                )
            if batch.load_repeats(scope, [draft] if again or draft.made_id is None else []):
                # An id whose event was erased says nothing against the draft, but is not free.
                raise taken(draft)
            batch.open_session(scope, child, parent=found)
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

        Statements are sent on without waiting for the answers to those before, unless some of
        them copy, which cannot be sent so.
        """
        batch = Batch(connection, self.known, self.reader, self._vault)
        sending = contextlib.nullcontext() if copying else connection.pipeline()
        with sending, connection.transaction():
            batch.lock(places)
            result = work(batch)
        batch.settle()
        return result

    def scope_key(self, connection: Connection, scope: Scope, key: bytes | None = None) -> bytes:
        """Return the key of a scope, which is opened if need be, with ``key`` if that is given."""
        if self.server.walled:
            enter_scope(connection, scope)
        known = self.known.scope_key(connection, scope)
        if known is not None:
            return known
        open_scope(connection, scope, key)
        made = self.known.scope_key(connection, scope)
        if made is None:
            raise AssertionError
        return made
