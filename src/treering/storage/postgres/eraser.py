"""Erasure: select events, vouch for them, blank them, and remove their bytes from the files.

An update leaves the old row in the file, and a vacuum leaves it in the gaps of its pages. Only a
rewritten table has no trace of it: VACUUM FULL rewrites one partition at a time.

Names of sessions, and of runs without events, are forgotten; all other names are in the events and
go with them. A forgotten session gets the key of its stand-in name. If the old name is used again,
it is a new session, and writers that remember the old one find it gone.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, LockNotAvailable

from treering.ledger.records import (
    FORGOTTEN,
    HIDDEN_IDS,
    ID_NOTES,
    Erased,
    Share,
    forgotten_name,
    mark_of_key,
)
from treering.model.kinds import ERASURE_KINDS, IMPORTED
from treering.model.scopes import Retention, Scope
from treering.storage.encoding import (
    ERASED,
    EXPIRED,
    NAMED,
    SPILLED,
    corrupt_on_error,
    erasure_flags,
    hidden_key,
    id_key,
    id_of,
    is_guessable,
    name_key,
)
from treering.storage.erasure_records import cover_of
from treering.storage.postgres import (
    memory_documents,
    record_keys,
    search_index,
    snapshots,
    tool_records,
)
from treering.storage.postgres.faults import is_passing, translate
from treering.storage.postgres.reader import find_note
from treering.storage.postgres.rows import fetch, note_erased, session_name
from treering.storage.postgres.schema import HASHING, SAMPLES, SCRUBBED
from treering.storage.postgres.server import LOCK_PATIENCE, Bytes, Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from treering.ledger.ports import Vault
    from treering.ledger.records import Draft, Erasure, Selection, SessionErasure
    from treering.model.receipts import Physical
    from treering.storage.postgres.batch import Batch
    from treering.storage.postgres.writer import Writer

SCRUB_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger table is rewritten only on request, for that locks it for a while."""
SCRUB_PATIENCE: Final = "2s"

_LEGACY_EXPIRED: Final = f"""
SELECT scope, array_agg(session ORDER BY session, seq), array_agg(seq ORDER BY session, seq)
FROM legacy_events AS l
JOIN events AS e USING (scope, session, seq)
WHERE l.expired AND e.flags >= {EXPIRED}
GROUP BY scope
"""
_LEGACY_REDACTED: Final = f"""
SELECT e.scope, e.event_id, e.event_name, e.flags, e.kind
FROM legacy_events AS l
JOIN events AS e USING (scope, session, seq)
WHERE NOT l.expired AND e.flags & {ERASED} <> 0 AND e.flags < {EXPIRED}
"""
_LEGACY_TABLES: Final = """
SELECT DISTINCT e.tableoid::regclass::text
FROM legacy_events AS l
JOIN events AS e USING (scope, session, seq)
"""
_FOUND: Final = "SELECT e.session, e.seq, e.link, e.kind FROM events AS e WHERE e.scope = %s"
_CHOSEN: Final = f" AND e.kind <> ALL(%s::text[]) AND e.flags & {ERASED} = 0"
_LEFT: Final = f" AND e.kind <> ALL(%s::text[]) AND e.flags < {EXPIRED}"
"""Events that may expire, redacted ones included."""
_OLDER: Final = f"""
SELECT e.session, e.seq, e.link, e.kind
FROM events AS e
WHERE e.scope = %s AND e.kind = %s AND e.ts_ms < %s AND e.flags < {EXPIRED}
  AND NOT EXISTS (
    SELECT 1 FROM runs AS r WHERE r.scope = e.scope AND r.session = e.session AND r.state = 0
  )
  AND (NOT %s OR e.session NOT IN (
    SELECT i.session FROM events AS i WHERE i.scope = %s AND i.kind = %s
  ))
"""
_COUNT_OLDER: Final = f"""
SELECT e.session, count(*), EXISTS (
    SELECT 1 FROM runs AS r WHERE r.scope = %s AND r.session = e.session AND r.state = 0
  ), %s AND e.session IN (
    SELECT i.session FROM events AS i WHERE i.scope = %s AND i.kind = %s
  )
FROM events AS e
WHERE e.scope = %s AND e.kind = %s AND e.ts_ms < %s AND e.flags < {EXPIRED}
GROUP BY e.session
"""
_AMONG: Final = """
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
RETURNING e.tableoid::regclass::text
"""
_REDACT: Final = f"""
UPDATE events AS e
SET summary = NULL, refs = NULL, payload = NULL, salt = NULL, blob = NULL, payload_bytes = 0,
    flags = (flags & ~{SPILLED}) | %s::smallint
{_AMONG}
"""
# The run stays, so that the states of runs can be derived again from the events.
_EXPIRE: Final = f"""
UPDATE events AS e
SET summary = NULL, refs = NULL, payload = NULL, salt = NULL, blob = NULL, payload_bytes = 0,
    flags = (flags & ~{SPILLED}) | %s::smallint, event_name = NULL, source = '', origin = NULL,
    run_seq = NULL, turn_id = NULL, agent_id = '', user_id = NULL, ts_ms = 0, recorded_ms = 0,
    content_digest = ''
{_AMONG}
"""
_IDS_OF: Final = """
SELECT e.event_id, e.flags
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
"""
_NOTE_KEY: Final = """
INSERT INTO cursors (scope, follower, cursor) VALUES (%s, %s, %s)
ON CONFLICT (scope, follower) DO NOTHING
"""
_HIDE: Final = """
UPDATE events AS e
SET event_id = h.hidden, flags = e.flags | %s::smallint
FROM (SELECT %s::text AS scope, * FROM unnest(%s::bytea[], %s::bytea[]) AS u (key, hidden)) AS h
WHERE e.scope = h.scope AND e.event_id = h.key
"""
_BLOBS_OF: Final = """
SELECT DISTINCT e.blob
FROM events AS e
WHERE e.scope = %s AND e.blob IS NOT NULL
  AND (e.session, e.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
"""
_DROP_BLOBS: Final = """
DELETE FROM blobs AS b
WHERE b.scope = %s AND b.key = ANY(%s)
  AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.scope = b.scope AND e.blob = b.key)
RETURNING b.tableoid::regclass::text
"""

# Only these tables: every role that erases notes tables, and could note any.
_NOTED: Final = f"""
SELECT c.relname, pg_total_relation_size(c.oid), s.since
FROM scrubs AS s
JOIN pg_class AS c ON c.relname = s.relation
LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
WHERE i.inhparent IN ({", ".join(f"'{table}'::regclass" for table in SCRUBBED)})
  OR c.oid IN ({", ".join(f"'{table}'::regclass" for table in (*HASHING, SAMPLES))})
ORDER BY c.relname
"""
# Samples that were taken of columns before these were exempted. A superuser may remove them; the
# owner, too, since PostgreSQL 18.
_SAMPLED: Final = """
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
WHERE c.relnamespace = current_schema()::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
  AND a.attstattarget = 0
"""
_DROP_SAMPLES: Final = f"""
DELETE FROM pg_statistic
WHERE (starelid, staattnum) IN (SELECT a.attrelid, a.attnum {_SAMPLED})
"""
_CLEAR_SAMPLES: Final = f"""
SELECT pg_clear_attribute_stats(s.schema, s.relation, s.column, i.inherited)
FROM (
  SELECT current_schema()::text AS schema, c.relname::text AS relation, a.attname::text AS column
  {_SAMPLED} AND c.relkind IN ('r', 'p')
) AS s
CROSS JOIN (VALUES (true), (false)) AS i (inherited)
"""
_CLEARING_VERSION: Final = 180_000
_PROJECTIONS: Final = """
SELECT
  (
    SELECT count(e.salt)
    FROM events AS e
    WHERE e.scope = %(scope)s
      AND (e.session, e.seq) IN (SELECT * FROM unnest(%(sessions)s::bigint[], %(seqs)s::bigint[]))
  ),
  (
    SELECT count(*) FROM tool_calls
    WHERE scope = %(scope)s AND session = ANY(%(sessions)s::bigint[])
  ),
  (
    SELECT count(*) FROM snapshots
    WHERE scope = %(scope)s AND session = ANY(%(sessions)s::bigint[])
  )
"""

_Found = tuple[int, int, bytes, str]
"""session, seq, link, kind"""

NOTHING: Final = Erased(by_kind={}, sessions=[], blobs_erased=0, blobs_shared=0, more=False)


class _Attempt:
    """The result of the last try, valid if it was committed."""

    def __init__(self) -> None:
        self.voucher: bytes | None = None
        self.erased = NOTHING

    def went_through(self, connection: Connection, scope: Scope) -> bool:
        """Whether the event that vouches for it is stored."""
        vouchers = fetch(
            connection,
            "SELECT 1 FROM events WHERE scope = %s AND event_id = %s",
            (scope, self.voucher),
        )
        return bool(vouchers)


class Eraser:
    """Blanks events and removes their bytes."""

    def __init__(self, writer: Writer, notify: Callable[[], None]) -> None:
        self._writer = writer
        self._server = writer.server
        self._notify = notify

    def erase(
        self,
        selection: Selection,
        *,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[SessionErasure], Draft],
    ) -> Erased:
        """Blank up to ``limit`` selected events and record what ``vouch`` says, atomically."""
        last = _Attempt()

        def vouching(cover: SessionErasure) -> Draft:
            draft = vouch(cover)
            last.voucher = draft.made_id
            return draft

        def work(connection: Connection, *, again: bool) -> Erased:
            if again and last.went_through(connection, selection.scope):
                return last.erased
            last.voucher = None
            return self._erase(connection, selection, erasure, limit, vouching, last)

        erased = self._server.write_once(work, selection.scope)
        self._notify()
        return erased

    def _erase(
        self,
        connection: Connection,
        selection: Selection,
        erasure: Erasure,
        limit: int,
        vouch: Callable[[SessionErasure], Draft],
        attempt: _Attempt,
    ) -> Erased:
        cache, scope = self._writer.cache, selection.scope
        scope_key = cache.scope_key(connection, scope)
        if scope_key is None:
            return NOTHING
        # Selected without a lock to learn the sessions, and again under their locks.
        before = self._select(connection, selection, erasure, scope_key, limit)
        sessions_found = {row[0] for row in before}
        if selection.with_name and selection.session_id is not None:
            # Perhaps only its name is left.
            sessions_found |= _named(connection, scope, scope_key, selection.session_id)
        if not sessions_found:
            return NOTHING
        found = cache.session_names(connection, scope, sessions_found)

        def work(batch: Batch) -> Erased:
            batch.enter(scope, scope_key, list(found.values()), len(found))
            # Another process may have forgotten a session since; its name may be of a new one now.
            names = {
                session: name
                for session, name in found.items()
                if (head := batch.heads.get((scope, name))) and head.session == session
            }
            rows = [
                row
                for row in self._select(connection, selection, erasure, scope_key, limit)
                if row[0] in names
            ]
            rows.sort()
            sessions = []
            for session, group in groupby(rows, key=lambda row: row[0]):
                members = [(row[1], row[2]) for row in group]
                batch.place([vouch(cover_of(names[session], members))])
                sessions.append(names[session])
            if selection.with_name and not rows:
                sessions = list(names.values())
                batch.place([vouch(cover_of(name, [])) for name in sessions])
            batch.flush()
            places = [(row[0], row[1]) for row in rows]
            stood = _projections(connection, scope, places)
            erased, shared = blank(batch, scope, places, erasure)
            left = _projections(connection, scope, places)
            attempt.erased = Erased(
                by_kind=dict(Counter(row[3] for row in rows)),
                sessions=sessions,
                blobs_erased=erased,
                blobs_shared=shared,
                more=len(before) >= limit,
                projections={name: stood[name] - left[name] for name in stood},
                named=_forget(batch, selection, scope_key, names),
            )
            return attempt.erased

        places = {(scope, name) for name in found.values()}
        erased = self._writer.transact(connection, places, work)
        if erased.named:
            cache.forget()
        return erased

    def count_expirable(self, selection: Selection) -> tuple[dict[str, int], int, int]:
        """Return how many events would expire by kind, and how many open and imported ones stay."""
        scope, cutoffs = selection.scope, selection.cutoffs or {}

        def look(connection: Connection) -> tuple[dict[str, int], int, int]:
            by_kind: Counter[str] = Counter()
            open_sessions: set[int] = set()
            imported_sessions: set[int] = set()
            for kind, cutoff in cutoffs.items():
                spares = kind in selection.kept_if_imported
                asked = (scope, spares, scope, IMPORTED, scope, kind, cutoff)
                rows = connection.execute(_COUNT_OLDER, asked, binary=True)
                for session, count, is_open, is_imported in rows:
                    if is_open:
                        open_sessions.add(session)
                    elif is_imported:
                        imported_sessions.add(session)
                    else:
                        by_kind[kind] += count
            return dict(by_kind), len(open_sessions), len(imported_sessions - open_sessions)

        return self._server.read(look, scope)

    def state(self) -> Physical:
        """Return whether tables hold bytes of erased rows, as far as this role may see."""
        return self._server.read(lambda c: "pending" if pending(c) else "done")

    def finish(self) -> Physical:
        """Rewrite tables that hold bytes of erased rows, unless that would block others."""
        if self._server.read_only:
            return "pending"
        try:
            with self._server.lend() as connection:
                return scrub(connection, bytes_max=SCRUB_BYTES_MAX)
        except psycopg.Error as error:
            if is_passing(error):
                return "pending"
            raise translate(error, self._server.address.shown) from error

    def shares(self, scope: Scope, users: Sequence[str]) -> dict[str, Share]:
        """Return the sessions that have events about ``users``, and how many."""
        asked = {"scope": scope, "users": list(users), "said": list(SAID)}
        return {
            name: Share(events=events, said=said, others=others)
            for name, events, said, others in self._server.fetch(_SHARES, asked, scope)
        }

    def forget_names(self) -> int:
        """Return 0: names that nothing refers to went with the events."""
        return 0

    def retention(self, scope: Scope) -> Retention:
        """Return the policy of the scope; empty if none was set."""
        statement = "SELECT kind, days FROM retention WHERE scope = %s"
        rows = self._server.fetch(statement, (scope,), scope)
        with corrupt_on_error(self._server.address.shown):
            return msgspec.convert(dict(rows), dict[str, int | None])

    def set_retention(self, scope: Scope, policy: Retention) -> None:
        """Set the policy of the scope."""

        def work(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM retention WHERE scope = %s AND kind <> ALL(%s::text[])",
                    (scope, list(policy)),
                )
                cursor.executemany(
                    "INSERT INTO retention (scope, kind, days) VALUES (%s, %s, %s)"
                    " ON CONFLICT (scope, kind) DO UPDATE SET days = excluded.days",
                    [(scope, kind, days) for kind, days in policy.items()],
                )

        self._server.write(work, scope)

    def legacy_redacted(self) -> list[tuple[Scope, str, str]]:
        """Return scope, id and kind of events redacted before the ledger was rekeyed."""
        rows = self._server.fetch(_LEGACY_REDACTED, ())
        return [(Scope(scope), id_of(*columns), kind) for scope, *columns, kind in rows]

    def settle_legacy(self) -> int:
        """Hide the ids of events expired before the ledger was rekeyed; return how many."""

        def work(connection: Connection) -> int:
            with connection.transaction():
                rows = connection.execute(_LEGACY_EXPIRED, binary=True).fetchall()
                for scope, sessions, seqs in rows:
                    hide_ids(connection, self._writer.vault, Scope(scope), sessions, seqs)
                note_erased(connection, [row[0] for row in connection.execute(_LEGACY_TABLES)])
                connection.execute("DELETE FROM legacy_events")
            return sum(len(seqs) for _, _, seqs in rows)

        return self._server.write(work)

    def _select(
        self,
        connection: Connection,
        selection: Selection,
        erasure: Erasure,
        scope_key: bytes,
        limit: int,
    ) -> list[_Found]:
        scope, spared = selection.scope, sorted(ERASURE_KINDS | selection.spare)
        chosen = _LEFT if erasure == "expired" else _CHOSEN
        if selection.event_ids:
            keys = [Bytes(id_key(scope_key, event_id)[0]) for event_id in selection.event_ids]
            statement = f"{_FOUND} AND e.event_id = ANY(%b){chosen}"
            return fetch(connection, statement, (scope, keys, spared))
        if selection.session_id is not None:
            session = self._writer.cache.session(connection, scope, selection.session_id)
            users = None if selection.users is None else sorted(selection.users)
            return fetch(
                connection,
                f"{_FOUND} AND e.session = %s AND e.seq <= coalesce(%s, e.seq){chosen}"
                " AND (%s::text[] IS NULL OR e.user_id = ANY(%s::text[]))"
                " ORDER BY e.seq LIMIT %s",
                (scope, session, selection.until_seq, spared, users, users, limit),
            )
        rows: list[_Found] = []
        for kind, cutoff in (selection.cutoffs or {}).items():
            if kind not in ERASURE_KINDS and len(rows) < limit:
                rows += fetch(
                    connection,
                    f"{_OLDER} ORDER BY e.ts_ms, e.position LIMIT %s",
                    (
                        *(scope, kind, cutoff),
                        *(kind in selection.kept_if_imported, scope, IMPORTED),
                        limit - len(rows),
                    ),
                )
        return rows


def blank(
    batch: Batch, scope: Scope, places: list[tuple[int, int]], erasure: Erasure
) -> tuple[int, int]:
    """Erase the content of events; return how many blobs went, and how many are still in use."""
    connection, cache = batch.connection, batch.cache
    if not places:
        return 0, 0
    sessions, seqs = [pair[0] for pair in places], [pair[1] for pair in places]
    blobs = [Bytes(row[0]) for row in fetch(connection, _BLOBS_OF, (scope, sessions, seqs))]
    statement = _EXPIRE if erasure == "expired" else _REDACT
    flags = erasure_flags(erasure)
    scope_key = cache.scope_key(connection, scope) or b""
    tool_records.lock(connection, cache, scope)
    calls, called = tool_records.touched(connection, scope, scope_key, places)
    keyed = record_keys.drop(connection, scope, sessions, seqs)
    touched = fetch(connection, statement, (flags, scope, sessions, seqs))
    if erasure == "expired":
        hide_ids(connection, batch.vault, scope, sessions, seqs)
    tool_records.fold_again(connection, scope, scope_key, calls)
    snapshots.drop(connection, cache, scope, sessions)
    unsearched = search_index.drop(connection, cache, scope, sessions, seqs)
    unshelved = memory_documents.drop(connection, cache, scope, sessions, seqs)
    erased: list[Any] = []
    if blobs:
        # A writer about to use one of them has locked it: wait, then check again.
        connection.execute(
            "SELECT 1 FROM blobs WHERE scope = %s AND key = ANY(%s) ORDER BY key FOR UPDATE",
            (scope, blobs),
        )
        erased = fetch(connection, _DROP_BLOBS, (scope, blobs))
    tables = {row[0] for row in (*touched, *erased, *unsearched)} | set(unshelved)
    tables |= {"tool_calls", "tool_extras"} if called else set()
    note_erased(connection, tables | ({"record_keys"} if keyed else set()))
    return len(erased), len(blobs) - len(erased)


def hide_ids(
    connection: Connection, vault: Vault, scope: Scope, sessions: list[int], seqs: list[int]
) -> None:
    """Hide the ids of erased events, so that nobody can confirm a guess."""
    rows = fetch(connection, _IDS_OF, (scope, sessions, seqs))
    guessable = [key for key, flags in rows if is_guessable(key, flags)]
    if guessable:
        noted = partial(find_note, connection, scope)
        secret = vault.find_id_key(scope, noted, *ID_NOTES) or vault.id_key()
        connection.execute(_NOTE_KEY, (scope, HIDDEN_IDS, mark_of_key(secret)))
        hidden = [Bytes(hidden_key(secret, key)) for key in guessable]
        connection.execute(_HIDE, (NAMED, scope, list(map(Bytes, guessable)), hidden), binary=True)


def _named(connection: Connection, scope: Scope, scope_key: bytes, name: str) -> set[int]:
    """Return the session of that name; None if the name was forgotten."""
    key = name_key(scope_key, name)
    statement = "SELECT id FROM sessions WHERE scope = %s AND key = %s AND name IS NOT NULL"
    return {row[0] for row in fetch(connection, statement, (scope, key))}


def _forget(batch: Batch, selection: Selection, scope_key: bytes, names: dict[int, str]) -> int:
    """Forget the names of sessions and runs, where asked to; return how many."""
    named = 0
    for session, name in names.items():
        if selection.with_name or selection.users is not None:
            forget_runs(batch.connection, selection.scope, session)
        if selection.with_name:
            start = (session, batch.heads[selection.scope, name].genesis)
            named += forget_name(batch.connection, selection.scope, scope_key, *start)
    return named


def _projections(
    connection: Connection, scope: Scope, places: list[tuple[int, int]]
) -> dict[str, int]:
    """Return how many entries are derived from events, or from their sessions."""
    sessions, seqs = [pair[0] for pair in places], [pair[1] for pair in places]
    asked = {"scope": scope, "sessions": sessions, "seqs": seqs}
    row = connection.execute(_PROJECTIONS, asked, binary=True).fetchone() or ()
    return dict(zip(("contents", "tool_calls", "snapshots"), row, strict=True))


def scrub(connection: Connection, *, bytes_max: int | None = None) -> Physical:
    """Rewrite the tables that hold bytes of erased rows; return whether all are done."""
    done = True
    for relation, size, since in connection.execute(_NOTED).fetchall():
        if bytes_max is not None and size > bytes_max:
            done = False
        else:
            done = _scrub_one(connection, relation, since) and done
    return "done" if done else "pending"


def pending(connection: Connection) -> list[str]:
    """Return the tables that hold bytes of erased rows."""
    return [row[0] for row in connection.execute(_NOTED)]


def _scrub_one(connection: Connection, relation: str, since: datetime) -> bool:
    report = _Report()
    connection.add_notice_handler(report.take)
    try:
        connection.execute(f"SET lock_timeout = '{SCRUB_PATIENCE}'")
        if relation == SAMPLES:
            is_clearing = connection.info.server_version >= _CLEARING_VERSION
            connection.execute(_CLEAR_SAMPLES if is_clearing else _DROP_SAMPLES)
        connection.execute(sql.SQL("VACUUM (FULL, VERBOSE) {}").format(sql.Identifier(relation)))
    except (LockNotAvailable, InsufficientPrivilege):
        return False
    finally:
        connection.remove_notice_handler(report.take)
        if not connection.closed:
            connection.execute(f"SET lock_timeout = '{LOCK_PATIENCE}'")
    if not report.written or report.left:
        return False
    # A later erasure has noted the table again.
    connection.execute("DELETE FROM scrubs WHERE relation = %s AND since = %s", (relation, since))
    return True


class _Report:
    """The notices of VACUUM about a table.

    It skips a table that this role may not rewrite, and keeps erased rows that a transaction older
    than their erasure still sees.
    """

    def __init__(self) -> None:
        self.written = False
        self.left = 0

    def take(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Read one notice."""
        match = re.match(r"\s*(\d+)", diagnostic.message_detail or "")
        if match is not None:
            self.written = True
            self.left += int(match[1])


SAID: Final = ("conversation.user", "inbox.received")
"""Kinds with the words of a user."""

_SHARES: Final = f"""
SELECT {session_name("s")}, found.events, found.said, found.others
FROM (
  SELECT
    e.session,
    count(*) FILTER (WHERE e.user_id = ANY(%(users)s::text[])) AS events,
    count(*) FILTER (
      WHERE e.user_id = ANY(%(users)s::text[]) AND e.kind = ANY(%(said)s::text[])
    ) AS said,
    count(*) FILTER (
      WHERE e.user_id <> ALL(%(users)s::text[])
        OR (e.user_id IS NULL AND e.kind = ANY(%(said)s::text[]))
    ) AS others
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.flags < {EXPIRED}
  GROUP BY e.session
) AS found
JOIN sessions AS s ON s.scope = %(scope)s AND s.id = found.session
WHERE found.events > 0
"""
_FORGET: Final = f"""
UPDATE sessions AS s
SET name = NULL, salt = NULL, key = %(key)s
WHERE s.scope = %(scope)s AND s.id = %(session)s AND s.name IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.scope = s.scope AND e.session = s.id AND e.flags < {EXPIRED}
      AND e.kind <> ALL(%(vouching)s::text[])
  )
RETURNING s.id
"""
_RUNS_GONE: Final = f"""
SELECT r.run_id, '{FORGOTTEN}' || r.first_seq
FROM runs AS r
WHERE r.scope = %s AND r.session = %s AND NOT starts_with(r.run_id, '{FORGOTTEN}')
  AND NOT EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.scope = r.scope AND e.session = r.session AND e.run_id = r.run_id
      AND e.flags < {EXPIRED}
  )
"""
_RENAME: Final = """
UPDATE {table} AS t
SET run_id = gone.name
FROM unnest(%s::text[], %s::text[]) AS gone (run_id, name)
WHERE t.scope = %s AND t.session = %s AND t.run_id = gone.run_id
RETURNING t.tableoid::regclass::text
"""
_BY_GENESIS: Final = f"""
SELECT s.genesis, {session_name("s")}
FROM sessions AS s
WHERE s.scope = %s AND s.genesis = ANY(%b)
"""


def forget_name(
    connection: Connection, scope: Scope, scope_key: bytes, session: int, genesis: bytes
) -> int:
    """Forget the name of a session without events; return 1 if it had a name."""
    key = name_key(scope_key, forgotten_name(genesis))
    asked = {"key": key, "scope": scope, "session": session, "vouching": sorted(ERASURE_KINDS)}
    if connection.execute(_FORGET, asked).fetchone() is None:
        return 0
    # By this a writer that remembers the session learns that it is gone.
    connection.execute(
        "UPDATE heads SET key = %s WHERE scope = %s AND session = %s", (key, scope, session)
    )
    note_erased(connection, ["sessions", "heads"])
    return 1


def forget_runs(connection: Connection, scope: Scope, session: int) -> None:
    """Forget the names of a session's runs that have no events."""
    gone = connection.execute(_RUNS_GONE, (scope, session)).fetchall()
    if not gone:
        return
    runs, names = [row[0] for row in gone], [row[1] for row in gone]
    touched: list[Any] = []
    for table in ("events", "runs"):
        statement = _RENAME.format(table=table)
        touched += connection.execute(statement, (runs, names, scope, session)).fetchall()
    note_erased(connection, [row[0] for row in touched])


def by_genesis(connection: Connection, scope: Scope, starts: Iterable[bytes]) -> dict[bytes, str]:
    """Return the names of sessions here by their genesis."""
    asked = [Bytes(start) for start in starts]
    rows = connection.execute(_BY_GENESIS, (scope, asked), binary=True).fetchall()
    return {bytes(genesis): name for genesis, name in rows}
