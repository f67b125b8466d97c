"""The table of tool calls as SQLite has it: a ledger's own, or a private one beside any ledger."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.tool_calls import SAME_ID_MAX, percentile_rank
from treering.model.tool_records import TOOLS_MAX
from treering.storage.tool_calls import COLUMNS, call_of, groups_of, last_seq, take_in
from treering.storage.tool_queries import (
    FAILED,
    OK,
    PERCENTS,
    Measured,
    conditions,
    page_statement,
    way_of,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    import apsw

    from treering.derive.tool_calls import CallState
    from treering.storage.encoding import Row
    from treering.storage.tool_calls import Changes, Group, Placed
    from treering.storage.tool_queries import ResolvedToolQuery

_COLUMNS: Final = ", ".join(COLUMNS)
_AT: Final = f"SELECT {_COLUMNS} FROM tool_calls WHERE position = ?"
_INTO: Final = f"""
INSERT OR REPLACE INTO tool_calls (scope, {_COLUMNS})
VALUES (?{", ?" * len(COLUMNS)})
"""
_OF_SCOPE: Final = f"SELECT {_COLUMNS} FROM tool_calls WHERE scope = ? ORDER BY position"
_EXTRAS_OF_SCOPE: Final = """
SELECT x.seq, x.session, x.call
FROM tool_extras AS x
WHERE EXISTS (
  SELECT 1 FROM tool_calls AS t WHERE t.session = x.session AND t.call = x.call AND t.scope = ?
)
ORDER BY x.session, x.call, x.seq
"""
_EXTRA: Final = "SELECT max(seq) FROM tool_extras WHERE session = ? AND call = ?"
_LATEST: Final = f"""
SELECT {_COLUMNS} FROM tool_calls INDEXED BY tool_calls_by_call
WHERE session = ? AND call = ? ORDER BY position DESC LIMIT {SAME_ID_MAX}
"""


def take(table: apsw.Connection, scope: int, facts: list[Placed]) -> None:
    """Enter ``facts`` of a scope, in their order."""
    groups, seen = _load(table, groups_of(facts))
    write(table, scope, take_in(facts, groups, seen))


def write(table: apsw.Connection, scope: int, changes: Changes) -> None:
    """Write ``changes`` of a scope."""
    table.executemany(_INTO, [(scope, *row) for row in changes.rows()])
    table.executemany(
        "INSERT INTO tool_extras (session, call, seq) VALUES (?, ?, ?)", changes.extras
    )


def all_rows(table: apsw.Connection, scope: int) -> Iterator[Row]:
    """Return the records of all calls of a scope, then the results that came too late."""
    yield from table.execute(_OF_SCOPE, (scope,))
    yield from table.execute(_EXTRAS_OF_SCOPE, (scope,))


def difference(
    stored: Iterable[Row], derived: Iterable[Row], recent: Container[object] = ()
) -> tuple[int, str | None]:
    """Return how many rows there are, and how the first that differs does.

    Both come in one order. ``recent`` are groups, and positions, that may have gone on meanwhile.
    """
    count = 0
    for one, other in zip_longest(stored, derived):
        if one != other and not any(
            row is not None and (row[1:3] in recent or row[0] in recent) for row in (one, other)
        ):
            place = min(row[0] for row in (one, other) if row is not None)
            return count, f"a tool record is not what its events say, at position {place}"
        count += one is not None
    return count, None


def page(table: apsw.Connection, found: ResolvedToolQuery) -> list[Row]:
    """Return rows of COLUMNS, in the direction of the query."""
    return _fetch(table, *statement(found))


def rows_at(table: apsw.Connection, positions: list[int]) -> list[Row]:
    """Return the rows of COLUMNS at ``positions``, in their order."""
    return [row for position in positions for row in _fetch(table, _AT, (position,))]


def statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL of one page."""
    return page_statement(_narrowed(found), ":{}".format, " INDEXED BY {}".format)


def statistics(table: apsw.Connection, found: ResolvedToolQuery) -> list[Measured]:
    """Return statistics of each tool, the most called first."""
    by_tool: dict[int, dict[int, Row]] = {}
    for tool, status, *rest in _fetch(table, *counts_statement(found)):
        by_tool.setdefault(tool, {})[status] = tuple(rest)
    most = sorted(
        by_tool.items(), key=lambda item: (-sum(row[0] for row in item[1].values()), item[0])
    )
    return [_measured(table, found, *item) for item in most[:TOOLS_MAX]]


def counts_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL that counts by tool and status."""
    where, values = conditions(_narrowed(found), ":{}".format)
    text = (
        "SELECT t.tool, t.status, count(*), count(t.duration_ms), coalesce(sum(t.duration_ms), 0),"
        " max(t.duration_ms), coalesce(sum(t.output_bytes), 0), max(t.at_ms), max(t.position)"
        f" FROM tool_calls AS t INDEXED BY {_measuring(found)} WHERE {where}"
        " GROUP BY t.tool, t.status"
    )
    return text, values


def rank_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL that finds the duration at a rank."""
    where, values = conditions(_narrowed(found), ":{}".format)
    arms = (
        f"SELECT t.duration_ms FROM tool_calls AS t INDEXED BY {_measuring(found)}"
        f" WHERE {where} AND t.tool = :one AND t.status = {status}"
        " AND t.duration_ms IS NOT NULL"
        for status in (OK, FAILED)
    )
    return f"{' UNION ALL '.join(arms)} ORDER BY 1 DESC LIMIT 1 OFFSET :above", values


def _measured(
    table: apsw.Connection, found: ResolvedToolQuery, tool: int, by_status: dict[int, Row]
) -> Measured:
    ended = [by_status[status] for status in (OK, FAILED) if status in by_status]
    timed = sum(row[1] for row in ended)
    text, values = rank_statement(found)
    percentiles = [
        _fetch(table, text, {**values, "one": tool, "above": timed - percentile_rank(p, timed)})[0][
            0
        ]
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


def _narrowed(found: ResolvedToolQuery) -> ResolvedToolQuery:
    """Return the same without the scope, where the session says it all."""
    if "scope" in way_of(found).fixed:
        return found
    return msgspec.structs.replace(found, scope=None)


def _measuring(found: ResolvedToolQuery) -> str:
    return "tool_calls_measured" + ("" if found.session is None else "_in_session")


def _load(
    table: apsw.Connection, groups: set[Group]
) -> tuple[dict[Group, list[CallState]], dict[Group, int]]:
    latest: dict[Group, list[CallState]] = {}
    seen: dict[Group, int] = {}
    for group in groups:
        found = [call_of(row) for row in _fetch(table, _LATEST, group)][::-1]
        if not found:
            continue
        latest[group] = found
        seen[group] = max(last_seq(found), _fetch(table, _EXTRA, group)[0][0] or 0)
    return latest, seen


def _fetch(table: apsw.Connection, statement: str, values: Any) -> list[Row]:
    found: list[Any] = table.execute(statement, values).fetchall()
    return found
