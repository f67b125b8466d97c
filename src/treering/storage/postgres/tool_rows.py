"""Rows of the tables of tool calls on PostgreSQL: from events, stored, and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.derive.tool_calls import SAME_ID_MAX
from treering.derive.tool_facts import read_fact
from treering.model.codec import decode
from treering.storage.tool_calls import COLUMNS, Placed, call_of, hashed, last_seq
from treering.storage.tool_queries import SELECTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.derive.tool_calls import CallState
    from treering.model.scopes import Scope
    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection
    from treering.storage.tool_calls import Changes, Group

FACT: Final = "e.session, e.position, e.seq, e.ts_ms, e.kind, e.run_id, e.refs"
"""The columns of an event that ``placed`` reads."""

LATEST: Final = f"""
SELECT {SELECTED}
FROM unnest(%b::bigint[], %b::bigint[]) AS k (session, call)
CROSS JOIN LATERAL (
  SELECT * FROM tool_calls AS t
  WHERE t.scope = %s AND t.session = k.session AND t.call = k.call
  ORDER BY t.position DESC LIMIT {SAME_ID_MAX}
) AS t
ORDER BY t.position
"""
_EXTRAS: Final = """
SELECT x.session, x.call, max(x.seq)
FROM tool_extras AS x
WHERE x.scope = %s AND (x.session, x.call) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
GROUP BY x.session, x.call
"""
_COLUMNS: Final = ", ".join(COLUMNS)
_INTO: Final = f"""
INSERT INTO tool_calls (scope, {_COLUMNS}) VALUES (%s{", %s" * len(COLUMNS)})
ON CONFLICT (scope, position) DO UPDATE
SET ({_COLUMNS}) = ({", ".join(f"excluded.{column}" for column in COLUMNS)})
"""


def placed(found: Iterable[Row], key: bytes) -> list[Placed]:
    """Return the facts of events with ids in place of names; the rows are those of FACT."""
    return [
        Placed(
            session,
            hashed(read_fact((position, seq, ts_ms), kind, run, refs and decode(refs)), key),
        )
        for session, position, seq, ts_ms, kind, run, refs in found
    ]


def load(
    connection: Connection, scope: Scope, groups: set[Group]
) -> tuple[dict[Group, list[CallState]], dict[Group, int]]:
    """Return the latest calls of each group, and the last seq it has seen."""
    if not groups:
        return {}, {}
    sessions, calls = [group[0] for group in groups], [group[1] for group in groups]
    latest: dict[Group, list[CallState]] = {}
    for row in planned(connection, LATEST, (sessions, calls, scope)):
        latest.setdefault((row[1], row[2]), []).append(call_of(row))
    seen = {group: last_seq(known) for group, known in latest.items()}
    for session, call, seq in fetch(connection, _EXTRAS, (scope, sessions, calls)):
        seen[session, call] = max(seen.get((session, call), 0), seq)
    return latest, seen


def write(connection: Connection, scope: Scope, changes: Changes) -> None:
    """Write ``changes`` of a scope."""
    with connection.cursor() as cursor:
        cursor.executemany(_INTO, [(scope, *row) for row in changes.rows()])
        cursor.executemany(
            "INSERT INTO tool_extras (scope, session, call, seq) VALUES (%s, %s, %s, %s)",
            [(scope, *extra) for extra in changes.extras],
        )


def planned(connection: Connection, statement: str, values: Any) -> list[Row]:
    """Return the rows of a statement that is planned for its values."""
    # Planned each time: several indexes would do, and a plan made while the table was small may
    # use any of them for ever.
    return connection.execute(statement, values, prepare=False, binary=True).fetchall()


def fetch(connection: Connection, statement: str, values: Any) -> list[Row]:
    """Return the rows of a statement."""
    return connection.execute(statement, values, binary=True).fetchall()
