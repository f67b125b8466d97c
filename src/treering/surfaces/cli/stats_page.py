"""What went on in a scope, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.calls import duration
from treering.surfaces.cli.output import painted, printable, say, say_painted
from treering.surfaces.cli.sessions.tables import print_filled
from treering.surfaces.cli.tables import Column
from treering.surfaces.cli.times import clock, moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.derive.periods import MetricChange
    from treering.surfaces.cli.stats import Statistics

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


def print_statistics(figures: Statistics, *, is_empty: bool) -> None:
    """Print what went on, and what changed; ``is_empty`` if the scope has no events at all."""
    activity = figures.activity
    about = f"session {printable(figures.session_id)} of " if figures.session_id else ""
    span = f"{clock(figures.period.since_ms)} to {moment(figures.period.until_ms)}"
    say(f"{about}scope {figures.scope}, {span}")
    if is_empty:
        say("nothing is recorded in this scope: check its name")
        return
    if not activity.events:
        say("nothing was recorded in this time")
    if not activity.events and not any(change.before for change in figures.drift):
        say("nor in the time before it: look further back with --since")
        return
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
    for name, counts in (
        ("alerts", activity.alerts),
        ("errors", activity.errors),
        ("warnings", activity.warnings),
        ("receipts", activity.receipts),
        ("events", activity.by_kind),
    ):
        _print_counts(name, counts)


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
