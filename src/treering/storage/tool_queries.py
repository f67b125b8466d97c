"""Questions about tool records in numbers, and the SQL that answers them in every database."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.model.tools import REASONS, STATUSES, ToolQuery
from treering.storage.tool_calls import COLUMNS, number

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
