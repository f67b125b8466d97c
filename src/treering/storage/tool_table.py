"""The tables of tool calls, and questions about them: one SQL for every database."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.tool_calls import SAME_ID_MAX, percentile_rank
from treering.model.tools import REASONS, STATUSES, TOOLS_MAX, ToolQuery, ToolStatistics
from treering.storage.projections import pairs_value
from treering.storage.tool_calls import COLUMNS, call_of, groups_of, last_seq, number, take_in

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from treering.derive.tool_calls import CallState
    from treering.storage.encoding import Row
    from treering.storage.projections import Pairs, ProjectionTable
    from treering.storage.tool_calls import Changes, Facts, Group

SELECTED: Final = ", ".join(f"t.{column}" for column in COLUMNS)
OPEN, OK, FAILED, SYNTHETIC = range(4)


class ResolvedToolQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query in numbers."""

    scope: int | str
    session: int | None
    call: int | None
    tool: int | None
    run: int | None
    reason: int | None
    statuses: tuple[int, ...]
    query: ToolQuery


def resolve(
    query: ToolQuery, scope: int | str, key: bytes, session: int | None
) -> ResolvedToolQuery:
    """Return ``query`` in the numbers of its scope."""

    def named(name: str | None) -> int | None:
        return None if name is None else number(key, name)

    return ResolvedToolQuery(
        scope=scope,
        session=session,
        call=named(query.call_id),
        tool=named(query.tool),
        run=named(query.run_id),
        reason=None if query.reason is None else REASONS.index(query.reason),
        statuses=tuple(STATUSES.index(status) for status in query.statuses),
        query=query,
    )


def _index_of(found: ResolvedToolQuery) -> tuple[str, bool]:
    """Return the index that leads past the fewest other rows, and whether it is by status."""
    query = found.query
    by_time = query.order == "time" or query.since_ms is not None or query.until_ms is not None
    if found.call is not None:
        return "tool_calls_by_call", False
    if found.run is not None:
        return "tool_calls_of_run", False
    if found.session is not None:
        if found.tool is not None and not by_time:
            return "tool_calls_measured_in_session", True
        return "tool_calls_in_session", True
    if found.reason is not None:
        return "tool_calls_by_reason", False
    if found.tool is not None:
        return "tool_calls_of_tool" if by_time else "tool_calls_measured", True
    return "tool_calls_in_scope" if by_time else "tool_calls_slowest", True


def page_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL of one page: each status in its own order, merged."""
    query = found.query
    index, by_status = _index_of(found)
    rank = "at_ms" if query.order == "time" else "duration_ms"
    direction, beyond = ("DESC", "<") if _is_descending(query) else ("ASC", ">")
    where, values = conditions(found)
    if query.order == "slowest":
        where += " AND t.duration_ms IS NOT NULL"
    if query.after is not None:
        where += f" AND (t.{rank}, t.position) {beyond} (:rank, :after)"
        values |= {"rank": query.after.rank, "after": query.after.position}
    values["limit"] = query.limit
    order = f"ORDER BY t.{rank} {direction}, t.position {direction} LIMIT :limit"
    source = f"SELECT {SELECTED} FROM tool_calls AS t INDEXED BY {index} WHERE {where}"
    statuses = _statuses(found)
    if not by_status:
        among = f" AND t.status IN ({', '.join(map(str, statuses))})" if found.statuses else ""
        return f"{source}{among} {order}", values
    arms = (
        f"SELECT * FROM ({source} AND t.status = {status} {order}) AS s{status}"
        for status in statuses
    )
    return f"SELECT * FROM ({' UNION ALL '.join(arms)}) AS t {order}", values


def conditions(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the condition on rows, without their status."""
    given = {
        "scope": found.scope,
        "session": found.session,
        "call": found.call,
        "tool": found.tool,
        "run": found.run,
        "reason": found.reason,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    where = [f"t.{name} = :{name}" for name in values]
    for name, sign, bound in (
        ("since", ">=", found.query.since_ms),
        ("until", "<=", found.query.until_ms),
    ):
        if bound is not None:
            where.append(f"t.at_ms {sign} :{name}")
            values[name] = bound
    return " AND ".join(where), values


def _statuses(found: ResolvedToolQuery) -> list[int]:
    statuses = list(found.statuses) or [OPEN, OK, FAILED, SYNTHETIC]
    if found.query.order == "slowest":
        statuses = [status for status in statuses if status != OPEN] or [OPEN]
    if found.reason is not None:
        statuses = [status for status in statuses if status == SYNTHETIC] or statuses[:1]
    return statuses


def _is_descending(query: ToolQuery) -> bool:
    return query.backwards or query.order == "slowest"


PERCENTS: Final = (50, 90, 99)
TABLES: Final = ("tool_calls", "tool_extras")
DERIVED: Final = tuple(f"SELECT * FROM {table}" for table in TABLES)
_AT: Final = f"""
SELECT {SELECTED}
FROM $pairs AS g
CROSS JOIN tool_calls AS t
WHERE t.scope = :scope AND t.position = g.a
"""
_OF_SCOPE: Final = f"SELECT {SELECTED} FROM tool_calls AS t WHERE t.scope = :scope ORDER BY 1"
_EXTRAS_OF_SCOPE: Final = """
SELECT seq, session, call FROM tool_extras WHERE scope = :scope ORDER BY session, call, seq
"""
# Most calls are new: one look at each group spares the others.
KNOWN: Final = """
SELECT g.a, g.b
FROM $pairs AS g
WHERE EXISTS (
  SELECT 1 FROM tool_calls AS t INDEXED BY tool_calls_by_call
  WHERE t.scope = :scope AND t.session = g.a AND t.call = g.b
)
"""
# Of each group only the last few are compared with new events.
LATEST: Final = f"""
SELECT {SELECTED}
FROM $pairs AS g
CROSS JOIN tool_calls AS t INDEXED BY tool_calls_by_call
WHERE t.scope = :scope AND t.session = g.a AND t.call = g.b AND t.position >= coalesce((
  SELECT s.position FROM tool_calls AS s
  WHERE s.scope = :scope AND s.session = g.a AND s.call = g.b
  ORDER BY s.position DESC LIMIT 1 OFFSET {SAME_ID_MAX - 1}
), 0)
ORDER BY t.position
"""
_EXTRAS: Final = """
SELECT x.session, x.call, max(x.seq)
FROM $pairs AS g
CROSS JOIN tool_extras AS x
WHERE x.scope = :scope AND x.session = g.a AND x.call = g.b
GROUP BY x.session, x.call
"""
_DROP_LOOSE: Final = """
DELETE FROM tool_calls WHERE scope = :scope AND position = :at RETURNING position
"""
_AMONG: Final = "WHERE scope = :scope AND (session, call) IN (SELECT a, b FROM $pairs AS g)"
# By their positions: SQLite does not find the rows of pairs by an index that leaves rows out.
DROP: Final = """
DELETE FROM tool_calls
WHERE scope = :scope AND position IN (
  SELECT t.position
  FROM $pairs AS g CROSS JOIN tool_calls AS t INDEXED BY tool_calls_by_call
  WHERE t.scope = :scope AND t.session = g.a AND t.call = g.b
)
RETURNING session, call_seq, result_seq, late_seq
"""
_DROP_EXTRAS: Final = f"DELETE FROM tool_extras {_AMONG} RETURNING session, seq"


def take(table: ProjectionTable, facts: Facts) -> None:
    """Enter ``facts``, in their order."""
    for scope, placed in facts.items():
        _write(table, scope, take_in(placed, *_load(table, scope, groups_of(placed))))


def all_rows(table: ProjectionTable, scope: int | str) -> Iterator[Row]:
    """Return the records of all calls of a scope, then the results that came too late."""
    yield from table.stream(_OF_SCOPE, {"scope": scope})
    yield from table.stream(_EXTRAS_OF_SCOPE, {"scope": scope})


def difference(
    stored: Iterable[Row], derived: Iterable[Row], recent: Container[object] = ()
) -> tuple[int, str | None]:
    """Return how many rows there are, and how the first differs that does.

    Both come in one order. ``recent`` are groups and positions that may have changed meanwhile.
    """
    count = 0
    for row, again in zip_longest(stored, derived):
        if row != again and not any(
            record is not None and (record[1:3] in recent or record[0] in recent)
            for record in (row, again)
        ):
            position = min(record[0] for record in (row, again) if record is not None)
            return count, f"a tool record is not what its events say, at position {position}"
        count += row is not None
    return count, None


# Erasing.


def touched(table: ProjectionTable, facts: Facts) -> dict[Any, set[Group]]:
    """Delete the records of ``facts`` without a call id; return the groups of the others.

    Call before the events are blanked that say ``facts``.
    """
    for scope, placed in facts.items():
        for _, fact in placed:
            if fact.call_id is None:
                table.rows(_DROP_LOOSE, {"scope": scope, "at": fact.position})
    return {scope: groups for scope, placed in facts.items() if (groups := groups_of(placed))}


def fold_again(
    table: ProjectionTable, groups: dict[Any, set[Group]], read: Callable[[Any, Pairs], Facts]
) -> None:
    """Derive the records of ``groups`` from the events that are left, when others are blanked.

    ``read`` returns what the events of a scope say, by session and seq.
    """
    for scope, among in groups.items():
        values = {"scope": scope, "pairs": pairs_value(among)}
        dropped = [*table.rows(DROP, values), *table.rows(_DROP_EXTRAS, values)]
        places = sorted((row[0], seq) for row in dropped for seq in row[1:] if seq is not None)
        for placed in read(scope, places).values():
            _write(table, scope, take_in(placed, {}, {}))


# Asking.


def page(table: ProjectionTable, found: ResolvedToolQuery) -> list[Row]:
    """Return rows of COLUMNS, in the direction of the query."""
    return table.rows(*page_statement(found))


def rows_at(table: ProjectionTable, scope: int | str, positions: list[int]) -> list[Row]:
    """Return the rows of COLUMNS at ``positions``, in their order."""
    among = pairs_value((position, 0) for position in positions)
    by_position = {row[0]: row for row in table.rows(_AT, {"scope": scope, "pairs": among})}
    return [by_position[position] for position in positions if position in by_position]


def statistics(
    table: ProjectionTable, found: ResolvedToolQuery
) -> list[tuple[int, ToolStatistics]]:
    """Return statistics of each tool, the most called first, without its name.

    Each comes with the position of a call that names the tool.
    """
    by_tool: dict[int, dict[int, Row]] = {}
    for tool, status, *rest in table.rows(*counts_statement(found)):
        by_tool.setdefault(tool, {})[status] = tuple(rest)
    most = sorted(
        by_tool.items(), key=lambda item: (-sum(row[0] for row in item[1].values()), item[0])
    )[:TOOLS_MAX]
    durations = _percentiles(table, found, dict(most))
    return [
        (max(row[6] for row in by_status.values()), _measured(by_status, *durations[tool]))
        for tool, by_status in most
    ]


def _percentiles(
    table: ProjectionTable, found: ResolvedToolQuery, by_tool: dict[int, dict[int, Row]]
) -> dict[int, list[int | None]]:
    """Return the durations at PERCENTS by tool."""
    if table.has_percentiles:
        rows = table.rows(*percentiles_statement(found))
        return {tool: durations or [None] * len(PERCENTS) for tool, durations in rows}
    text, values = rank_statement(found)
    durations: dict[int, list[int | None]] = {}
    for tool, by_status in by_tool.items():
        timed = sum(by_status[status][1] for status in (OK, FAILED) if status in by_status)
        above = [timed - percentile_rank(percent, timed) for percent in PERCENTS]
        durations[tool] = [
            table.rows(text, {**values, "one": tool, "above": rank})[0][0] if timed else None
            for rank in above
        ]
    return durations


def percentiles_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL that finds the durations at PERCENTS, where the database can."""
    where, values = conditions(found)
    listed = ", ".join(str(percent / 100) for percent in PERCENTS)
    text = (
        f"SELECT t.tool, percentile_disc(ARRAY[{listed}]) WITHIN GROUP (ORDER BY t.duration_ms)"
        f" FILTER (WHERE t.status IN ({OK}, {FAILED}) AND t.duration_ms IS NOT NULL)"
        f" FROM tool_calls AS t WHERE {where} GROUP BY t.tool"
    )
    return text, values


def counts_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL that counts by tool and status."""
    where, values = conditions(found)
    text = (
        "SELECT t.tool, t.status, count(*), count(t.duration_ms), coalesce(sum(t.duration_ms), 0),"
        " max(t.duration_ms), coalesce(sum(t.output_bytes), 0), max(t.at_ms), max(t.position)"
        f" FROM tool_calls AS t INDEXED BY {_measuring(found)} WHERE {where}"
        " GROUP BY t.tool, t.status"
    )
    return text, values


def rank_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL that finds the duration at a rank."""
    where, values = conditions(found)
    arms = (
        f"SELECT t.duration_ms FROM tool_calls AS t INDEXED BY {_measuring(found)}"
        f" WHERE {where} AND t.tool = :one AND t.status = {status}"
        " AND t.duration_ms IS NOT NULL"
        for status in (OK, FAILED)
    )
    return f"{' UNION ALL '.join(arms)} ORDER BY 1 DESC LIMIT 1 OFFSET :above", values


def _measured(
    by_status: dict[int, Row], p50: int | None, p90: int | None, p99: int | None
) -> ToolStatistics:
    ended = [by_status[status] for status in (OK, FAILED) if status in by_status]
    every = by_status.values()
    opened, ok, failed, synthetic = (by_status.get(status, (0,))[0] for status in range(4))
    return ToolStatistics(
        tool=None,
        calls=opened + ok + failed + synthetic,
        ok=ok,
        failed=failed,
        synthetic=synthetic,
        open=opened,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        max_ms=max((row[3] for row in ended if row[3] is not None), default=None),
        total_ms=int(sum(row[2] for row in ended)),
        output_bytes=int(sum(row[4] for row in every)),
        last_ms=max(row[5] for row in every),
    )


def _measuring(found: ResolvedToolQuery) -> str:
    return "tool_calls_measured" + ("" if found.session is None else "_in_session")


def _load(
    table: ProjectionTable, scope: int | str, groups: set[Group]
) -> tuple[dict[Group, list[CallState]], dict[Group, int]]:
    """Return the latest calls of each group, and the last seq it has seen."""
    known = groups and table.rows(KNOWN, {"scope": scope, "pairs": pairs_value(sorted(groups))})
    if not known:
        return {}, {}
    values = {"scope": scope, "pairs": pairs_value(known)}
    latest: dict[Group, list[CallState]] = {}
    for row in table.rows(LATEST, values):
        latest.setdefault((row[1], row[2]), []).append(call_of(row))
    seen = {group: last_seq(calls) for group, calls in latest.items()}
    for session, call, seq in table.rows(_EXTRAS, values):
        seen[session, call] = max(seen.get((session, call), 0), seq)
    return latest, seen


def _write(table: ProjectionTable, scope: int | str, changes: Changes) -> None:
    table.put("tool_calls", ("scope", *COLUMNS), [(scope, *row) for row in changes.rows()])
    if changes.extras:
        extras = [(scope, *extra) for extra in changes.extras]
        table.put("tool_extras", ("scope", "session", "call", "seq"), extras)
