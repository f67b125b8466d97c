"""Tool records as numbers, the same in every database: rows, and how they are looked for.

The tables hold hashes where the events hold texts. What is shown is read from the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from treering.derive.tool_calls import Entry, Fact, settle
from treering.model.tool_records import RunState, ToolQuery, ToolStatistics
from treering.model.tools import REASONS, STATUSES
from treering.storage.encoding import name_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.storage.encoding import Row

COLUMNS: Final = (
    "position", "session", "call", "tool", "run", "status", "reason", "at_ms", "started_ms",
    "ended_ms", "duration_ms", "output_bytes", "call_seq", "result_seq", "late_seq",
)  # fmt: skip
SELECTED: Final = ", ".join(f"t.{column}" for column in COLUMNS)
OPEN, OK, FAILED, SYNTHETIC = range(4)
PERCENTS: Final = (50, 90, 99)
RUN_STATES: Final[tuple[RunState, ...]] = ("open", "ended", "failed", "interrupted")
"""By the number that the tables of runs have."""


class Placed(NamedTuple):
    """What an event says, in the session that it says it in."""

    session: int
    fact: Fact


class Measured(NamedTuple):
    """What is known of one tool, in numbers."""

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


class Changes(msgspec.Struct, kw_only=True):
    """What is to be written."""

    entries: dict[int, tuple[int, Entry]] = msgspec.field(default_factory=dict)
    """Records that are new or have changed, by position, with their sessions."""
    extras: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    """Session, call and seq of results that change nothing."""

    def rows(self) -> list[Row]:
        """Return the records as rows, in the order of COLUMNS."""
        return [_row(session, entry) for session, entry in self.entries.values()]


Group = tuple[int, int]
"""Session and call: records among which a result finds its own."""


def number(key: bytes, text: str) -> int:
    """Return the number that stands for ``text``; it is never 0."""
    return int.from_bytes(name_key(key, text)[:8], "big", signed=True) or 1


def hashed(fact: Fact, key: bytes) -> Fact:
    """Return ``fact`` with numbers in the place of its names."""

    def named(name: str | int | None) -> int | None:
        return number(key, name) if isinstance(name, str) else name

    return msgspec.structs.replace(
        fact, call_id=named(fact.call_id), tool=named(fact.tool), run=named(fact.run)
    )


def groups_of(facts: Iterable[Placed]) -> set[Group]:
    """Return the groups that ``facts`` belong to."""
    return {(session, int(fact.call_id)) for session, fact in facts if fact.call_id is not None}


def take_in(
    facts: Iterable[Placed], groups: dict[Group, list[Entry]], seen: dict[Group, int]
) -> Changes:
    """Return what ``facts`` change in ``groups``, which hold the latest records of each.

    ``seen`` says up to which seq each group has been told: what comes again changes nothing.
    """
    changes = Changes()
    for session, fact in facts:
        if fact.call_id is None:
            entry = settle([], fact)
        else:
            group = session, int(fact.call_id)
            if fact.seq <= seen.get(group, 0):
                continue
            entry = settle(groups.setdefault(group, []), fact)
            if entry is None:
                changes.extras.append((*group, fact.seq))
        if entry is not None:
            changes.entries[entry.position] = (session, entry)
    return changes


def entry_of(row: Row) -> Entry:
    """Return the record that a row of COLUMNS holds."""
    (
        position, _, call, tool, run, status, reason, _, started, ended, duration, output,
        call_seq, result_seq, late_seq,
    ) = row  # fmt: skip
    return Entry(
        position=position,
        call_id=call,
        tool=tool or None,
        run=run,
        status=STATUSES[status],  # type: ignore[arg-type]
        reason=None if reason is None else REASONS[reason],  # type: ignore[arg-type]
        started_ms=started,
        ended_ms=ended,
        duration_ms=duration,
        output_bytes=output,
        call_seq=call_seq,
        result_seq=result_seq,
        late_seq=late_seq,
    )


def record_places(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """Return session and seq of every event that ``rows`` are made of."""
    return [(row[1], seq) for row in rows for seq in row[-3:] if seq is not None]


def statistics_of(measured: Measured, tool: str | None) -> ToolStatistics:
    """Return what is known of the tool of that name."""
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


def last_seq(entries: Iterable[Entry]) -> int:
    """Return the last seq that any of ``entries`` is made of."""
    return max(
        (max(e.call_seq or 0, e.result_seq or 0, e.late_seq or 0) for e in entries), default=0
    )


def _row(session: int, entry: Entry) -> Row:
    return (
        entry.position, session, entry.call_id, entry.tool or 0, entry.run,
        STATUSES.index(entry.status), None if entry.reason is None else REASONS.index(entry.reason),
        entry.at_ms, entry.started_ms, entry.ended_ms, entry.duration_ms, entry.output_bytes,
        entry.call_seq, entry.result_seq, entry.late_seq,
    )  # fmt: skip


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A query in numbers."""

    scope: int | str | None
    session: int | None
    call: int | None
    tool: int | None
    run: int | None
    reason: int | None
    statuses: tuple[int, ...]
    query: ToolQuery


def asked(query: ToolQuery, scope: int | str, key: bytes, session: int | None) -> Asked:
    """Return ``query`` in the numbers of its scope."""

    def named(name: str | None) -> int | None:
        return None if name is None else number(key, name)

    return Asked(
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


def way_of(found: Asked) -> Way:
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
    found: Asked, parameter: Callable[[str], str], hint: Callable[[str], str]
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


def conditions(found: Asked, parameter: Callable[[str], str]) -> tuple[str, dict[str, Any]]:
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


def _statuses(found: Asked) -> list[int]:
    statuses = list(found.statuses) or [OPEN, OK, FAILED, SYNTHETIC]
    if found.query.order == "slowest":
        statuses = [status for status in statuses if status != OPEN] or [OPEN]
    if found.reason is not None:
        statuses = [status for status in statuses if status == SYNTHETIC] or statuses[:1]
    return statuses


def _is_descending(query: ToolQuery) -> bool:
    return query.backwards or query.order == "slowest"
