"""What this process remembers of the file between calls.

Names, scopes and sessions are only added, until a user is forgotten: that is counted in the
file, and then all is read again. Heads, runs and which scopes are sealed change when another
process writes; they are dropped, or read again, whenever the file has moved under us.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from treering.ledger.chain import SALT_BYTES, genesis, with_session
from treering.ledger.records import forgotten_name
from treering.storage.encoding import name_key
from treering.storage.sqlite import indexes
from treering.storage.sqlite.rows import (
    fetch_all,
    fetch_one,
    fetch_value,
    key_of_names,
    session_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import apsw

    from treering.ledger.records import ForkPoint
    from treering.storage.sealing import Opener
    from treering.storage.sqlite.database import Database

REMEMBERED_MAX: Final = 50_000
"""The most entries of each table; a full one is emptied."""
SEALED_MARK: Final = "sealed:"
"""Followed by its name, the mark of a scope whose payloads are sealed."""
HIDES: Final = "SELECT 1 FROM ledger WHERE name = 'hidden_ids'"
_FORGETTINGS: Final = "SELECT value FROM ledger WHERE name = 'forgettings'"
_ADD_NAME: Final = """
INSERT INTO names (key, name)
VALUES (?, ?)
ON CONFLICT (key) DO NOTHING
"""
_ENTER_SESSIONS: Final = "UPDATE scopes SET sessions = sessions + ?, digest = ? WHERE id = ?"
_SET_COUNTED: Final = "UPDATE ledger SET value = ? WHERE name = 'sessions'"


class IdCache:
    """A write-through memory of scopes, sessions, names, heads and runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._epoch = -1
        self.version = -1
        """The version of the file, as the writing connection counts it, that all this is of."""
        self._name_key = b""
        self._forgettings = 0
        self.generation = 0
        """Goes up whenever another writer may have written."""
        self.absent: Final[dict[tuple[str, str], tuple[bytes, bool]]] = {}
        """Scopes and ids that were looked for and are of no event yet, with their keys, and whether
        those are hashes."""
        self.forget()

    def forget(self) -> None:
        """Drop everything; it will be read again."""
        self.scopes: dict[str, tuple[int, bytes]] = {}
        self.sessions: dict[tuple[int, str], int] = {}
        self.names: dict[str, int] = {}
        self.heads: dict[int, tuple[int, bytes]] = {}
        self.runs: dict[tuple[int, int], int] = {}
        self.run_seqs: dict[tuple[int, int], tuple[int, int, int]] = {}
        """The last number of runs, with the seq and the generation at which that was so."""
        self.places: dict[tuple[str, str], tuple[int, bytes, int]] = {}
        """Scope id, scope key and session id by their names."""
        self.sealed: frozenset[str] = frozenset()
        """Scopes whose payloads are sealed."""
        self.unsealed: set[str] = set()
        """Scopes that were found never to have been sealed."""
        self.boxless: set[str] = set()
        """Scopes whose latest events were found to hold nothing sealed."""
        self.displaced: list[tuple[int, bytes, str, bytes]] | None = None
        """Scopes that lie under another name than their sessions began in, each with one of them:
        its salt, name and genesis. None until they are looked for, once in each process."""
        self.counted = -1
        """The last session that is counted."""
        self.digests: dict[int, bytes] = {}
        """The digests of the sets of sessions up to ``counted``, by scope."""
        self.hides = False
        """Whether ids of expired events are hashed under a key that is stored elsewhere."""
        self.position = -1
        self.indexed = 0
        self.tail: set[tuple[int, bytes]] | None = None
        """Scopes and ids of the events in no index yet; None until they are looked for."""
        self.absent.clear()
        self.version = -1

    def refresh(self, connection: apsw.Connection) -> None:
        """Drop what another writer may have changed. Call inside a write transaction."""
        if connection.data_version() == self.version and self._epoch == self._database.epoch:
            return
        if self._epoch != self._database.epoch:
            self._epoch = self._database.epoch
            self.forget()
        forgettings = fetch_value(connection, _FORGETTINGS) or 0
        if self._forgettings != forgettings:
            self._forgettings = forgettings
            self.drop_names()
        self.heads.clear()
        self.runs.clear()
        self.absent.clear()
        self.generation += 1
        self.counted = -1
        self.digests.clear()
        self.position = fetch_value(connection, "SELECT max(position) FROM events") or 0
        self.indexed = indexes.indexed_position(connection)
        self.tail = None
        self.sealed = sealed_scopes(connection)
        self.unsealed.clear()
        self.boxless -= self.sealed
        self.hides = bool(fetch_value(connection, HIDES))

    def tail_ids(self, connection: apsw.Connection) -> set[tuple[int, bytes]]:
        """Return the scopes and ids of the events that are in no index yet."""
        if self.tail is None:
            self.tail = indexes.tail_ids(connection)
        return self.tail

    def note_absent(self, scope: str, keyed: Mapping[str, tuple[bytes, bool]]) -> None:
        """Remember ids, with their keys, that the writing connection has just looked for in vain.

        Whoever adds one takes it out again; what another writer adds shows in the version.
        """
        if len(self.absent) + len(keyed) > REMEMBERED_MAX:
            self.absent.clear()
        self.absent.update({(scope, event_id): key for event_id, key in keyed.items()})

    def drop_names(self) -> None:
        """Drop the names of sessions and all others; some may have been forgotten."""
        self.sessions.clear()
        self.names.clear()
        self.places.clear()

    def trim(self) -> None:
        """Forget names, heads and runs that have grown too many. Call before they are used."""
        for remembered in (
            self.names,
            self.sessions,
            self.places,
            self.heads,
            self.runs,
            self.run_seqs,
        ):
            if len(remembered) > REMEMBERED_MAX:
                remembered.clear()

    def scope(
        self, connection: apsw.Connection, name: str, *, create: bool, key: bytes | None = None
    ) -> tuple[int, bytes]:
        """Return the id and key of a scope; id 0 if it is not there.

        One that is created gets ``key``, if that is given.
        """
        scope = self.scopes.get(name)
        if scope is None:
            row = fetch_one(connection, "SELECT id, key FROM scopes WHERE name = ?", (name,))
            if row is None and create:
                row = fetch_one(
                    connection,
                    "INSERT INTO scopes (name, key) VALUES (?, ?) RETURNING id, key",
                    (name, key or os.urandom(32)),
                )
                count_scopes(connection)
            if row is None:
                return 0, b""
            scope = self.scopes[name] = (row[0], row[1])
        return scope

    def session(self, connection: apsw.Connection, scope: int, key: bytes, name: str) -> int:
        """Return the id of a session; 0 if it is not there."""
        session = self.sessions.get((scope, name))
        if session is None:
            session = fetch_value(
                connection,
                "SELECT id FROM sessions WHERE scope = ? AND key = ?",
                (scope, name_key(key, name)),
            )
            if session is None:
                return 0
            self.sessions[scope, name] = session
        return session

    def open_session(
        self,
        connection: apsw.Connection,
        scope: tuple[int, bytes],
        scope_name: str,
        name: str,
        salt: bytes | None = None,
        cut: ForkPoint | None = None,
        *,
        forgotten: bytes | None = None,
    ) -> int:
        """Add a session and return its id; a fork, if it has a cut.

        ``forgotten`` is the genesis of one whose name was forgotten where it comes from.
        """
        if forgotten is None:
            salt = salt or os.urandom(SALT_BYTES)
        first = forgotten or genesis(salt or b"", scope_name, name, cut)
        session: int = fetch_value(
            connection,
            "INSERT INTO sessions (scope, key, name, salt, genesis) VALUES (?, ?, ?, ?, ?)"
            " RETURNING id",
            (
                *(scope[0], name_key(scope[1], name)),
                *((None, None) if forgotten else (name, salt)),
                first,
            ),
        )
        seq = 0
        if cut is not None:
            seq = cut.seq
            connection.execute(
                "INSERT INTO forks (session, parent, seq, link) VALUES (?, ?, ?, ?)",
                (session, self.session(connection, *scope, cut.parent), seq, cut.link),
            )
        connection.execute(
            "INSERT INTO heads (session, seq, link) VALUES (?, ?, ?)", (session, seq, first)
        )
        self._count_session(connection, scope[0], session, first)
        self.sessions[scope[0], name] = session
        self.heads[session] = (seq, first)
        return session

    def _count_session(
        self, connection: apsw.Connection, scope: int, session: int, first: bytes
    ) -> None:
        """Enter a session that was just added into the set of its scope."""
        before = self.digests.get(scope)
        if before is None or self.counted != session - 1:
            self.counted, digests = count_sessions(connection)
            self.digests.update(digests)
            return
        self.counted, digest = session, with_session(before, first)
        self.digests[scope] = digest
        connection.execute(_ENTER_SESSIONS, (1, digest, scope))
        connection.execute(_SET_COUNTED, (session,))

    def place(
        self, connection: apsw.Connection, scope_name: str, name: str
    ) -> tuple[int, bytes, int]:
        """Return scope id, scope key and session id, adding what is new."""
        scope = self.scope(connection, scope_name, create=True)
        session = self.session(connection, *scope, name)
        if not session:
            session = self.open_session(connection, scope, scope_name, name)
        address = self.places[scope_name, name] = (*scope, session)
        return address

    def head(self, connection: apsw.Connection, session: int) -> tuple[int, bytes]:
        """Return the last seq and link of a session."""
        head = self.heads.get(session)
        if head is None:
            row = fetch_one(connection, "SELECT seq, link FROM heads WHERE session = ?", (session,))
            head = self.heads[session] = (row[0], row[1]) if row else (0, b"")
        return head

    def name(self, connection: apsw.Connection, text: str) -> int:
        """Return the id of a name, adding it if it is new."""
        number = self.names.get(text)
        if number is None:
            if not self._name_key:
                self._name_key = key_of_names(connection)
            key = name_key(self._name_key, text)
            # Most names that are not remembered are ids of runs and turns, and new. RETURNING would
            # take half as long again.
            connection.execute(_ADD_NAME, (key, text))
            number = (
                connection.last_insert_rowid()
                if connection.changes()
                else fetch_value(connection, "SELECT id FROM names WHERE key = ?", (key,))
            )
            self.names[text] = number
        return number

    def run_state(self, connection: apsw.Connection, session: int, run: int) -> int | None:
        """Return the state of a run, None if it is new to the session."""
        state = self.runs.get((session, run))
        if state is None:
            state = fetch_value(
                connection, "SELECT state FROM runs WHERE session = ? AND run = ?", (session, run)
            )
            if state is not None:
                self.runs[session, run] = state
        return state


def count_scopes(connection: apsw.Connection) -> None:
    """Count the scopes that were opened since they were last counted."""
    # By their ids, which are given in order and never free again: so those are counted, too, that a
    # program opened which did not know that they are.
    connection.execute(
        "UPDATE ledger SET value = (SELECT coalesce(max(id), 0) FROM scopes) WHERE name = 'scopes'"
    )


def count_sessions(connection: apsw.Connection) -> tuple[int, dict[int, bytes]]:
    """Enter the sessions opened since the last count into the sets of their scopes.

    Return the last session that is counted, and the digests of the sets that have changed.
    """
    counted = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'sessions'")
    if counted is None:
        return -1, {}  # Somebody removed the count: only verify may say so.
    sessions = connection.execute(
        "SELECT n.id, n.genesis, s.id, s.digest"
        " FROM sessions AS n JOIN scopes AS s ON s.id = n.scope WHERE n.id > ? ORDER BY n.id",
        (counted,),
    )
    sets: dict[int, tuple[int, bytes]] = {}
    for number, first, scope, digest in sessions:
        count, before = sets.get(scope, (0, digest))
        sets[scope] = (count + 1, with_session(before, first))
        counted = number
    connection.executemany(
        _ENTER_SESSIONS, [(count, digest, scope) for scope, (count, digest) in sets.items()]
    )
    connection.execute(_SET_COUNTED, (counted,))
    return counted, {scope: digest for scope, (_, digest) in sets.items()}


def sealed_scopes(connection: apsw.Connection) -> frozenset[str]:
    """Return the scopes whose payloads are sealed."""
    marks = fetch_all(
        connection,
        "SELECT substr(name, ?) FROM ledger WHERE name > ? AND name < ?",
        (len(SEALED_MARK) + 1, SEALED_MARK, SEALED_MARK[:-1] + ";"),
    )
    return frozenset(scope for (scope,) in marks)


class Texts(dict[int, str]):
    """Names by id, read from the file when first asked for."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    def __missing__(self, name: int) -> str:
        """Read the name from the file; 0 is the name that an expired event has lost."""
        if name == 0:
            return ""
        with self._database.reading() as connection:
            row = fetch_one(connection, "SELECT name, key FROM names WHERE id = ?", (name,))
        if len(self) > REMEMBERED_MAX:
            self.clear()
        text, key = row or (None, b"")
        self[name] = forgotten_name(key) if text is None else _text(text)
        return self[name]


class SessionTexts(dict[int, tuple[str, str]]):
    """Scope and session names by id, read from the file when first asked for."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    def __missing__(self, session: int) -> tuple[str, str]:
        """Read the names from the file."""
        with self._database.reading() as connection:
            row = fetch_one(
                connection,
                f"SELECT scopes.name, {session_name('sessions')} FROM sessions"
                " JOIN scopes ON scopes.id = sessions.scope WHERE sessions.id = ?",
                (session,),
            )
        if len(self) > REMEMBERED_MAX:
            self.clear()
        self[session] = (_text(row[0]), _text(row[1])) if row is not None else ("", "")
        return self[session]


class Blobs(dict[int, bytes | None]):
    """Payloads of blobs by id, read when asked for and not kept."""

    def __init__(self, database: Database, opener: Opener) -> None:
        super().__init__()
        self._database = database
        self._opener = opener

    def __missing__(self, blob: int) -> bytes | None:
        """Read the blob from the file; None if it was erased, or its key destroyed."""
        with self._database.reading() as connection:
            row = fetch_one(
                connection,
                "SELECT scopes.name, blobs.key, blobs.body FROM blobs"
                " JOIN scopes ON scopes.id = blobs.scope WHERE blobs.id = ?",
                (blob,),
            )
        return None if row is None or row[2] is None else self._opener.blob(*row)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is in the place of a name")
    return value
