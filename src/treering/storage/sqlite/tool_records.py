"""Tool records in a file: how their tables follow its events, lose erased ones, and are checked.

Events of all scopes up to ``tools_seen`` are in the tables. An erasure removes the records of the
erased events, in the same transaction.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from treering.derive.tool_facts import TOOL_KINDS
from treering.model.codec import encode
from treering.model.kinds import ERASURE_KINDS
from treering.storage import tool_table
from treering.storage.encoding import GONE
from treering.storage.projections import SqliteTable, pairs_value
from treering.storage.sqlite.indexes import position_at
from treering.storage.sqlite.reader import find_scope, find_session
from treering.storage.sqlite.rows import HEADER, SEQ, SESSION, fetch_all, fetch_value, name_id
from treering.storage.tool_calls import RUN_STATES, read_facts
from treering.storage.tool_records import ScopePlace, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from treering.model.events import Header
    from treering.model.queries import Mark
    from treering.model.scopes import Scope
    from treering.model.views import RunState
    from treering.storage.projections import Pairs
    from treering.storage.sqlite.batch import Batch
    from treering.storage.sqlite.rows import Row
    from treering.storage.sqlite.writer import Writer
    from treering.storage.tool_calls import Facts, Group

STRETCH: Final = 32_000
"""Events that one transaction reads: writers wait meanwhile, for a fifth of a second.

In fewer, indexes by hash would have most of their pages written again and again.
"""
PASSED_MAX: Final = 8_000
"""How many events of other kinds are passed again and again before the tables follow."""
CACHE_KIB: Final = 8_192
"""Pages that are held from then on: indexes by hash take rows all over, and 2 MiB are too few."""

_SEEN: Final = "SELECT value FROM ledger WHERE name = 'tools_seen'"
_SET_SEEN: Final = """
INSERT INTO ledger (name, value) VALUES ('tools_seen', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_FACTS: Final = f"""
SELECT e.scope, e.session, e.position, e.seq, e.ts_ms,
  CASE e.kind WHEN :call THEN '{TOOL_KINDS[0]}' ELSE '{TOOL_KINDS[1]}' END, r.name, e.refs
FROM {{source}} AS e
LEFT JOIN names AS r ON r.id = e.run
WHERE {{where}} AND e.kind IN (:call, :result) AND e.flags & {GONE} = 0
ORDER BY e.position
"""
IN_STRETCH: Final = _FACTS.format(
    source="events", where="e.position > :after AND e.position <= :until"
)
AT_POSITIONS: Final = _FACTS.format(
    source="json_each(CAST(:positions AS TEXT)) AS p CROSS JOIN events",
    where="e.position = p.value AND e.position <= :seen",
)
AT_SEQS: Final = _FACTS.format(
    source="json_each(CAST(:pairs AS TEXT)) AS p CROSS JOIN events",
    where=f"e.position = {position_at('p.value ->> 0', 'p.value ->> 1')}",
)
AT_PLACES: Final = f"""
SELECT {HEADER}
FROM json_each(CAST(? AS TEXT)) AS place
CROSS JOIN events AS e ON e.position = {position_at("place.value ->> 0", "place.value ->> 1")}
WHERE e.flags & {GONE} = 0
"""
ANY_IN_STRETCH: Final = """
SELECT EXISTS (
  SELECT 1 FROM events AS e
  WHERE e.position > :after AND e.position <= :until AND e.kind IN (:call, :result)
)
"""
_ERASURES: Final = """
SELECT count(*) FROM events AS e
WHERE e.scope = ? AND e.position IN (
  SELECT t.position FROM times_by_kind AS t WHERE t.scope = ?1 AND t.kind IN ({kinds})
  UNION ALL
  SELECT n.position FROM events AS n
  WHERE n.position > (SELECT value FROM ledger WHERE name = 'timed_position')
    AND n.kind IN ({kinds})
)
"""
_LAG: Final = f"""
SELECT count(*) FROM events
WHERE position > :seen AND scope = :scope AND kind IN (:call, :result) AND flags & {GONE} = 0
"""
_STATES: Final = "SELECT state FROM runs WHERE session = ? AND run = ?"

_LINKS: Final = """
SELECT session, call_seq AS seq, started_ms AS ts_ms, :call AS kind
FROM tool_calls WHERE call_seq IS NOT NULL
UNION ALL
SELECT session, result_seq, ended_ms, :result FROM tool_calls WHERE result_seq IS NOT NULL
UNION ALL
SELECT session, late_seq, NULL, :result FROM tool_calls WHERE late_seq IS NOT NULL
UNION ALL
SELECT session, seq, NULL, :result FROM tool_extras
"""
_LINKED: Final = f"""
SELECT count(*), count(e.position)
FROM ({_LINKS}) AS link
LEFT JOIN events AS e
  ON e.position = {position_at("link.session", "link.seq")}
  AND e.session = link.session AND e.seq = link.seq AND e.kind = link.kind
  AND e.flags & {GONE} = 0
  AND e.ts_ms = coalesce(link.ts_ms, e.ts_ms) AND e.position <= :seen
WHERE {{own}}
"""
_ENTERED: Final = f"""
SELECT count(*) FROM events AS e
WHERE e.kind IN (:call, :result) AND e.flags & {GONE} = 0 AND e.position <= :seen AND {{own}}
"""

Result = TypeVar("Result")


class ToolSource:
    """The tool events of a file, and the tables that follow them."""

    def __init__(self, writer: Writer, to_headers: Callable[[list[Row]], list[Header]]) -> None:
        self._database = writer.database
        self._writer = writer
        self._to_headers = to_headers
        self.shown = writer.database.path
        self.table = SqliteTable

    @property
    def read_only(self) -> bool:
        """Whether the tables may not be written."""
        return self._database.read_only

    def read(self, work: Callable[[apsw.Connection], Result], scope: Scope) -> Result:  # noqa: ARG002
        """Return what ``work`` returns, with a connection that shows one state."""
        with self._database.reading() as connection, connection:
            result = work(connection)
        return result  # noqa: RET504  (a with statement might swallow an error, says mypy)

    read_state = read

    def write(self, work: Callable[[apsw.Connection], Result], scope: Scope) -> Result:  # noqa: ARG002
        """Do the same in a transaction of the only writer."""

        def carry_out(batch: Batch, _: None) -> Result:
            batch.dirty = True
            batch.connection.pragma("cache_size", -CACHE_KIB)
            return work(batch.connection)

        return self._writer.transact(carry_out, None)

    def place(self, connection: apsw.Connection, scope: Scope) -> ScopePlace | None:
        """Return a scope as the tables have it; None if it has no events."""
        number, key = find_scope(connection, scope)
        return ScopePlace(number, key) if number else None

    def session(self, connection: apsw.Connection, scope: Scope, session_id: str) -> int | None:
        """Return the number of a session; None if there is no such session."""
        return find_session(connection, *find_scope(connection, scope), session_id) or None

    def is_behind(self, connection: apsw.Connection, scope: Scope) -> bool:  # noqa: ARG002
        """Whether there are events that would change the tables, or many others to pass."""
        start, end = seen(connection), _newest(connection)
        values = _kinds(connection) | {"after": start, "until": end}
        return end - start > PASSED_MAX or bool(fetch_value(connection, ANY_IN_STRETCH, values))

    def mark(self, connection: apsw.Connection, scope: Scope) -> Mark:  # noqa: ARG002  (one order)
        """Return the mark up to which events are in the tables."""
        return (seen(connection),)

    def set_mark(self, connection: apsw.Connection, scope: Scope, mark: Mark) -> None:  # noqa: ARG002
        """Set the mark."""
        connection.execute(_SET_SEEN, mark)

    def settled(
        self,
        connection: apsw.Connection,
        scope: Scope,  # noqa: ARG002  (scopes are followed together)
        after: Mark,
        until: Mark,
    ) -> Stretch:
        """Return the next events of all scopes, up to ``until`` if it is given."""
        start, last = sum(after), sum(until) or _newest(connection)
        end = min(last, start + STRETCH)
        values = _kinds(connection) | {"after": start, "until": end}
        return Stretch(_facts(connection, IN_STRETCH, values), (end,), end - start, end < last)

    def unsettled(self, connection: apsw.Connection, scope: Scope, after: Mark) -> Facts:  # noqa: ARG002
        """Return nothing: events are read in the order of their commits."""
        return {}

    def erasures(self, connection: apsw.Connection, scope: Scope) -> int:
        """Return how often something was erased in the scope."""
        kinds = ", ".join(str(name_id(connection, kind)) for kind in sorted(ERASURE_KINDS))
        number = find_scope(connection, scope)[0]
        return int(fetch_value(connection, _ERASURES.format(kinds=kinds), (number,)))

    def headers(self, scope: Scope, places: Pairs) -> dict[tuple[int, int], Header]:  # noqa: ARG002
        """Return the headers of events by session and seq, without those that are gone."""
        with self._database.reading() as connection:
            rows = fetch_all(connection, AT_PLACES, (encode(places),))
        at = [(row[SESSION], row[SEQ]) for row in rows]
        return dict(zip(at, self._to_headers(rows), strict=True))

    def states(
        self,
        scope: Scope,  # noqa: ARG002  (sessions have numbers of their own)
        runs: list[tuple[int, str, str]],
    ) -> dict[tuple[str, str], RunState]:
        """Return the states of runs; each has the number and the name of a session, and an id."""
        states: dict[tuple[str, str], RunState] = {}
        with self._database.reading() as connection:
            for session, session_id, run in runs:
                state = fetch_value(connection, _STATES, (session, name_id(connection, run)))
                if state is not None:
                    states[session_id, run] = RUN_STATES[state]
        return states

    def lag(self, scope: Scope) -> int:
        """Return how many tool events of a scope are not in the tables yet."""
        with self._database.reading() as connection:
            number = find_scope(connection, scope)[0]
            values = _kinds(connection) | {"scope": number, "seen": seen(connection)}
            return int(fetch_value(connection, _LAG, values))


def seen(connection: apsw.Connection) -> int:
    """Return the position up to which events are in the tables."""
    return fetch_value(connection, _SEEN) or 0


def is_sound(connection: apsw.Connection, events: str = "TRUE", sessions: str = "TRUE") -> bool:
    """Whether the tables have every tool event once, as it is.

    ``events`` is a condition on the events ``e`` that are checked, ``sessions`` on ``e.session``.
    """
    values = _kinds(connection) | {"seen": seen(connection)}
    entered = fetch_value(connection, _ENTERED.format(own=events), values)
    linked = _LINKED.format(own=sessions.replace("e.session", "link.session"))
    return fetch_all(connection, linked, values)[0] == (entered, entered)


def empty(connection: apsw.Connection) -> None:
    """Remove all records. Call inside a write transaction."""
    for table in tool_table.TABLES:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DELETE FROM ledger WHERE name = 'tools_seen'")


def touched(connection: apsw.Connection, positions: list[int]) -> dict[Any, set[Group]]:
    """Delete records without a call id; return the groups of the others.

    Call before the events at ``positions`` are blanked.
    """
    values = _kinds(connection) | {"positions": encode(positions), "seen": seen(connection)}
    return tool_table.touched(SqliteTable(connection), _facts(connection, AT_POSITIONS, values))


def fold_again(connection: apsw.Connection, groups: dict[Any, set[Group]]) -> None:
    """Derive records again from the events that are left. Call when the others are blanked."""

    def read(_: int, places: Pairs) -> Facts:
        values = _kinds(connection) | {"pairs": pairs_value(places)}
        return _facts(connection, AT_SEQS, values)

    tool_table.fold_again(SqliteTable(connection), groups, read)


def _facts(connection: apsw.Connection, statement: str, values: dict[str, Any]) -> Facts:
    return read_facts(fetch_all(connection, statement, values), partial(_scope_key, connection))


def _scope_key(connection: apsw.Connection, scope: int) -> bytes:
    return fetch_value(connection, "SELECT key FROM scopes WHERE id = ?", (scope,)) or b""


def _newest(connection: apsw.Connection) -> int:
    return fetch_value(connection, "SELECT max(position) FROM events") or 0


def _kinds(connection: apsw.Connection) -> dict[str, Any]:
    call, result = (name_id(connection, kind) for kind in TOOL_KINDS)
    return {"call": call, "result": result}
