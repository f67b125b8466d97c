"""Runs as people read them: one a line, or one of them as it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from treering.surfaces.cli.output import counted, iso_time, one_line, printable, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.sinks.rundown import Moment, Rundown
    from treering.sinks.runs import RunOutline

_COLOURS: Final = {"ended": "green", "failed": "red", "interrupted": "yellow", "open": "cyan"}
_STATUS_COLOURS: Final = {"failed": "red", "synthetic": "yellow", "open": "cyan"}


def print_runs(runs: Sequence[RunOutline], *, with_session: bool) -> None:
    """Print ``runs``, one a row."""
    rows = []
    for run in runs:
        place = [printable(run.session_id)] if with_session else []
        rows.append(
            [
                _clock(run.started_ms),
                printable(run.run_id),
                run.state,
                printable(run.agent_id),
                *place,
                printable(run.entry_point or "-"),
                duration(run.duration_ms),
                counted(run.events, "event"),
                counted(run.tool_calls, "tool call"),
            ]
        )
    _print_columns(rows, coloured=2, colours=_COLOURS)


def print_run(shown: Rundown) -> None:
    """Print one run: what it was, what happened when, how its tools did."""
    run = shown.run
    state = click.style(run.state, fg=_COLOURS.get(run.state))
    why = ", ".join(printable(text) for text in (run.reason, run.error_class) if text)
    took = "" if run.duration_ms is None else f" after {duration(run.duration_ms)}"
    click.echo(f"run {printable(run.run_id)} {state}{took}{f' ({why})' if why else ''}")
    say(f"agent {run.agent_id}, session {run.session_id}{_made_by(run)}")
    deltas = run.events - shown.kept
    kept = f" ({counted(deltas, 'delta')} not kept)" if deltas > 0 else ""
    events = f"{counted(run.events, 'event')}{kept}, {counted(run.tool_calls, 'tool call')}"
    say(f"started {_clock(run.started_ms)} UTC: {events}")
    click.echo()
    _print_columns(_moments(shown.events[: shown.head]))
    if shown.left_out:
        say(f"  … {counted(shown.left_out, 'event')} left out: raise --limit, or export the run")
        _print_columns(_moments(shown.events[shown.head :]))
    if shown.tools:
        click.echo()
        _print_columns(map(_tool, shown.tools), coloured=1, colours=_STATUS_COLOURS)


def duration(milliseconds: int | None) -> str:
    """Return a duration as people say it."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _made_by(run: RunOutline) -> str:
    parts = (
        ("entry point", run.entry_point),
        ("runtime", run.runtime),
        ("model", run.model),
        ("provider", run.provider),
    )
    return "".join(f", {name} {value}" for name, value in parts if value)


def _moments(events: Iterable[Moment]) -> list[list[str]]:
    return [
        [f"{moment.offset_ms / 1_000:+11.3f} s", printable(moment.kind), one_line(moment.summary)]
        for moment in events
    ]


def _tool(line: dict[str, Any]) -> list[str]:
    sizes = ", ".join(
        f"{name} {line[field]:,} B"
        for name, field in (("in", "inputBytes"), ("out", "outputBytes"))
        if line[field] is not None
    )
    why = ", ".join(printable(str(line[name])) for name in ("reason", "errorClass") if line[name])
    name = printable(str(line["name"] or "(a tool)"))
    return [f"  {name}", line["status"] or "-", duration(line["durationMs"]), sizes, why]


def _clock(ts_ms: int) -> str:
    return iso_time(ts_ms)[:19].replace("T", " ")


def _print_columns(
    rows: Iterable[Sequence[str]],
    *,
    coloured: int | None = None,
    colours: dict[str, str] | None = None,
) -> None:
    """Print cells below each other; one of the columns in the colour of what it says."""
    table = list(rows)
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = []
        for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
            colour = (colours or {}).get(cell) if at == coloured else None
            blank = " " * (width - _width(cell))
            cells.append((click.style(cell, fg=colour) if colour else cell) + blank)
        click.echo("  ".join(cells).rstrip())


def _width(text: str) -> int:
    """Return how many columns ``text`` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (only where a character is not a column)

    return cell_len(text)
