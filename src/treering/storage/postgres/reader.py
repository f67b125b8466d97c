"""Reading: short pages, each by its index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from treering.ledger.records import HIDDEN_IDS, Draft, EventLocation, Record
from treering.model.events import Event, Header
from treering.model.kinds import ERASURE_KINDS, RUN_ENDS
from treering.model.queries import FollowedEvents, Mark, Query, SessionTally
from treering.storage.encoding import (
    ERASED,
    EXPIRED,
    NAMED,
    are_guessable,
    bounded,
    corrupt_on_error,
    either_key,
    id_key,
    id_key_range,
    session_tally,
)
from treering.storage.postgres import rows, runs
from treering.storage.postgres.following import AFTER, IN_ORDER, MARK, SETTLED, place
from treering.storage.postgres.rows import (
    BLOB,
    EVENT,
    FLAGS,
    HEADER,
    KIND,
    PAYLOAD_BYTES,
    RECORD,
    SESSION,
    WIDTH,
    fetch,
)
from treering.storage.postgres.server import Bytes, Connection, Server
from treering.storage.repeats import taken
from treering.storage.runs import events_of_run, open_run, state_after
from treering.storage.sealing import Opener

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from treering.ledger.ports import Vault
    from treering.model.scopes import Scope
    from treering.model.views import OpenRun
    from treering.storage.encoding import Row
    from treering.storage.postgres.id_cache import IdCache

LAST: Final = 2**62
"""After every seq and position."""
RECORDS_PAGE: Final = 500
PAGES_PATIENCE: Final = "1h"
"""How long the reader of an export may take for a page."""

Item = TypeVar("Item", bound=Header)

_COLUMNS: Final[dict[type[Header], str]] = {Header: HEADER, Event: EVENT}
"""What is read of an event: its header, or its payload, too."""

_FOLLOWED: Final = f"FROM events AS e WHERE e.scope = %(scope)s AND {AFTER} AND {SETTLED}"
_IN_ORDER: Final = f"{IN_ORDER} LIMIT %(limit)s"
LIVE: Final = {
    part: f"SELECT {columns}, {MARK} {_FOLLOWED} AND e.flags < {EXPIRED} {_IN_ORDER}"
    for part, columns in _COLUMNS.items()
}
# Ordered, although there is only one row: a plan made while the table was empty may
# otherwise use any index of the scope.
FIND: Final = (
    f"SELECT {EVENT} FROM events AS e WHERE e.scope = %s AND e.event_id BETWEEN %s AND %s"
    f" AND e.flags < {EXPIRED} ORDER BY e.event_id LIMIT 1"
)
KNOWN: Final = (
    "SELECT e.event_id, e.session, e.seq, e.ts_ms FROM events AS e"
    " WHERE e.scope = %s AND e.event_id = ANY(%s::bytea[])"
)
_ID_RANGE: Final = (
    "SELECT e.event_id FROM events AS e WHERE e.scope = %s AND e.event_id BETWEEN %s AND %s"
    f" AND e.flags & {NAMED} = 0 ORDER BY e.event_id LIMIT %s"
)
_FLUSHED: Final = """
SELECT CASE
  WHEN pg_is_in_recovery() THEN true
  ELSE pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()
END
"""
ANYTHING: Final = f"SELECT 1 {_FOLLOWED} AND e.flags < {EXPIRED} {_IN_ORDER}"
END: Final = (
    f"SELECT {MARK}, e.position {_FOLLOWED}"
    " ORDER BY e.epoch DESC, e.xid DESC, e.position DESC LIMIT %(limit)s"
)
RECORDS: Final = (
    f"SELECT {RECORD} FROM events AS e WHERE e.scope = %(scope)s AND e.session = %(session)s"
    " AND e.seq > %(after)s ORDER BY e.seq LIMIT %(limit)s"
)
_COVERS: Final = (
    f"SELECT {EVENT} FROM events AS e WHERE e.scope = %(scope)s AND e.session = %(session)s"
    f" AND e.kind = ANY(%(kinds)s::text[]) AND e.flags < {EXPIRED} ORDER BY e.seq"
)
_BOUNDS: Final = (
    "SELECT first_seq, coalesce(last_seq, %(last)s) FROM runs"
    " WHERE scope = %(scope)s AND session = %(session)s AND run_id = %(run)s"
)
_ALL_RECORDS: Final = (
    f"SELECT {RECORD} FROM events AS e WHERE e.scope = %s"
    " AND (e.epoch, e.xid, e.position) >= (%s::int, %s::text::xid8, %s)"
    " ORDER BY e.epoch, e.xid, e.position"
)
_SESSION_RECORDS: Final = (
    f"SELECT {RECORD} FROM events AS e WHERE e.scope = %s AND e.session = %s AND e.seq > %s"
    " ORDER BY e.seq"
)
_FIRST_UNKNOWN: Final = """
SELECT e.epoch, e.xid::text::bigint, e.position
FROM sessions AS s
LEFT JOIN unnest(%s::text[], %s::bigint[]) AS known (name, seq) ON known.name = s.name
LEFT JOIN forks AS f ON f.scope = s.scope AND f.session = s.id
JOIN events AS e
  ON e.scope = s.scope AND e.session = s.id AND e.seq = greatest(known.seq, f.seq, 0) + 1
WHERE s.scope = %s
ORDER BY e.epoch, e.xid, e.position
LIMIT 1
"""


def find_note(connection: Connection, scope: Scope, name: str) -> str | None:
    """Return the cursor of that name; None if the scope has none."""
    row = connection.execute(
        "SELECT cursor FROM cursors WHERE scope = %s AND follower = %s", (scope, name)
    ).fetchone()
    return None if row is None else str(row[0])


EVENTS_AT: Final = f"""
SELECT {EVENT}
FROM unnest(%(seqs)s::bigint[]) AS wanted (seq)
CROSS JOIN LATERAL (
  SELECT *
  FROM events AS e
  WHERE e.scope = %(scope)s AND e.session = %(session)s
    AND e.seq BETWEEN wanted.seq AND wanted.seq AND e.flags < {EXPIRED}
  ORDER BY e.seq
  LIMIT 1
) AS e
ORDER BY e.seq
"""
_COUNTED: Final = f"""
FROM events AS e
WHERE e.scope = %(scope)s AND e.session = %(session)s
  AND e.seq > %(after)s AND e.seq <= %(until)s AND e.flags < {EXPIRED}
"""
_ENDS: Final = ", ".join(f"'{kind}'" for kind in RUN_ENDS)
TALLY: Final = f"""
SELECT e.kind, count(*), count(*) FILTER (WHERE e.flags & {ERASED} <> 0), min(e.ts_ms), max(e.ts_ms)
{_COUNTED}
GROUP BY e.kind
"""
RUNS_LEFT: Final = f"""
SELECT r.run_id, r.is_open
FROM (
  SELECT e.run_id, coalesce(max(e.seq) FILTER (WHERE e.kind NOT IN ({_ENDS})), 0)
    > coalesce(max(e.seq) FILTER (WHERE e.kind IN ({_ENDS})), 0) AS is_open
  {_COUNTED} AND e.run_id IS NOT NULL
  GROUP BY e.run_id
) AS r
WHERE r.is_open OR %(after)s > 0
"""
COMMITTED: Final = f"""
SELECT {EVENT}
FROM events AS e
WHERE e.scope = %(scope)s AND e.session = %(session)s AND e.seq < %(before)s AND e.flags < {EXPIRED}
  AND e.kind = ANY(%(kinds)s::text[])
  AND (e.run_id IS NULL OR e.run_id = %(run)s OR (
    SELECT r.state = {state_after("run.ended")} AND r.last_seq <= %(until)s
    FROM runs AS r
    WHERE r.scope = e.scope AND r.session = e.session AND r.run_id = e.run_id
  ))
ORDER BY e.seq DESC
LIMIT %(limit)s
"""
_HAS_LEGACY: Final = "SELECT 1 FROM legacy_events LIMIT 1"


class Reader:
    """Reads events on connections of the pool."""

    def __init__(self, server: Server, cache: IdCache, vault: Vault) -> None:
        self.server = server
        self.cache = cache
        self._vault = vault
        self.opener = Opener(vault)

    # By time, in a scope or a session.

    def by_time(self, part: type[Item], query: Query) -> list[Item]:
        """Return up to ``query.limit`` headers or events in the query's direction."""

        def look(connection: Connection) -> list[Row]:
            session = None
            if query.session_id is not None:
                session = self.cache.session(connection, query.scope, query.session_id)
                if session is None:
                    return []
            page = page_by_time(connection, query, session, _COLUMNS[part])
            page = _fitting(part, page)
            return page[::-1] if query.backwards else page

        return self.read(query.scope, look, self._builder(part))

    # By seq, within a session.

    def by_seq(
        self,
        part: type[Item],
        scope: Scope,
        session_id: str,
        *,
        after_seq: int,
        limit: int,
        kinds: Collection[str] = (),
    ) -> list[Item]:
        """Return headers or events of a session in order, after ``after_seq``; of some kinds."""
        stretch = {"after": after_seq, "before": LAST, "limit": limit}
        look = self._in_session(scope, session_id, _seq_statement(part, "ASC", kinds), **stretch)
        return self.read(scope, lambda c: _fitting(part, look(c)), self._builder(part))

    def last_by_seq(
        self,
        part: type[Item],
        scope: Scope,
        session_id: str,
        *,
        before_seq: int | None,
        limit: int,
        kinds: Collection[str] = (),
    ) -> list[Item]:
        """Return the last headers or events before ``before_seq``, in order; of some kinds."""
        stretch = {"after": 0, "before": before_seq or LAST, "limit": limit}
        look = self._in_session(scope, session_id, _seq_statement(part, "DESC", kinds), **stretch)
        return self.read(scope, lambda c: _fitting(part, look(c))[::-1], self._builder(part))

    def _in_session(
        self, scope: Scope, session_id: str, statement: str, **values: Any
    ) -> Callable[[Connection], list[Row]]:
        """Return how to read rows of a session; none if it does not exist."""

        def look(connection: Connection) -> list[Row]:
            session = self.cache.session(connection, scope, session_id)
            asked = {"scope": scope, "session": session, **values}
            return [] if session is None else fetch(connection, statement, asked)

        return look

    def tally(
        self, scope: Scope, session_id: str, *, after_seq: int, until_seq: int
    ) -> SessionTally:
        """Return the numbers of the session's own events after a seq, up to another."""

        def look(connection: Connection) -> SessionTally:
            session = self.cache.session(connection, scope, session_id)
            values = {"scope": scope, "session": session, "after": after_seq, "until": until_seq}
            counted = fetch(connection, TALLY, values)
            return session_tally(counted, fetch(connection, RUNS_LEFT, values))

        return self.server.read_state(look, scope)

    def events_at(self, scope: Scope, session_id: str, seqs: Sequence[int]) -> list[Event]:
        """Return the session's own events at ``seqs``, in order; each once."""
        look = self._in_session(scope, session_id, EVENTS_AT, seqs=sorted(set(seqs)))
        return self.read(scope, look, self.to_events)

    def committed_events(
        self,
        scope: Scope,
        session_id: str,
        *,
        kinds: Collection[str],
        before_seq: int,
        until_seq: int,
        run_id: str | None,
        limit: int,
    ) -> list[Event]:
        """Return the last events of ``kinds`` before ``before_seq``, in order, that count."""
        look = self._in_session(
            scope, session_id, COMMITTED,
            kinds=sorted(kinds), before=before_seq, until=until_seq, run=run_id, limit=limit,
        )  # fmt: skip
        return self.read(scope, lambda c: bounded(look(c), PAYLOAD_BYTES)[::-1], self.to_events)

    def records(self, scope: Scope, session_id: str, *, after_seq: int, limit: int) -> list[Record]:
        """Return stored events of a session in order, erased ones included."""
        look = self._in_session(scope, session_id, RECORDS, after=after_seq, limit=limit)
        return self.read(scope, lambda c: bounded(look(c), PAYLOAD_BYTES), self.to_records)

    def covers(self, scope: Scope, session_id: str) -> list[Event]:
        """Return the events that vouch for erasures in a session, in order."""
        look = self._in_session(scope, session_id, _COVERS, kinds=sorted(ERASURE_KINDS))
        return self.read(scope, look, self.to_events)

    def by_run(
        self, part: type[Item], scope: Scope, session_id: str, run_id: str
    ) -> Iterator[Item]:
        """Return the headers or events of one run, in order."""
        return events_of_run(
            partial(self.by_seq, part), self._run_bounds, scope, session_id, run_id
        )

    def open_runs(
        self, scope: Scope | None = None, session_id: str | None = None, *, owned: bool = False
    ) -> list[OpenRun]:
        """Return the open runs that this role may see; ``owned``, those that a process began."""
        if scope is None and self.server.walled:
            return []  # It has to state a scope to see anything.

        def look(connection: Connection) -> list[Row]:
            if scope is None or session_id is None:
                return runs.open_runs(connection, scope, None, owned=owned)
            session = self.cache.session(connection, scope, session_id)
            if session is None:
                return []
            return runs.open_runs(connection, scope, session, owned=owned)

        stored = self.server.read(look, scope)
        with corrupt_on_error(self.server.address.shown):
            listed = [open_run(*row) for row in stored]
        return [run for run in listed if session_id in {None, run.session_id}]

    def running_sessions(self, scope: Scope) -> set[str]:
        """Return the sessions of a scope that have an open run, if this role may see them."""
        names = self.server.fetch(runs.RUNNING, {"scope": scope}, scope)
        return {str(name) for (name,) in names}

    def _run_bounds(self, scope: Scope, session_id: str, run_id: str) -> tuple[int, int]:
        look = self._in_session(scope, session_id, _BOUNDS, last=LAST, run=run_id)
        stretch = self.server.read(look, scope)
        return stretch[0] if stretch else (1, 0)

    # By id, and as they are followed.

    def find(self, scope: Scope, event_id: str) -> Event | None:
        """Return the event with this id, or None."""

        def look(connection: Connection) -> list[Row]:
            scope_key = self.cache.scope_key(connection, scope)
            if scope_key is None:
                return []
            return fetch(connection, FIND, (scope, key := id_key(scope_key, event_id)[0], key))

        return next(iter(self.read(scope, look, self.to_events)), None)

    def rekeyed_ms(self) -> int | None:
        """Return when the ledger was rid of ids that reveal words; None if it never had them."""
        return self.server.rekeyed_ms

    def has_legacy(self) -> bool:
        """Return whether this role has to rekey events that were erased by earlier versions."""
        if self.server.walled:
            return False  # The owner rekeys them.
        return bool(self.server.fetch(_HAS_LEGACY, ()))

    def find_ids(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return the locations of events by id, erased or not; unknown ids are left out."""

        def look(connection: Connection) -> dict[str, EventLocation]:
            scope_key = self.cache.scope_key(connection, scope)
            if scope_key is None or not event_ids:
                return {}
            keys = {id_key(scope_key, event_id)[0]: event_id for event_id in event_ids}
            keys = either_key(self.hiding(connection, scope, keys), keys)
            locations = fetch(connection, KNOWN, (scope, list(map(Bytes, keys))))
            sessions = {row[1] for row in locations}
            names = self.cache.session_names(connection, scope, sessions)
            return {
                keys[bytes(key)]: EventLocation(names[at], seq, ts_ms or 0)
                for key, at, seq, ts_ms in locations
            }

        return self.server.read(look, scope)

    def ids_starting(self, scope: Scope, prefix: str, *, limit: int) -> list[str]:
        """Return the first ids in the form of a UUID that begin with ``prefix``, in order."""
        keys = id_key_range(prefix)
        if keys is None:
            return []
        rows = self.server.fetch(_ID_RANGE, (scope, *keys, limit), scope)
        return [str(UUID(bytes=bytes(key))) for (key,) in rows]

    def followed(
        self, part: type[Item], scope: Scope, mark: Mark, *, limit: int
    ) -> FollowedEvents[Item]:
        """Return headers or events of the scope after ``mark``, in the order of following."""
        build = self._builder(part)

        def look(connection: Connection) -> FollowedEvents[Item]:
            fetched = fetch(connection, LIVE[part], place(scope, mark, limit))
            page = _fitting(part, fetched)
            if page:
                _await_durable(connection)
            marks = [(*row[-2:], row[0]) for row in page]
            more = len(fetched) == limit or len(page) < len(fetched)
            return FollowedEvents(
                build(connection, scope, page), marks, marks[-1] if marks else mark, more
            )

        with corrupt_on_error(self.server.address.shown):
            return self.server.read(look, scope)

    def end(self, scope: Scope) -> Mark:
        """Return the mark of the last event of the scope that can be followed now."""
        marks = self.server.fetch(END, place(scope, (), 1), scope)
        return marks[0] if marks else ()

    def anything_after(self, scope: Scope, mark: Mark) -> bool:
        """Whether there is something to follow after ``mark``."""
        return bool(self.server.fetch(ANYTHING, place(scope, mark, 1), scope))

    def record_pages(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        behind: Mapping[str, int] | None = None,
    ) -> Iterator[list[Record]]:
        """Return all events of a scope or a session, erased ones included."""
        # One snapshot, so that each erasure comes with the event that vouches for it.
        with self.server.naming_faults(), self.server.aside(scope) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # The caller may be slow. A transaction that only reads holds no follower up.
            connection.execute(
                f"SET LOCAL idle_in_transaction_session_timeout = '{PAGES_PATIENCE}'"
            )
            statement, values = self._records_from(connection, scope, session_id, behind or {})
            connection.execute(f"DECLARE records NO SCROLL CURSOR FOR {statement}", values)
            while fetched := fetch(connection, f"FETCH {RECORDS_PAGE} FROM records", ()):
                while fetched:
                    page = bounded(fetched, PAYLOAD_BYTES)
                    fetched = fetched[len(page) :]
                    with corrupt_on_error(self.server.address.shown):
                        records = self.to_records(connection, scope, page)
                    yield records

    def _records_from(
        self,
        connection: Connection,
        scope: Scope,
        session_id: str | None,
        behind: Mapping[str, int],
    ) -> tuple[str, tuple[Any, ...]]:
        if session_id is not None:
            session = self.cache.session(connection, scope, session_id)
            return _SESSION_RECORDS, (scope, session, behind.get(session_id, 0))
        if not behind:
            return _ALL_RECORDS, (scope, 0, "0", 0)
        first = fetch(connection, _FIRST_UNKNOWN, (list(behind), list(behind.values()), scope))
        epoch, xid, position = first[0] if first else (2**31 - 1, 0, 0)
        return _ALL_RECORDS, (scope, epoch, str(xid), position)

    # From rows to values.

    def read(
        self,
        scope: Scope,
        look: Callable[[Connection], list[Row]],
        build: Callable[[Connection, Scope, list[Row]], list[Any]],
    ) -> list[Any]:
        """Read rows of a scope on a connection, and make values of them."""

        def work(connection: Connection) -> list[Any]:
            sessions = self.cache.sessions
            built = build(connection, scope, look(connection))
            # The cache was emptied if a session was forgotten: its name may be another one now.
            return (
                built
                if self.cache.sessions is sessions
                else build(connection, scope, look(connection))
            )

        with corrupt_on_error(self.server.address.shown):
            return self.server.read(work, scope)

    def _builder(self, part: type[Item]) -> Callable[[Connection, Scope, list[Row]], list[Any]]:
        return self.to_headers if part is Header else self.to_events

    def to_headers(self, connection: Connection, scope: Scope, found: list[Row]) -> list[Header]:
        """Return the headers of rows."""
        return rows.headers(found, scope, self._names(connection, scope, found))

    def to_events(self, connection: Connection, scope: Scope, found: list[Row]) -> list[Event]:
        """Return the events of rows."""
        names = self._names(connection, scope, found)
        blobs = _blobs(connection, scope, found)
        return rows.events(found, scope, names, blobs, self.opener)

    def to_records(self, connection: Connection, scope: Scope, found: list[Row]) -> list[Record]:
        """Return the records of rows."""
        names = self._names(connection, scope, found)
        blobs = _blobs(connection, scope, found)
        return rows.records(found, scope, names, blobs, self.opener)

    def _names(self, connection: Connection, scope: Scope, found: list[Row]) -> dict[int, str]:
        sessions = {row[SESSION] for row in found}
        # Of a forgotten session nothing else can be read; another process may have forgotten it.
        doubtful = {
            row[SESSION] for row in found if row[KIND] in ERASURE_KINDS or row[FLAGS] >= EXPIRED
        }
        if doubtful:
            self.cache.look_again(connection, scope, doubtful)
        return self.cache.session_names(connection, scope, sessions)

    def hiding(self, connection: Connection, scope: Scope, ids: Mapping[bytes, str]) -> bytes:
        """Return the key that hides ids, if one of ``ids`` may belong to an erased event.

        Raise KeyMissing if the scope was used with a key other than ours.
        """
        if not are_guessable(ids):
            return b""
        return self._vault.find_id_key(scope, partial(find_note, connection, scope), HIDDEN_IDS)

    def repeats(
        self, connection: Connection, scope: Scope, drafts: Mapping[bytes, Sequence[Draft]]
    ) -> dict[bytes, Header]:
        """Return the headers of recorded drafts; ``drafts`` are by the keys of their ids.

        Raise DuplicateEvent if one of the ids belongs to another event.
        """
        ids = {key: same[0].event_id for key, same in drafts.items()}
        keys = either_key(self.hiding(connection, scope, ids), {key: key for key in drafts})
        stored = fetch(
            connection,
            f"SELECT {HEADER}, e.event_id, e.salt FROM events AS e"
            " WHERE e.scope = %s AND e.event_id = ANY(%b)",
            (scope, [Bytes(key) for key in keys]),
        )
        headers = self.to_headers(connection, scope, stored)
        recorded: dict[bytes, Header] = {}
        for row, header in zip(stored, headers, strict=True):
            key, salt = keys[row[WIDTH]], row[WIDTH + 1]
            for draft in () if header.redacted else drafts[key]:
                if not self.opener.says_the_same(draft, header, key, salt):
                    raise taken(draft)
            recorded[key] = header
        return recorded


def _fitting(part: type[Header], found: list[Row]) -> list[Row]:
    """Return as many rows as fit in memory with their payloads; headers have none."""
    return found if part is Header else bounded(found, PAYLOAD_BYTES)


def _blobs(connection: Connection, scope: Scope, found: list[Row]) -> dict[bytes, bytes]:
    keys = {row[BLOB] for row in found if row[BLOB] is not None}
    if not keys:
        return {}
    bodies = fetch(
        connection,
        "SELECT key, body FROM blobs WHERE scope = %s AND key = ANY(%b)",
        (scope, [Bytes(key) for key in keys]),
    )
    return dict(bodies)


def _await_durable(connection: Connection) -> None:
    """Return when all visible events would survive a crash.

    With durability "normal" an event is visible before it is on the disk. After a crash another
    event can get its xid, and a follower that had seen the first would skip it.
    """
    flushed = connection.execute(_FLUSHED, binary=True).fetchone()
    if flushed is not None and not flushed[0]:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'treering', '')")


def _seq_statement(part: type[Header], direction: str, kinds: Collection[str]) -> str:
    # Names of kinds are constants of the program.
    among = ", ".join(f"'{kind}'" for kind in sorted(kinds))
    which = f" AND e.kind IN ({among})" if kinds else ""
    return (
        f"SELECT {_COLUMNS[part]} FROM events AS e"
        " WHERE e.scope = %(scope)s AND e.session = %(session)s"
        " AND e.seq > %(after)s AND e.seq < %(before)s"
        f" AND e.flags < {EXPIRED}{which} ORDER BY e.seq {direction} LIMIT %(limit)s"
    )


# Skips from one kind to the next, however many events each has.
_KINDS: Final = f"""
WITH RECURSIVE found AS (
  (SELECT min(kind) AS kind FROM events WHERE scope = %(scope)s AND flags < {EXPIRED})
  UNION ALL
  SELECT (
    SELECT min(e.kind) FROM events AS e
    WHERE e.scope = %(scope)s AND e.flags < {EXPIRED} AND e.kind > found.kind
  )
  FROM found
  WHERE found.kind IS NOT NULL
)
SELECT kind FROM found WHERE kind IS NOT NULL
"""


def page_by_time(
    connection: Connection, query: Query, session: int | None, columns: str
) -> list[Row]:
    """Return rows of ``query`` in its direction; of one session if that is given."""
    direction, beyond = ("DESC", "<") if query.backwards else ("ASC", ">")
    window = ""
    if query.turn_id is not None:
        window += " AND e.turn_id = %(turn)s"
    if query.since_ms is not None:
        window += " AND e.ts_ms >= %(since)s"
    if query.until_ms is not None:
        window += " AND e.ts_ms <= %(until)s"
    if query.after is not None:
        window += f" AND (e.ts_ms, e.position) {beyond} (%(ts_ms)s, %(position)s)"
    values: dict[str, Any] = {
        "scope": query.scope,
        "session": session,
        "kinds": list(query.kinds),
        "turn": query.turn_id,
        "since": query.since_ms,
        "until": query.until_ms,
        "ts_ms": query.after.ts_ms if query.after else None,
        "position": query.after.position if query.after else None,
        "limit": query.limit,
    }
    order = f"ORDER BY e.ts_ms {direction}, e.position {direction} LIMIT %(limit)s"
    if session is not None:
        among = " AND e.kind = ANY(%(kinds)s::text[])" if query.kinds else ""
        text = (
            f"SELECT {columns} FROM events AS e WHERE e.scope = %(scope)s"
            f" AND e.session = %(session)s AND e.flags < {EXPIRED}{among}{window} {order}"
        )
    else:
        values["kinds"] = values["kinds"] or [
            kind for (kind,) in fetch(connection, _KINDS, {"scope": query.scope})
        ]
        text = (
            f"SELECT {columns} FROM unnest(%(kinds)s::text[]) AS k (kind) CROSS JOIN LATERAL ("
            " SELECT * FROM events AS e WHERE e.scope = %(scope)s AND e.kind = k.kind"
            f" AND e.flags < {EXPIRED}{window} {order}) AS e {order}"
        )
    return fetch(connection, text, values)
