"""A cache between calls: keys of scopes, ids and names of sessions, last numbers."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from treering.ledger.chain import SALT_BYTES, genesis
from treering.storage.encoding import name_key
from treering.storage.postgres.rows import session_name
from treering.storage.postgres.sessions import Parent, find_cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.records import ForkPoint
    from treering.model.scopes import Scope
    from treering.storage.postgres.server import Connection

REMEMBERED_MAX: Final = 50_000
"""Entries of each table; a full one is emptied."""

CROWDED_APPENDS: Final = 16
"""Appends that ask the server for a session's seq, after one that expected the wrong seq."""
CROWDED_APPENDS_MAX: Final = 256
"""The same, after several that expected the wrong seq: twice as many after each."""


class CachedSession(NamedTuple):
    """What an append needs to know of its session."""

    lock: int
    """The number of its advisory lock."""
    number: int
    scope_key: bytes
    key: bytes


class RunCount(NamedTuple):
    """How far a run had come when we last wrote to it."""

    number: int = 0
    """Its last number; 0 if that is not known."""
    seq: int = 0
    """The seq of its session at that time."""
    writer: int = 0
    """The number by which the run was ours alone; 0 if it was not."""


_UNKNOWN: Final = RunCount()


class IdCache:
    """Keys of scopes, and ids and names of sessions."""

    def __init__(self, lock_key: bytes) -> None:
        self._lock_key = lock_key
        self.forget()

    def forget(self) -> None:
        """Empty the cache; everything is read again."""
        self._scopes: dict[str, bytes] = {}
        self._names: dict[tuple[str, int], str] = {}
        self.sealed: dict[str, int] = {}
        """The round of each scope's seal; 0 if it is not sealed."""
        self.boxless: set[str] = set()
        """Scopes whose latest events hold nothing sealed."""
        self.sessions: dict[tuple[str, str], CachedSession] = {}
        """Sessions by the names of scope and session."""
        self._runs: dict[tuple[str, str, str], RunCount] = {}
        """Runs by the names of scope, session and run."""
        self.seqs: dict[tuple[str, str], int] = {}
        """The seqs of our last appends to sessions, except those that others write to as well."""
        self._crowded: dict[tuple[str, str], tuple[int, int]] = {}
        """Sessions that others write to as well: the appends left of those that expect no seq."""
        self._cuts: dict[tuple[str, str], ForkPoint | None] = {}

    def lock_of(self, scope: str, session_id: str) -> int:
        """Return the number of the advisory lock that orders a session's appends.

        That of no session is the scope's own, which sealing writers share.
        """
        text = f"{scope}\0{session_id}".encode()
        digest = blake2b(text, digest_size=8, key=self._lock_key).digest()
        return int.from_bytes(digest, "big", signed=True)

    def scope_key(self, connection: Connection, scope: Scope) -> bytes | None:
        """Return the key of a scope; None if the scope does not exist."""
        key = self._scopes.get(scope)
        if key is None:
            row = connection.execute(
                "SELECT s.key, coalesce(seals.round, 0) FROM scopes AS s"
                " LEFT JOIN seals ON seals.scope = s.scope WHERE s.scope = %s",
                (scope,),
                binary=True,
            ).fetchone()
            if row is None:
                return None
            if len(self._scopes) >= REMEMBERED_MAX:
                self._scopes, self.sealed = {}, {}
            key, self.sealed[scope] = row
            self._scopes[scope] = key
        return key

    def remember_session(self, scope: str, session_id: str, session: int, scope_key: bytes) -> None:
        """Remember a committed session."""
        if len(self.sessions) >= REMEMBERED_MAX:
            self.sessions = {}
        key = name_key(scope_key, session_id)
        lock = self.lock_of(scope, session_id)
        self.sessions[scope, session_id] = CachedSession(lock, session, scope_key, key)
        self._remember_name(scope, session, session_id)

    def take_run(self, scope: str, session_id: str, run_id: str) -> RunCount:
        """Return how far a run has come to the caller alone, who notes it when that is known again.

        Two threads that count one run from the same number would give it twice.
        """
        return self._runs.pop((scope, session_id, run_id), _UNKNOWN)

    def note_run(self, scope: str, session_id: str, run_id: str, count: RunCount) -> None:
        """Note how far a run has come."""
        if len(self._runs) >= REMEMBERED_MAX:
            self._runs = {}
        self._runs[scope, session_id, run_id] = count

    def leave_runs(self) -> None:
        """Leave all runs to the process that this one was forked from."""
        self._runs = {}

    def note_seq(self, scope: str, session_id: str, seq: int) -> None:
        """Note the seq of our last append to a session."""
        session = (scope, session_id)
        crowded = self._crowded.get(session)
        if crowded is not None:
            left, appends = crowded
            if left:
                self._crowded[session] = (left - 1, appends)
            else:
                self._crowded.pop(session, None)
            if left > 1:
                return
        if len(self.seqs) >= REMEMBERED_MAX:
            self.seqs = {}
        self.seqs[session] = seq

    def lose_seq(self, scope: str, session_id: str) -> None:
        """Note that a session was not at the seq we expected: somebody else writes to it."""
        self.seqs.pop((scope, session_id), None)
        if len(self._crowded) >= REMEMBERED_MAX:
            self._crowded = {}
        _, appends = self._crowded.get((scope, session_id), (0, CROWDED_APPENDS // 2))
        appends = min(2 * appends, CROWDED_APPENDS_MAX)
        self._crowded[scope, session_id] = (appends, appends)

    def cut(self, connection: Connection, scope: Scope, session_id: str) -> ForkPoint | None:
        """Return where a session was forked; None if it was not, or does not exist."""
        cuts = self._cuts
        if (scope, session_id) in cuts:
            return cuts[scope, session_id]
        session = self.session(connection, scope, session_id)
        if session is None:
            return None  # It may still be created, as a fork.
        fork_point = find_cut(connection, scope, session)
        if len(cuts) >= REMEMBERED_MAX:
            self._cuts = cuts = {}
        cuts[scope, session_id] = fork_point
        return fork_point

    def _remember_name(self, scope: str, session: int, name: str) -> None:
        # Never emptied in place: another thread may be reading it.
        if len(self._names) >= REMEMBERED_MAX:
            self._names = {}
        self._names[scope, session] = name

    def session(self, connection: Connection, scope: Scope, session_id: str) -> int | None:
        """Return the id of a session; None if it does not exist."""
        cached = self.sessions.get((scope, session_id))
        if cached is not None:
            return cached.number
        scope_key = self.scope_key(connection, scope)
        if scope_key is None:
            return None
        row = connection.execute(
            "SELECT id FROM sessions WHERE scope = %s AND key = %s",
            (scope, name_key(scope_key, session_id)),
            binary=True,
        ).fetchone()
        if row is None:
            return None
        self.remember_session(scope, session_id, row[0], scope_key)
        return int(row[0])

    def session_names(
        self, connection: Connection, scope: Scope, sessions: Iterable[int]
    ) -> dict[int, str]:
        """Return the names of ``sessions``."""
        remembered = self._names
        names = {session: remembered.get((scope, session)) for session in set(sessions)}
        unknown = [session for session, name in names.items() if name is None]
        if unknown:
            for session, name in _read_names(connection, scope, unknown):
                names[session] = name
                self._remember_name(scope, session, name)
        return {session: name for session, name in names.items() if name is not None}

    def look_again(self, connection: Connection, scope: Scope, sessions: Iterable[int]) -> bool:
        """Whether one of ``sessions`` has another name than we remember; if so, empty the cache."""
        remembered = {session: self._names.get((scope, session)) for session in sessions}
        names = dict(_read_names(connection, scope, list(remembered)))
        changed = any(
            name not in {None, names.get(session)} for session, name in remembered.items()
        )
        if changed:
            self.forget()
        return changed


def _read_names(connection: Connection, scope: Scope, sessions: list[int]) -> list[tuple[int, str]]:
    return connection.execute(
        f"SELECT s.id, {session_name('s')} FROM sessions AS s"
        " WHERE s.scope = %s AND s.id = ANY(%s::bigint[])",
        (scope, sessions),
        binary=True,
    ).fetchall()


def open_session(
    connection: Connection,
    scope: Scope,
    scope_key: bytes,
    name: str,
    *,
    salt: bytes | None = None,
    parent: Parent | None = None,
    forgotten: bytes | None = None,
) -> tuple[int, bytes]:
    """Add a session with its head; return its id and genesis. Its lock must be held.

    With a parent it is a fork. ``forgotten`` is the genesis of a session whose name was forgotten
    in the ledger it comes from.
    """
    cut = None if parent is None else parent.cut
    key = name_key(scope_key, name)
    if forgotten is None:
        salt = salt or os.urandom(SALT_BYTES)
    first = forgotten or genesis(salt or b"", scope, name, cut)
    name_and_salt = (None, None) if forgotten else (name, salt)
    row = connection.execute(
        "WITH made AS ("
        "  INSERT INTO sessions (scope, key, name, salt, genesis) VALUES (%s, %s, %s, %s, %s)"
        "  RETURNING scope, id, key, genesis"
        ") INSERT INTO heads (scope, session, seq, key, link)"
        " SELECT scope, id, %s, key, genesis FROM made RETURNING session",
        (scope, key, *name_and_salt, first, 0 if cut is None else cut.seq),
        binary=True,
    ).fetchone()
    if row is None:
        raise AssertionError
    if parent is not None:
        connection.execute(
            "INSERT INTO forks (scope, session, parent, seq, link) VALUES (%s, %s, %s, %s, %s)",
            (scope, row[0], parent.session, parent.cut.seq, parent.cut.link),
        )
    return int(row[0]), first


def open_scope(connection: Connection, scope: Scope, key: bytes | None = None) -> None:
    """Add a scope unless it exists."""
    connection.execute(
        "INSERT INTO scopes (scope, key) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (scope, key or os.urandom(32)),
    )
