"""Reading: short pages, each by its index, built after the connection is given back."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec

from treering.errors import Corrupt, InvalidCursor
from treering.ledger.records import HIDDEN_IDS, EventLocation, Record
from treering.model.codec import encode
from treering.model.events import REDACTED, Event, Header
from treering.model.kinds import ERASURE_KINDS, RUN_ENDS
from treering.model.queries import FollowedEvents, Mark, Query, SessionTally
from treering.storage import encoding
from treering.storage.encoding import (
    ERASED,
    EXPIRED,
    bounded,
    corrupt_on_error,
    name_key,
    session_tally,
)
from treering.storage.runs import OPEN_RUNS_MAX, events_of_run, open_run, state_after
from treering.storage.sealing import Opener
from treering.storage.sqlite import indexes, rows, runs
from treering.storage.sqlite.id_cache import HIDES, Blobs, SessionTexts, Texts
from treering.storage.sqlite.indexes import (
    IDS_AT_ONCE,
    INDEXED_POSITION,
    LIVE,
    SessionStatements,
    position_at,
    position_of_id,
    session_rows,
    session_statements,
)
from treering.storage.sqlite.rows import (
    EVENT,
    HEADER,
    PAYLOAD_BYTES,
    RECORD,
    SEQ,
    WITH_CONTENT,
    fetch_all,
    fetch_one,
    fetch_value,
    key_of_names,
    session_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import apsw

    from treering.ledger.ports import Vault
    from treering.model.scopes import Scope
    from treering.model.views import OpenRun
    from treering.storage.sqlite.database import Database
    from treering.storage.sqlite.id_cache import IdCache
    from treering.storage.sqlite.rows import Row

LAST: Final = 2**62
"""After every seq and position."""
SCAN_ROWS_MAX: Final = 2_000
"""Rows of all scopes that one step of following looks at."""
STRETCH_FIRST: Final = 2_000
"""Events of a session that are looked through for some that count; then twice as many each time."""
FAILED_MAX: Final = 1_000
"""Failed runs whose stretches are remembered."""
RECORDS_PAGE: Final = 500
ATTEMPTS_MAX: Final = 5
"""How often a page is read of which something is erased meanwhile."""

Item = TypeVar("Item", bound=Header)

_PARTS: Final[dict[type[Header], tuple[str, str]]] = {
    Header: (HEADER, ""),
    Event: (EVENT, WITH_CONTENT),
}
"""What is read of an event, as columns and joins: its header, or its payload, too."""

# Stretches of the ledger, of one scope.
_STRETCH: Final = "WHERE e.position > ? AND e.position <= ? AND e.scope = ?"
FOLLOWED: Final = {
    part: f"""
SELECT {columns}
FROM events AS e
{joins}
{_STRETCH} {LIVE}
ORDER BY e.position
LIMIT ?
"""
    for part, (columns, joins) in _PARTS.items()
}
ALL_RECORDS: Final = f"""
SELECT {RECORD}
FROM events AS e
{WITH_CONTENT}
{_STRETCH}
ORDER BY e.position
LIMIT ?
"""
# Stretches of one session.
BY_SEQ, LAST_BY_SEQ, OF_KINDS, LAST_OF_KINDS = (
    {
        part: session_statements(columns, joins=joins, where=where, backwards=backwards)
        for part, (columns, joins) in _PARTS.items()
    }
    for where in (LIVE, f"{LIVE} AND e.kind IN ({{kinds}})")
    for backwards in (False, True)
)
# What a stretch of a session has, in numbers. It is read from the index and the tail, as they are
# in one state of the file.
_COUNTED: Final = f"""
SELECT e.kind, e.run, e.seq, e.ts_ms, e.flags
FROM seqs_by_session AS t
CROSS JOIN events AS e ON e.position = t.position
WHERE t.session = :session AND t.seq > :after AND t.seq <= :until {LIVE}
UNION ALL
SELECT e.kind, e.run, e.seq, e.ts_ms, e.flags
FROM events AS e
WHERE e.position > {INDEXED_POSITION}
  AND e.session = :session AND e.seq > :after AND e.seq <= :until {LIVE}
"""
TALLY: Final = f"""
SELECT k.name, count(*), sum(e.flags & {ERASED} <> 0), min(e.ts_ms), max(e.ts_ms)
FROM ({_COUNTED}) AS e
JOIN names AS k ON k.id = e.kind
GROUP BY e.kind
"""
RUNS_LEFT: Final = f"""
SELECT coalesce(n.name, '{REDACTED}'), r.is_open
FROM (
  SELECT
    e.run,
    max(e.seq * (e.kind NOT IN ({{ends}}))) > max(e.seq * (e.kind IN ({{ends}}))) AS is_open
  FROM ({_COUNTED}) AS e
  WHERE e.run IS NOT NULL
  GROUP BY e.run
) AS r
JOIN names AS n ON n.id = r.run
WHERE r.is_open OR :after > 0
"""
# A left join: a payload row that was torn out must not hide its event.
RECORDS: Final = session_statements(RECORD, joins=f"LEFT {WITH_CONTENT}", by_seq=True)
_COVERS: Final = session_statements(EVENT, joins=WITH_CONTENT, where="AND e.kind IN ({kinds})")
AT_SEQS: Final = f"""
SELECT {EVENT}
FROM json_each(CAST(?2 AS TEXT)) AS place
CROSS JOIN events AS e ON e.position = {position_at("?1", "place.value")}
{WITH_CONTENT}
WHERE e.flags < {EXPIRED}
ORDER BY e.seq
"""
# What does not count is passed over before its content is read.
COMMITTED: Final = session_statements(
    EVENT,
    joins=f"CROSS {WITH_CONTENT}",
    where=f"""{LIVE} AND e.kind IN ({{kinds}})
  AND (e.run IS NULL OR e.run = :run OR EXISTS (
    SELECT 1
    FROM runs AS r
    WHERE r.session = e.session AND r.run = e.run AND r.state = {state_after("run.ended")}
      AND r.last_seq <= :until
  ))""",
    backwards=True,
)
# The run of an event, if it has failed, and where the run begins.
RUN_AT: Final = f"""
SELECT r.run, r.first_seq
FROM events AS e
JOIN runs AS r ON r.session = e.session AND r.run = e.run
WHERE e.position = {position_at("?1", "?2")} AND r.state > {state_after("run.ended")}
"""
OTHERS: Final = session_statements(
    "e.position, e.session, e.seq", where="AND e.run IS NOT :run", backwards=True
)
_FIND: Final = f"""
SELECT {EVENT}
FROM events AS e
{WITH_CONTENT}
WHERE e.position = {position_of_id("?1", "?2")} AND e.flags < {EXPIRED}
"""
_PLACES: Final = f"""
SELECT e.event_id, {session_name("s")}, e.seq, e.ts_ms
FROM json_each(CAST(? AS TEXT)) AS place
CROSS JOIN events AS e ON e.position = place.value
JOIN sessions AS s ON s.id = e.session
"""
_POSITION: Final = f"SELECT {position_at('?1', '?2')}"
# A fork may begin after millions of events that it shares: none of them is in the session itself.
_OWN_STRETCH: Final = """
SELECT
  coalesce((SELECT seq FROM forks WHERE session = ?1), 0),
  (SELECT seq FROM heads WHERE session = ?1)
"""
_STORED_HEADER: Final = f"""
SELECT {HEADER}, c.salt, scopes.name, {session_name("sessions")}
FROM events AS e
JOIN contents AS c ON c.position = e.position
JOIN sessions ON sessions.id = e.session
JOIN scopes ON scopes.id = e.scope
WHERE e.position = ?
"""
_BOXES: Final = """
SELECT position, salt
FROM contents
WHERE position IN (SELECT value FROM json_each(CAST(? AS TEXT)))
"""
_NONE: Final = rows.Unsealed()
_kind_in: Final = itemgetter(rows.KIND)


class Reader:
    """Answers reads from the pool of reading connections."""

    def __init__(self, database: Database, vault: Vault, ids: IdCache | None = None) -> None:
        """Take what the writer remembers, if there is one."""
        self.database = database
        self._vault = vault
        self._ids = ids
        self.opener = Opener(vault)
        self._failed: dict[tuple[int, int], tuple[int, int]] = {}
        """Stretches of failed runs, by session and run: the seq after them, and their first."""
        self._name_key = b""
        """What the hashes of names are made under: it never changes."""
        self.names = Texts(database)
        self.sessions = SessionTexts(database)
        self.blobs = Blobs(database, self.opener)

    def scope_number(self, scope: Scope) -> int:
        """Return the number of a scope; 0 if it does not exist."""
        with self.database.reading() as connection:
            return find_scope(connection, scope)[0]

    # By time, over a scope or a session.

    def by_time(self, part: type[Item], query: Query) -> list[Item]:
        """Return up to ``query.limit`` headers or events in the query's direction."""
        # One snapshot: between two, events may move from the tail into the orders of time.
        with self.database.reading() as connection, connection:
            scope, scope_key = find_scope(connection, query.scope)
            kinds = _kinds(connection, query.kinds)
            if not scope or (query.kinds and not kinds):
                return []
            if query.session_id is not None:
                session = find_session(connection, scope, scope_key, query.session_id)
                places = indexes.times_in_session(session, kinds)
            else:
                entered = kinds or indexes.kinds_of(connection, scope)
                places = indexes.times_in_scope(scope, kinds, entered)
            turn = None if query.turn_id is None else _name(connection, query.turn_id)
            if turn == 0:
                return []
            text, bindings = indexes.time_statement(query, places, *_PARTS[part], turn=turn)
            selected = fetch_all(connection, text, bindings)
        page = _fitting(part, selected)
        return self._values(part, page[::-1] if query.backwards else page)

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
        statements = self._of_kinds(OF_KINDS[part], kinds) if kinds else BY_SEQ[part]
        page = self._by_seq(scope, session_id, statements, after_seq, LAST, limit)
        return self._values(part, _fitting(part, page))

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
        statements = self._of_kinds(LAST_OF_KINDS[part], kinds) if kinds else LAST_BY_SEQ[part]
        page = self._by_seq(scope, session_id, statements, 0, before_seq or LAST, limit)
        return self._values(part, _fitting(part, page)[::-1])

    def tally(
        self, scope: Scope, session_id: str, *, after_seq: int, until_seq: int
    ) -> SessionTally:
        """Return the numbers of the session's own events after a seq, up to another."""
        with self.database.reading() as connection, connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            stretch = {"session": session, "after": after_seq, "until": until_seq}
            counted = fetch_all(connection, TALLY, stretch)
            ends = ", ".join(map(str, _kinds(connection, tuple(RUN_ENDS)))) or "0"
            left = fetch_all(connection, RUNS_LEFT.format(ends=ends), stretch)
        return session_tally(counted, left)

    def events_at(self, scope: Scope, session_id: str, seqs: Sequence[int]) -> list[Event]:
        """Return the session's own events at ``seqs``, in order; each once."""
        with self.database.reading() as connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            event_rows = fetch_all(connection, AT_SEQS, (session, encode(sorted(set(seqs)))))
        return self.to_events(event_rows)

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
        with self.database.reading() as connection:
            statements = COMMITTED.of_kinds(_kinds(connection, tuple(sorted(kinds))))
            session = find_session(connection, *find_scope(connection, scope), session_id)
            run = None if run_id is None else _name(connection, run_id)
            event_rows: list[Row] = []
            shared, head = _own_stretch(connection, session)
            before, stretch = min(before_seq, head + 1), STRETCH_FIRST
            while before > shared + 1 and len(event_rows) < limit:
                floor, left = max(before - 1 - stretch, shared), limit - len(event_rows)
                event_rows += session_rows(
                    connection, statements, session, floor, before, left, until=until_seq, run=run
                )
                before, stretch = floor + 1, 2 * stretch
                if before > shared + 1 and len(event_rows) < limit:
                    before = self._before_failed(connection, session, before, run)
        return self.to_events(bounded(event_rows, PAYLOAD_BYTES)[::-1])

    def _before_failed(
        self, connection: apsw.Connection, session: int, before: int, asking: int | None
    ) -> int:
        """Return ``before``, or the seq of the first event of a failed run that continues there.

        All events in between are of the run. That stays so, and is looked up once.
        """
        row = fetch_one(connection, RUN_AT, (session, before - 1))
        if row is None or row[0] == asking:
            return before
        run, first = row
        last, start = self._failed.get((session, run), (0, 0))
        if not start < before <= last:
            others = session_rows(connection, OTHERS, session, first - 1, before, 1, run=run)
            last, start = before, others[0][2] + 1 if others else first
            if len(self._failed) >= FAILED_MAX:
                self._failed.clear()
            self._failed[session, run] = (last, start)
        return start

    def records(self, scope: Scope, session_id: str, *, after_seq: int, limit: int) -> list[Record]:
        """Return stored events of a session in order, erased ones included."""
        page = self._by_seq(scope, session_id, RECORDS, after_seq, LAST, limit)
        with corrupt_on_error(self.database.path):
            # They are in order, unless somebody changed seqs and not the index: verify says which.
            page.sort(key=itemgetter(SEQ))
        return self._to_records(bounded(page, PAYLOAD_BYTES))

    def covers(self, scope: Scope, session_id: str) -> list[Event]:
        """Return the events that vouch for erasures in a session, in order."""
        with self.database.reading() as connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            kinds = _kinds(connection, tuple(sorted(ERASURE_KINDS)))
            cover_rows = session_rows(connection, _COVERS.of_kinds(kinds), session, 0, LAST, LAST)
        return self.to_events(cover_rows)

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
        """Return the runs that have begun and not ended, as far as this user may see them."""
        with self.database.reading_at_hand() as connection:
            started = _name(connection, "run.started")
            asked: dict[str, Any] = {"started": started, "owned": owned, "limit": OPEN_RUNS_MAX}
            if scope is not None and session_id is not None:
                session = find_session(connection, *find_scope(connection, scope), session_id)
                run_rows = fetch_all(connection, runs.OPEN_IN_SESSION, asked | {"session": session})
            else:
                named = {"scope": scope, "name": session_id}
                fewer = owned and fetch_value(connection, runs.STARTS_ARE_FEWER, asked)
                statement = runs.ALL_STARTED if fewer else runs.ALL_OPEN
                run_rows = fetch_all(connection, statement, asked | named)
        with corrupt_on_error(self.database.path):
            return [open_run(*row) for row in run_rows]

    def running_sessions(self, scope: Scope) -> set[str]:
        """Return the sessions of a scope that have an open run."""
        with self.database.reading() as connection:
            return {str(name) for (name,) in fetch_all(connection, runs.RUNNING, (scope,))}

    def _run_bounds(self, scope: Scope, session_id: str, run_id: str) -> tuple[int, int]:
        with self.database.reading() as connection:
            run = _name(connection, run_id)
            if not run:
                return 1, 0  # Nobody has ever named it: what is appended to a new run asks first.
            session = find_session(connection, *find_scope(connection, scope), session_id)
            stretch = fetch_one(
                connection,
                "SELECT first_seq, coalesce(last_seq, ?) FROM runs WHERE session = ? AND run = ?",
                (LAST, session, run),
            )
        with corrupt_on_error(self.database.path):
            return msgspec.convert(stretch or (1, 0), tuple[int, int])

    def _of_kinds(self, statements: SessionStatements, kinds: Collection[str]) -> SessionStatements:
        with self.database.reading() as connection:
            return statements.of_kinds(_kinds(connection, tuple(sorted(kinds))))

    def _by_seq(
        self,
        scope: Scope,
        session_id: str,
        statements: SessionStatements,
        after: int,
        before: int,
        limit: int,
    ) -> list[Row]:
        # The first event, or the last one, is mostly read before a write.
        database = self.database
        reading = database.reading_at_hand() if limit == 1 else database.reading()
        with reading as connection:
            session = find_session(connection, *find_scope(connection, scope), session_id)
            if not session:
                return []
            return session_rows(connection, statements, session, after, before, limit)

    # By id and by position.

    def find(self, scope: Scope, event_id: str) -> Event | None:
        """Return the event with this id, or None."""
        with self.database.reading() as connection:
            number, scope_key = find_scope(connection, scope)
            key = encoding.id_key(scope_key, event_id)[0]
            event_rows = fetch_all(connection, _FIND, (number, key))
        return next(iter(self.to_events(event_rows)), None)

    def rekeyed_ms(self) -> int | None:
        """Return when the ledger was rid of ids that words can be guessed from; None if never."""
        with self.database.reading() as connection:
            at_ms: int | None = fetch_value(
                connection, "SELECT value FROM ledger WHERE name = 'rekeyed_ms'"
            )
        return at_ms

    def has_legacy(self) -> bool:
        """Return whether events that were erased by earlier versions have to be rekeyed."""
        with self.database.reading() as connection:
            return fetch_value(connection, "SELECT 1 FROM legacy_events LIMIT 1") is not None

    def find_ids(self, scope: Scope, event_ids: Sequence[str]) -> dict[str, EventLocation]:
        """Return the locations of events by id, erased or not; unknown ids are left out."""
        reading = self.database.reading_at_hand()
        with reading as connection:
            number, scope_key = find_scope(connection, scope)
            if not number:
                return {}
            keyed = {event_id: encoding.id_key(scope_key, event_id) for event_id in event_ids}
            keys = {key: event_id for event_id, (key, _) in keyed.items()}
            hides = fetch_value(connection, HIDES)
            if hides and encoding.are_guessable(keys):
                noted = partial(find_note, connection, scope)
                keys = encoding.either_key(self._vault.find_id_key(scope, noted, HIDDEN_IDS), keys)
            positions = indexes.find_ids(connection, number, list(keys)) if keys else {}
            if self._ids is not None and reading.by_writer and not hides:
                for key in positions:
                    del keyed[keys[key]]
                self._ids.note_absent(scope, keyed)
            if not positions:
                return {}
            locations = fetch_all(connection, _PLACES, (encode(list(positions.values())),))
        return {
            keys[key]: EventLocation(name, seq, ts_ms or 0) for key, name, seq, ts_ms in locations
        }

    def ids_starting(self, scope: Scope, prefix: str, *, limit: int) -> list[str]:
        """Return the first ids in the form of a UUID that begin with ``prefix``, in order."""
        keys = encoding.id_key_range(prefix)
        if keys is None:
            return []
        with self.database.reading() as connection:
            number, _ = find_scope(connection, scope)
            ids = indexes.ids_between(connection, number, *keys, limit=limit)
        return [str(UUID(bytes=key)) for key in ids]

    def followed(
        self, part: type[Item], scope: Scope, mark: Mark, *, limit: int
    ) -> FollowedEvents[Item]:
        """Return headers or events of the scope after ``mark``, in the order they are followed."""
        page, last, more = self._by_position(scope, _position(mark), limit, FOLLOWED[part])
        return FollowedEvents(self._values(part, page), [row[:1] for row in page], (last,), more)

    def end(self, scope: Scope) -> Mark:  # noqa: ARG002  (all scopes have one order)
        """Return the mark of the last event of the scope that can be followed by now."""
        return (self.last_position(),)

    def record_pages(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        behind: Mapping[str, int] | None = None,
    ) -> Iterator[list[Record]]:
        """Return what a scope, or one session, holds when asked, erased events included."""
        if session_id is not None:
            after = (behind or {}).get(session_id, 0)
            while page := self._untorn(self._session_page, scope, session_id, after)[0]:
                yield page
                after = page[-1].seq
            return
        after, newest = self._first_unknown(scope, behind or {}), self.last_position()
        while after < newest:
            page, after = self._untorn(self._scope_page, scope, after)
            if any(record.erasure is not None for record in page):
                # The event that vouches for it may have been recorded since we began.
                newest = self.last_position()
            if page:
                yield page

    def _session_page(self, scope: Scope, session_id: str, after: int) -> tuple[list[Record], int]:
        page = self.records(scope, session_id, after_seq=after, limit=RECORDS_PAGE)
        return page, page[-1].seq if page else after

    def _scope_page(self, scope: Scope, after: int) -> tuple[list[Record], int]:
        page, last, _ = self._by_position(scope, after, RECORDS_PAGE, ALL_RECORDS)
        return self._to_records(page), last

    def _untorn(
        self, read: Callable[..., tuple[list[Record], int]], *place: str | int
    ) -> tuple[list[Record], int]:
        """Return a page of which nothing was erased between its events and their payloads."""
        for _ in range(ATTEMPTS_MAX):
            page, last = read(*place)
            if not any(_is_torn(record) for record in page):
                break
        return page, last

    def _first_unknown(self, scope: Scope, behind: Mapping[str, int]) -> int:
        """Return the position after which every event is that the copy does not have."""
        if not behind:
            return 0
        first = LAST
        with self.database.reading() as connection:
            number, scope_key = find_scope(connection, scope)
            copied = {name_key(scope_key, name): seq for name, seq in behind.items()}
            sessions = fetch_all(
                connection,
                "SELECT s.id, s.key, coalesce(forks.seq, 0) FROM sessions AS s"
                " LEFT JOIN forks ON forks.session = s.id WHERE s.scope = ?",
                (number,),
            )
            for session, key, shared in sessions:
                position = fetch_value(
                    connection, _POSITION, (session, max(copied.get(key, 0), shared) + 1)
                )
                first = min(first, position or LAST)
        return first - 1

    def last_position(self) -> int:
        """Return the position of the newest event, 0 if there is none."""
        with self.database.reading() as connection:
            return fetch_value(connection, "SELECT max(position) FROM events") or 0

    def _by_position(
        self, scope: Scope, position: int, limit: int, statement: str
    ) -> tuple[list[Row], int, bool]:
        """Return rows of a stretch, where it ends, and whether more follow."""
        with self.database.reading() as connection:
            # In this order: a scope that begins in between has no event up to the newest.
            newest = fetch_value(connection, "SELECT max(position) FROM events") or 0
            number = find_scope(connection, scope)[0]
            last = min(newest, position + max(limit, SCAN_ROWS_MAX))
            selected = fetch_all(connection, statement, (position, last, number, limit))
        page = selected if statement is FOLLOWED[Header] else bounded(selected, PAYLOAD_BYTES)
        if len(page) == limit or len(page) < len(selected):
            last = page[-1][0]
        last = max(last, position)
        return page, last, last < newest

    # From rows to values, after the connection was given back.

    def _values(self, part: type[Item], found: list[Row]) -> list[Item]:
        build: Any = self.to_headers if part is Header else self.to_events
        values: list[Item] = build(found)
        return values

    def _look_again(self, found: list[Row]) -> None:
        """Read the names of sessions again that have vouchers among ``found``.

        Nothing else can be read of a session that was forgotten, perhaps by another process.
        """
        kinds = set(map(_kind_in, found))
        vouching = {kind for kind in kinds if self.names[kind] in ERASURE_KINDS}
        if vouching:
            for row in found:
                if row[rows.KIND] in vouching:
                    self.sessions.pop(row[rows.SESSION], None)

    def to_headers(self, found: list[Row]) -> list[Header]:
        """Return the headers of rows."""
        with corrupt_on_error(self.database.path):
            self._look_again(found)
            return rows.headers(found, self.names, self.sessions)

    def to_events(self, found: list[Row]) -> list[Event]:
        """Return the events of rows, their payloads unsealed."""
        with corrupt_on_error(self.database.path):
            self._look_again(found)
            try:
                return rows.events(found, self.names, self.sessions, self.blobs, _NONE)
            except rows.Sealed:
                sealed = rows.sealed(found)
            opened = self._open(sealed)
            return rows.events(found, self.names, self.sessions, self.blobs, opened)

    def _open(self, found: list[Row]) -> dict[int, bytes | None]:
        """Return the sealed payloads of ``found`` by position."""
        with self.database.reading() as connection:
            boxes: dict[int, bytes | None] = dict(
                fetch_all(connection, _BOXES, (encode([row[rows.POSITION] for row in found]),))
            )
        opened: dict[int, bytes | None] = {}
        for row in found:
            box, scope = boxes.get(row[rows.POSITION]), self.sessions[row[rows.SESSION]][0]
            # One that is gone was erased between the two reads.
            opened[row[rows.POSITION]] = (
                encode(REDACTED)
                if box is None
                else self.opener.payload(scope, row[rows.EVENT_ID], box)
            )
        return opened

    def _to_records(self, found: list[Row]) -> list[Record]:
        with corrupt_on_error(self.database.path):
            self._look_again(found)
            if any(row[rows.FLAGS] >= encoding.EXPIRED for row in found):
                # Names of what is gone may have been forgotten since they were read.
                self.sessions.clear()
                self.names.clear()
            return rows.records(found, self.names, self.sessions, self.blobs, self.opener)


def _fitting(part: type[Header], found: list[Row]) -> list[Row]:
    """Return as many rows as fit in memory with their payloads; headers have none."""
    return found if part is Header else bounded(found, PAYLOAD_BYTES)


def _position(mark: Mark) -> int:
    if len(mark) > 1 or (mark and mark[0] > LAST):
        raise InvalidCursor("the cursor belongs to another ledger", hint="follow that one")
    return mark[0] if mark else 0


def _is_torn(record: Record) -> bool:
    """Whether the payload was erased after its event was read."""
    gone = record.payload is None and record.unread is None
    return gone and record.erasure is None and record.payload_bytes > 0


def find_scope(connection: apsw.Connection, name: str) -> tuple[int, bytes]:
    """Return the id and key of a scope; id 0 if it is not there."""
    row = fetch_one(connection, "SELECT id, key FROM scopes WHERE name = ?", (name,))
    return (row[0], row[1]) if row else (0, b"")


def find_session(connection: apsw.Connection, scope: int, scope_key: bytes, name: str) -> int:
    """Return the id of a session; 0 if it is not there."""
    return (
        fetch_value(
            connection,
            "SELECT id FROM sessions WHERE scope = ? AND key = ?",
            (scope, name_key(scope_key, name)),
        )
        or 0
    )


def _own_stretch(connection: apsw.Connection, session: int) -> tuple[int, int]:
    """Return the seq after which a session's own events begin, and its last."""
    row = fetch_one(connection, _OWN_STRETCH, (session,)) or (0, None)
    return row[0], row[1] or LAST


def _name(connection: apsw.Connection, text: str) -> int:
    return _find_names(connection, key_of_names(connection), (text,)).get(text, 0)


def _kinds(connection: apsw.Connection, names: tuple[str, ...]) -> list[int]:
    numbers = _find_names(connection, key_of_names(connection), names) if names else {}
    return [numbers[name] for name in names if name in numbers]


def _find_names(
    connection: apsw.Connection, key_of_all: bytes, texts: Collection[str]
) -> dict[str, int]:
    """Return the ids of those of ``texts`` that are names."""
    numbers: dict[str, int] = {}
    keys = {name_key(key_of_all, text): text for text in texts}
    listed = tuple(keys)
    for start in range(0, len(listed), IDS_AT_ONCE):
        some = listed[start : start + IDS_AT_ONCE]
        named = fetch_all(
            connection,
            f"SELECT key, id FROM names WHERE key IN ({', '.join('?' * len(some))})",
            some,
        )
        numbers.update((keys[key], number) for key, number in named)
    return numbers


def find_note(connection: apsw.Connection, scope: str, name: str) -> str | None:
    """Return the cursor of that name, None if the scope has none."""
    cursor: str | None = fetch_value(
        connection,
        "SELECT cursor FROM cursors JOIN scopes ON scopes.id = cursors.scope"
        " WHERE scopes.name = ? AND follower = ?",
        (scope, name),
    )
    return cursor


def stored_header(connection: apsw.Connection, position: int) -> tuple[Header, bytes]:
    """Return the header and salt of the event at ``position``. Raise Corrupt if it is torn."""
    row = fetch_one(connection, _STORED_HEADER, (position,))
    if row is None:
        raise Corrupt(
            f"the ledger is damaged: the event at position {position} has lost its payload",
            hint="keep a copy, then run treering verify and restore from an export",
        )
    *columns, salt, scope_name, name = row
    ids = {columns[at] for at in rows.NAME_COLUMNS if columns[at]}
    marks = ", ".join("?" * len(ids))
    names: dict[int, str] = dict(
        fetch_all(connection, f"SELECT id, name FROM names WHERE id IN ({marks})", list(ids))
    )
    sessions = {columns[rows.SESSION]: (scope_name, name)}
    return rows.headers([tuple(columns)], {0: "", **names}, sessions)[0], salt
