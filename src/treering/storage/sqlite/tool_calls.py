"""The table of tool calls: it follows the events, and is caught up when somebody asks.

Events up to ``tools_seen`` are in it. Whoever erases takes out what the erased events had brought
in, in the same transaction. Where nothing may be written, a private table stands in for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.tool_calls import SAME_ID_MAX, TOOL_KINDS, percentile_rank, read_fact
from treering.model.codec import decode
from treering.model.tool_records import TOOLS_MAX
from treering.storage.encoding import name_key
from treering.storage.sqlite.sql import fetch_all, fetch_value
from treering.storage.tool_calls import (
    COLUMNS,
    FAILED,
    OK,
    PERCENTS,
    Measured,
    Placed,
    conditions,
    entry_of,
    groups_of,
    hashed,
    last_seq,
    number,
    page_statement,
    take_in,
    way_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

    from treering.derive.tool_calls import Entry
    from treering.storage.sqlite.sql import Row
    from treering.storage.tool_calls import Asked, Changes, Group

STRETCH: Final = 4_000
"""Events that are looked at in one transaction: writers wait meanwhile."""

_SEEN: Final = "SELECT value FROM ledger WHERE name = 'tools_seen'"
_SET_SEEN: Final = """
INSERT INTO ledger (name, value) VALUES ('tools_seen', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_FACTS: Final = """
SELECT e.scope, e.session, e.position, e.seq, e.ts_ms, e.kind, r.name, e.refs
FROM events AS e {hint}
LEFT JOIN names AS r ON r.id = e.run
WHERE {where} AND e.flags & 66 = 0
"""
IN_STRETCH: Final = _FACTS.format(
    hint="NOT INDEXED", where="e.position > ? AND e.position <= ? AND e.kind IN (?, ?)"
)
_AT_SEQ: Final = _FACTS.format(hint="", where="e.session = ? AND e.seq = ?")
ANY_IN_STRETCH: Final = """
SELECT EXISTS (
  SELECT 1 FROM events AS e NOT INDEXED
  WHERE e.position > ? AND e.position <= ? AND e.kind IN ({kinds})
)
"""
_COLUMNS: Final = ", ".join(COLUMNS)
_AT: Final = f"SELECT {_COLUMNS} FROM tool_calls WHERE position = ?"
_INTO: Final = f"""
INSERT OR REPLACE INTO tool_calls (scope, {_COLUMNS})
VALUES (?{", ?" * len(COLUMNS)})
"""
_LATEST: Final = f"""
SELECT {_COLUMNS} FROM tool_calls INDEXED BY tool_calls_by_call
WHERE session = ? AND call = ? ORDER BY position DESC LIMIT {SAME_ID_MAX}
"""
_ERASED: Final = """
SELECT e.scope, e.session, e.position, e.kind, e.refs
FROM events AS e
WHERE e.position = ? AND e.kind IN (?, ?) AND e.flags & 66 = 0
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
  ON e.session = link.session AND e.seq = link.seq AND e.kind = link.kind AND e.flags & 66 = 0
  AND e.ts_ms = coalesce(link.ts_ms, e.ts_ms) AND e.position <= :seen
"""
_ENTERED: Final = """
SELECT count(*) FROM events
WHERE kind IN (:call, :result) AND flags & 66 = 0 AND position <= :seen
"""


def is_sound(connection: apsw.Connection) -> bool:
    """Whether every tool event that is in the table stands in it once, as it is."""
    call, result = (name_id(connection, kind) for kind in TOOL_KINDS)
    place = {"call": call, "result": result, "seen": seen(connection)}
    entered = fetch_value(connection, _ENTERED, place)
    return fetch_all(connection, _LINKED, place)[0] == (entered, entered)


def seen(connection: apsw.Connection) -> int:
    """Return the position up to which events are in the table."""
    return fetch_value(connection, _SEEN) or 0


def is_behind(connection: apsw.Connection) -> bool:
    """Whether there are events that would change the table, or many to look at."""
    start = seen(connection)
    end = newest(connection)
    return end - start > STRETCH or has_any(connection, start, end, TOOL_KINDS)


def has_any(connection: apsw.Connection, start: int, end: int, names: Iterable[str]) -> bool:
    """Whether an event of these kinds stands behind ``start``, up to ``end``."""
    kinds = ", ".join(str(name_id(connection, name)) for name in names)
    return bool(fetch_value(connection, ANY_IN_STRETCH.format(kinds=kinds), (start, end)))


def enter(source: apsw.Connection, table: apsw.Connection, start: int) -> tuple[int, int]:
    """Enter the next stretch of events into ``table``; return its end and the newest position."""
    last = newest(source)
    end = min(last, start + STRETCH)
    kinds = [name_id(source, kind) for kind in TOOL_KINDS]
    found = fetch_all(source, f"{IN_STRETCH} ORDER BY e.position", (start, end, *kinds))
    for scope, facts in _by_scope(source, found, kinds[0]).items():
        take(table, scope, facts)
    return end, last


def take(table: apsw.Connection, scope: int, facts: list[Placed]) -> None:
    """Enter ``facts`` of a scope, in their order."""
    groups, told = _load(table, groups_of(facts))
    _write(table, scope, take_in(facts, groups, told))


def note_seen(connection: apsw.Connection, position: int) -> None:
    """Note how far the table has come. Call inside the transaction that entered it."""
    connection.execute(_SET_SEEN, (position,))


def empty(connection: apsw.Connection) -> None:
    """Throw all of it away. Call inside a write transaction."""
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
    """Make records anew from the events that are left. Call when the others are blanked."""
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
            _write(connection, scope, take_in(facts, {}, {}))


# Looking.


def page(connection: apsw.Connection, found: Asked) -> list[Row]:
    """Return rows of COLUMNS, in the direction of the query."""
    return fetch_all(connection, *statement(found))


def rows_at(connection: apsw.Connection, positions: list[int]) -> list[Row]:
    """Return the rows of COLUMNS at ``positions``, in their order."""
    return [row for position in positions for row in fetch_all(connection, _AT, (position,))]


def statement(found: Asked) -> tuple[str, dict[str, Any]]:
    """Return the SQL of one page."""
    return page_statement(_narrowed(found), ":{}".format, " INDEXED BY {}".format)


def statistics(connection: apsw.Connection, found: Asked) -> list[Measured]:
    """Return what is known of each tool, the most called first."""
    by_tool: dict[int, dict[int, Row]] = {}
    for tool, status, *rest in fetch_all(connection, *counts_statement(found)):
        by_tool.setdefault(tool, {})[status] = tuple(rest)
    most = sorted(
        by_tool.items(), key=lambda item: (-sum(row[0] for row in item[1].values()), item[0])
    )
    return [_measured(connection, found, *item) for item in most[:TOOLS_MAX]]


def counts_statement(found: Asked) -> tuple[str, dict[str, Any]]:
    """Return the SQL that counts by tool and status."""
    where, values = conditions(_narrowed(found), ":{}".format)
    text = (
        "SELECT t.tool, t.status, count(*), count(t.duration_ms), coalesce(sum(t.duration_ms), 0),"
        " max(t.duration_ms), coalesce(sum(t.output_bytes), 0), max(t.at_ms), max(t.position)"
        f" FROM tool_calls AS t INDEXED BY {_measuring(found)} WHERE {where}"
        " GROUP BY t.tool, t.status"
    )
    return text, values


def rank_statement(found: Asked) -> tuple[str, dict[str, Any]]:
    """Return the SQL that finds the duration which so many others are above."""
    where, values = conditions(_narrowed(found), ":{}".format)
    arms = (
        f"SELECT t.duration_ms FROM tool_calls AS t INDEXED BY {_measuring(found)}"
        f" WHERE {where} AND t.tool = :one AND t.status = {status}"
        " AND t.duration_ms IS NOT NULL"
        for status in (OK, FAILED)
    )
    return f"{' UNION ALL '.join(arms)} ORDER BY 1 DESC LIMIT 1 OFFSET :above", values


def _measured(
    connection: apsw.Connection, found: Asked, tool: int, by_status: dict[int, Row]
) -> Measured:
    ended = [by_status[status] for status in (OK, FAILED) if status in by_status]
    timed = sum(row[1] for row in ended)
    text, values = rank_statement(found)
    percentiles = [
        fetch_value(
            connection, text, {**values, "one": tool, "above": timed - percentile_rank(p, timed)}
        )
        if timed
        else None
        for p in PERCENTS
    ]
    every = by_status.values()
    opened, ok, failed, synthetic = (by_status.get(status, (0,))[0] for status in range(4))
    return Measured(
        tool=tool,
        counts=(opened, ok, failed, synthetic),
        percentiles=(percentiles[0], percentiles[1], percentiles[2]),
        max_ms=max((row[3] for row in ended if row[3] is not None), default=None),
        total_ms=sum(row[2] for row in ended),
        output_bytes=sum(row[4] for row in every),
        last_ms=max(row[5] for row in every),
        position=max(row[6] for row in every),
    )


def _narrowed(found: Asked) -> Asked:
    """Return the same without the scope, where the session says it all."""
    if "scope" in way_of(found).fixed:
        return found
    return msgspec.structs.replace(found, scope=None)


def _measuring(found: Asked) -> str:
    return "tool_calls_measured" + ("" if found.session is None else "_in_session")


# Rows.


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


def _load(
    table: apsw.Connection, groups: set[Group]
) -> tuple[dict[Group, list[Entry]], dict[Group, int]]:
    latest: dict[Group, list[Entry]] = {}
    told: dict[Group, int] = {}
    for group in groups:
        found = [entry_of(row) for row in fetch_all(table, _LATEST, group)][::-1]
        if not found:
            continue
        latest[group] = found
        extra = fetch_value(
            table, "SELECT max(seq) FROM tool_extras WHERE session = ? AND call = ?", group
        )
        told[group] = max(last_seq(found), extra or 0)
    return latest, told


def _write(table: apsw.Connection, scope: int, changes: Changes) -> None:
    table.executemany(_INTO, [(scope, *row) for row in changes.rows()])
    table.executemany(
        "INSERT INTO tool_extras (session, call, seq) VALUES (?, ?, ?)", changes.extras
    )


def newest(connection: apsw.Connection) -> int:
    """Return the position of the newest event, 0 if there is none."""
    return fetch_value(connection, "SELECT max(position) FROM events") or 0


def _scope_key(connection: apsw.Connection, scope: int) -> bytes:
    return fetch_value(connection, "SELECT key FROM scopes WHERE id = ?", (scope,)) or b""


def name_id(connection: apsw.Connection, text: str) -> int:
    """Return the id of a name, 0 if nobody has it."""
    key = fetch_value(connection, "SELECT value FROM ledger WHERE name = 'name_key'")
    return (
        fetch_value(connection, "SELECT id FROM names WHERE key = ?", (name_key(key, text),)) or 0
    )
