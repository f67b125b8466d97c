"""``treering stats``: recent activity of a scope, compared with the period before."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from treering.clock import now_ms
from treering.derive.periods import MetricChange, Period
from treering.errors import InvalidInput
from treering.model.scopes import Scope
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import (
    choice,
    command,
    known_or_all,
    option,
    scope_shown,
    session_option,
)
from treering.surfaces.cli.finding import find_session_anywhere, narrow_to_session
from treering.surfaces.cli.ledgers import catching_up, open_to_ask
from treering.surfaces.cli.output import painted, say, say_painted, say_price_hint
from treering.surfaces.cli.tables import Column, print_filled
from treering.surfaces.shared.statistics import (
    DAYS,
    DAYS_MAX,
    Statistics,
    activity_in,
    counted_scopes,
    statistics,
)
from treering.surfaces.shared.texts import Mask, printable, scope_names
from treering.surfaces.shared.times import (
    check_order,
    clock,
    duration,
    milliseconds,
    moment,
    parse_moment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.ledger.ledger import Ledger


DAYS_LISTED_MAX: Final = 366
_DAY_MS: Final = 86_400_000
ROWS_MAX: Final = 20
"""Tools, kinds and codes that are printed; --json has all."""
_WORSE_UP: Final = frozenset(
    {"runs_failed", "failure_rate", "p50_ms", "p95_ms", "alerts", "errors"}
)
_NAMES: Final = {
    "runs_failed": "runs failed",
    "tool_calls": "tool calls",
    "failure_rate": "failing",
    "p50_ms": "tools p50",
    "p95_ms": "tools p95",
    "cost_usd": "cost",
}
_BY: Final = (
    (7, "sessions"),
    (6, "turns"),
    (5, "events"),
    (4, "tool_calls"),
    (3, "failure_rate"),
    (2, "tokens"),
    (1, "cost_usd"),
)
"""The numbers of each day or scope, and which of them leave a narrow terminal first."""
_STILL: Final = 0.005
"""A smaller change is none."""
_TOOLS: Final = (
    Column("  tool"),
    Column("calls"),
    Column("failing", leaves=4),
    Column("open", leaves=1),
    Column("p50", leaves=3),
    Column("p95", leaves=2),
)
_MODELS: Final = (
    Column("  model"),
    Column("calls", leaves=1),
    Column("input", leaves=3),
    Column("cached", leaves=2),
    Column("output", leaves=4),
    Column("cost"),
)


@command(
    scope="wide",
    all_scopes="Count all scopes.",
    examples="""
    treering stats --scope acme/app
    treering stats --scope acme/app --days 30 --json
    treering stats --scope acme/app --since 2026-03-01 --until 2026-03-08
    treering stats --by scope --days 30
    """,
)
def stats(
    *,
    scope: Scope | None,
    session_id: str | None = session_option,
    days: int | None = option(
        "N", f"The last N days. Default: {DAYS}.", type=click.IntRange(1, DAYS_MAX)
    ),
    since: str | None = option("WHEN", "Since then: 3d, a date, or milliseconds."),
    until: str | None = option("WHEN", "Until then, inclusive. Default: now."),
    by: Literal["day", "scope"] | None = choice(
        ["day", "scope"], "A row for each day, or for each scope: by default, for each project."
    ),
) -> None:
    """Count sessions, turns, tools, tokens, alerts and receipts of a scope in a period.

    Each number is compared with the period of the same length just before.
    """
    period = _period(days, since, until)
    if by is not None:
        _show_rows(scope, session_id, period, by)
        return
    with open_to_ask() as ledger, catching_up() as progress:
        scope, session = _narrow(ledger, scope, session_id)
        figures = statistics(ledger, scope, session, period, progress=progress)
        firsts = [
            header.ts_ms
            for name in counted_scopes(ledger, scope)
            for header in ledger.headers(name, session_id=session, first=1).items
        ]
    show(
        _masked(figures),
        page=lambda: print_statistics(_masked(figures), first_ms=min(firsts, default=None)),
    )


def _narrow(
    ledger: Ledger, scope: Scope | None, session_id: str | None
) -> tuple[Scope | None, str | None]:
    """Return the scope to count, None for all, and the session in it."""
    scope = known_or_all(ledger, scope)
    if scope is not None:
        return scope, narrow_to_session(ledger, scope, session_id)
    return (None, None) if session_id is None else find_session_anywhere(ledger, session_id)


def _show_rows(
    scope: Scope | None, session_id: str | None, period: Period, by: Literal["day", "scope"]
) -> None:
    """Show the numbers of each day of a period, or of each scope; empty ones are left out."""
    if by == "scope" and session_id is not None:
        raise InvalidInput("a session has one scope", hint="drop --session, or --by")
    with open_to_ask() as ledger, catching_up() as progress:
        scope, session = _narrow(ledger, scope, session_id)
        parts = (
            ((clock(day.since_ms)[:10], scope, day) for day in _days(period))
            if by == "day"
            else ((name, Scope(name), period) for name in scope_names(ledger))
        )
        activities = [
            (name, activity_in(ledger, part, session, time, progress)) for name, part, time in parts
        ]
    rows: list[dict[str, Any]] = [
        {by: name, **activity.numbers()} for name, activity in activities if activity.events
    ]
    if by == "scope":
        rows.sort(key=lambda row: row["events"], reverse=True)
    body = {"scope": scope, "session_id": session, "period": period, "by": by, "rows": rows}
    span = f"{clock(period.since_ms)} to {moment(period.until_ms)}"
    of = scope_shown(scope if by == "day" else None)
    show(body, f"{of}, {span}", page=lambda: _print_rows(by, rows) if rows else None)


def _days(period: Period) -> Iterator[Period]:
    """Return the days of a period, in the zone of the command line."""
    since = period.since_ms
    for _ in range(DAYS_LISTED_MAX):
        following = date.fromisoformat(clock(since)[:10]) + timedelta(days=1)
        midnight = milliseconds(following.isoformat(), now_ms=since) or since
        until = min(max(midnight - 1, since), period.until_ms)
        yield Period(since_ms=since, until_ms=until)
        since = until + 1
        if since > period.until_ms:
            return
    raise InvalidInput(
        f"--by day lists up to {DAYS_LISTED_MAX} days", hint="choose a shorter period, or drop --by"
    )


def _period(days: int | None, since: str | None, until: str | None) -> Period:
    if days is not None and since is not None:
        raise InvalidInput("--days and --since exclude each other", hint="drop one of the two")
    now = now_ms()
    end = parse_moment(until, now_ms=now, flag="--until") or now
    begin = parse_moment(since, now_ms=now, flag="--since")
    check_order((since, begin), (until or "now", end))
    if begin is None:
        begin = max(end - (days or DAYS) * _DAY_MS + 1, 1)
    return Period(since_ms=begin, until_ms=end)


def _masked(figures: Statistics) -> Statistics:
    """Return the same with secrets masked in names that agents chose: of tools, models, codes."""
    clean = Mask().value(msgspec.to_builtins(figures))
    return msgspec.convert(clean, Statistics)


def print_statistics(figures: Statistics, *, first_ms: int | None) -> None:
    """Print the activity, and what changed; ``first_ms`` is the time of the very first event."""
    activity = figures.activity
    about = f"session {printable(figures.session_id)} of " if figures.session_id else ""
    span = f"{clock(figures.period.since_ms)} to {moment(figures.period.until_ms)}"
    say(f"{about}{scope_shown(figures.scope)}, {span}")
    if first_ms is None:
        say("nothing is recorded" + (" in this scope: check its name" if figures.scope else ""))
        return
    if not activity.events and not any(change.before for change in figures.drift):
        say("nothing was recorded in this period, or in the one before")
        _print_older(figures, first_ms)
        return
    if not activity.events:
        say("nothing was recorded in this period")
    _print_drift(figures)
    if activity.tools:
        _head("tools")
        rows = [
            [
                f"  {printable(tool.tool or '(unnamed)')}",
                f"{tool.calls:,}",
                _rate(tool.failure_rate) if tool.failure_rate else "",
                f"{tool.open:,}" if tool.open else "",
                "" if tool.p50_ms is None else duration(tool.p50_ms),
                "" if tool.p95_ms is None else duration(tool.p95_ms),
            ]
            for tool in activity.tools[:ROWS_MAX]
        ]
        print_filled(_TOOLS, rows, is_titled=True)
        _more(len(activity.tools))
    if activity.by_model:
        _head("models")
        rows = [
            [
                f"  {printable(model.model or 'unknown model')}",
                f"{model.calls:,}",
                f"{model.input_tokens:,}",
                f"{model.cached_tokens:,}" if model.cached_tokens else "",
                f"{model.output_tokens:,}",
                "price not known" if model.cost_usd is None else f"${model.cost_usd:,.4f}",
            ]
            for model in activity.by_model
        ]
        print_filled(_MODELS, rows, is_titled=True)
        if any(model.cost_usd is None for model in activity.by_model):
            say_price_hint()
    for name, counts in (
        ("alerts", activity.alerts),
        ("errors", activity.errors),
        ("warnings", activity.warnings),
        ("receipts", activity.receipts),
        ("events", activity.by_kind),
    ):
        _print_counts(name, counts)
    _print_older(figures, first_ms)


def _print_older(figures: Statistics, first_ms: int) -> None:
    """Say if events are older than the period, and how to count them."""
    if first_ms < figures.period.since_ms:
        day = clock(first_ms)[:10]
        say("")
        say(f"older events, from {day} on, are not counted: add --since {day}")


def _print_rows(by: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = (Column(by), *(Column(_NAMES.get(name, name), leaves=at) for at, name in _BY))
    cells = [
        [str(row[by]), *(_number(name, row[name]) if row[name] else "" for _, name in _BY)]
        for row in rows
    ]
    print_filled([*columns], cells, is_titled=True)


def _print_drift(figures: Statistics) -> None:
    if figures.before is None:
        return
    say("")
    changed = [metric for metric in figures.drift if metric.now or metric.before]
    for name, now, before, change in [
        ("", "now", "before", ""),
        *((_NAMES.get(metric.name, metric.name), _number(metric.name, metric.now),
           _number(metric.name, metric.before), _change(metric)) for metric in changed),
    ]:  # fmt: skip
        say_painted(f"  {name:<12}  {now:>12}  {before:>12}  {change}".rstrip())
    if not changed:
        say("  nothing to compare with")


def _number(name: str, number: float | None) -> str:
    if number is None:
        return "-"
    if name == "failure_rate":
        return _rate(number)
    if name.endswith("_ms"):
        return duration(int(number))
    return f"${number:,.4f}" if name == "cost_usd" else f"{int(number):,}"


def _change(metric: MetricChange) -> str:
    """Return an arrow and by how much, red where more is worse."""
    if metric.now is None or metric.before is None:
        return ""
    grown = metric.now - metric.before
    if metric.change is None:
        return painted("↑ new", "red" if metric.name in _WORSE_UP else None) if grown else "→"
    if abs(metric.change) < _STILL:
        return "→"
    colour = None
    if metric.name in _WORSE_UP:
        colour = "red" if grown > 0 else "green"
    return painted(f"{'↑' if grown > 0 else '↓'} {100 * metric.change:+,.0f} %", colour)


def _print_counts(name: str, counts: Mapping[str, int]) -> None:
    if not counts:
        return
    _head(name)
    rows = [[f"  {printable(code)}", f"{count:,}"] for code, count in counts.items()]
    print_filled((Column(f"  {name}"), Column("count")), rows[:ROWS_MAX])
    _more(len(counts))


def _more(count: int) -> None:
    if count > ROWS_MAX:
        say(f"  and {count - ROWS_MAX:,} more: --json has all")


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f} %"


def _head(text: str) -> None:
    say("")
    say_painted(painted(text, bold=True))
