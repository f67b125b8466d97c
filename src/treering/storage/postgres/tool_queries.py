"""Queries of the table of tool calls on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.model.tool_records import TOOLS_MAX
from treering.storage.postgres.tool_rows import planned
from treering.storage.tool_queries import (
    FAILED,
    OK,
    OPEN,
    SYNTHETIC,
    Measured,
    conditions,
    page_statement,
)

if TYPE_CHECKING:
    from treering.storage.encoding import Row
    from treering.storage.postgres.connections import Connection
    from treering.storage.tool_queries import ResolvedToolQuery


def page(connection: Connection, found: ResolvedToolQuery) -> list[Row]:
    """Return rows of COLUMNS, in the direction of the query."""
    return planned(connection, *statement(found))


def statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL of one page."""
    return page_statement(found, "%({})s".format, lambda _: "")


def statistics(connection: Connection, found: ResolvedToolQuery) -> list[Measured]:
    """Return statistics of each tool, the most called first."""
    return [
        Measured(
            tool=tool,
            counts=(opened, ok, failed, synthetic),
            percentiles=tuple(percentiles or (None, None, None)),
            max_ms=max_ms,
            total_ms=total_ms,
            output_bytes=output_bytes,
            last_ms=last_ms,
            position=position,
        )
        for (
            tool,
            opened,
            ok,
            failed,
            synthetic,
            percentiles,
            max_ms,
            total_ms,
            output_bytes,
            last_ms,
            position,
        ) in planned(connection, *statistics_statement(found))
    ]


def statistics_statement(found: ResolvedToolQuery) -> tuple[str, dict[str, Any]]:
    """Return the SQL that measures by tool."""
    where, values = conditions(found, "%({})s".format)
    counts = ", ".join(
        f"count(*) FILTER (WHERE t.status = {status})" for status in (OPEN, OK, FAILED, SYNTHETIC)
    )
    ended = f"FILTER (WHERE t.status IN ({OK}, {FAILED}) AND t.duration_ms IS NOT NULL)"
    text = (
        f"SELECT t.tool, {counts}, percentile_disc(ARRAY[0.5, 0.9, 0.99])"
        f" WITHIN GROUP (ORDER BY t.duration_ms) {ended},"
        f" max(t.duration_ms) {ended}, coalesce(sum(t.duration_ms) {ended}, 0)::bigint,"
        " coalesce(sum(t.output_bytes), 0)::bigint, max(t.at_ms), max(t.position)"
        f" FROM tool_calls AS t WHERE {where}"
        f" GROUP BY t.tool ORDER BY count(*) DESC, t.tool LIMIT {TOOLS_MAX}"
    )
    return text, values
