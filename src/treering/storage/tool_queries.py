"""Questions about tool records in numbers, and the SQL that answers them in every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from treering.model.tool_records import ToolQuery, ToolStatistics
from treering.model.tools import REASONS, STATUSES
from treering.storage.tool_calls import COLUMNS, number

if TYPE_CHECKING:
    from collections.abc import Callable

SELECTED: Final = ", ".join(f"t.{column}" for column in COLUMNS)
OPEN, OK, FAILED, SYNTHETIC = range(4)
PERCENTS: Final = (50, 90, 99)


class ResolvedToolQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query in numbers."""

    scope: int | str | None
    session: int | None
    call: int | None
    tool: int | None
    run: int | None
    reason: int | None
    statuses: tuple[int, ...]
    query: ToolQuery


def asked(query: ToolQuery, scope: int | str, key: bytes, session: int | None) -> ResolvedToolQuery:
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


class Way(msgspec.Struct, frozen=True):
    """An index to go by: what it fixes, and whether it goes status by status."""

    index: str
    fixed: tuple[str, ...]
    by_status: bool = True


def way_of(found: ResolvedToolQuery) -> Way:
    """Return the way that touches fewest rows which are not asked for."""
    query = found.query
    by_time = query.order == "time" or query.since_ms is not None or query.until_ms is not None
    if found.call is not None:
        return Way("tool_calls_by_call", ("session", "call"), by_status=False)
    if found.run is not None:
        return Way("tool_calls_of_run", ("scope", "run"), by_status=False)
    if found.session is not None:
        if found.tool is not None and not by_time:
            return Way("tool_calls_measured_in_session", ("session", "tool"))
        return Way("tool_calls_in_session", ("session",))
    if found.reason is not None:
        return Way("tool_calls_by_reason", ("scope", "reason"), by_status=False)
    if found.tool is not None:
        return Way("tool_calls_of_tool" if by_time else "tool_calls_measured", ("scope", "tool"))
    return Way("tool_calls_in_scope" if by_time else "tool_calls_slowest", ("scope",))


def page_statement(
    found: ResolvedToolQuery, parameter: Callable[[str], str], hint: Callable[[str], str]
) -> tuple[str, dict[str, Any]]:
    """Return the SQL of one page: each status in its own order, merged.

    ``parameter`` writes the name of a value as the database has it, ``hint`` that of an index.
    """
    query, way = found.query, way_of(found)
    rank = "at_ms" if query.order == "time" else "duration_ms"
    direction, beyond = ("DESC", "<") if _is_descending(query) else ("ASC", ">")
    where, values = conditions(found, parameter)
    if query.order == "slowest":
        where += " AND t.duration_ms IS NOT NULL"
    if query.after is not None:
        where += f" AND (t.{rank}, t.position) {beyond} ({parameter('rank')}, {parameter('after')})"
        values |= {"rank": query.after.rank, "after": query.after.position}
    values["limit"] = query.limit
    order = f"ORDER BY t.{rank} {direction}, t.position {direction} LIMIT {parameter('limit')}"
    source = f"SELECT {SELECTED} FROM tool_calls AS t{hint(way.index)} WHERE {where}"
    statuses = _statuses(found)
    if not way.by_status:
        among = f" AND t.status IN ({', '.join(map(str, statuses))})" if found.statuses else ""
        return f"{source}{among} {order}", values
    arms = (
        f"SELECT * FROM ({source} AND t.status = {status} {order}) AS s{status}"
        for status in statuses
    )
    return f"SELECT * FROM ({' UNION ALL '.join(arms)}) AS t {order}", values


def conditions(
    found: ResolvedToolQuery, parameter: Callable[[str], str]
) -> tuple[str, dict[str, Any]]:
    """Return what rows must fulfil, but for their status."""
    given = {
        "scope": found.scope,
        "session": found.session,
        "call": found.call,
        "tool": found.tool,
        "run": found.run,
        "reason": found.reason,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    where = [f"t.{name} = {parameter(name)}" for name in values]
    for name, sign, bound in (
        ("since", ">=", found.query.since_ms),
        ("until", "<=", found.query.until_ms),
    ):
        if bound is not None:
            where.append(f"t.at_ms {sign} {parameter(name)}")
            values[name] = bound
    return " AND ".join(where), values


class Measured(NamedTuple):
    """The statistics of one tool, in numbers."""

    tool: int
    counts: tuple[int, int, int, int]
    """Calls by status."""
    percentiles: tuple[int | None, int | None, int | None]
    """As PERCENTS has them."""
    max_ms: int | None
    total_ms: int
    output_bytes: int
    last_ms: int
    position: int
    """Of a call that names the tool."""


def statistics_of(measured: Measured, tool: str | None) -> ToolStatistics:
    """Return the statistics of the tool of that name."""
    open_calls, ok, failed, synthetic = measured.counts
    p50, p90, p99 = measured.percentiles
    return ToolStatistics(
        tool=tool,
        calls=sum(measured.counts),
        ok=ok,
        failed=failed,
        synthetic=synthetic,
        open=open_calls,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        max_ms=measured.max_ms,
        total_ms=measured.total_ms,
        output_bytes=measured.output_bytes,
        last_ms=measured.last_ms,
    )


def _statuses(found: ResolvedToolQuery) -> list[int]:
    statuses = list(found.statuses) or [OPEN, OK, FAILED, SYNTHETIC]
    if found.query.order == "slowest":
        statuses = [status for status in statuses if status != OPEN] or [OPEN]
    if found.reason is not None:
        statuses = [status for status in statuses if status == SYNTHETIC] or statuses[:1]
    return statuses


def _is_descending(query: ToolQuery) -> bool:
    return query.backwards or query.order == "slowest"
