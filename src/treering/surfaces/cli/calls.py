"""Tool calls and their statistics as people read them: a table, or one of them in full."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from treering.model.codec import encode
from treering.surfaces.cli.output import counted, iso_time, printable
from treering.surfaces.cli.runs import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.events import Event
    from treering.model.tool_records import ToolRecord, ToolStatistics

_COLOURS: Final = {"ok": "green", "failed": "red", "synthetic": "yellow", "open": "cyan"}
_UNNAMED: Final = "(unnamed)"
_NONE: Final = "-"


def print_calls(records: Sequence[ToolRecord], *, with_session: bool) -> None:
    """Print ``records``, one a row."""
    headings = ["time (UTC)", "tool", "status", "took", "call id"]
    rows = []
    for record in records:
        cells = [
            _clock(record.at_ms),
            printable(record.tool or _UNNAMED),
            record.status,
            duration(record.duration_ms),
            printable(record.call_id or _NONE),
        ]
        if with_session:
            cells.append(printable(record.session_id))
        rows.append([*cells, _remarks(record)])
    _print_table([*headings, *(["session"] * with_session), "why"], rows, coloured=2)


def print_statistics(tools: Sequence[ToolStatistics]) -> None:
    """Print ``tools``, one a row."""
    headings = ["tool", "calls", "ok", "failed", "synth.", "open", "p50", "p90", "p99", "max"]
    rows = [
        [
            printable(one.tool or _UNNAMED),
            *(f"{count:,}" for count in (one.calls, one.ok, one.failed, one.synthetic, one.open)),
            *(duration(time) for time in (one.p50_ms, one.p90_ms, one.p99_ms, one.max_ms)),
        ]
        for one in tools
    ]
    _print_table(headings, rows, titled=True)


def print_call(record: ToolRecord, events: Sequence[tuple[str, Event]]) -> None:
    """Print one record in full; ``events`` are those whose payloads were asked for."""
    status = click.style(record.status, fg=_COLOURS[record.status])
    why = _remarks(record)
    took = "" if record.duration_ms is None else f" after {duration(record.duration_ms)}"
    click.echo(f"{printable(record.tool or _UNNAMED)} {status}{took}{f' ({why})' if why else ''}")
    click.echo(f"  call {printable(record.call_id or _NONE)}, agent {printable(record.agent_id)}")
    if record.run_id is not None:
        click.echo(f"  run {printable(record.run_id)} {record.run_state or ''}".rstrip())
    for name, at_ms, event_id, size in (
        ("started", record.started_ms, record.call_event_id, record.input_bytes),
        ("ended", record.ended_ms, record.result_event_id, record.output_bytes),
    ):
        if at_ms is not None:
            size_text = "" if size is None else f", {counted(size, 'byte')}"
            click.echo(
                f"  {name} {_clock(at_ms)} UTC{size_text}, event {printable(event_id or '')}"
            )
    for name, event in events:
        click.echo(f"  {name} {printable(encode(event.payload).decode())}")


def _remarks(record: ToolRecord) -> str:
    """Return what is out of the ordinary, in a few words."""
    late = f"later {record.late_status}" if record.late_status else None
    run = f"run {record.run_state}" if record.run_state in {"failed", "interrupted"} else None
    parts = (record.reason, record.error_class, late, run)
    return ", ".join(printable(part) for part in parts if part)


def _clock(ts_ms: int) -> str:
    return iso_time(ts_ms)[:19].replace("T", " ")


def _print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    coloured: int | None = None,
    titled: bool = False,
) -> None:
    if not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR"):
        _print_columns([headings, *rows] if titled else rows)
        return
    from rich.console import Console  # noqa: PLC0415  (only for a terminal)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), expand=False)
    for heading in headings:
        # Names may be long; the rest is of a width that a line has room for.
        is_name = heading in {"tool", "call id", "session", "why"}
        table.add_column(heading, overflow="fold", no_wrap=not is_name)
    for row in rows:
        # As Text, so that brackets in a name are not taken for markup.
        cells = [
            Text(cell, style=_COLOURS.get(cell, "") if at == coloured else "")
            for at, cell in enumerate(row)
        ]
        table.add_row(*cells)
    Console().print(table)


def _print_columns(rows: Sequence[Sequence[str]]) -> None:
    from rich.cells import cell_len  # noqa: PLC0415  (not for --help)

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        click.echo("  ".join(padded).rstrip())
