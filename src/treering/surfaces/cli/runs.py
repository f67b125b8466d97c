"""Runs as people read them: one a line, or one of them as it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.calls import duration, print_calls_of_run
from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.tables import TIME, Column, print_table
from treering.surfaces.cli.times import clock, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.runs import RunOutline, RunView

_COLOURS: Final = {"ended": "green", "failed": "red", "interrupted": "yellow", "open": "cyan"}
_COLUMNS: Final = (
    Column(TIME, leaves=6),
    Column("run"),
    Column("state", colours=_COLOURS),
    Column("agent", leaves=2),
    Column("session", leaves=5),
    Column("entry", leaves=1),
    Column("took", leaves=7),
    Column("events", leaves=3, noun="event"),
    Column("tools", leaves=4, noun="tool call"),
)
_MOMENTS: Final = (Column(""), Column(""), Column("", is_prose=True))


def print_runs(runs: Sequence[RunOutline], *, with_session: bool) -> None:
    """Print ``runs``, one a row."""
    rows = [
        [
            clock(run.started_ms),
            printable(run.run_id),
            run.state,
            printable(run.agent_id),
            *([printable(run.session_id)] if with_session else []),
            printable(run.entry_point or "-"),
            duration(run.duration_ms),
            f"{run.events:,}",
            f"{run.tool_calls:,}",
        ]
        for run in runs
    ]
    print_table([one for one in _COLUMNS if with_session or one.heading != "session"], rows)


def print_run(shown: RunView) -> None:
    """Print one run: what it was, what happened when, how its tools did."""
    run = shown.run
    state = painted(run.state, _COLOURS.get(run.state))
    reasons = (run.reason if run.reason != run.state else None, run.error_class)
    why = ", ".join(printable(text) for text in reasons if text)
    took = "" if run.duration_ms is None else f" after {duration(run.duration_ms)}"
    say_painted(f"run {printable(run.run_id)} {state}{took}{f' ({why})' if why else ''}")
    say(f"agent {run.agent_id}, session {run.session_id}{_made_by(run)}")
    deltas = run.events - shown.kept
    kept = f" ({counted(deltas, 'delta')} not kept)" if deltas > 0 else ""
    events = f"{counted(run.events, 'event')}{kept}, {counted(run.tool_calls, 'tool call')}"
    say(f"started {moment(run.started_ms)}: {events}")
    say("")
    _print_moments(shown)
    if shown.calls:
        say("")
        print_calls_of_run(shown.calls)
    if shown.calls_left_out:
        more = f"{shown.calls_left_out:,} more {'call' if shown.calls_left_out == 1 else 'calls'}"
        listing = f"treering tools list --scope {shown.scope} --run {run.run_id}"
        say(f"  … {more}: raise --limit, or run {listing}")


def _print_moments(shown: RunView) -> None:
    rows = [
        [f"{moment.offset_ms / 1_000:+11.3f} s", printable(moment.kind), one_line(moment.summary)]
        for moment in shown.events
    ]
    gap = f"  … {counted(shown.left_out, 'event')} left out: raise --limit, or export the run"
    if shown.left_out and not shown.head:
        say(gap)
    print_table(_MOMENTS, rows, below={shown.head - 1: gap} if shown.left_out else None)


def _made_by(run: RunOutline) -> str:
    parts = (
        ("entry point", run.entry_point),
        ("runtime", run.runtime),
        ("model", run.model),
        ("provider", run.provider),
    )
    return "".join(f", {name} {value}" for name, value in parts if value)
