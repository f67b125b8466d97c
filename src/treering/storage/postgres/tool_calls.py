"""The table of tool calls: it follows the events when somebody asks.

It holds the settled events of a scope up to its row of ``tool_marks``. Events that others may still
overtake are entered, too, and read a second time when they have settled: a group ignores events it
has seen. An erasure deletes what the erased events had brought. A lock of the scope separates
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.derive.tool_facts import TOOL_KINDS
from treering.model.kinds import ERASURE_KINDS
from treering.storage.encoding import EXPIRED, GONE
from treering.storage.postgres.connections import streaming
from treering.storage.postgres.tool_rows import FACT, fetch, load, placed, write
from treering.storage.tool_calls import COLUMNS, groups_of, take_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.followers import Mark
    from treering.model.scopes import Scope
    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection
    from treering.storage.tool_calls import Group, Placed

STRETCH: Final = 4_000
"""Settled events read in one transaction."""
PASSED_MAX: Final = 500
"""How many events of other kinds are read again and again before the mark moves past them."""
UNSETTLED_MAX: Final = 10_000
"""Tool events entered before they have settled; others wait."""
LOCK_NAME: Final = "\0tools"
"""Not a session's name: sessions cannot have it."""

_PLACE: Final = "(%(epoch)s::int, %(xid)s::text::xid8, %(position)s)"
_HORIZON: Final = "((SELECT enter_epoch()), pg_snapshot_xmin(pg_current_snapshot()))"
# The last row is read for its mark alone, whatever its kind.
SETTLED: Final = f"""
WITH stretch AS MATERIALIZED (
  SELECT {FACT}, e.flags, e.epoch, e.xid
  FROM events AS e
  WHERE e.scope = %(scope)s
    AND (e.epoch, e.xid, e.position) > {_PLACE}
    AND (e.epoch, e.xid) < {_HORIZON}
  ORDER BY e.epoch, e.xid, e.position
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
  WHERE e.scope = %(scope)s AND (e.epoch, e.xid, e.position) > {_PLACE}
  ORDER BY e.epoch, e.xid, e.position
  LIMIT {PASSED_MAX}
) AS s
"""
# No upper limit here: it has moved since the settled ones were read. An event that settled in
# between would be in neither, and count as seen once a later event of its group is entered.
UNSETTLED: Final = f"""
SELECT {FACT}
FROM events AS e
WHERE e.scope = %(scope)s
  AND (e.epoch, e.xid, e.position) > {_PLACE}
  AND e.kind = ANY(%(kinds)s::text[]) AND e.flags & {GONE} = 0
ORDER BY e.epoch, e.xid, e.position
LIMIT {UNSETTLED_MAX}
"""
_AT_PLACES: Final = f"""
SELECT {FACT}
FROM events AS e
WHERE e.scope = %s AND (e.session, e.seq) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
  AND e.kind = ANY(%s::text[]) AND e.flags & {GONE} = 0
ORDER BY e.position
"""
_IN_GROUPS: Final = """
WHERE scope = %s AND (session, call) IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))
"""
_MARK: Final = """
INSERT INTO tool_marks (scope, epoch, xid, position) VALUES (%s, %s::int, %s::text::xid8, %s)
ON CONFLICT (scope) DO UPDATE
SET (epoch, xid, position) = (excluded.epoch, excluded.xid, excluded.position)
"""
_SINCE: Final = "SELECT epoch, xid::text::bigint, position FROM tool_marks WHERE scope = %s"
ERASURES: Final = f"""
SELECT count(*) FROM events WHERE scope = %s AND kind = ANY(%s::text[]) AND flags < {EXPIRED}
"""

_OF_SCOPE: Final = f"SELECT {', '.join(COLUMNS)} FROM tool_calls WHERE scope = %s ORDER BY position"
_EXTRAS_OF_SCOPE: Final = """
SELECT seq, session, call FROM tool_extras WHERE scope = %s ORDER BY session, call, seq
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


class NewToolEvents:
    """Tool events after a mark, and the new mark."""

    def __init__(self, facts: list[Placed], last: Mark, events: int) -> None:
        self.facts = facts
        self.last = last
        self.events = events
        self.more = events == STRETCH


def mark(connection: Connection, scope: Scope) -> Mark:
    """Return the mark of the scope's settled events in the table."""
    found = fetch(connection, _SINCE, (scope,))
    return tuple(found[0]) if found else (0, 0, 0)


def is_behind(connection: Connection, scope: Scope) -> bool:
    """Whether there are events that would change the table, or many others to pass."""
    found = fetch(connection, BEHIND, _place(scope, mark(connection, scope)))
    return bool(found[0][0])


def settled(connection: Connection, scope: Scope, key: bytes, after: Mark) -> NewToolEvents:
    """Return the next settled events."""
    found = fetch(connection, SETTLED, _place(scope, after))
    if not found:
        return NewToolEvents([], after, 0)
    *_, epoch, xid, events = found[-1]
    facts = [row[:7] for row in found if row[4] in TOOL_KINDS and not row[7] & GONE]
    return NewToolEvents(placed(facts, key), (epoch, xid, found[-1][1]), events)


def unsettled(connection: Connection, scope: Scope, key: bytes, after: Mark) -> list[Placed]:
    """Return all tool events after the last settled one: others may still overtake them."""
    return placed(fetch(connection, UNSETTLED, _place(scope, after)), key)


def enter(connection: Connection, scope: Scope, facts: list[Placed]) -> None:
    """Enter ``facts``, in their order. The lock of the scope is held."""
    groups, seen = load(connection, scope, groups_of(facts))
    write(connection, scope, take_in(facts, groups, seen))


def note_mark(connection: Connection, scope: Scope, last: Mark) -> None:
    """Set the mark of the table. Call inside the transaction that entered the events."""
    epoch, xid, position = last
    connection.execute(_MARK, (scope, epoch, str(xid), position))


def all_rows(connection: Connection, scope: Scope) -> Iterator[Row]:
    """Return the records of all calls of a scope, then the results that came too late."""
    for statement in (_OF_SCOPE, _EXTRAS_OF_SCOPE):
        with streaming(connection, "tools") as cursor:
            cursor.execute(statement, (scope,))
            yield from cursor


def erasures(connection: Connection, scope: Scope) -> int:
    """Return how often something was erased in the scope."""
    found = fetch(connection, ERASURES, (scope, sorted(ERASURE_KINDS)))
    return int(found[0][0])


def empty(connection: Connection) -> None:
    """Delete all of it, of every scope."""
    connection.execute("LOCK TABLE tool_calls, tool_extras, tool_marks IN ACCESS EXCLUSIVE MODE")
    connection.execute("SET LOCAL enable_seqscan = on")
    for table in ("tool_calls", "tool_extras", "tool_marks"):
        connection.execute(f"DELETE FROM {table}")


# Erasing.


def touched(
    connection: Connection, scope: Scope, key: bytes, places: list[tuple[int, int]]
) -> set[Group]:
    """Delete records without a call id; return the groups of the others.

    Call with the lock of the scope, before the events at ``places`` are blanked.
    """
    facts = _at(connection, scope, key, places)
    loose = [fact.position for _, fact in facts if fact.call_id is None]
    if loose:
        connection.execute(
            "DELETE FROM tool_calls WHERE scope = %s AND position = ANY(%b::bigint[])",
            (scope, loose),
        )
    return groups_of(facts)


def fold_anew(connection: Connection, scope: Scope, key: bytes, groups: set[Group]) -> None:
    """Derive records again from the remaining events. Call when the others are blanked."""
    if not groups:
        return
    among = (scope, [group[0] for group in groups], [group[1] for group in groups])
    places = [
        (session, seq)
        for session, *seqs in (
            *fetch(
                connection,
                "DELETE FROM tool_calls"
                f" {_IN_GROUPS} RETURNING session, call_seq, result_seq, late_seq",
                among,
            ),
            *fetch(
                connection, f"DELETE FROM tool_extras {_IN_GROUPS} RETURNING session, seq", among
            ),
        )
        for seq in seqs
        if seq is not None
    ]
    write(connection, scope, take_in(_at(connection, scope, key, places), {}, {}))


def _at(
    connection: Connection, scope: Scope, key: bytes, places: list[tuple[int, int]]
) -> list[Placed]:
    sessions, seqs = [place[0] for place in places], [place[1] for place in places]
    found = fetch(connection, _AT_PLACES, (scope, sessions, seqs, list(TOOL_KINDS)))
    return placed(found, key)


def _place(scope: Scope, after: Mark) -> dict[str, Any]:
    epoch, xid, position = after
    return {
        "scope": scope,
        "epoch": epoch,
        "xid": str(xid),
        "position": position,
        "kinds": list(TOOL_KINDS),
    }
