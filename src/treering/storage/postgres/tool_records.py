"""Tool records on a server: how their tables follow events, lose erased ones, and are checked.

They hold the settled events of a scope up to its row of ``tool_marks``. Events that others may
still overtake are entered, too, and read a second time when they have settled: a group ignores
events it has seen. An erasure deletes the records of the erased events. A lock of the scope
separates the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from treering.derive.tool_facts import TOOL_KINDS
from treering.model.kinds import ERASURE_KINDS
from treering.storage import tool_table
from treering.storage.encoding import EXPIRED, GONE, Row, corrupt_on_error
from treering.storage.postgres import following
from treering.storage.postgres.following import AFTER, IN_ORDER, place, read_mark, write_mark
from treering.storage.postgres.rows import (
    HEADER,
    SEQ,
    SESSION,
    PostgresTable,
    empty_tables,
    fetch,
    headers,
)
from treering.storage.tool_calls import RUN_STATES, Facts, Group, read_facts
from treering.storage.tool_records import PASSED_MAX, ScopePlace, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.model.events import Header
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.model.views import RunState
    from treering.storage.postgres.id_cache import IdCache
    from treering.storage.postgres.server import Connection, Server
    from treering.storage.projections import Pairs

STRETCH: Final = 4_000
"""Settled events read in one transaction."""
UNSETTLED_MAX: Final = 10_000
"""Tool events entered before they have settled; others wait."""
LOCK_NAME: Final = "\0tools"
"""Not a session's name: sessions cannot have it."""
FACT: Final = "e.scope, e.session, e.position, e.seq, e.ts_ms, e.kind, e.run_id, e.refs"
"""The columns of an event that facts are read from."""
_POSITION: Final = 2
_KIND: Final = 5
_FLAGS: Final = 8

# The last row is read for its mark alone, whatever its kind.
SETTLED: Final = f"""
WITH stretch AS MATERIALIZED (
  SELECT {FACT}, e.flags, e.epoch, e.xid
  FROM events AS e
  WHERE e.scope = %(scope)s
    AND {AFTER}
    AND {following.SETTLED}
  {IN_ORDER}
  LIMIT {STRETCH}
), counted AS (
  SELECT count(*) AS events, max(position) AS newest FROM stretch
)
SELECT {FACT.replace("e.", "s.")}, s.flags, s.epoch, s.xid::text::bigint, c.events
FROM stretch AS s
CROSS JOIN counted AS c
WHERE (s.kind = ANY(%(kinds)s::text[]) AND s.flags & {GONE} = 0)
  OR (s.epoch, s.xid, s.position) = (
    SELECT l.epoch, l.xid, l.position FROM stretch AS l
    ORDER BY l.epoch DESC, l.xid DESC, l.position DESC LIMIT 1
  )
ORDER BY s.epoch, s.xid, s.position
"""
BEHIND: Final = f"""
SELECT count(*) = {PASSED_MAX} OR bool_or(s.kind = ANY(%(kinds)s::text[]) AND s.flags & {GONE} = 0)
FROM (
  SELECT e.kind, e.flags
  FROM events AS e
  WHERE e.scope = %(scope)s AND {AFTER}
  {IN_ORDER}
  LIMIT {PASSED_MAX}
) AS s
"""
# No upper limit here: it has moved since the settled ones were read. An event that settled in
# between would be in neither, and count as seen once a later event of its group is entered.
UNSETTLED: Final = f"""
SELECT {FACT}
FROM events AS e
WHERE e.scope = %(scope)s
  AND {AFTER}
  AND e.kind = ANY(%(kinds)s::text[]) AND e.flags & {GONE} = 0
{IN_ORDER}
LIMIT {UNSETTLED_MAX}
"""
_LAG: Final = f"""
SELECT count(*)
FROM events AS e
WHERE e.scope = %(scope)s AND {AFTER}
  AND e.kind = ANY(%(kinds)s::text[]) AND e.flags & {GONE} = 0
"""
_AT_SEQS: Final = f"""
SELECT {FACT}
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
  AND e.kind = ANY(%s::text[]) AND e.flags & {GONE} = 0
ORDER BY e.position
"""
AT_PLACES: Final = f"""
SELECT {HEADER}
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
  AND e.flags & {GONE} = 0
"""
_STATES: Final = """
SELECT r.session, r.run_id, r.state
FROM runs AS r
WHERE r.scope = %s AND (r.session, r.run_id) IN (SELECT * FROM unnest(%b::bigint[], %s::text[]))
"""
_MARKS: Final = "tool_marks"
_ERASURES: Final = f"""
SELECT count(*) FROM events WHERE scope = %s AND kind = ANY(%s::text[]) AND flags < {EXPIRED}
"""
_LINKS: Final = """
SELECT scope, session, call_seq AS seq, started_ms AS ts_ms, 'tool.call' AS kind
FROM tool_calls WHERE call_seq IS NOT NULL
UNION ALL
SELECT scope, session, result_seq, ended_ms, 'tool.result'
FROM tool_calls WHERE result_seq IS NOT NULL
UNION ALL
SELECT scope, session, late_seq, NULL, 'tool.result' FROM tool_calls WHERE late_seq IS NOT NULL
UNION ALL
SELECT scope, session, seq, NULL, 'tool.result' FROM tool_extras
"""
# Links without an event, and passed events without a link; ``own`` is a condition on the checked
# sessions e.
UNSOUND: Final = f"""
WITH link AS MATERIALIZED (SELECT * FROM ({_LINKS}) AS e WHERE {{own}})
SELECT (
  SELECT count(*) FROM link
  LEFT JOIN events AS e
    ON e.scope = link.scope AND e.session = link.session AND e.seq = link.seq
    AND e.kind = link.kind AND e.flags & {GONE} = 0
    AND e.ts_ms = coalesce(link.ts_ms, e.ts_ms)
  WHERE e.seq IS NULL
) + (
  SELECT count(*) - count(DISTINCT (scope, session, seq)) FROM link
) + (
  SELECT count(*) FROM events AS e
  JOIN tool_marks AS m
    ON m.scope = e.scope AND (e.epoch, e.xid, e.position) <= (m.epoch, m.xid, m.position)
  LEFT JOIN link
    ON link.scope = e.scope AND link.session = e.session AND link.seq = e.seq
  WHERE {{own}} AND e.kind IN ('tool.call', 'tool.result') AND e.flags & {GONE} = 0
    AND link.seq IS NULL
)
"""

Result = TypeVar("Result")


class ToolSource:
    """The tool events of a ledger on a server, and the tables that follow them."""

    def __init__(self, server: Server, cache: IdCache) -> None:
        self._server = server
        self._cache = cache
        self.shown = server.address.shown
        self.table = PostgresTable
        self.read = server.read
        self.read_state = server.read_state
        self.session = cache.session

    @property
    def read_only(self) -> bool:
        """Whether the tables may not be written."""
        return self._server.read_only

    def write(self, work: Callable[[Connection], Result], scope: Scope) -> Result:
        """Do the same in a transaction, with the lock of the scope."""

        def change(connection: Connection) -> Result:
            with connection.transaction():
                lock(connection, self._cache, scope)
                return work(connection)

        return self._server.write(change, scope)

    def place(self, connection: Connection, scope: Scope) -> ScopePlace | None:
        """Return a scope as the tables have it; None if it has no events."""
        key = self._cache.scope_key(connection, scope)
        return None if key is None else ScopePlace(scope, key)

    def is_behind(self, connection: Connection, scope: Scope) -> bool:
        """Whether there are events that would change the tables, or many others to pass."""
        if self._cache.scope_key(connection, scope) is None:
            return False
        return bool(fetch(connection, BEHIND, _place(scope, self.mark(connection, scope)))[0][0])

    def mark(self, connection: Connection, scope: Scope) -> Mark:
        """Return the mark of the scope's settled events in the tables."""
        return read_mark(connection, _MARKS, scope)

    def set_mark(self, connection: Connection, scope: Scope, last: Mark) -> None:
        """Set the mark."""
        write_mark(connection, _MARKS, scope, last)

    def settled(
        self,
        connection: Connection,
        scope: Scope,
        after: Mark,
        until: Mark,  # noqa: ARG002  (events can come in before it)
    ) -> Stretch:
        """Return the next events that none can overtake any more."""
        rows = fetch(connection, SETTLED, _place(scope, after))
        if not rows:
            return Stretch({}, after, 0, more=False)
        *_, epoch, xid, events = rows[-1]
        facts = [row[:_FLAGS] for row in rows if _says_something(row)]
        last = (epoch, xid, rows[-1][_POSITION])
        return Stretch(self._facts(connection, facts), last, events, more=events == STRETCH)

    def unsettled(self, connection: Connection, scope: Scope, after: Mark) -> Facts:
        """Return all tool events after a mark, those included that others may still overtake."""
        return self._facts(connection, fetch(connection, UNSETTLED, _place(scope, after)))

    def erasures(self, connection: Connection, scope: Scope) -> int:
        """Return how often something was erased in the scope."""
        return int(fetch(connection, _ERASURES, (scope, sorted(ERASURE_KINDS)))[0][0])

    def headers(self, scope: Scope, places: Pairs) -> dict[tuple[int, int], Header]:
        """Return the headers of events by session and seq, without those that are gone."""

        def look(connection: Connection) -> dict[tuple[int, int], Header]:
            sessions, seqs = [pair[0] for pair in places], [pair[1] for pair in places]
            rows = fetch(connection, AT_PLACES, (scope, sessions, seqs))
            at = [(row[SESSION], row[SEQ]) for row in rows]
            with corrupt_on_error(self.shown):
                names = self._cache.session_names(connection, scope, sessions)
                return dict(zip(at, headers(rows, scope, names), strict=True))

        return self.read(look, scope)

    def states(
        self, scope: Scope, runs: list[tuple[int, str, str]]
    ) -> dict[tuple[str, str], RunState]:
        """Return the states of runs; each has the number and the name of a session, and an id."""
        names = {session: session_id for session, session_id, _ in runs}
        values = (scope, [run[0] for run in runs], [run[2] for run in runs])
        rows = self._server.fetch(_STATES, values, scope)
        return {(names[session], run): RUN_STATES[state] for session, run, state in rows}

    def lag(self, scope: Scope) -> int:
        """Return how many tool events of a scope are not in the tables yet."""

        def look(connection: Connection) -> int:
            return int(fetch(connection, _LAG, _place(scope, self.mark(connection, scope)))[0][0])

        return self.read(look, scope)

    def _facts(self, connection: Connection, rows: list[Row]) -> Facts:
        return read_facts(rows, lambda scope: self._cache.scope_key(connection, scope) or b"")


def lock(connection: Connection, cache: IdCache, scope: Scope) -> None:
    """Lock the scope's tool calls until the end of the transaction."""
    following.lock(connection, cache, scope, LOCK_NAME)


def empty(connection: Connection) -> None:
    """Delete all of it, of every scope."""
    empty_tables(connection, *tool_table.TABLES, _MARKS)


def touched(
    connection: Connection, scope: Scope, key: bytes, places: Pairs
) -> tuple[dict[Any, set[Group]], bool]:
    """Delete records without a call id; return the groups of the others, and if any are touched.

    Call with the lock of the scope, before the events at ``places`` are blanked.
    """
    facts = _at(connection, scope, key, places)
    return tool_table.touched(PostgresTable(connection), facts), bool(facts)


def fold_again(
    connection: Connection, scope: Scope, key: bytes, groups: dict[Any, set[Group]]
) -> None:
    """Derive records again from the remaining events. Call when the others are blanked."""
    tool_table.fold_again(
        PostgresTable(connection), groups, lambda _, places: _at(connection, scope, key, places)
    )


def _at(connection: Connection, scope: Scope, key: bytes, places: Pairs) -> Facts:
    sessions, seqs = [pair[0] for pair in places], [pair[1] for pair in places]
    rows = fetch(connection, _AT_SEQS, (scope, sessions, seqs, list(TOOL_KINDS)))
    return read_facts(rows, lambda _: key)


def _says_something(row: Row) -> bool:
    return row[_KIND] in TOOL_KINDS and not row[_FLAGS] & GONE


def _place(scope: Scope, after: Mark) -> dict[str, Any]:
    return place(scope, after) | {"kinds": list(TOOL_KINDS)}
