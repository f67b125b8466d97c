"""The table of tool calls: it follows the events, and is caught up when it is queried.

Events up to ``tools_seen`` are in it. An erasure removes what the erased events had brought
in, in the same transaction. Where nothing may be written, a private table replaces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.derive.tool_facts import TOOL_KINDS, read_fact
from treering.model.codec import decode
from treering.storage.encoding import GONE, name_key
from treering.storage.sqlite.indexes import position_at
from treering.storage.sqlite.sql import fetch_all, fetch_value, key_of_names
from treering.storage.tool_calls import Placed, hashed, number, take_in
from treering.storage.tool_table import take, write

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from treering.storage.sqlite.sql import Row
    from treering.storage.tool_calls import Group

STRETCH: Final = 4_000
"""Events that are looked at in one transaction: writers wait meanwhile."""

_SEEN: Final = "SELECT value FROM ledger WHERE name = 'tools_seen'"
_SET_SEEN: Final = """
INSERT INTO ledger (name, value) VALUES ('tools_seen', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_FACTS: Final = f"""
SELECT e.scope, e.session, e.position, e.seq, e.ts_ms, e.kind, r.name, e.refs
FROM events AS e
LEFT JOIN names AS r ON r.id = e.run
WHERE {{where}} AND e.flags & {GONE} = 0
"""
IN_STRETCH: Final = _FACTS.format(where="e.position > ? AND e.position <= ? AND e.kind IN (?, ?)")
_AT_SEQ: Final = _FACTS.format(where=f"e.position = {position_at('?1', '?2')}")
ANY_IN_STRETCH: Final = """
SELECT EXISTS (
  SELECT 1
  FROM events AS e
  WHERE e.position > ? AND e.position <= ? AND e.kind IN ({kinds})
)
"""
_ERASED: Final = f"""
SELECT e.scope, e.session, e.position, e.kind, e.refs
FROM events AS e
WHERE e.position = ? AND e.kind IN (?, ?) AND e.flags & {GONE} = 0
"""
_GROUP_SEQS: Final = """
SELECT call_seq FROM tool_calls WHERE session = :session AND call = :call
UNION SELECT result_seq FROM tool_calls WHERE session = :session AND call = :call
UNION SELECT late_seq FROM tool_calls WHERE session = :session AND call = :call
UNION SELECT seq FROM tool_extras WHERE session = :session AND call = :call
ORDER BY 1
"""

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


def is_sound(connection: apsw.Connection, events: str = "TRUE", sessions: str = "TRUE") -> bool:
    """Whether the table has every tool event once, as it is.

    ``events`` is a condition on the events ``e`` that are checked, ``sessions`` on ``e.session``.
    """
    call, result = (name_id(connection, kind) for kind in TOOL_KINDS)
    place = {"call": call, "result": result, "seen": seen(connection)}
    entered = fetch_value(connection, _ENTERED.format(own=events), place)
    linked = _LINKED.format(own=sessions.replace("e.session", "link.session"))
    return fetch_all(connection, linked, place)[0] == (entered, entered)


def seen(connection: apsw.Connection) -> int:
    """Return the position up to which events are in the table."""
    return fetch_value(connection, _SEEN) or 0


def is_behind(connection: apsw.Connection) -> bool:
    """Whether there are events that would change the table, or many to look at."""
    start = seen(connection)
    end = newest(connection)
    return end - start > STRETCH or has_any(connection, start, end, TOOL_KINDS)


def has_any(connection: apsw.Connection, start: int, end: int, names: Iterable[str]) -> bool:
    """Whether there is an event of these kinds after ``start``, up to ``end``."""
    kinds = ", ".join(str(name_id(connection, name)) for name in names)
    return bool(fetch_value(connection, ANY_IN_STRETCH.format(kinds=kinds), (start, end)))


def enter(
    source: apsw.Connection,
    table: apsw.Connection,
    start: int,
    *,
    until: int | None = None,
    scope: int | None = None,
) -> tuple[int, int]:
    """Enter the next stretch of events into ``table``; return its end and the newest position.

    ``until`` replaces the newest position; of a ``scope`` only its own events are entered.
    """
    last = newest(source) if until is None else until
    end = min(last, start + STRETCH)
    kinds = [name_id(source, kind) for kind in TOOL_KINDS]
    found = fetch_all(source, f"{IN_STRETCH} ORDER BY e.position", (start, end, *kinds))
    own = [row for row in found if scope is None or row[0] == scope]
    for number_of, facts in _by_scope(source, own, kinds[0]).items():
        take(table, number_of, facts)
    return end, last


def note_seen(connection: apsw.Connection, position: int) -> None:
    """Note how far the table has come. Call inside the transaction that entered it."""
    connection.execute(_SET_SEEN, (position,))


def empty(connection: apsw.Connection) -> None:
    """Remove all records. Call inside a write transaction."""
    connection.execute("DELETE FROM tool_calls")
    connection.execute("DELETE FROM tool_extras")
    connection.execute("DELETE FROM ledger WHERE name = 'tools_seen'")


# Erasing.


def touched(connection: apsw.Connection, positions: list[int]) -> list[tuple[int, Group]]:
    """Take out what has no call id; return the groups of the rest, each with its scope.

    Call before the events at ``positions`` are blanked.
    """
    last = seen(connection)
    if not last:
        return []
    kinds = [name_id(connection, kind) for kind in TOOL_KINDS]
    found: set[tuple[int, Group]] = set()
    for position in positions:
        if position > last:
            continue
        for scope, session, _, kind, refs in fetch_all(connection, _ERASED, (position, *kinds)):
            name = TOOL_KINDS[kinds.index(kind)]
            fact = read_fact((position, 0, 0), name, None, refs and decode(refs))
            if fact.call_id is None:
                connection.execute("DELETE FROM tool_calls WHERE position = ?", (position,))
            else:
                key = _scope_key(connection, scope)
                found.add((scope, (session, number(key, str(fact.call_id)))))
    return sorted(found)


def fold_anew(connection: apsw.Connection, groups: Iterable[tuple[int, Group]]) -> None:
    """Derive records again from the events that are left. Call when the others are blanked."""
    call_kind = name_id(connection, TOOL_KINDS[0])
    for scope, (session, call) in groups:
        place = {"session": session, "call": call}
        seqs = [row[0] for row in fetch_all(connection, _GROUP_SEQS, place) if row[0]]
        for table in ("tool_calls", "tool_extras"):
            connection.execute(
                f"DELETE FROM {table} WHERE session = :session AND call = :call", place
            )
        found = [row for seq in seqs for row in fetch_all(connection, _AT_SEQ, (session, seq))]
        for facts in _by_scope(connection, found, call_kind).values():
            write(connection, scope, take_in(facts, {}, {}))


def _by_scope(
    source: apsw.Connection, found: Iterable[Row], call_kind: int
) -> dict[int, list[Placed]]:
    facts: dict[int, list[Placed]] = {}
    keys: dict[int, bytes] = {}
    for scope, session, position, seq, ts_ms, kind, run, refs in found:
        if scope not in keys:
            keys[scope] = _scope_key(source, scope)
        name = TOOL_KINDS[0] if kind == call_kind else TOOL_KINDS[1]
        fact = read_fact((position, seq, ts_ms), name, run, refs and decode(refs))
        facts.setdefault(scope, []).append(Placed(session, hashed(fact, keys[scope])))
    return facts


def newest(connection: apsw.Connection) -> int:
    """Return the position of the newest event, 0 if there is none."""
    return fetch_value(connection, "SELECT max(position) FROM events") or 0


def _scope_key(connection: apsw.Connection, scope: int) -> bytes:
    return fetch_value(connection, "SELECT key FROM scopes WHERE id = ?", (scope,)) or b""


def name_id(connection: apsw.Connection, text: str) -> int:
    """Return the id of a name, 0 if there is none."""
    key = key_of_names(connection)
    return (
        fetch_value(connection, "SELECT id FROM names WHERE key = ?", (name_key(key, text),)) or 0
    )
