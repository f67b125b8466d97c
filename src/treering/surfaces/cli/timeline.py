"""Events as people read them: a table on a terminal, plain columns everywhere else."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from treering.model.codec import encode
from treering.model.events import Event, Header
from treering.surfaces.cli.output import iso_time, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIME: Final = "time (UTC)"
_PAYLOAD_INDENT: Final = " " * 4


def print_timeline(events: Sequence[Header], *, with_session: bool) -> None:
    """Print ``events``, one a row; a payload, where there is one, stands below its summary."""
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        _print_table(events, with_session=with_session)
    else:
        _print_columns(events, with_session=with_session)


def _print_columns(events: Sequence[Header], *, with_session: bool) -> None:
    rows = [_cells(event, with_session=with_session) for event in events]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for event, row in zip(events, rows, strict=True):
        padded = [
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())
        payload = _payload(event)
        if payload:
            click.echo(_PAYLOAD_INDENT + payload)


def _print_table(events: Sequence[Header], *, with_session: bool) -> None:
    from rich import box  # noqa: PLC0415  (only for a terminal)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=False)
    table.add_column(_TIME, no_wrap=True, style="dim")
    table.add_column("type", no_wrap=True, style="cyan")
    if with_session:
        table.add_column("session", overflow="fold")
    table.add_column("agent", overflow="fold")
    table.add_column("summary", overflow="fold", ratio=1)
    for event in events:
        *cells, summary = _cells(event, with_session=with_session)
        text = Text(summary, style="dim" if event.redacted else "")
        payload = _payload(event)
        if payload:
            text.append(f"\n{payload}", style="green")
        # As Text, so that brackets in a summary are not taken for markup.
        table.add_row(*map(Text, cells), text)
    Console().print(table)


def _cells(event: Header, *, with_session: bool) -> list[str]:
    cells = [iso_time(event.ts_ms)[:19].replace("T", " "), printable(event.kind)]
    if with_session:
        cells.append(printable(event.session_id))
    return [*cells, printable(event.agent_id), one_line(event.summary)]


def _width(text: str) -> int:
    """Return how many columns ``text`` takes: two for a Chinese character or an emoji."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (only where a character is not a column)

    return cell_len(text)


def _payload(event: Header) -> str:
    if not isinstance(event, Event) or event.payload is None:
        return ""
    return printable(encode(event.payload).decode())
